"""Waiting rows of one producer, whose ids are not defined yet. All producers share one bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.producers.budget import Budget
from telemetry.aggregator.producers.ids import IdTable
from telemetry.aggregator.routes import UNKNOWN, Routes
from telemetry.aggregator.rows import ShiftedIds

_MANY_PIECES: Final = 64


class Waiting(NamedTuple):
    ids: ShiftedIds
    values: NDArray[np.float64]
    wall_times: NDArray[np.int64]

    def part(self, rows: slice | NDArray[np.bool_]) -> Waiting:
        return Waiting(self.ids[rows], self.values[rows], self.wall_times[rows])


class WaitingRows:
    """Waiting rows in order of arrival."""

    __slots__ = ("_budget", "_pieces", "count")

    STATE: ClassVar[Mapping[str, Any]] = {"rows": Waiting}
    DERIVED: ClassVar[tuple[str, ...]] = ("_budget", "_pieces", "count")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._pieces: list[Waiting] = []
        self.count = 0

    @property
    def rows(self) -> Waiting:
        """The waiting rows. A new, empty owner can be assigned these once."""
        if len(self._pieces) != 1:
            self._pieces = [self._joined()]
        return self._pieces[0]

    @rows.setter
    def rows(self, rows: Waiting) -> None:
        if {len(column) for column in rows} != {len(rows.ids)} or self.add(rows) != len(rows.ids):
            raise ValueError(f"no room for {len(rows.ids)} waiting rows")

    def add(self, rows: Waiting) -> int:
        """Keep as many of the first rows as there is room for. Return their number."""
        kept = min(len(rows.ids), self._budget.left)
        if kept:
            self._budget.take(kept)
            self._pieces.append(rows.part(slice(kept)))
            self.count += kept
            if len(self._pieces) > _MANY_PIECES:
                self._pieces = [self._joined()]
        return kept

    def release(self, table: IdTable) -> tuple[Routes, Waiting]:
        """Remove the rows whose ids are bound by now, and return them with their routes."""
        rows = self._joined()
        routes = table.look_up(rows.ids)
        ready = routes != UNKNOWN
        stay = rows.part(~ready)
        freed = self.count - len(stay.ids)
        self._budget.give_back(freed)
        self.count -= freed
        self._pieces = [stay] if self.count else []
        return routes[ready], rows.part(ready)

    def discard(self) -> int:
        """Drop all rows and return their number."""
        gone = self.count
        self._budget.give_back(gone)
        self._pieces = []
        self.count = 0
        return gone

    def _joined(self) -> Waiting:
        if len(self._pieces) == 1:
            return self._pieces[0]
        if not self._pieces:
            return Waiting(np.zeros(0, np.intp), np.zeros(0), np.zeros(0, np.int64))
        ids, values, wall_times = zip(*self._pieces, strict=True)
        return Waiting(np.concatenate(ids), np.concatenate(values), np.concatenate(wall_times))
