"""A backend that writes a run to Trackio."""

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
    """Name of the project. Empty: the run's name."""
    name: str = ""
    """Name of the run in its project. Empty: name of the run directory."""
    folder: str = ""
    """Folder of all projects. Empty: TRACKIO_DIR, or the folder of the writer."""
    server: str = ""
    """Address of a Trackio server, instead of a folder. TRACKIO_WRITE_TOKEN grants access."""
    group: str = ""
    spread: bool = False
    """True to write `name/min` and `name/max` of values that several producers reported in a step."""


class TrackioBackend:
    """The Trackio backend. Each item is written exactly once, by the keys of rows.

    A correction adds a row to its step.
    """

    Options: ClassVar[type[Struct]] = TrackioOptions
    takes: ClassVar[tuple[type[Item], ...]] = (
        *(Step, Reading, Params, Mark),
        *(Text, Table, Histogram, Artifact),
    )
    idempotent: ClassVar[bool] = True

    def __init__(self, options: TrackioOptions, place: Path) -> None:
        if options.server and options.folder:
            raise NotConfigured("trackio takes either a folder or a server")
        self._options = options
        self._place = place
        self._target: Target | None = None
        self._rows: Rows
        self._started_ns = 0
        self._params: dict[str, Scalar] = {}
        self._config_written = -1
        """Number of name groups in the last written configuration; negative if it must be written again."""

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        self._started_ns = run.started_ns
        self._params = dict(run.params) | state.get("params", {})
        self._config_written = -1
        self._rows = Rows(run.started_ns, state.get("owners"), spread=self._options.spread)
        project = self._options.project or run.name
        name = self._options.name or (run.directory.name if run.directory else f"{run.name}-{run.run_id}")
        identity = Identity(project, name.replace("/", "-"), run.run_id)
        os.environ.setdefault("HF_HUB_OFFLINE", "1")  # otherwise the import asks the hub for the user's name
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
        """Write pending parameters.

        They are part of rows, so an empty row is added if needed. All writes are committed.
        """
        if self._params and self._config_written < 0:
            self._log([Row("params", self._started_ns, 0, {})])

    def state(self) -> dict[str, Any]:
        return {"params": self._params, "owners": self._rows.owners}

    def close(self, *, final: bool) -> None:
        self._target = None

    def where(self) -> str:
        return self._target.where() if self._target is not None else ""

    # --- helpers -------------------------------------------------------------------------------------

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
        """Yield a row for an image that this machine can read.

        Otherwise add an artifact of the project, by reference.
        """
        target = self._opened()
        picture = target.picture(item, self._rows.step_of(item)) if item.kind == "image" else None
        if picture is not None:
            yield self._rows.one(item, picture)
            return
        try:
            target.artifact(item, item.kind or "unspecified")
        except ValueError:  # an artifact of another kind already has its name
            refused.append(item.key)
