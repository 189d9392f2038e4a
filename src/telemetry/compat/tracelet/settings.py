"""Settings: argument, then `TRACELET_*`, then files of the working directory, then the default."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Self, get_type_hints

import msgspec
from msgspec import Meta

from telemetry.client import user_warnings
from telemetry.common.formatting import did_you_mean
from telemetry.compat.tracelet.exceptions import ConfigurationError

_PREFIX: Final = "TRACELET_"
_OTHER_VARIABLES: Final = {"plugin_path", "strict_imports"}  # read elsewhere
_FILES: Final = ("tracelet.yaml", "tracelet.yml", "tracelet.json")
_ALIASES: Final = (
    "project_name=project exp_name=experiment_name track_system_metrics=track_system track_environment=track_env "
    "tracking_system=track_system tracking_git=track_git tracking_environment=track_env "
    "automagic_enabled=enable_automagic retry_max_retries=max_retries retry_backoff_factor=backoff_factor "
    "retry_max_backoff=max_backoff artifacts_enabled=enable_artifacts artifacts_automagic=automagic_artifacts "
    "artifacts_watch_filesystem=watch_filesystem artifacts_watch_dirs=artifact_watch_dirs"
)
ALIASES: Final = dict(pair.split("=") for pair in _ALIASES.split())
"""Other names of options, those of nested tables included."""
_FLAGS: Final = {"yes": True, "on": True, "no": False, "off": False}
_log: Final = logging.getLogger("tracelet.settings")

Positive = Annotated[float, Meta(gt=0, le=1e300)]  # a finite number
Count = Annotated[int, Meta(ge=1)]


class TraceletSettings:
    """The options of Tracelet, each with its documented default.

    An unknown option is reported and ignored. An impossible value raises ConfigurationError.
    """

    project: str = "default"
    experiment_name: str | None = None
    backend: list[str] = ["mlflow"]  # noqa: RUF012 – a default; every object gets a list of its own
    api_key: str | None = None
    backend_url: str | None = None
    local_only: bool = False

    track_metrics: bool = True
    track_tensorboard: bool = True
    track_lightning: bool = True
    track_system: bool = True
    track_gpu: bool = True
    track_disk: bool = False
    track_network: bool = False
    track_git: bool = True
    track_env: bool = True
    track_args: bool = True
    track_stdout: bool = True
    track_checkpoints: bool = True
    metrics_interval: Positive = 30.0
    max_queue_size: Count = 10_000
    num_workers: Count = 4
    max_retries: Annotated[int, Meta(ge=0)] = 3
    backoff_factor: Positive = 2.0
    max_backoff: Positive = 60.0

    enable_automagic: bool = False
    automagic_frameworks: set[str] | None = None
    detect_function_args: bool = True
    detect_class_attributes: bool = True
    track_model_architecture: bool = True
    enable_artifacts: bool = False
    automagic_artifacts: bool = False
    watch_filesystem: bool = False
    artifact_watch_dirs: list[str] | None = None

    mlflow_tracking_uri: str | None = None
    mlflow_experiment_name: str | None = None
    wandb_project: str | None = None
    wandb_entity: str | None = None
    wandb_api_key: str | None = None
    clearml_project: str | None = None
    clearml_task_name: str | None = None
    aim_repo: str | None = None
    aim_experiment: str | None = None

    def __init__(self, **values: Any) -> None:
        self.sources: dict[str, str] = dict.fromkeys(_OPTIONS, "default")
        """Where each option comes from: `argument`, `environment`, a file, or `default`."""
        chosen = {name: getattr(type(self), name) for name in _OPTIONS}
        layers = [("argument", _flat(values)), ("environment", _environment(os.environ)), *_from_files()]
        for source, given in reversed(layers):
            options, others = options_of(given)
            chosen |= options
            self.sources |= dict.fromkeys(options, source)
            for name in others.keys() - _OTHER_VARIABLES:
                hint = f"; {near}" if (near := did_you_mean(name, _OPTIONS)) else ""
                user_warnings.warn(f"the Tracelet setting {name} ({source}) is unknown and has no effect{hint}")
        for name, value in chosen.items():
            setattr(self, name, _converted(name, value))
        for name in self.explicit:
            _log.debug("%s from %s", name, self.sources[name])
        if "num_workers" in self.explicit and self.num_workers != type(self).num_workers:
            user_warnings.warn(
                "num_workers has no effect: each backend has one thread, which keeps its values in order"
            )

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return settings from a dictionary as in `tracelet.yaml`, with its nested tables."""
        return cls(**values)

    def copy(self, **changes: Any) -> Self:
        """Return settings that differ in some options."""
        options, others = options_of(_flat(changes))
        return type(self)(**{name: getattr(self, name) for name in self.explicit} | options | others)

    @property
    def explicit(self) -> set[str]:
        """Names of the options that an argument, the environment or a file sets."""
        return {name for name, source in self.sources.items() if source != "default"}

    @property
    def project_name(self) -> str:
        return self.project

    @property
    def track_system_metrics(self) -> bool:
        return self.track_system

    def __repr__(self) -> str:
        shown = {name: "***" if "api_key" in name else getattr(self, name) for name in sorted(self.explicit)}
        return f"TraceletSettings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


_OPTIONS: Final = get_type_hints(TraceletSettings, include_extras=True)
_LISTS: Final = {"backend", "automagic_frameworks", "artifact_watch_dirs"}
"""Options that may also be a text with commas."""


def _converted(name: str, given: Any) -> Any:
    """Return the value of an option in its type."""
    kind, value = _OPTIONS[name], given
    if kind in (str, str | None) and value is not None:  # a file may have a number
        value = str(value)
    elif isinstance(value, str) and name in _LISTS:
        value = [part for each in value.split(",") if (part := each.strip())]
    elif isinstance(value, str) and kind is bool:
        value = _FLAGS.get(value.strip().lower(), value.strip())
    try:
        return msgspec.convert(value, kind, strict=False)
    except ValueError as error:  # msgspec's own error is one
        raise ConfigurationError(f"{name} is {given!r}", hint=str(error)) from error


def options_of(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a dictionary into options of TraceletSettings and the rest, both under their own names."""
    named = {ALIASES.get(name, name): value for name, value in values.items()}
    options = {name: value for name, value in named.items() if name in _OPTIONS}
    return options, {name: value for name, value in named.items() if name not in _OPTIONS}


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables as options with longer names: `mlflow: {tracking_uri: …}` is `mlflow_tracking_uri`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        is_table = isinstance(value, Mapping)
        flat |= {f"{name}_{key}": each for key, each in value.items()} if is_table else {name: value}
    return flat


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    upper = {name.upper(): value for name, value in variables.items()}
    return {name[len(_PREFIX) :].lower(): value for name, value in upper.items() if name.startswith(_PREFIX)}


def _from_files() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the options of the files in the working directory, the strongest file first."""
    dotenv = Path(".env")
    if dotenv.is_file():
        lines = [line.strip().removeprefix("export ").partition("=") for line in dotenv.read_text().splitlines()]
        yield ".env", _environment({key.strip(): value.strip().strip("'\"") for key, _, value in lines})
    for name in filter(os.path.isfile, _FILES):
        decode = msgspec.json.decode if name.endswith(".json") else msgspec.yaml.decode
        try:
            table = decode(Path(name).read_bytes())
        except ImportError:
            user_warnings.warn(
                f"{name} is not read: this needs the package pyyaml; install it, or use tracelet.json"
            )
            continue
        except Exception as error:
            raise ConfigurationError(f"can't read {name}: {error}") from error
        if not isinstance(table, Mapping):
            raise ConfigurationError(f"{name} has no table of settings at its top level")
        yield name, _flat(table)


class _Configured:
    settings: TraceletSettings | None = None


def configure(settings: TraceletSettings | None = None, **values: Any) -> TraceletSettings:
    """Make settings the ones of all later experiments. Without arguments, return to the defaults."""
    changed = settings.copy(**values) if settings is not None else TraceletSettings(**values) if values else None
    _Configured.settings = changed
    return current()


def current() -> TraceletSettings:
    """Return the settings of `configure`, else new ones from the environment and files."""
    return _Configured.settings or TraceletSettings()
