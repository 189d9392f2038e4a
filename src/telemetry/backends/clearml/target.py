"""The interface to a ClearML task, on a server or offline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from telemetry.backends.clearml.events import Event
from telemetry.backends.items import Artifact
from telemetry.wire.events import Scalar


class Identity(NamedTuple):
    project: str
    name: str
    tags: tuple[str, ...] = ()


class Target(Protocol):
    """A task. All methods raise Unavailable, NotConfigured."""

    def send(self, events: Sequence[Event]) -> None: ...

    def picture(self, item: Artifact) -> tuple[str, str] | None:
        """Return (URL for a browser, key) of an image, or None if a browser can't find it."""

    def update(self, params: dict[str, Scalar], artifacts: dict[str, Artifact]) -> None:
        """Store all parameters and artifacts so far."""

    def sync(self) -> None:
        """Wait until all sent data would survive the end of this process."""

    def state(self) -> dict[str, Any]: ...

    def end(self) -> None:
        """Mark the task as completed. All data was sent."""

    def where(self) -> str: ...


def hyperparams(params: dict[str, Scalar]) -> dict[str, dict[str, dict[str, str]]]:
    """Return parameters in ClearML's format, in its section `General`."""
    return {
        "General": {
            name: {
                "section": "General",
                "name": name,
                "value": "" if value is None else str(value),
                "type": type(value).__name__,
                "description": "",
            }
            for name, value in params.items()
        }
    }


def artifact_entry(item: Artifact) -> dict[str, Any]:
    """Return an artifact as a reference: ClearML stores its address."""
    uri = f"file://{item.uri}" if item.uri.startswith("/") else item.uri
    return {
        "key": item.name,
        "type": item.kind or "custom",
        "mode": "output",
        "uri": uri,
        "timestamp": item.time_ns // 1_000_000_000,
        "display_data": [["step", f"{item.axis} {item.step}"]] if item.axis else [],
    }
