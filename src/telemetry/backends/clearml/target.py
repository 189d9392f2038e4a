"""Where ClearML's events go."""

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
    """A task. Each call raises Unavailable, NotConfigured."""

    def send(self, events: Sequence[Event]) -> None: ...

    def picture(self, item: Artifact) -> tuple[str, str] | None:
        """Where a browser finds it, and its key there; None if it can't."""

    def update(self, params: dict[str, Scalar], artifacts: dict[str, Artifact]) -> None:
        """All of them so far."""

    def sync(self) -> None:
        """Until what was sent outlives this process."""

    def state(self) -> dict[str, Any]: ...

    def end(self) -> None:
        """The run is over, and all of it was sent."""

    def where(self) -> str: ...


def hyperparams(params: dict[str, Scalar]) -> dict[str, dict[str, dict[str, str]]]:
    """Settings as ClearML has them, in its section for those of no parser."""
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
    """By reference: ClearML keeps its address."""
    uri = f"file://{item.uri}" if item.uri.startswith("/") else item.uri
    return {
        "key": item.name,
        "type": item.kind or "custom",
        "mode": "output",
        "uri": uri,
        "timestamp": item.time_ns // 1_000_000_000,
        "display_data": [["step", f"{item.axis} {item.step}"]] if item.axis else [],
    }
