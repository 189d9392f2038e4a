"""The backend that puts a run into Trackio."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct

from telemetry.backends.backend import NotConfigured, Refused, RunFacts, missing
from telemetry.backends.items import Artifact, Histogram, Item, Mark, Params, Reading, Step, Table, Text
from telemetry.backends.trackio.rows import Row, Rows, config_name
from telemetry.backends.trackio.targets import Folder, Identity, Server, Target, iso
from telemetry.wire.events import Scalar


class TrackioOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    project: str = ""
    """Empty: the run's name."""
    name: str = ""
    """Of the run in its project. Empty: that of the run directory."""
    folder: str = ""
    """Of all projects. Empty: TRACKIO_DIR, and without that the folder of the writer."""
    server: str = ""
    """The address of a Trackio server that takes it instead of a folder. TRACKIO_WRITE_TOKEN opens it."""
    group: str = ""
    spread: bool = False
    """Also `name/min` and `name/max` of what several producers reported in a step."""


class TrackioBackend:
    """Exactly once, by the keys of the rows. A correction of a step is one more row of that step."""

    Options: ClassVar[type[Struct]] = TrackioOptions
    takes: ClassVar[tuple[type[Item], ...]] = (
        *(Step, Reading, Params, Mark),
        *(Text, Table, Histogram, Artifact),
    )
    idempotent: ClassVar[bool] = True

    def __init__(self, options: TrackioOptions, place: Path) -> None:
        if options.server and options.folder:
            raise NotConfigured("trackio has either a folder or a server")
        self._options = options
        self._place = place
        self._target: Target | None = None
        self._rows: Rows
        self._started_ns = 0
        self._params: dict[str, Scalar] = {}
        self._config_written = -1
        """How many groups of names it said; below 0: it has to be written again."""

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        self._started_ns = run.started_ns
        self._params = dict(run.params) | state.get("params", {})
        self._config_written = -1
        self._rows = Rows(run.started_ns, state.get("owners"), spread=self._options.spread)
        project = self._options.project or run.name
        name = self._options.name or (run.directory.name if run.directory else f"{run.name}-{run.run_id}")
        identity = Identity(project, name.replace("/", "-"), run.run_id)
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # else the import asks the hub who the user is
        try:
            if self._options.server:
                self._target = Server(identity, self._options.server)
            else:
                self._target = Folder(identity, self._options.folder, self._place)
        except ModuleNotFoundError as error:
            if error.name == "trackio":
                raise missing("trackio", "trackio") from error
            raise

    def write(self, items: Sequence[Item]) -> None:
        rows: list[Row] = []
        refused: list[str] = []
        for item in items:
            if isinstance(item, Params):
                self._params |= item.values
                self._config_written = -1
            elif isinstance(item, Artifact):
                rows += self._artifact(item, refused)
            else:
                rows += self._rows.of(item)
        if rows:
            self._log(rows)
        marks = [item for item in items if isinstance(item, Mark)]
        if marks:
            self._opened().alert(marks)
        if refused:
            raise Refused("artifact_kind", refused)

    def flush(self) -> None:
        """Writes are transactions that have ended. Settings travel with rows, at the latest with an empty one."""
        if self._params and self._config_written < 0:
            self._log([Row("params", self._started_ns, 0, {})])

    def state(self) -> dict[str, Any]:
        return {"params": self._params, "owners": self._rows.owners}

    def close(self, *, final: bool) -> None:
        self._target = None

    def where(self) -> str:
        return self._target.where() if self._target is not None else ""

    # --- how -----------------------------------------------------------------------------------------

    def _opened(self) -> Target:
        assert self._target is not None
        return self._target

    def _log(self, rows: Sequence[Row]) -> None:
        config: dict[str, Any] | None = None
        groups = len(self._rows.owners)
        if groups != self._config_written:
            config = {config_name(name): value for name, value in self._params.items()}
            config |= {"_Username": None, "_Created": iso(self._started_ns), "_Group": self._options.group or None}
            config["_Axes"] = self._rows.owners
        self._opened().log(rows, config)
        self._config_written = groups

    def _artifact(self, item: Artifact, refused: list[str]) -> Iterator[Row]:
        """A row for a picture that is here; all else becomes an artifact of the project, by reference."""
        target = self._opened()
        picture = target.picture(item, self._rows.step_of(item)) if item.kind == "image" else None
        if picture is not None:
            yield self._rows.one(item, picture)
            return
        try:
            target.artifact(item, item.kind or "unspecified")
        except ValueError:  # its name is one of another kind already
            refused.append(item.key)
