"""The columns of an interval, and one series of them."""

from __future__ import annotations

import numpy as np

from telemetry.history.intervals.columns import Columns
from telemetry.wire.history import Interval, SeriesColumns


def test_one_series_is_picked_out_of_several() -> None:
    """Each series has its own figures and slots, whatever lies before and after it; what is not there is None."""
    series = SeriesColumns(
        index=np.array([1, 4, 9], "<u4").tobytes(),
        count=np.array([1, 5, 2], "<u8").tobytes(),
        total=np.array([1.0, 10.0, 6.0], "<f8").tobytes(),
        min=np.array([1.0, 1.5, 2.0], "<f8").tobytes(),
        max=np.array([1.0, 2.5, 4.0], "<f8").tobytes(),
        occupied=np.array([1, 2, 1], "<u4").tobytes(),
        slots=np.array([10, 15, 25, 30], "<u4").tobytes(),
        counts=np.array([1, 3, 2, 2], "<u4").tobytes(),
    )
    columns = Columns.of(Interval(0, 1, series))
    part = columns.pick(4)
    assert part is not None
    assert (part.count, part.total, part.min, part.max) == (5, 10.0, 1.5, 2.5)
    assert (part.slots.tolist(), part.counts.tolist()) == ([15, 25], [3, 2])
    assert [columns.pick(index) is None for index in (0, 1, 5, 9, 10)] == [True, False, True, False, True]


def test_an_interval_without_series_has_none() -> None:
    """An interval without series gives no column."""
    assert Columns.of(Interval(0, 1)).pick(0) is None
