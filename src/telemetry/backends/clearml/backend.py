"""A backend that writes a run to ClearML, with or without its server."""

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
    """Name of the project. Empty: CLEARML_PROJECT, or the run's name."""
    name: str = ""
    """Name of the task. Empty: CLEARML_TASK, or the name of the run directory."""
    tags: str = ""
    """Tags, separated by commas."""
    mode: Literal["", "online", "offline"] = ""
    """Mode. Empty: offline if CLEARML_OFFLINE_MODE is set, else online."""
    folder: str = ""
    """Folder of offline sessions. Empty: CLEARML_CACHE_DIR, or the folder of the writer."""
    spread: bool = False
    """True to write `name/min` and `name/max` of values that several producers reported in a step."""


class ClearMLBackend:
    """The ClearML backend. Offline, each item is written exactly once.

    A server stores one value for a name and an iteration, even after repeated writes. Lines in its console may be
    duplicated after a kill.
    """

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
        """Values that ClearML can't store, by reason. The rest of their items was written."""
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
            raise NotConfigured(f"can't read {self._place}: {describe(error)}") from error
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

    # --- helpers -------------------------------------------------------------------------------------

    def _opened(self) -> Target:
        assert self._target is not None
        return self._target

    def _artifact(self, item: Artifact) -> list[Event]:
        """Return the event of an image if a browser can find it.

        Otherwise keep a reference, the newest of its name.
        """
        found = self._opened().picture(item) if item.kind == "image" else None
        if found is not None:
            return [self._events.image(item, *found)]
        self._artifacts[item.name] = item
        self._changed = True
        return []


def _offline(mode: str) -> bool:
    said = os.environ.get("CLEARML_OFFLINE_MODE", "").lower() in ("1", "true", "yes", "on", "y", "t")
    return mode == "offline" or (not mode and said)
