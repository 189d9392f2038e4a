"""Trackers: their names as texts for `to`, with options and environment variables, and their classes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from telemetry.backends.choice import known, missing_modules, parse
from telemetry.client import user_warnings
from telemetry.common.distribution import install_hint
from telemetry.compat.tracelet.core.interfaces import MetricData
from telemetry.compat.tracelet.core.plugins import BackendPlugin, PluginMetadata, PluginType
from telemetry.compat.tracelet.exceptions import BackendError, ConfigurationError
from telemetry.compat.tracelet.settings import TraceletSettings, current
from telemetry.config.plugins.backends import BUILT_IN
from telemetry.config.plugins.choice import Choice, unknown
from telemetry.errors import UsageError
from telemetry.redaction import mask_secrets

if TYPE_CHECKING:
    from telemetry.compat.tracelet.core.experiment import Experiment

SERVICES: Final = ("mlflow", "wandb", "clearml", "aim")
_ALWAYS_LOCAL: Final = ("tensorboard", "jsonl", "console")
_OFFLINE: Final = {"wandb": "WANDB_MODE", "clearml": "CLEARML_OFFLINE_MODE"}
_AUTOMATIC: Final = ("system", "git", "env", "args", "stdout", "checkpoints", "tensorboard", "lightning")


def _pairs(**tables: str) -> dict[str, dict[str, str]]:
    return {kind: dict(pair.split("=") for pair in pairs.split()) for kind, pairs in tables.items()}


_OPTIONS: Final = _pairs(
    mlflow="uri=mlflow_tracking_uri|backend_url experiment=mlflow_experiment_name|project run_name=name",
    wandb="project=wandb_project|project entity=wandb_entity name=name tags=tags",
    clearml="project=clearml_project|project name=clearml_task_name|name tags=tags",
    aim="repo=aim_repo|backend_url experiment=aim_experiment|project run_name=name",
)
"""Options of each kind of backend, and the settings that give them, the strongest first."""
_KEYS: Final = _pairs(
    mlflow="tracking_uri=uri backend_url=uri experiment_name=experiment artifact_location=artifacts",
    wandb="project_name=project run_name=name group=group mode=mode id=id dir=folder",
    clearml="project_name=project task_name=name run_name=name mode=mode",
    aim="repo_path=repo backend_url=repo experiment_name=experiment",
    tensorboard="logdir=logdir log_dir=logdir",
)
"""More keys of `config` for each kind of backend, and the option of ours that each is."""


@dataclass
class RunBackends:
    """The texts for `to` and the environment variables of an experiment's backends."""

    to: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    plugins: list[str] = field(default_factory=list)
    """Names that belong to plugins of the user."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Keys of `config` that no backend takes. They are recorded as parameters."""


def installed(name: str) -> bool:
    """Return whether a backend can be used here, as far as a look at its package shows."""
    return name in BUILT_IN and not missing_modules(name)


def run_backends(
    names: Iterable[str],
    settings: TraceletSettings,
    *,
    name: str,
    tags: list[str],
    config: Mapping[str, Any],
    plugins: Mapping[str, Any],
) -> RunBackends:
    """Return what the backends of an experiment need. Raise ConfigurationError if one can't be used.

    A name may also be a whole text of `--to`, such as `jsonl:path=out.jsonl`. `plugins` maps names of the user's
    backends to their metadata.
    """
    needs, names = RunBackends(), list(dict.fromkeys(names))
    needs.plugins = [each for each in names if each in plugins and each not in BUILT_IN]
    for each in needs.plugins if settings.local_only else ():
        if "local" not in plugins[each].capabilities:
            raise ConfigurationError(
                f"local_only is set, and the backend {each} does not say that it is local",
                hint='add "local" to the capabilities in its metadata, if it sends nothing to other machines',
            )
    choices = {text: _choice(text, plugins) for text in names if text not in needs.plugins}
    services = [choice.kind for choice in choices.values() if choice.kind in SERVICES]
    if len(services) > 1 and (settings.backend_url or settings.api_key):
        raise ConfigurationError(
            f"backend_url and api_key can't be shared by {' and '.join(services)}",
            hint="use mlflow_tracking_uri, wandb_api_key, aim_repo, or the variables of each service",
        )
    given = {**vars(settings), "name": name, "tags": tags}
    given["project"] = settings.project if "project" in settings.explicit else None
    taken: set[str] = set()
    for text, choice in choices.items():
        environment = {}
        if ":" not in text:
            choice.options.update(_options(choice.kind, given, config, taken))
            environment = _environment(choice.kind, settings)
        if settings.local_only:
            _check_local(choice, environment)
        needs.to.append(text if ":" in text else str(choice))
        needs.environment |= environment
    needs.settings = {key: value for key, value in config.items() if key not in taken and key not in choices}
    return needs


def _choice(text: str, plugins: Iterable[str]) -> Choice:
    """Parse a name, which may have options. Raise ConfigurationError if its backend can't be used here."""
    kind, kinds = text.partition(":")[0], known()
    if kind not in kinds:
        hint = unknown(kind, "backend", {*kinds, *plugins}).hint
        raise ConfigurationError(f"no backend is named {mask_secrets([text])[0]!r}", hint=hint)
    if kind in BUILT_IN and (modules := missing_modules(kind)):
        message = f"the backend {kind} needs the package {' and '.join(modules)}, which is not installed"
        raise ConfigurationError(message, hint=install_hint(BUILT_IN[kind].extra))
    try:
        return parse(text)
    except UsageError as error:
        raise ConfigurationError(error.message, hint=error.hint) from error


def _options(kind: str, given: Mapping[str, Any], config: Mapping[str, Any], taken: set[str]) -> dict[str, str]:
    """Return the options of one backend: from `config`, then from settings, then project and experiment name."""
    options: dict[str, Any] = {}
    for option, names in _OPTIONS.get(kind, {}).items():
        if value := next((value for name in names.split("|") if (value := given[name])), None):
            options[option] = value
    keys = {option: option for option in _OPTIONS.get(kind, {})} | _KEYS.get(kind, {})
    own = config.get(kind)
    for source in (config, own if isinstance(own, Mapping) else {}):
        for key, value in source.items():
            if key in keys and value is not None:
                taken.add(key)
                options[keys[key]] = value
    texts = {key: _joined(value) for key, value in options.items()}
    uri = texts.get("uri", "")
    if uri.startswith("file:") or (uri and ":" not in uri and uri != "databricks"):
        # file stores of MLflow can't hold all names of a run
        folder = Path(uri.removeprefix("file:").removeprefix("//")).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        texts["uri"] = f"sqlite:///{folder}/mlflow.db"
        user_warnings.warn_once(uri, f"MLflow's file stores are not supported; this run goes to {texts['uri']}")
    return texts


def _environment(kind: str, settings: TraceletSettings) -> dict[str, str]:
    """Return the variables with the address and the keys of one backend."""
    url, key = settings.backend_url, (settings.wandb_api_key if kind == "wandb" else None) or settings.api_key
    access, colon, secret = (key or "").partition(":")
    if kind == "clearml" and key and not colon:
        raise ConfigurationError("ClearML has two keys", hint='write api_key="ACCESS:SECRET"')
    variables = {
        "mlflow": {"MLFLOW_TRACKING_TOKEN": key},
        "wandb": {"WANDB_BASE_URL": url, "WANDB_API_KEY": key},
        "clearml": {"CLEARML_API_HOST": url, "CLEARML_API_ACCESS_KEY": access, "CLEARML_API_SECRET_KEY": secret},
    }
    return {name: value for name, value in variables.get(kind, {}).items() if value}


def _check_local(choice: Choice, environment: Mapping[str, str]) -> None:
    """Raise ConfigurationError if a backend could send data to another machine."""
    kind, options, variables = choice.kind, choice.options, {**os.environ, **environment}
    if kind in _OFFLINE:
        mode = options.get("mode") or variables.get(_OFFLINE[kind], "")
        is_local = mode in ("offline", "disabled", "1", "true")
    else:
        uri = options.get("uri") or (variables.get("MLFLOW_TRACKING_URI", "") if kind == "mlflow" else "")
        addresses = (uri, options.get("repo", ""), options.get("artifacts", ""))
        is_local = kind in _ALWAYS_LOCAL or (kind in ("mlflow", "aim") and all(map(_is_local, addresses)))
    if not is_local:
        raise ConfigurationError(
            f"local_only is set, and the backend {kind} may send data to another machine",
            hint="use tensorboard, jsonl, mlflow with sqlite, aim with a folder, or wandb or clearml offline",
        )


def _is_local(uri: str) -> bool:
    """Return whether a URI is empty, a path, a file or a database in a file."""
    is_path = ":" not in uri and not uri.startswith("databricks")  # MLflow's service, without any scheme
    return is_path or uri.startswith(("/", ".", "~", "sqlite:", "file:"))


def _joined(value: Any) -> str:
    if isinstance(value, Mapping):
        value = [f"{key}={each}" for key, each in value.items()]
    return ",".join(map(str, value)) if isinstance(value, (list, tuple, set)) else str(value)


class RunBackend(BackendPlugin):
    """A tracker as a class. `experiment.add_backend(MLflowBackend(config))` adds it to an experiment.

    Without one, `start_experiment` starts an experiment that has this tracker alone.
    """

    kind = ""

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        """`config` has options of the tracker, such as `tracking_uri`, `entity` or `tags`."""
        super().__init__()
        self.config = dict(config or {})
        self._experiment: Experiment | None = None

    @classmethod
    def get_metadata(cls) -> PluginMetadata:
        return PluginMetadata(cls.kind, "1", PluginType.BACKEND, f"the tracker {cls.kind}")

    def start_experiment(self, name: str, project: str) -> str:
        """Start an experiment with this tracker alone, and return the id of its run. End one that is open."""
        from telemetry.compat.tracelet.core.experiment import Experiment

        self.end_experiment()
        settings = current().copy(project=project, **{f"track_{feature}": False for feature in _AUTOMATIC})
        experiment = Experiment(
            name, backend=[self.kind], settings=settings, backend_config={self.kind: self.config}
        )
        experiment.start()
        self._experiment = experiment
        return experiment.run.run_id if experiment.run is not None else experiment.id

    def end_experiment(self) -> None:
        """Deliver everything and end the experiment. Without one it has no effect."""
        experiment, self._experiment = self._experiment, None
        if experiment is not None:
            experiment.stop()

    def log_metric(self, name: str, value: Any, step: int | None = None) -> None:
        """Record a value of a step. Raise BackendError without an experiment."""
        self._open().log_metric(name, value, step)

    def log_params(self, params: dict[str, Any]) -> None:
        """Record parameters. Raise BackendError without an experiment."""
        self._open().log_params(params)

    def log_artifact(self, artifact_path: str, artifact_name: str | None = None) -> None:
        """Record a file by reference. Raise BackendError without an experiment."""
        self._open().log_artifact(artifact_path, artifact_name)

    def receive_metric(self, metric: MetricData) -> None:
        """Record a metric. Raise BackendError without an experiment."""
        self._open().emit_metric(metric)

    def _open(self) -> Experiment:
        if self._experiment is None:
            raise BackendError(
                f"{self.kind} has no experiment",
                hint=f"call start_experiment(name, project), or name it: Experiment(…, backend=['{self.kind}'])",
            )
        return self._experiment
