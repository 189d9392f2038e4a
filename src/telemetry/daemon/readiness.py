"""Messages to the starter of the aggregator: it is ready, or why it failed."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping

from telemetry.errors import TelemetryError


def tell_ready(fd: int | None, facts: Mapping[str, object]) -> None:
    """Send one JSON line to the starter's pipe, and READY=1 to a service manager."""
    _write_line(fd, facts)
    sd_notify("READY=1")


def tell_failure(fd: int | None, error: TelemetryError) -> None:
    _write_line(
        fd,
        {
            "error": error.message,
            "hint": error.hint,
            "kind": type(error).__name__,
            "exit_code": error.exit_code,
        },
    )


def sd_notify(state: str) -> None:
    """Send a state by the systemd notification protocol. Does nothing outside a service. Never blocks."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.setblocking(False)
            manager.connect(address)
            manager.send(state.encode())
    except OSError:
        pass  # the manager is gone or does not read; the run must continue


def _write_line(fd: int | None, facts: Mapping[str, object]) -> None:
    if fd is None:
        return
    try:
        os.write(fd, json.dumps(facts).encode() + b"\n")
        os.close(fd)
    except OSError:
        pass  # the starter is gone; the process watch notices its death
