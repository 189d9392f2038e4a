"""The parts of the stack: how Prometheus, Tempo and Grafana are found and started on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from telemetry.errors import ConfigError, UsageError
from telemetry.stack.layout import StackLayout
from telemetry.stack.settings import ANYWHERE, StackSettings

How = Literal["native", "compose"]
_COMPOSE: Final = (("docker", "compose"), ("podman", "compose"))
_COMPOSE_TIMEOUT_S: Final = 20.0
_GRAFANA_HOMES: Final = (
    "/usr/share/grafana",
    "/opt/homebrew/opt/grafana/share/grafana",
    "/usr/local/share/grafana",
)
_TITLES: Final = {"prometheus": "Prometheus", "tempo": "Tempo", "grafana": "Grafana"}
_PROGRAMS: Final = {
    "prometheus": ("prometheus", "/usr/bin/prometheus", "/usr/local/bin/prometheus", "/opt/prometheus/prometheus"),
    "tempo": ("tempo", "/usr/bin/tempo", "/usr/local/bin/tempo", "/opt/tempo/tempo"),
    "grafana": ("grafana-server", "/usr/sbin/grafana-server", "/usr/share/grafana/bin/grafana-server"),
}
"""Names to look for in PATH, and places where packages put them."""
_INSTALL: Final = {
    "prometheus": "`apt-get install prometheus`, or prometheus.io/download",
    "tempo": "grafana.com/docs/tempo/latest/set-up-for-tracing/setup-tempo",
    "grafana": "grafana.com/grafana/download",
}
_LOST: Final = {
    "prometheus": "there are no metrics",
    "tempo": "spans are not stored",
    "grafana": "there are no dashboards",
}
NAMES: Final = tuple(_PROGRAMS)


@dataclass(frozen=True)
class Part:
    """One of the three, and how it runs."""

    name: str
    how: How | None
    """None: it is skipped."""
    why: str = ""
    """Reason why it is skipped."""
    command: tuple[str, ...] = ()
    """Command of a native process."""
    ports: dict[str, int] = field(default_factory=dict)
    """Key in the settings → port that it listens on."""
    address: str = ""
    ready_url: str = ""

    @property
    def title(self) -> str:
        return _TITLES[self.name]


def compose_command(which: Callable[[str], str | None] = shutil.which) -> tuple[str, ...]:
    """Return the command for compose files: that of Docker, or that of Podman; empty if there is none."""
    for command in _COMPOSE:
        if which(command[0]) is None:
            continue
        try:
            done = subprocess.run(
                [*command, "version"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_COMPOSE_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return command
    return ()


def find_parts(
    settings: StackSettings, layout: StackLayout, compose: Sequence[str], only: How | None
) -> list[Part]:
    """Return all parts: a native process where a program is installed, else a container where compose is.

    `only` forbids the other way. Raises ConfigError for a program in the settings that does not exist.
    """
    return [_part(name, settings, layout, compose, only) for name in NAMES]


def _part(
    name: str, settings: StackSettings, layout: StackLayout, compose: Sequence[str], only: How | None
) -> Part:
    chosen = getattr(settings, name)
    if not chosen.enabled:
        return Part(name, None, "it is switched off in the settings")
    ports = {key: getattr(chosen, key) for key in chosen.__struct_fields__ if key.endswith("port")}
    address = f"http://{_client_host(settings.host)}:{chosen.port}"
    path = {"prometheus": "/-/ready", "tempo": "/ready", "grafana": "/api/health"}[name]
    command = _command(name, settings, layout) if only != "compose" else None
    if command is not None:
        return Part(name, "native", "", command, ports, address, address + path)
    if compose and only != "native":
        return Part(name, "compose", "", (), ports, address, address + path)
    if only == "compose":
        return Part(name, None, f"neither `docker compose` nor `podman compose` works here; {_LOST[name]}")
    return Part(name, None, f"it is not installed, so {_LOST[name]}; install it ({_INSTALL[name]})")


def check_any(parts: Sequence[Part]) -> None:
    """Raise UsageError if all parts are skipped."""
    if all(part.how is None for part in parts):
        reasons = "; ".join(f"{part.title}: {part.why}" for part in parts)
        raise UsageError(f"there is nothing to start. {reasons}")


def _command(name: str, settings: StackSettings, layout: StackLayout) -> tuple[str, ...] | None:
    """Return the command that starts a native process; None if it is not installed. Raises ConfigError."""
    chosen = getattr(settings, name)
    program = _program(name, chosen.program)
    if program is None:
        return None
    if name == "prometheus":
        return (program, *layout.prometheus_flags())
    if name == "tempo":
        return (program, *layout.tempo_flags())
    home = _grafana_home(Path(program), chosen.home)
    if home is None:
        return None
    verb = ["server"] if Path(program).name == "grafana" else []
    return (program, *verb, f"--homepath={home}", f"--config={layout.grafana_ini}")


def _program(name: str, chosen: str) -> str | None:
    if chosen:
        if not os.access(chosen, os.X_OK):
            raise ConfigError(f"{name}.program: {chosen} is not an executable file", hint="correct the path")
        return chosen
    return next((path for word in _PROGRAMS[name] if (path := shutil.which(word)) is not None), None)


def _grafana_home(program: Path, chosen: str) -> str | None:
    """Return the folder of Grafana's own files: the chosen one, beside the program, or where packages put it."""
    if chosen:
        if not _is_grafana_home(Path(chosen)):
            raise ConfigError(f"grafana.home: {chosen} has no conf/defaults.ini", hint="correct the path")
        return chosen
    homes = [program.resolve().parent.parent, *map(Path, _GRAFANA_HOMES)]
    return next((str(home) for home in homes if _is_grafana_home(home)), None)


def _is_grafana_home(folder: Path) -> bool:
    return (folder / "conf" / "defaults.ini").is_file()


def _client_host(host: str) -> str:
    """Return the host for a client on this machine."""
    if host in ANYWHERE:
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host
