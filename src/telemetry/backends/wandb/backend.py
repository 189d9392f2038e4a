"""A backend that writes a run to Weights & Biases, with or without its server.

Durability is checked in W&B's transaction log on this host. Each row there names its item, so that a kill
causes no duplicates. A server reports its last row and gets the later ones again.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

import msgspec
from msgspec import Struct

from telemetry.backends.backend import NotConfigured, RunFacts, Unavailable
from telemetry.backends.items import Artifact, Histogram, Item, Mark, Params, Reading, Step, Table, Text
from telemetry.backends.naming import AxisOwners
from telemetry.backends.wandb.log import FINAL, ITEM, LoggedItems, LogReader, logs_of, look, said_since
from telemetry.backends.wandb.rows import WandbRow, WandbRows, final_values, media, project_name, run_id
from telemetry.backends.wandb.session import Identity, WandbSession, end_orphan, library, picture
from telemetry.store.append_file import describe
from telemetry.store.atomic import write_atomic
from telemetry.wire.codec import BAD_INPUT

_DURABLE_S: Final = 20.0  # W&B writes its log every 0.1 s; a longer silence means a hang or a full disk
_LOOK_S: Final = 0.01
_GONE: Final = "W&B's own process exited"
_OWNERS: Final = "columns.json"
_PROCESSES: Final = "processes.json"
"""File with the process ids of the newest session: W&B's and ours."""


class WandbOptions(Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    project: str = ""
    """Name of the project. Empty: WANDB_PROJECT, or the run's name."""
    entity: str = ""
    """User or team. Empty: WANDB_ENTITY, or the user's own."""
    name: str = ""
    """Name of the run in its project. Empty: name of the run directory."""
    id: str = ""
    """Id of the run in W&B.

    Empty: derived from this run's id, so that a restarted writer continues the same run.
    """
    group: str = ""
    tags: str = ""
    """Tags, separated by commas."""
    mode: Literal["", "online", "offline"] = ""
    """Mode. Empty: WANDB_MODE, or online."""
    folder: str = ""
    """Folder of W&B's files. Empty: WANDB_DIR, or the folder of the writer."""
    spread: bool = False
    """True to write `name/min` and `name/max` of values that several producers reported in a step."""


class WandbBackend:
    """The W&B backend. Each item is written exactly once, by W&B's own log.

    A correction adds a row at the same step of its axis.
    """

    Options: ClassVar[type[Struct]] = WandbOptions
    takes: ClassVar[tuple[type[Item], ...]] = (
        *(Step, Reading, Params, Mark),
        *(Text, Table, Histogram, Artifact),
    )
    idempotent: ClassVar[bool] = True

    def __init__(self, options: WandbOptions, place: Path) -> None:
        self._options = options
        self._place = place
        self._offline = _offline(options.mode)
        self._folder = Path(options.folder or os.environ.get("WANDB_DIR") or place).expanduser().absolute()
        self._session: WandbSession | None = None
        self._reader: LogReader | None = None
        self._where = ""
        self._wandb: Any
        self._identity: Identity
        self._rows: WandbRows
        self._seen = LoggedItems()
        self._pending: set[str] = set()
        """Keys of written items that are not in the log yet."""
        self._pending_params: set[str] = set()
        self._defined: set[str] = set()
        self._owners: AxisOwners
        self._log = ""
        self._offset = 0

    def open(self, run: RunFacts, state: dict[str, Any]) -> None:
        self._end()
        self._wandb = library(self._place)
        options = self._options
        self._identity = Identity(
            run_id=options.id or state.get("id", "") or run_id(run.run_id),
            project=options.project or os.environ.get("WANDB_PROJECT") or project_name(run.name),
            entity=options.entity,
            name=options.name or (run.directory.name if run.directory else run.name),
            group=options.group,
            tags=tuple(filter(None, map(str.strip, options.tags.split(",")))),
            offline=self._offline,
        )
        self._log, self._offset = state.get("log", ""), state.get("offset", 0)
        self._seen = LoggedItems(next_row=state.get("next_row", 0))
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._end_orphan()
            self._owners = AxisOwners(self._place / _OWNERS)
            self._catch_up()
        except (FileExistsError, NotADirectoryError, PermissionError) as error:
            raise NotConfigured(f"can't use {self._folder}: {describe(error)}") from error
        self._owners.update({**self._seen.axes, **self._owners})
        self._rows = WandbRows(run.started_ns, self._owners, spread=options.spread)
        self._begin()

    def write(self, items: Sequence[Item]) -> None:
        if self._session is None:
            self._catch_up()
            self._begin()
        try:
            for item in items:
                if item.key not in self._pending and item.key not in self._seen.items:
                    self._put(item)
        except Unavailable:
            self._end()
            raise

    def flush(self) -> None:
        deadline = time.monotonic() + _DURABLE_S
        while self._pending or self._pending_params:
            if self._reader is None or self._session is None:
                raise Unavailable(_GONE)
            alive = self._session.alive()
            look(self._reader, self._seen)
            self._pending -= self._seen.items
            self._pending_params -= self._seen.params
            if not (self._pending or self._pending_params):
                break
            if not alive or time.monotonic() > deadline:
                self._end()
                raise Unavailable(_GONE if not alive else f"W&B wrote nothing to its log for {_DURABLE_S:.0f} s")
            time.sleep(_LOOK_S)
        self._owners.keep()
        self._seen.items.clear()
        self._seen.params.clear()
        if self._reader is not None:
            self._log, self._offset = self._reader.path.parent.name, self._reader.offset

    def state(self) -> dict[str, Any]:
        return {
            "id": self._identity.run_id,
            "log": self._log,
            "offset": self._offset,
            "next_row": self._seen.next_row,
        }

    def close(self, *, final: bool) -> None:
        if self._session is None and final:
            self._begin()
        session, self._session = self._session, None
        if session is not None:
            session.finish(ended=final)

    def where(self) -> str:
        return self._where

    # --- helpers -------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Start a W&B process, which begins a new log. Raises NotConfigured, Unavailable."""
        before = logs_of(self._folder, self._identity.run_id)
        session = WandbSession(self._wandb, self._identity, self._folder)
        self._session = session
        ids = (session.process_id, os.getpid())
        write_atomic(self._place / _PROCESSES, json.dumps(ids).encode(), durable=False)
        self._reader = LogReader(session.log)
        self._seen.next_row = max(self._seen.next_row, session.next_row)
        self._where = session.url or str(session.log.parent)
        self._defined.clear()
        try:
            if not self._offline:
                for entry in said_since(before, session.next_row):
                    session.again(entry)
        except BaseException:
            self._end()
            raise

    def _end(self) -> None:
        """Kill the current session. Data that is not in the log by now never reaches it."""
        session, self._session = self._session, None
        self._reader = None
        self._pending.clear()
        self._pending_params.clear()
        if session is not None:
            session.kill()

    def _catch_up(self) -> None:
        """Read items in this run's logs beyond the newest state. Raises OSError."""
        logs = logs_of(self._folder, self._identity.run_id)
        names = [path.parent.name for path in logs]
        first = names.index(self._log) if self._log in names else 0
        for name, path in zip(names[first:], logs[first:], strict=True):
            look(LogReader(path, self._offset if name == self._log else 0), self._seen)

    def _end_orphan(self) -> None:
        try:
            end_orphan(*msgspec.json.decode((self._place / _PROCESSES).read_bytes(), type=tuple[int, int]))
        except (FileNotFoundError, *BAD_INPUT):
            return

    def _put(self, item: Item) -> None:
        session = self._session
        assert session is not None
        if isinstance(item, Params):
            session.params(item.values)
            self._pending_params |= item.values.keys()
        elif isinstance(item, Reading) and item.final:
            session.summary({**final_values(item), FINAL: item.key})
            self._pending.add(item.key)
        elif (row := self._row(item)) is not None:
            self._define(row)
            values = {**row.values, ITEM: item.key, "_timestamp": item.time_ns / 1e9}
            session.row(self._seen.next_row, values)
            self._seen.next_row += 1
            self._pending.add(item.key)

    def _row(self, item: Item) -> WandbRow | None:
        if isinstance(item, Artifact):
            shown = picture(item)
            if shown is not None:
                return self._rows.one(item, media(item.name), shown)
            if self._session is not None:
                self._session.artifact(item)
        return self._rows.of(item)

    def _define(self, row: WandbRow) -> None:
        """Define the x-axis of each column once in each log: charts depend on it."""
        if self._session is not None and not self._defined.issuperset(row.values):
            for column in row.values:
                if column != row.axis and column not in self._defined:
                    self._session.define(column, row.axis)
                self._defined.add(column)


def _offline(mode: str) -> bool:
    """Check whether the mode is offline. Raises NotConfigured."""
    mode = mode or os.environ.get("WANDB_MODE", "online")
    if mode not in ("online", "offline", "run", "dryrun"):
        raise NotConfigured(f"W&B: the mode {mode!r} writes no data", hint="use mode=online or offline")
    return mode in ("offline", "dryrun")
