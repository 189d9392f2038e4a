"""The backend that puts a run into ClearML, with or without its server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec
from msgspec import Struct

from telemetry.backends.axis_owners import AxisOwners
from telemetry.backends.backend import NotConfigured, Refused, RunFacts, Unavailable
from telemetry.backends.clearml.events import Event, Events
from telemetry.backends.clearml.server import Server
from telemetry.backends.clearml.session import OfflineSession
from telemetry.backends.clearml.target import Identity, Target
from telemetry.backends.items import Artifact, Histogram, Item, Mark, Params, Reading, Step, Table, Text
from telemetry.store.append_file import describe
from telemetry.wire.events import Scalar


class ClearMLOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    project: str = ""
    """Empty: CLEARML_PROJECT, and without that the run's name."""
    name: str = ""
    """Of the task. Empty: CLEARML_TASK, and without that the name of the run directory."""
    tags: str = ""
    """With commas between them."""
    mode: Literal["", "online", "offline"] = ""
    """Empty: offline if CLEARML_OFFLINE_MODE says so."""
    folder: str = ""
    """Of offline sessions. Empty: CLEARML_CACHE_DIR, and without that the folder of the writer."""
    spread: bool = False
    """Also `name/min` and `name/max` of what several producers reported in a step."""


class ClearMLBackend:
    """Offline exactly once. A server keeps one value of a name and an iteration, however often it comes; lines of
    its console may be there twice after a kill."""

    Options: ClassVar[type[Struct]] = ClearMLOptions
    takes: ClassVar[tuple[type[Item], ...]] = (
        *(Step, Reading, Params, Mark),
        *(Text, Table, Histogram, Artifact),
    )
    idempotent: ClassVar[bool] = True

    def __init__(self, options: ClearMLOptions, place: Path) -> None:
        self._options = options
        self._place = place
        self._offline = _offline(options.mode)
        self.left_out: dict[str, int] = {}
        """Values by why ClearML has none of them; their items were written without them."""
        self._target: Target | None = None
        self._events: Events
        self._owners: AxisOwners
        self._params: dict[str, Scalar] = {}
        self._artifacts: dict[str, Artifact] = {}
        self._changed = False

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        options, environ = self._options, os.environ
        identity = Identity(
            project=options.project or environ.get("CLEARML_PROJECT") or run.name,
            name=options.name
            or environ.get("CLEARML_TASK")
            or (run.directory.name if run.directory else f"{run.name}-{run.run_id}"),
            tags=tuple(filter(None, map(str.strip, options.tags.split(",")))),
        )
        try:
            self._owners = AxisOwners(self._place / "names.json")
        except OSError as error:
            raise NotConfigured(f"{self._place} can't be read: {describe(error)}") from error
        self._events = Events(run.started_ns, self._owners, spread=options.spread)
        self._params = dict(run.params) | state.get("params", {})
        kept = msgspec.convert(state.get("artifacts", []), list[Artifact])
        self._artifacts = {item.name: item for item in kept}
        self._changed = True
        if self._offline:
            folder = options.folder or environ.get("CLEARML_CACHE_DIR") or str(self._place)
            self._target = OfflineSession(identity, self._place, Path(folder).expanduser().absolute(), state)
        else:
            self._target = Server(identity, state)

    def write(self, items: Sequence[Item]) -> None:
        events: list[Event] = []
        refused: list[str] = []
        odd = 0
        for item in items:
            if isinstance(item, Params):
                self._params |= item.values
                self._changed = True
            elif isinstance(item, Artifact):
                events += self._artifact(item)
            else:
                before = self._events.odd
                found = list(self._events.of(item))
                new = self._events.odd - before
                if new and not found:
                    refused.append(item.key)
                else:
                    odd += new
                events += found
        if events:
            self._opened().send(events)
        if odd:
            self.left_out["not_finite"] = self.left_out.get("not_finite", 0) + odd
        if refused:
            raise Refused("not_finite", refused)

    def flush(self) -> None:
        target = self._opened()
        try:
            self._owners.keep()
        except OSError as error:
            raise Unavailable(describe(error)) from error
        if self._changed:
            target.update(self._params, self._artifacts)
            self._changed = False
        target.sync()

    def state(self) -> dict[str, Any]:
        artifacts = msgspec.to_builtins(list(self._artifacts.values()))
        return {"params": self._params, "artifacts": artifacts, **self._opened().state()}

    def close(self, *, final: bool) -> None:
        if final:
            self._opened().end()

    def where(self) -> str:
        return self._target.where() if self._target is not None else ""

    # --- how -----------------------------------------------------------------------------------------

    def _opened(self) -> Target:
        assert self._target is not None
        return self._target

    def _artifact(self, item: Artifact) -> list[Event]:
        """A picture where ClearML shows pictures, if it is here; all else by reference, the newest of a name."""
        found = self._opened().picture(item) if item.kind == "image" else None
        if found is not None:
            return [self._events.image(item, *found)]
        self._artifacts[item.name] = item
        self._changed = True
        return []


def _offline(mode: str) -> bool:
    said = os.environ.get("CLEARML_OFFLINE_MODE", "").lower() in ("1", "true", "yes", "on", "y", "t")
    return mode == "offline" or (not mode and said)
