"""Buffer that collects rows of many parts until there are many, because few rows cost nearly as much as many."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.batch_group import KindRows, RowRange, wall_times_of

Index = NDArray[np.intp]
Slots = NDArray[np.intp]
"""Routes with the kind in the low bits, which keeps them small: `index << 2 | kind`."""

KIND_BITS: Final = 2
"""Number of low bits of a slot that hold the kind."""


class PendingColumns(NamedTuple):
    """Pending rows of all batches as columns, in order of arrival."""

    slots: Slots
    values: NDArray[np.float64]
    wall_times: NDArray[np.int64]
    part_ends: list[int]
    """Number of rows up to the end of each part."""


class PendingRows:
    """Buffered copies of rows. Copies keep no frame alive, so the memory of a frame stays warm for the next one."""

    def __init__(self) -> None:
        self.rows = 0
        self._parts: list[tuple[int, int, Index, NDArray[np.float64], NDArray[np.uint64]]] = []
        """Number of rows, kind, index, values and times of each part."""
        self._row_ranges: list[tuple[int, tuple[int, int], int]] = []
        """Number of rows, anchor and arrival time of each row range with rows."""

    def add(self, kind: int, part: KindRows, some: Index) -> None:
        """Add some rows of a part, at least one."""
        at, row_ranges, rows = part.rows(some), part.group.row_ranges, some.size
        times = part.group.rows.times[at]
        self._parts.append((rows, kind, part.indices.take(some), part.values.take(some), times))
        if len(row_ranges) == 1:
            self._row_ranges.append((rows, row_ranges[0].anchor, part.now_ns))
        else:
            pairs = zip(_in_row_ranges(at, row_ranges), row_ranges, strict=True)
            self._row_ranges += [(count, row_range.anchor, part.now_ns) for count, row_range in pairs if count]
        self.rows += rows

    def add_columns(
        self,
        kind: int,
        columns: tuple[Index, NDArray[np.float64], NDArray[np.uint64]],
        row_ranges: Sequence[tuple[int, tuple[int, int]]],
        now_ns: int,
    ) -> None:
        """Add at least one row: index, value and time.

        `row_ranges` has the number of rows and the anchor of each row range.
        """
        rows = columns[0].size
        self._parts.append((rows, kind, *columns))
        self._row_ranges += [(count, anchor, now_ns) for count, anchor in row_ranges if count]
        self.rows += rows

    def columns(self) -> PendingColumns:
        """Return all rows. At least one row must have been added."""
        rows, kinds, indices, values, times = zip(*self._parts, strict=True)
        counts, anchors, arrival_times = zip(*self._row_ranges, strict=True)
        offsets = [wall_ns - clock_ns for clock_ns, wall_ns in anchors]
        batch_times = [wall_ns or came_ns for (_, wall_ns), came_ns in zip(anchors, arrival_times, strict=True)]
        clocks = (np.repeat(clock, counts) for clock in (offsets, batch_times, arrival_times))
        return PendingColumns(
            np.concatenate(indices) << KIND_BITS | np.repeat(kinds, rows),
            np.concatenate(values),
            wall_times_of(np.concatenate(times, dtype=np.uint64), *clocks),
            list(accumulate(rows)),
        )


def slot_of(kind: int, index: int) -> int:
    return index << KIND_BITS | kind


def _in_row_ranges(rows: Index, row_ranges: Sequence[RowRange]) -> list[int]:
    ends = rows.searchsorted(list(accumulate((row_range.rows for row_range in row_ranges), initial=0))).tolist()
    return [end - begin for begin, end in pairwise(ends)]
