"""Rows of several batches side by side, so that a column is touched once for all of them.

Times are on the run's clock, see `telemetry.aggregator.run_clock`; it is called wall here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.producers.book import Producer
from telemetry.aggregator.routes import Routes
from telemetry.aggregator.rows import Rows

_MAX_TIME = np.int64((1 << 63) - 1)
RUN_TIMES = (0, 0)
"""The anchor of rows whose times are on the run's clock already."""


class RowRange(NamedTuple):
    """Neighbouring rows of one producer with one anchor."""

    producer: Producer
    anchor: tuple[int, int]
    rows: int


class BatchGroup:
    """Columns of equal length, cut into lots. Ids are needed only while routes may be UNKNOWN."""

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
        """The lot each row belongs to."""
        return np.repeat(np.arange(len(self.row_ranges)), [row_range.rows for row_range in self.row_ranges])

    def note_lag(self, now_ns: int) -> None:
        """Tells each producer how old its newest event was on arrival."""
        end = 0
        for row_range in self.row_ranges:
            end += row_range.rows
            wall = wall_ns(self.rows.times.item(end - 1), row_range.anchor, now_ns)
            row_range.producer.lag_s = max(0, now_ns - wall) / 1e9
            row_range.producer.heard_event(wall, now_ns)

    def wall_times(self, at: NDArray[np.intp] | slice, now_ns: int) -> NDArray[np.int64]:
        """The run's clock at these rows. Time 0 is when the batch was made; no event comes from later than now, so
        that a clock that runs ahead can't hold a gauge for ever."""
        anchors = [row_range.anchor for row_range in self.row_ranges]
        offset, made = np.array([(wall - clock, wall or now_ns) for clock, wall in anchors]).T
        if len(self.row_ranges) > 1:
            row_range = self.owners()[at]
            offset, made = offset[row_range], made[row_range]
        return wall_times_of(self.rows.times[at], offset, made, now_ns)


class KindRows(NamedTuple):
    """Rows of a group that are of one kind."""

    indices: NDArray[np.intp]
    """Of their instruments."""
    values: NDArray[np.float64]
    group: BatchGroup
    at: NDArray[np.intp] | None
    """Which of the group's rows they are; None: all."""
    now_ns: int
    """The run's clock."""

    def wall_times(self) -> NDArray[np.int64]:
        """The run's clock at each; most kinds need it of none."""
        return self.group.wall_times(slice(None) if self.at is None else self.at, self.now_ns)

    def rows(self, some: NDArray[np.intp]) -> NDArray[np.intp]:
        """Which of the group's rows some of them are."""
        return some if self.at is None else self.at.take(some)


def wall_times_of(
    times: NDArray[np.uint64],
    offset: NDArray[np.int64],
    made: NDArray[np.int64],
    now_ns: int | NDArray[np.int64],
) -> NDArray[np.int64]:
    """The run's clock at times of producers whose clocks are `offset` behind it, in batches `made` then."""
    mono = np.minimum(times, np.uint64(_MAX_TIME)).astype(np.int64)
    wall = mono + np.minimum(offset, _MAX_TIME - mono)
    return np.minimum(np.where(mono == 0, made, np.maximum(wall, 0)), now_ns)


def wall_ns(time_ns: int, anchor: tuple[int, int], now_ns: int) -> int:
    """The same for one time of a record, but for the future: a mark may lie ahead."""
    if time_ns == 0:
        return anchor[1] or now_ns
    return min(max(0, time_ns - anchor[0] + anchor[1]), int(_MAX_TIME))
