"""The settings of the stack: a TOML file of its own, for `telemetry stack --config FILE`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from telemetry.errors import ConfigError
from telemetry.store.append_file import describe
from telemetry.store.scrape_targets import default_folder
from telemetry.store.stack_state import default_directory

Port = Annotated[int, Meta(ge=1, le=65_535)]
LogLevel = Literal["debug", "info", "warning", "error"]
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
ANYWHERE: Final = ("0.0.0.0", "::")


class _Table(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A table of the file."""


class PrometheusSettings(_Table, kw_only=True, frozen=True):
    """Prometheus, which scrapes runs and keeps their numbers."""

    enabled: bool = True
    program: str = ""
    """Path of the executable. Empty: look for it."""
    image: str = "docker.io/prom/prometheus:v3.5.0"
    port: Port = 9090


class TempoSettings(_Table, kw_only=True, frozen=True):
    """Tempo, which takes spans by OTLP."""

    enabled: bool = True
    program: str = ""
    image: str = "docker.io/grafana/tempo:2.8.2"
    port: Port = 3200
    otlp_http_port: Port = 4318
    otlp_grpc_port: Port = 4317
    grpc_port: Port = 9095
    """Port between the parts of Tempo."""


class GrafanaSettings(_Table, kw_only=True, frozen=True):
    """Grafana, which shows both."""

    enabled: bool = True
    program: str = ""
    home: str = ""
    """Folder of Grafana's own files, such as /usr/share/grafana. Empty: look for it."""
    image: str = "docker.io/grafana/grafana:12.1.1"
    port: Port = 3000


class StackSettings(_Table, kw_only=True, frozen=True):
    """All settings of the stack."""

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    """Address to listen on. None of the three asks for a password."""
    data: str = ""
    """Folder of what Prometheus, Tempo and Grafana store. Empty: `data` in the folder of the stack."""
    targets: str = ""
    """Folder of the files of targets. Empty: that of this user, where writers add themselves."""
    retention_days: Annotated[int, Meta(ge=1, le=36_500)] = 30
    """Days after which Prometheus and Tempo delete what they have."""
    ready_timeout_s: Annotated[float, Meta(gt=0, le=3_600)] = 60.0
    """Time that each has to become ready."""
    prometheus: PrometheusSettings = PrometheusSettings()
    tempo: TempoSettings = TempoSettings()
    grafana: GrafanaSettings = GrafanaSettings()


def load_settings(path: Path | None) -> StackSettings:
    """Read a file of settings; the defaults without one. Paths are relative to the file. Raises ConfigError."""
    if path is None:
        return StackSettings()
    try:
        document = tomllib.loads(path.read_text())
        settings = msgspec.convert(document, StackSettings)
    except OSError as error:
        raise ConfigError(f"can't read {path}: {describe(error)}") from error
    except ValueError as error:  # also of TOML and of msgspec
        raise ConfigError(f"{path}: {error}", hint="docs/STACK.md lists the keys") from error
    base = path.absolute().parent
    return msgspec.structs.replace(
        settings,
        data=_below(base, settings.data),
        targets=_below(base, settings.targets),
        prometheus=msgspec.structs.replace(settings.prometheus, program=_below(base, settings.prometheus.program)),
        tempo=msgspec.structs.replace(settings.tempo, program=_below(base, settings.tempo.program)),
        grafana=msgspec.structs.replace(
            settings.grafana,
            program=_below(base, settings.grafana.program),
            home=_below(base, settings.grafana.home),
        ),
    )


def stack_directory(chosen: Path | None = None) -> Path:
    """Return the folder of the stack's files: the chosen one or that of this user. Raises ConfigError."""
    if chosen is not None:
        return chosen.expanduser().absolute()
    directory = default_directory()
    if directory is None:
        raise ConfigError("this user has no home for the files of the stack", hint="add --dir DIR")
    return directory


def data_directory(settings: StackSettings, directory: Path) -> Path:
    """Return the folder of what the stack stores."""
    return Path(settings.data) if settings.data else directory / "data"


def targets_directory(settings: StackSettings, directory: Path) -> Path:
    """Return the folder of the files of targets."""
    return Path(settings.targets) if settings.targets else default_folder() or directory / "targets"


def _below(base: Path, text: str) -> str:
    """Return an absolute path; an empty one stays empty."""
    return str(base / Path(text).expanduser()) if text else ""
