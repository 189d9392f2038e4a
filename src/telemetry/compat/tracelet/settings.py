"""Settings: argument, then `TRACELET_*`, then files of the working directory, then the default."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Self, get_type_hints

from telemetry.client import notice
from telemetry.compat.tracelet.exceptions import ConfigurationError

PREFIX: Final = "TRACELET_"
_OTHER_VARIABLES: Final = {"plugin_path", "strict_imports"}  # read elsewhere
_FILES: Final = ("tracelet.yaml", "tracelet.yml", "tracelet.json")
_ALIASES: Final = {
    "project_name": "project",
    "exp_name": "experiment_name",
    "track_system_metrics": "track_system",
    "track_environment": "track_env",
    "tracking_system": "track_system",
    "tracking_git": "track_git",
    "tracking_environment": "track_env",
    "automagic_enabled": "enable_automagic",
    "retry_max_retries": "max_retries",
    "retry_backoff_factor": "backoff_factor",
    "retry_max_backoff": "max_backoff",
    "artifacts_enabled": "enable_artifacts",
    "artifacts_automagic": "automagic_artifacts",
    "artifacts_watch_filesystem": "watch_filesystem",
    "artifacts_watch_dirs": "artifact_watch_dirs",
}
_WORDS: Final = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
_log: Final = logging.getLogger("tracelet.settings")


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
    metrics_interval: float = 30.0
    max_queue_size: int = 10_000
    num_workers: int = 4
    max_retries: int = 3
    backoff_factor: float = 2.0
    max_backoff: float = 60.0

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
        self.sources: dict[str, str] = {}
        """Where each option comes from: `argument`, `environment`, a file, or `default`."""
        given = _known(_flat(values), "argument")
        environment = _known(_environment(os.environ), "environment")
        files = _from_files()
        for name, convert in _OPTIONS.items():
            value, source = getattr(type(self), name), "default"
            for source_name, found in (("argument", given), ("environment", environment), *files):
                if name in found:
                    value, source = found[name], source_name
                    break
            setattr(self, name, convert(name, value))
            self.sources[name] = source
            if source != "default":
                _log.debug("%s from %s", name, source)
        if "num_workers" in self.explicit and self.num_workers != type(self).num_workers:
            notice.warn("num_workers has no effect: each backend has one thread, which keeps its values in order")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return settings from a dictionary as in `tracelet.yaml`, with its nested tables."""
        return cls(**values)

    def copy(self, **changes: Any) -> Self:
        """Return settings that differ in some options."""
        changed = _known(_flat(changes), "argument")
        kept = {name: getattr(self, name) for name in self.explicit}
        return type(self)(**{**kept, **changed})

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
        shown = {name: getattr(self, name) for name in sorted(self.explicit)}
        secret = {name: "***" for name in shown if name.endswith("api_key")}
        return f"TraceletSettings({', '.join(f'{name}={value!r}' for name, value in (shown | secret).items())})"


def _flag(name: str, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    word = _WORDS.get(str(value).strip().lower())
    if word is None:
        raise ConfigurationError(f"{name} is {value!r}", hint="use true or false")
    return word


def _number(name: str, value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = 0.0
    if not 0 < number < float("inf"):
        raise ConfigurationError(f"{name} is {value!r}", hint="use a number above 0")
    return number


def _count(name: str, value: Any) -> int:
    return max(1, int(_number(name, value)))


def _retries(name: str, value: Any) -> int:
    return 0 if str(value).strip() == "0" else _count(name, value)


def _text(name: str, value: Any) -> str | None:
    return None if value is None else str(value)


def _words(name: str, value: Any) -> list[str] | None:
    if value is None:
        return None
    words = value.split(",") if isinstance(value, str) else value
    try:
        return [str(word).strip() for word in words if str(word).strip()]
    except TypeError:
        raise ConfigurationError(f"{name} is {value!r}", hint="use a list, or words separated by commas") from None


def _set(name: str, value: Any) -> set[str] | None:
    words = _words(name, value)
    return None if words is None else set(words)


_CONVERTERS: Final[Mapping[Any, Callable[[str, Any], Any]]] = {
    bool: _flag,
    float: _number,
    int: _count,
    str: _text,
    str | None: _text,
    list[str]: _words,
    list[str] | None: _words,
    set[str] | None: _set,
}
_OPTIONS: Final = {name: _CONVERTERS[kind] for name, kind in get_type_hints(TraceletSettings).items()}
_OPTIONS["max_retries"] = _retries


def _known(values: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Return options under their own names. Report unknown ones."""
    known: dict[str, Any] = {}
    for name, value in values.items():
        option = _ALIASES.get(name, name)
        if option in _OPTIONS:
            known[option] = value
        elif option not in _OTHER_VARIABLES:
            close = get_close_matches(option, _OPTIONS, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            notice.warn(f"the Tracelet setting {option} ({source}) is unknown and has no effect{hint}")
    return known


def options_of(values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a dictionary into options of TraceletSettings and the rest."""
    named = {_ALIASES.get(name, name): value for name, value in values.items()}
    options = {name: value for name, value in named.items() if name in _OPTIONS}
    return options, {name: value for name, value in named.items() if name not in _OPTIONS}


def _flat(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return nested tables as options with longer names: `mlflow: {tracking_uri: …}` is `mlflow_tracking_uri`."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}_{key}": inner for key, inner in value.items()}
        else:
            flat[name] = value
    return flat


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    upper = {name.upper(): value for name, value in variables.items()}
    return {name[len(PREFIX) :].lower(): value for name, value in upper.items() if name.startswith(PREFIX)}


def _from_files() -> list[tuple[str, dict[str, Any]]]:
    """Return the options of the files in the working directory, the strongest file first."""
    found = []
    dotenv = Path(".env")
    if dotenv.is_file():
        lines = [line.strip().removeprefix("export ").partition("=") for line in dotenv.read_text().splitlines()]
        pairs = {
            key.strip(): value.strip().strip("'\"") for key, equals, value in lines if equals and key[:1] != "#"
        }
        found.append((".env", _known(_environment(pairs), ".env")))
    for name in _FILES:
        path = Path(name)
        if path.is_file():
            found.append((name, _known(_flat(_table(path)), name)))
    return found


def _table(path: Path) -> Mapping[str, Any]:
    try:
        if path.suffix == ".json":
            table = json.loads(path.read_text())
        else:
            import yaml  # type: ignore[import-untyped]

            table = yaml.safe_load(path.read_text())
    except ImportError:
        notice.warn(f"{path} is not read: this needs the package pyyaml; install it, or use tracelet.json")
        return {}
    except Exception as error:
        raise ConfigurationError(f"can't read {path}: {error}") from error
    if not isinstance(table, Mapping):
        raise ConfigurationError(f"{path} has no table of settings at its top level")
    return table


class _Configured:
    settings: TraceletSettings | None = None


def configure(settings: TraceletSettings | None = None, **values: Any) -> TraceletSettings:
    """Make settings the ones of all later experiments. Without arguments, return to the defaults."""
    made = settings.copy(**values) if settings is not None else TraceletSettings(**values) if values else None
    _Configured.settings = made
    return current()


def current() -> TraceletSettings:
    """Return the settings of `configure`, else new ones from the environment and files."""
    return _Configured.settings if _Configured.settings is not None else TraceletSettings()
