"""Rows of many groups, kept until there are many: few cost nearly as much as many."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.group import Group, Lot, walls_of
from telemetry.aggregator.routes import INDEX_BITS, Routes

Index = NDArray[np.intp]
Slots = NDArray[np.int32]
"""Routes in another order, so that those of all kinds are small numbers: `index << 2 | kind`."""

_KIND_BITS: Final = 2
_INDEX_MASK: Final = np.int32((1 << INDEX_BITS) - 1)


class Columns(NamedTuple):
    """Rows of all groups, in order."""

    slots: Slots
    values: NDArray[np.float64]
    walls: NDArray[np.int64]
    group_ends: list[int]
    """How many of them come up to the end of each group."""


class Witnessed:
    """Copies: the memory of a frame that is let go is warm for the next one."""

    def __init__(self) -> None:
        self.rows = 0
        self._slots: list[Slots] = []
        self._values: list[NDArray[np.float64]] = []
        self._times: list[NDArray[np.uint64]] = []
        self._clocks: list[tuple[int, int, int]] = []
        """Of each lot: how far its producer's clock is behind the wall clock, when it was made, when it came."""
        self._owned: list[int] = []
        """Rows of each lot, which has some."""

    def add(self, group: Group, at: Index, slots: Slots, now_ns: int) -> None:
        """Rows of a group and their slots. `now_ns` is wall clock."""
        rows, lots = group.rows, group.lots
        self._slots.append(slots)
        self._values.append(rows.values.take(at))
        self._times.append(rows.times[at])
        for lot, owned in zip(lots, (at.size,) if len(lots) == 1 else _in_lots(at, lots), strict=True):
            if owned:
                clock_ns, wall_ns = lot.anchor
                self._clocks.append((wall_ns - clock_ns, wall_ns or now_ns, now_ns))
                self._owned.append(owned)
        self.rows += at.size

    def columns(self) -> Columns:
        """All of them; at least one was added."""
        offset, made, now_ns = np.array(self._clocks).repeat(self._owned, axis=0).T
        return Columns(
            np.concatenate(self._slots),
            np.concatenate(self._values),
            walls_of(np.concatenate(self._times, dtype=np.uint64), offset, made, now_ns),
            list(accumulate(slots.size for slots in self._slots)),
        )


def slots_of(routes: Routes) -> Slots:
    """Of routes that are bound; others have slots below 0."""
    return (routes & _INDEX_MASK) << _KIND_BITS | routes >> INDEX_BITS


def _in_lots(rows: Index, lots: Sequence[Lot]) -> list[int]:
    ends = rows.searchsorted(list(accumulate((lot.rows for lot in lots), initial=0))).tolist()
    return [end - begin for begin, end in pairwise(ends)]
