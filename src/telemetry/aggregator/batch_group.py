"""Rows of several batches side by side, so that a column is updated once for all of them.

Times are on the run's clock, see `telemetry.aggregator.run_clock`. This module calls it wall.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.routes import Routes
from telemetry.aggregator.rows import Rows

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
