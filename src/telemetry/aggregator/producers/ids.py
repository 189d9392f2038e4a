"""Row ids → routes of one producer, as an array that is indexed with whole columns of ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.producers.budget import Budget
from telemetry.aggregator.routes import INDEX_BITS, MALFORMED, UNKNOWN, Routes
from telemetry.aggregator.rows import ShiftedIds

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
