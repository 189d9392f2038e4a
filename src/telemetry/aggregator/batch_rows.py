"""Rows of several batches together: side by side, collected until they are many, and as observers see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.rows import Routes, Rows
from telemetry.wire.events import Kind

_MAX_TIME = np.int64((1 << 63) - 1)
RUN_TIMES = (0, 0)
"""Anchor of rows whose times are already on the run's clock."""


class RowRange(NamedTuple):
    """Neighbouring rows of one producer with one anchor."""

    producer: Producer
    anchor: tuple[int, int]
    rows: int


class BatchGroup:
    """Columns of equal length, divided into row ranges. Ids are needed only while routes may be UNKNOWN."""

    __slots__ = ("routes", "row_ranges", "rows")

    def __init__(self, row_ranges: Sequence[RowRange], rows: Rows, routes: Routes | None = None) -> None:
        self.row_ranges = row_ranges
        self.rows = rows
        self.routes = self._look_up() if routes is None else routes

    def __len__(self) -> int:
        return len(self.rows.values)

    def _look_up(self) -> Routes:
        ids = self.rows.ids
        if len(self.row_ranges) == 1:
            return self.row_ranges[0].producer.ids.look_up(ids)
        start = 0
        pieces = []
        for row_range in self.row_ranges:
            pieces.append(row_range.producer.ids.look_up(ids[start : start + row_range.rows]))
            start += row_range.rows
        return np.concatenate(pieces)

    def owners(self) -> NDArray[np.intp]:
        """Return the index of the row range of each row."""
        return np.repeat(np.arange(len(self.row_ranges)), [row_range.rows for row_range in self.row_ranges])

    def note_lag(self, now_ns: int) -> None:
        """Update each producer with the age of its newest event on arrival."""
        end = 0
        for row_range in self.row_ranges:
            end += row_range.rows
            wall = wall_ns(self.rows.times.item(end - 1), row_range.anchor, now_ns)
            row_range.producer.heard_row(wall, now_ns)

    def wall_times(self, at: NDArray[np.intp] | slice, now_ns: int) -> NDArray[np.int64]:
        """Return the run's clock at these rows.

        Time 0 means the time when the batch was made. Times in the future are lowered to now. Otherwise a clock
        that runs ahead could hold a gauge forever.
        """
        anchors = [row_range.anchor for row_range in self.row_ranges]
        offset, batch_times = np.array([(wall - clock, wall or now_ns) for clock, wall in anchors]).T
        if len(self.row_ranges) > 1:
            row_range = self.owners()[at]
            offset, batch_times = offset[row_range], batch_times[row_range]
        return wall_times_of(self.rows.times[at], offset, batch_times, now_ns)


class KindRows(NamedTuple):
    """Rows of a group that have one kind."""

    indices: NDArray[np.intp]
    """Indices of their instruments."""
    values: NDArray[np.float64]
    group: BatchGroup
    at: NDArray[np.intp] | None
    """Positions of the rows in the group. None: all rows."""
    now_ns: int
    """Time now on the run's clock."""

    def wall_times(self) -> NDArray[np.int64]:
        """Return the run's clock at each row. Most kinds do not need it."""
        return self.group.wall_times(slice(None) if self.at is None else self.at, self.now_ns)

    def rows(self, some: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the positions of some rows in the group."""
        return some if self.at is None else self.at.take(some)


def wall_times_of(
    times: NDArray[np.uint64],
    offset: NDArray[np.int64],
    batch_times: NDArray[np.int64],
    now_ns: int | NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the run's clock at times of producers.

    `offset` is the difference from the producers' clocks to the run's clock, `batch_times` the time when each
    batch was created.
    """
    mono = np.minimum(times, np.uint64(_MAX_TIME)).astype(np.int64)
    wall = mono + np.minimum(offset, _MAX_TIME - mono)
    return np.minimum(np.where(mono == 0, batch_times, np.maximum(wall, 0)), now_ns)


def wall_ns(time_ns: int, anchor: tuple[int, int], now_ns: int) -> int:
    """Return the run's clock at one time of a record. Unlike row times, it may be in the future, as for a mark."""
    if time_ns == 0:
        return anchor[1] or now_ns
    return min(max(0, time_ns - anchor[0] + anchor[1]), int(_MAX_TIME))


class ProducerFacts(NamedTuple):
    """The identity of a producer. All but the key is empty before its hello."""

    key: str
    name: str
    host: str
    pid: int
    rank: int | None


class AppliedRows(NamedTuple):
    """Values of one kind that were just applied. Valid during the call of the observer."""

    kind: Kind
    part: KindRows
    shift_ns: int
    """Total step of the wall clock since the run began."""

    @property
    def indices(self) -> NDArray[np.intp]:
        """Indices of the instruments, unique within the kind."""
        return self.part.indices

    @property
    def values(self) -> NDArray[np.float64]:
        return self.part.values

    def wall_times(self) -> NDArray[np.int64]:
        """Return the time of each value in Unix nanoseconds."""
        return self.part.wall_times() + self.shift_ns

    def producers(self) -> list[ProducerFacts]:
        """Return the producers that `owners` points to."""
        owners = (row_range.producer for row_range in self.part.group.row_ranges)
        return [
            ProducerFacts(producer.key, producer.name, producer.host, producer.pid, producer.rank)
            for producer in owners
        ]

    def owners(self) -> NDArray[np.intp]:
        """Return the position of each value's producer."""
        owners = self.part.group.owners()
        return owners if self.part.at is None else owners.take(self.part.at)


Observer = Callable[[AppliedRows], None]


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
