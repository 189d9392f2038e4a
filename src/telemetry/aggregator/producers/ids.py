"""Row ids → routes of one producer, as an array indexed with whole columns, and rows that wait for a definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.budgets import Budget
from telemetry.aggregator.rows import INDEX_BITS, MALFORMED, UNKNOWN, Routes, ShiftedIds

_SMALLEST = 16


class IdTable:
    """Table in which entry `id + 1` is the route of an id.

    The first entry is for invalid ids, the last for unbound ids. So one clipped `take` looks up a whole column.
    """

    __slots__ = ("_budget", "_entries")

    STATE: ClassVar[Mapping[str, Any]] = {"bound": NDArray[np.int32]}
    DERIVED: ClassVar[tuple[str, ...]] = ("_budget", "_entries")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._entries = np.array([MALFORMED, UNKNOWN], np.int32)

    def __getitem__(self, row_id: int) -> int:
        return int(self._entries[min(row_id + 1, len(self._entries) - 1)])

    def bind(self, row_id: int, route: int) -> bool:
        """Bind an id. Return False if it lies outside the table's bounds or there is no room for it."""
        if not 0 <= row_id < limits.PRODUCER_IDS:
            return False
        if row_id + 2 > len(self._entries) - 1 and not self._grow(row_id + 1):
            return False
        self._entries[row_id + 1] = route
        return True

    @property
    def bound(self) -> NDArray[np.int32]:
        """Route of each id up to the highest bound one. A new table can be assigned these once."""
        used = int((self._entries != UNKNOWN).nonzero()[0][-1])
        return self._entries[1 : used + 1]

    @bound.setter
    def bound(self, routes: NDArray[np.int32]) -> None:
        if len(routes) > limits.PRODUCER_IDS or (len(routes) and not self._grow(len(routes))):
            raise ValueError(f"no room for {len(routes)} ids")
        self._entries[1 : len(routes) + 1] = routes

    def fits(self, instruments: Sequence[int]) -> bool:
        """Return whether each route is an existing instrument or a reason to drop the row.

        `instruments` has the number of instruments by kind.
        """
        routes = self.bound
        leading = routes[routes >= 0]
        kinds = leading >> INDEX_BITS
        if routes.min(initial=0) < MALFORMED or kinds.max(initial=0) >= len(instruments):
            return False
        return bool((leading - (kinds << INDEX_BITS) < np.array(instruments)[kinds]).all())

    def release(self) -> None:
        """Return the room of an unused table to the shared budget."""
        self._budget.give_back(len(self._entries) - 2)

    @property
    def entries(self) -> NDArray[np.int32]:
        """The table itself."""
        return self._entries

    def look_up(self, ids: ShiftedIds) -> Routes:
        return self._entries.take(ids, mode="clip").astype(np.intp)

    def _grow(self, ids: int) -> bool:
        room = max(_SMALLEST, 1 << (ids - 1).bit_length())
        had = len(self._entries) - 2
        if room <= had:
            return True
        if not self._budget.take(room - had):
            return False
        entries = np.full(room + 2, UNKNOWN, np.int32)
        entries[: had + 1] = self._entries[: had + 1]
        self._entries = entries
        return True


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
