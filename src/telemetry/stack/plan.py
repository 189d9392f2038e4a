"""The plan of a start: which parts run, how, and at which ports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from telemetry.errors import EndpointError
from telemetry.stack.layout import StackLayout
from telemetry.stack.parts import How, Part, check_any, compose_command, find_parts
from telemetry.stack.ports import free_port, holder, is_taken
from telemetry.stack.settings import LogLevel, StackSettings
from telemetry.store.append_file import describe


@dataclass(frozen=True)
class Plan:
    layout: StackLayout
    parts: list[Part]
    compose: tuple[str, ...]
    """Command for containers; empty if there is none, or if no part needs it."""
    moved: list[str]
    """Messages about ports that were taken."""

    @property
    def podman(self) -> bool:
        return self.compose[:1] == ("podman",)

    def taken_ports(self) -> list[int]:
        """Return the ports of native parts at which a process listens now."""
        native = [part for part in self.parts if part.how == "native"]
        return [port for _, _, port in _ports(native) if is_taken(self.layout.settings.host, port)]


def make_plan(
    directory: Path,
    settings: StackSettings,
    *,
    log_level: LogLevel = "info",
    only: How | None = None,
    auto_port: bool = False,
) -> Plan:
    """Find the parts and check their ports. Raises ConfigError, UsageError, and EndpointError for a taken port.

    `auto_port`: take another port for each taken one.
    """
    layout = StackLayout(directory, settings, log_level)
    parts = find_parts(settings, layout, (), "native") if only != "compose" else []
    compose: tuple[str, ...] = ()
    if only != "native" and not (parts and all(part.how for part in parts)):
        compose = compose_command()
        parts = find_parts(settings, layout, compose, only)
    check_any(parts)
    settings, moved = _with_free_ports(settings, parts, auto_port=auto_port)
    if moved:
        layout = StackLayout(directory, settings, log_level)
        parts = find_parts(settings, layout, compose, only)
    return Plan(layout, parts, compose, moved)


def _with_free_ports(
    settings: StackSettings, parts: list[Part], *, auto_port: bool
) -> tuple[StackSettings, list[str]]:
    """Return settings whose ports are free, and messages about changed ones. Raises EndpointError."""
    chosen: set[int] = set()
    new: dict[str, dict[str, int]] = {}
    moved, problems = [], []
    for part, key, port in _ports(parts):
        try:
            taken = is_taken(settings.host, port) or port in chosen
            other = free_port(settings.host, port, chosen) if taken and auto_port else port
        except OSError as error:
            raise EndpointError(f"can't listen at {settings.host}, port {port}: {describe(error)}") from error
        if taken:
            who = "another part of the stack" if port in chosen else holder(port) or "another process"
            if auto_port:
                moved.append(f"port {port} is held by {who}; {part.title} gets {other} ({part.name}.{key})")
            else:
                problems.append(f"port {port} of {part.title} ({part.name}.{key}) is held by {who}")
        chosen.add(other)
        new.setdefault(part.name, {})[key] = other
    if problems:
        raise EndpointError(
            "; ".join(problems), hint="end it, choose another port with --config FILE, or add --auto-port"
        )
    changes: dict[str, Any] = {
        name: msgspec.structs.replace(getattr(settings, name), **ports) for name, ports in new.items()
    }
    return msgspec.structs.replace(settings, **changes), moved


def _ports(parts: list[Part]) -> Iterator[tuple[Part, str, int]]:
    for part in parts:
        for key, port in part.ports.items():
            yield part, key, port
