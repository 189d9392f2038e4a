"""Rows of many parts, kept until there are many: few cost nearly as much as many."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.batch_group import KindRows, RowRange, wall_times_of

Index = NDArray[np.intp]
Slots = NDArray[np.intp]
"""Routes in another order, so that those of all kinds are small numbers: `index << 2 | kind`."""

_KIND_BITS: Final = 2


class Columns(NamedTuple):
    """Rows of all parts, in order."""

    slots: Slots
    values: NDArray[np.float64]
    wall_times: NDArray[np.int64]
    part_ends: list[int]
    """How many of them come up to the end of each part."""


class PendingRows:
    """Copies: the memory of a frame that is let go is warm for the next one."""

    def __init__(self) -> None:
        self.rows = 0
        self._parts: list[tuple[int, int, Index, NDArray[np.float64], NDArray[np.uint64]]] = []
        """Of each: how many rows, their kind, index, values and times."""
        self._row_ranges: list[tuple[int, tuple[int, int], int]] = []
        """Of each, which has some: how many rows, the anchor, when they came."""

    def add(self, kind: int, part: KindRows, some: Index) -> None:
        """Some rows of a part; at least one."""
        at, row_ranges, rows = part.rows(some), part.group.row_ranges, some.size
        times = part.group.rows.times[at]
        self._parts.append((rows, kind, part.indices.take(some), part.values.take(some), times))
        if len(row_ranges) == 1:
            self._row_ranges.append((rows, row_ranges[0].anchor, part.now_ns))
        else:
            owned = zip(_in_row_ranges(at, row_ranges), row_ranges, strict=True)
            self._row_ranges += [(count, row_range.anchor, part.now_ns) for count, row_range in owned if count]
        self.rows += rows

    def columns(self) -> Columns:
        """All of them; at least one was added."""
        rows, kinds, indices, values, times = zip(*self._parts, strict=True)
        owned, anchors, came = zip(*self._row_ranges, strict=True)
        offsets = [wall_ns - clock_ns for clock_ns, wall_ns in anchors]
        made = [wall_ns or came_ns for (_, wall_ns), came_ns in zip(anchors, came, strict=True)]
        clocks = (np.repeat(clock, owned) for clock in (offsets, made, came))
        return Columns(
            np.concatenate(indices) << _KIND_BITS | np.repeat(kinds, rows),
            np.concatenate(values),
            wall_times_of(np.concatenate(times, dtype=np.uint64), *clocks),
            list(accumulate(rows)),
        )


def slot_of(kind: int, index: int) -> int:
    return index << _KIND_BITS | kind


def _in_row_ranges(rows: Index, row_ranges: Sequence[RowRange]) -> list[int]:
    ends = rows.searchsorted(list(accumulate((row_range.rows for row_range in row_ranges), initial=0))).tolist()
    return [end - begin for begin, end in pairwise(ends)]
