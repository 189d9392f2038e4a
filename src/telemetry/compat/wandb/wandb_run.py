"""The class `Run`, which `wandb.init` returns. W&B had it in a module of this name, too."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from glob import glob
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from telemetry.compat.wandb import unsupported
from telemetry.compat.wandb.artifacts import Artifact
from telemetry.compat.wandb.configs import Config, Summary
from telemetry.compat.wandb.env import Settings
from telemetry.compat.wandb.errors import Error, UsageError
from telemetry.compat.wandb.term import termlog
from telemetry.integrations.wandb.source import WandbSource
from telemetry.integrations.wandb.values import put_alert, put_settings

_TEXT: Final = frozenset({str})


class Run:
    """A run of W&B: a source of the telemetry run of this process. Any thread may use it."""

    def __init__(
        self, settings: Settings, config: Config, source: WandbSource | None, on_finish: Callable[[Run], None]
    ) -> None:
        """Make a run. Without a source, nothing is recorded."""
        self._settings = settings
        self._source = source
        self._on_finish = on_finish
        self._is_finished = False
        self._folder: str | None = None
        self._started_s = time.time()
        self._pid = os.getpid()
        self.config = config
        self.summary = Summary({} if source is None else source.summary, self._set_summary)
        self.name: str = settings.run_name or settings.project or settings.run_id
        self.notes: str | None = settings.run_notes
        self.tags: tuple[str, ...] = tuple(settings.run_tags or ())
        if source is not None:
            config.observe(put_settings)

    def __repr__(self) -> str:
        return f"<wandb.Run {self.name!r}, recorded by telemetry>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish(exit_code=0 if error is None else 1)

    def __deepcopy__(self, memo: dict[int, Any]) -> Run:
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        from telemetry.compat.wandb.sessions import attach

        return attach, (self.id,)

    # --- facts -----------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        return self._settings

    @property
    def id(self) -> str:
        return str(self._settings.run_id)

    @property
    def _attach_id(self) -> str:
        return self.id

    @property
    def project(self) -> str:
        return str(self._settings.project or "uncategorized")

    @property
    def entity(self) -> str:
        return str(self._settings.entity or "")

    @property
    def group(self) -> str:
        return str(self._settings.run_group or "")

    @property
    def job_type(self) -> str:
        return str(self._settings.run_job_type or "")

    @property
    def path(self) -> str:
        return "/".join(part for part in (self.entity, self.project, self.id) if part)

    @property
    def url(self) -> None:
        """Return None, as runs of W&B do that are offline."""
        return None

    project_url = sweep_url = url
    sweep_id = url

    @property
    def dir(self) -> str:
        """Return the folder for files of the run. Create it at the first use."""
        if self._folder is None:
            stamp = time.strftime("%Y%m%d_%H%M%S", time.localtime(self._started_s))
            root = Path(self._settings.root_dir or ".") / "wandb" / f"run-{stamp}-{self.id}" / "files"
            root.mkdir(parents=True, exist_ok=True)
            self._folder = str(root.absolute())
        return self._folder

    @property
    def step(self) -> int:
        return 0 if self._source is None else self._source.step

    @property
    def starting_step(self) -> int:
        return 0

    @property
    def start_time(self) -> float:
        return self._started_s

    @property
    def resumed(self) -> bool:
        return False

    @property
    def offline(self) -> bool:
        return True

    @property
    def disabled(self) -> bool:
        return bool(self._settings.mode == "disabled")

    @property
    def config_static(self) -> dict[str, Any]:
        return self.config.as_dict()

    # --- data ------------------------------------------------------------------------------------

    def log(
        self, data: Mapping[str, Any], step: int | None = None, commit: bool | None = None, sync: bool | None = None
    ) -> None:
        """Log values. Raise TypeError if they are not a dictionary with texts as keys."""
        if self._is_finished:
            self._refuse_finished("log")
        if not isinstance(data, Mapping):
            raise TypeError(f"wandb.log takes a dictionary, not {type(data).__name__}")
        if not _TEXT.issuperset(map(type, data)) and not all(isinstance(key, str) for key in data):
            raise TypeError("wandb.log takes a dictionary with texts as keys")
        if self._source is not None:
            self._source.log(data, step, commit)
        else:
            self.summary.update(data)

    def define_metric(  # noqa: PLR0917 – W&B's signature
        self,
        name: str,
        step_metric: Any = None,
        step_sync: bool | None = None,
        hidden: bool | None = None,
        summary: str | None = None,
        overwrite: bool | None = None,
        goal: str | None = None,
    ) -> Metric:
        """Define the step of a metric and its summary. Raise Error for an impossible definition."""
        metric = Metric(name, step_metric.name if isinstance(step_metric, Metric) else step_metric)
        if self._source is not None:
            try:
                self._source.define(
                    name,
                    step_metric=metric.step_metric,
                    step_sync=step_sync,
                    summary=summary,
                    goal=goal,
                    overwrite=overwrite,
                )
            except (ValueError, AttributeError) as error:
                raise Error(f"define_metric: {error}") from error
        return metric

    def log_artifact(
        self,
        artifact_or_path: Artifact | str | os.PathLike[str],
        name: str | None = None,
        type: str | None = None,
        aliases: Sequence[str] | None = None,
        tags: Sequence[str] | None = None,
    ) -> Artifact:
        """Record the files of an artifact, a file or a folder by reference, and return the artifact."""
        if isinstance(artifact_or_path, Artifact):
            artifact = artifact_or_path
        else:
            path = os.path.abspath(artifact_or_path)
            artifact = Artifact(name or os.path.basename(path), type or "unspecified")
            artifact.files_by_name[""] = path
        artifact.aliases += [alias for alias in aliases or () if alias not in artifact.aliases]
        if self._source is not None:
            self._source.put_artifact(artifact.name, artifact.type, artifact.files_by_name)
        return artifact

    upsert_artifact = finish_artifact = log_artifact

    def log_model(
        self, path: str | os.PathLike[str], name: str | None = None, aliases: Sequence[str] | None = None
    ) -> None:
        """Record a model by reference."""
        self.log_artifact(path, name=name, type="model", aliases=aliases)

    def save(
        self, glob_str: str | os.PathLike[str] | None = None, base_path: str | None = None, policy: str = "live"
    ) -> list[str]:
        """Record the files of a pattern by reference, and return their paths."""
        paths = sorted(path for path in glob(os.fspath(glob_str or "")) if os.path.isfile(path))
        for path in paths:
            self.log_artifact(path, name=os.path.relpath(path, base_path), type="file")
        return paths

    def alert(self, title: str, text: str = "", level: Any = None, wait_duration: Any = None) -> None:
        """Record a mark."""
        if self._source is not None:
            put_alert(title, text)

    # --- the end ---------------------------------------------------------------------------------

    def finish(self, exit_code: int | None = None, quiet: bool | None = None) -> None:
        """End the run. If `wandb.init` started the telemetry run, end that too. A second call has no effect."""
        if self._is_finished or os.getpid() != self._pid:
            return
        self._is_finished = True
        if self._source is not None:
            self._source.close(exit_code)
        self._on_finish(self)

    join = finish

    def _set_summary(self, values: Mapping[str, Any]) -> None:
        if self._source is not None:
            self._source.set_summary(values)

    def _refuse_finished(self, what: str) -> NoReturn:
        raise UsageError(f"the run {self.name!r} is finished: call wandb.init() again before run.{what}()")

    # --- without an effect here ------------------------------------------------------------------

    def watch(self, models: Any = None, *_args: Any, **_more: Any) -> None:
        """Do nothing, and say so once: gradients and parameters are not recorded."""
        termlog(
            "wandb.watch records nothing here: log norms, or wandb.Histogram of the gradients you need",
            repeat=False,
        )

    def unwatch(self, models: Any = None) -> None:
        """Do nothing."""

    def log_code(self, *_args: Any, **_more: Any) -> None:
        """Do nothing: the report has the command and the versions."""

    def mark_preempting(self) -> None:
        """Do nothing."""

    def status(self) -> None:
        """Do nothing."""

    def write_logs(self, text: str) -> None:
        """Do nothing."""

    def display(self, *_args: Any, **_more: Any) -> bool:
        """Return False: there is no page."""
        return False

    def to_html(self, *_args: Any, **_more: Any) -> str:
        return ""

    def pin_config_keys(self, keys: Sequence[str] = ()) -> None:
        """Do nothing."""

    def _label(self, *_args: Any, **_more: Any) -> None:
        """Do nothing."""

    use_artifact = staticmethod(unsupported.use_artifact)
    use_model = staticmethod(unsupported.use_model)
    link_artifact = staticmethod(unsupported.link_artifact)
    link_model = staticmethod(unsupported.link_model)
    restore = staticmethod(unsupported.restore)


class Metric:
    """A definition of a metric, as `define_metric` returns it."""

    def __init__(self, name: str, step_metric: str | None = None) -> None:
        self.name = name
        self.step_metric = step_metric
