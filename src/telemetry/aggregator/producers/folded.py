"""Producers that ended completely and gave up their row: one account for all, and data for late messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from telemetry import limits
from telemetry.aggregator.producers.budget import Budget
from telemetry.aggregator.producers.ids import IdTable
from telemetry.wire.control import Ended
from telemetry.wire.drop_reasons import Count
from telemetry.wire.events import Natural
from telemetry.wire.snapshot import FoldedProducers


class RememberedProducer:
    """A producer without a row: the part of its state that is needed to read its batches in the journal again."""

    __slots__ = ("closed_at", "ids")

    node: ClassVar[None] = None
    """None, because leaves keep their row."""

    def __init__(self, closed_at: int, ids: IdTable) -> None:
        self.closed_at = closed_at
        self.ids = ids

    def belongs(self, seq: int) -> bool:
        """Return False for a batch that arrived after the end."""
        return seq < self.closed_at


class Folded:
    """Sum of all folded producers, and the ids of the last `limits.FOLDED_IDS` of them.

    An id is remembered so that a late copy of a batch, a repeated hello or a repeated end makes no new producer.
    The row ids of a producer are kept for the exact pass, which reads its batches again. Processes of one program
    mostly have the same row ids, so equal tables are stored once.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "producers": Natural,
        "events": Count,
        "repaired": Natural,
        "duplicates": Natural,
        "salvaged": Count,
        "_tables": list[bytes],
        "_known": dict[str, tuple[Count, Natural, Natural]],
    }
    ADDED: ClassVar[tuple[str, ...]] = ("salvaged",)
    DERIVED: ClassVar[tuple[str, ...]] = ("_free", "_places", "_uses")

    def __init__(self) -> None:
        self.producers = 0
        self.events = 0
        self.repaired = 0
        self.duplicates = 0
        self.salvaged = 0
        self._tables: list[bytes] = []
        """Row ids as bytes. Empty for a table that no producer uses any more."""
        self._known: dict[str, tuple[int, int, int]] = {}
        """Id → number of events, first batch after the end, position of the table. Oldest first."""
        self._uses: Counter[int] = Counter()
        self._places: dict[bytes, int] = {}
        self._free: list[int] = []
        """Positions of tables that no producer uses any more."""

    def restored(self) -> None:
        self._uses = Counter(table for _, _, table in self._known.values())
        self._places = {table: index for index, table in enumerate(self._tables) if self._uses[index]}
        self._free = [index for index in range(len(self._tables)) if not self._uses[index]]
        if len(self._known) > limits.FOLDED_IDS or not all(table < len(self._tables) for table in self._uses):
            raise ValueError("folded producers that can't have been saved")

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def add(self, key: str, account: FoldedProducers, closed_at: int, ids: IdTable) -> None:
        """Add the account of a producer that ended completely."""
        self.producers += 1
        self.events += account.events
        self.repaired += account.repaired
        self.duplicates += account.duplicates
        self.salvaged += account.salvaged
        table = self._place_of(ids.bound.tobytes())
        self._known[key] = account.events, closed_at, table
        self._uses[table] += 1
        if len(self._known) > limits.FOLDED_IDS:
            self._forget(next(iter(self._known)))

    def ended(self, key: str) -> Ended | None:
        """Return the account of a folded producer, or None for any other producer."""
        entry = self._known.get(key)
        return None if entry is None else Ended(emitted=entry[0], received=entry[0], missing=0)

    def remembered(self, key: str) -> RememberedProducer | None:
        entry = self._known.get(key)
        if entry is None:
            return None
        return RememberedProducer(entry[1], _table(self._tables[entry[2]]))

    def fits(self, instruments: Sequence[int]) -> bool:
        """Check that every row id leads to an existing instrument. `instruments` has their number by kind."""
        return all(_is_table(table) and _table(table).fits(instruments) for table in self._tables)

    def stat(self) -> FoldedProducers | None:
        if not self.producers:
            return None
        return FoldedProducers(
            producers=self.producers,
            events=self.events,
            repaired=self.repaired,
            duplicates=self.duplicates,
            salvaged=self.salvaged,
        )

    def _place_of(self, table: bytes) -> int:
        index = self._places.get(table)
        if index is None:
            index = self._places[table] = self._free.pop() if self._free else len(self._tables)
            self._tables[index : index + 1] = [table]
        return index

    def _forget(self, key: str) -> None:
        table = self._known.pop(key)[2]
        self._uses[table] -= 1
        if not self._uses[table]:
            del self._places[self._tables[table]]
            self._tables[table] = b""
            self._free.append(table)


def _is_table(table: bytes) -> bool:
    return len(table) % 4 == 0 and len(table) // 4 <= limits.PRODUCER_IDS


def _table(table: bytes) -> IdTable:
    ids = IdTable(Budget(limits.ID_SLOTS))
    ids.bound = np.frombuffer(table, np.int32)
    return ids
