"""The runs of this process: `wandb.init` and `wandb.finish`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final

from telemetry.client.process import ENDPOINT_VARIABLE
from telemetry.client.run import Run as TelemetryRun
from telemetry.client.run import start
from telemetry.compat.wandb.configs import Config, settings_of
from telemetry.compat.wandb.env import Settings, merged
from telemetry.compat.wandb.errors import CommError, Error
from telemetry.compat.wandb.media import FOLDERS
from telemetry.compat.wandb.term import termwarn
from telemetry.compat.wandb.util import generate_id
from telemetry.compat.wandb.wandb_run import Run
from telemetry.errors import TelemetryError
from telemetry.integrations.wandb.source import WandbSource
from telemetry.limits import NAME_CHARS

_PACKAGE: Final = "telemetry.compat.wandb"
_FINISH_PREVIOUS: Final = (True, "finish_previous")


class BeforeInit:
    """The value of `wandb.config` and `wandb.summary` while there is no run."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        self._refuse(f".{key}")

    def __getitem__(self, key: str) -> Any:
        self._refuse(f"[{key!r}]")

    def __setattr__(self, key: str, value: Any) -> None:
        self._refuse(f".{key}")

    def __setitem__(self, key: str, value: Any) -> None:
        self._refuse(f"[{key!r}]")

    def _refuse(self, what: str) -> Any:
        raise Error(f"call wandb.init() before {object.__getattribute__(self, '_name')}{what}")


class _Sessions:
    """The open runs, and the telemetry run that they are sources of."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.open: list[Run] = []
        self.started: TelemetryRun | None = None
        """The telemetry run, if it was started here. The last open run ends it."""

    def join(self, name: str) -> None:
        """Join the telemetry run of this process, or start one.

        If no aggregator can be reached, warn, and let the program go on without a record.
        """
        joins = bool(os.environ.get(ENDPOINT_VARIABLE))
        try:
            run = start(None if joins else name[:NAME_CHARS], required=False)
        except TelemetryError as error:
            raise CommError(f"nothing can be recorded: {error}", error) from error
        if not joins:
            self.started = run

    def leave(self, run: Run) -> None:
        """Forget a run, and end the telemetry run with the last one."""
        with self.lock:
            if run in self.open:
                self.open.remove(run)
            if current() is run:
                _publish(None)
            started = self.started
            if started is not None and not self.open:
                self.started = None
                started.finish()


_SESSIONS: Final = _Sessions()


def init(  # noqa: PLR0917 – W&B's signature
    entity: str | None = None,
    project: str | None = None,
    dir: str | os.PathLike[str] | None = None,
    id: str | None = None,
    name: str | None = None,
    notes: str | None = None,
    tags: Sequence[str] | None = None,
    config: Any = None,
    config_exclude_keys: Sequence[str] | None = None,
    config_include_keys: Sequence[str] | None = None,
    allow_val_change: bool | None = None,
    group: str | None = None,
    job_type: str | None = None,
    mode: str | None = None,
    force: bool | None = None,
    reinit: bool | str | None = None,
    resume: bool | str | None = None,
    resume_from: str | None = None,
    fork_from: str | None = None,
    save_code: bool | None = None,
    tensorboard: bool | None = None,
    sync_tensorboard: bool | None = None,
    monitor_gym: bool | None = None,
    settings: Settings | Mapping[str, Any] | None = None,
    anonymous: Any = None,
) -> Run:
    """Return a run: a source of the telemetry run that TELEMETRY_ENDPOINT names, or of a new one.

    While a run is open, return it, unless `reinit` says otherwise. Raise CommError for a wrong setting.
    """
    chosen = merged(
        settings,
        entity=entity,
        project=project,
        root_dir=None if dir is None else os.fspath(dir),
        run_id=id,
        run_name=name,
        run_notes=notes,
        run_tags=[tags] if isinstance(tags, str) else tags,
        run_group=group,
        run_job_type=job_type,
        mode=mode,
        reinit=reinit,
    )
    if sync_tensorboard or tensorboard:
        termwarn(
            "sync_tensorboard has no effect here: run the program with `telemetry run --capture tensorboard`",
            repeat=False,
        )
    with _SESSIONS.lock:
        before = current()
        if before is not None and chosen.reinit in _FINISH_PREVIOUS:
            before.finish()
        elif before is not None and chosen.reinit != "create_new":
            return before
        chosen = merged(chosen, run_id=str(chosen.run_id or generate_id()))
        run = _begun(chosen, _config(config, config_exclude_keys, config_include_keys))
        if chosen.reinit != "create_new" or before is None:
            _publish(run)
        return run


def attach(attach_id: str | None = None, run_id: str | None = None) -> Run:
    """Return the run of this id: the open one, or another source of the telemetry run."""
    run = current()
    wanted = attach_id or run_id
    if run is not None and run.id == wanted:
        return run
    return init(id=wanted)


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """End the current run, if there is one."""
    run = current()
    if run is not None:
        run.finish(exit_code)


def current() -> Run | None:
    """Return `wandb.run`."""
    run: Run | None = getattr(sys.modules.get(_PACKAGE), "run", None)
    return run


def require_run(what: str) -> Run:
    """Return `wandb.run`. Raise Error if there is none."""
    run = current()
    if run is None:
        raise Error(f"call wandb.init() before wandb.{what}()")
    return run


def _begun(settings: Settings, config: Config) -> Run:
    is_silent = settings.mode == "disabled"
    if settings.mode == "shared" and settings.x_primary is False and not os.environ.get(ENDPOINT_VARIABLE):
        is_silent = True
        termwarn(
            f"nothing is recorded: this process joins the W&B run {settings.run_id}, but {ENDPOINT_VARIABLE} is "
            "not set; start the job with `telemetry run`, and pass the variable on to this process"
        )
    source = None
    if not is_silent:
        _SESSIONS.join(settings.run_name or settings.project or settings.run_id)
        source = WandbSource(_facts(settings), config.as_dict(), keeps_summary=True)
    run = Run(settings, config, source, _SESSIONS.leave)
    _SESSIONS.open.append(run)
    return run


def _facts(settings: Settings) -> dict[str, Any]:
    return {
        "name": settings.run_name,
        "id": settings.run_id,
        "project": settings.project,
        "entity": settings.entity,
        "group": settings.run_group,
        "job_type": settings.run_job_type,
        "notes": settings.run_notes,
        "tags": list(settings.run_tags or ()),
    }


def _config(given: Any, excluded: Sequence[str] | None, included: Sequence[str] | None) -> Config:
    config = Config()
    settings = settings_of(given)
    kept = {
        key: value
        for key, value in settings.items()
        if key not in (excluded or ()) and (not included or key in included)
    }
    config.update(kept, allow_val_change=True)
    return config


def _publish(run: Run | None) -> None:
    """Set `wandb.run`, `wandb.config` and `wandb.summary`."""
    package: Any = sys.modules[_PACKAGE]
    package.run = run
    package.config = BeforeInit("wandb.config") if run is None else run.config
    package.summary = BeforeInit("wandb.summary") if run is None else run.summary
    FOLDERS.of_run = os.getcwd if run is None else lambda: run.dir


if hasattr(os, "register_at_fork"):

    def _after_fork_in_child() -> None:
        _SESSIONS.lock = threading.RLock()
        _SESSIONS.started = None  # only the parent ends the telemetry run

    os.register_at_fork(after_in_child=_after_fork_in_child)
