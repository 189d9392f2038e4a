"""Rows that were applied, kept as they came until there are many: few cost nearly as much as many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    """Rows of all groups that were asked for, in order."""

    slots: Slots
    values: NDArray[np.float64]
    walls: NDArray[np.int64]
    group_ends: list[int]
    """How many of them come up to the end of each group."""


class _Part(NamedTuple):
    group: Group
    good: Index | None
    """Which of its rows; None: all."""
    now_ns: int


class Witnessed:
    """Holds on to the frames that its rows came in."""

    def __init__(self) -> None:
        self.rows = 0
        self._parts: list[_Part] = []

    def add(self, group: Group, good: Index | None, now_ns: int) -> None:
        """All rows of a group, or the good ones. `now_ns` is wall clock."""
        self._parts.append(_Part(group, good, now_ns))
        self.rows += len(group)

    def take(self, choose: Callable[[Slots], Index]) -> Columns:
        """The rows that `choose` picks by their slots; the others are forgotten as well."""
        parts, self._parts, self.rows = self._parts, [], 0
        routes = [part.group.routes for part in parts]
        slots = slots_of(routes[0] if len(routes) == 1 else np.concatenate(routes))
        at = choose(slots)
        starts = list(accumulate(map(len, routes), initial=0))
        if any(part.good is not None for part in parts):
            at = at[_is_good(parts, starts)[at]]
        ends = at.searchsorted(starts).tolist()
        chosen = [
            (part, at[begin:end] - start)
            for part, start, begin, end in zip(parts, starts, ends, ends[1:], strict=False)
            if begin < end
        ]
        if not chosen:
            return Columns(slots[:0], np.zeros(0), np.zeros(0, np.int64), ends[1:])
        values = np.concatenate([part.group.rows.values.take(rows) for part, rows in chosen])
        return Columns(slots.take(at), values, _walls(chosen), ends[1:])


def slots_of(routes: Routes) -> Slots:
    """Of routes that are bound; others have slots below 0."""
    return (routes & _INDEX_MASK) << _KIND_BITS | routes >> INDEX_BITS


def _is_good(parts: Sequence[_Part], starts: Sequence[int]) -> NDArray[np.bool_]:
    good = np.zeros(starts[-1], np.bool_)
    for part, start in zip(parts, starts, strict=False):
        good[start : start + len(part.group)] = part.good is None
        if part.good is not None:
            good[part.good + start] = True
    return good


def _in_lots(rows: Index, lots: Sequence[Lot]) -> list[int]:
    ends = rows.searchsorted(list(accumulate((lot.rows for lot in lots), initial=0))).tolist()
    return [end - begin for begin, end in pairwise(ends)]


def _walls(chosen: Sequence[tuple[_Part, Index]]) -> NDArray[np.int64]:
    times = np.concatenate([part.group.rows.times[rows] for part, rows in chosen])
    clocks, owned = [], []
    for part, rows in chosen:
        lots = part.group.lots
        clocks += [(lot.anchor[1] - lot.anchor[0], lot.anchor[1] or part.now_ns, part.now_ns) for lot in lots]
        owned += [rows.size] if len(lots) == 1 else _in_lots(rows, lots)
    offset, made, now_ns = np.array(clocks).repeat(owned, axis=0).T
    return walls_of(times, offset, made, now_ns)
