"""Gauges: the newest value wins."""

from __future__ import annotations

import numpy as np
from tests.unit.aggregator.nodes.leaf_and_root import gauge

from telemetry.aggregator.gauges import GaugeTable


def _table(gauges: int = 2) -> GaugeTable:
    table = GaugeTable()
    for number in range(gauges):
        assert table.add(f"g{number}", {}, "ms") == number
    return table


def _record(table: GaugeTable, *events: tuple[int, float, int]) -> None:
    index, value, time_ns = zip(*events, strict=True)
    table.record(np.array(index, np.intp), np.array(value, np.float64), np.array(time_ns, np.int64))


def test_a_gauge_never_set_has_no_value() -> None:
    """A gauge that was never set has neither value nor extremes, instead of a zero that nobody sent."""
    stat = _table().stats()[1]
    assert (stat.value, stat.min, stat.max, stat.events) == (None, None, None, 0)


def test_the_newest_by_time_wins_whatever_the_order() -> None:
    """An older value changes the extremes of a gauge but not its value.

    This holds within a call and across calls.
    """
    table = _table()
    _record(table, (0, 5, 200), (1, 1.5, 10), (0, -7, 100))
    _record(table, (0, 99, 150))
    stats = table.stats()
    assert (stats[0].value, stats[0].min, stats[0].max, stats[0].events) == (5, -7, 99, 3)
    assert (stats[0].time_ns, stats[1].value) == (200, 1.5)


def test_of_equal_times_the_later_one_wins() -> None:
    """A clock too coarse to tell two values apart keeps their order."""
    table = _table()
    _record(table, (0, 1, 100), (0, 2, 100))
    assert table.stats()[0].value == 2
    _record(table, *[(0, value, 100 - value % 2) for value in range(1, 2_000)])
    assert table.stats()[0].value == 1_998


def test_an_interval_has_the_gauges_that_were_set_in_it() -> None:
    """The value at the interval's end, by ascending index; quiet gauges are absent."""
    table = _table(3)
    _record(table, (2, 1, 5), (0, 4, 5), (2, 8, 6))
    columns = table.roll()
    assert np.frombuffer(columns.index, "<u4").tolist() == [0, 2]
    assert np.frombuffer(columns.value, "<f8").tolist() == [4.0, 8.0]
    assert table.roll().index == b""
    assert len(table) == 3


def test_times_are_shown_as_the_wall_clock_tells_them() -> None:
    """The clock of the run has a shift to it; a gauge never set has no time."""
    table = _table()
    _record(table, (0, 1, 5_000))
    assert [stat.time_ns for stat in table.stats(-1_000)] == [4_000, 0]


def test_values_that_were_rounded_are_counted() -> None:
    """A gauge counts values that were rounded: those from 2**53 on, on either side of zero.

    Older values count too, not only the newest.
    """
    table = _table(3)
    _record(table, (0, 2.0**53, 5), (0, -(2.0**60), 3), (0, 1.0, 9), (1, 2.0**53 - 1, 5), (2, 0.1, 5))
    assert [stat.imprecise for stat in table.stats()] == [2, 0, 0]


def test_added_values_are_like_recorded_ones() -> None:
    """The newest wins, of equal times the later call; extremes and events add up."""
    table = _table(1)
    _record(table, (0, 5, 200))
    table.add_sums(gauge(0, 9.0, 199, 2.0, 30.0))
    assert (table.stats()[0].value, table.stats()[0].min, table.stats()[0].max) == (5, 2, 30)
    table.add_sums(gauge(0, 4.0, 200, 4.0, 4.0))
    assert (table.stats()[0].value, table.stats()[0].events) == (4, 3)
    assert np.frombuffer(table.roll().value, "<f8").tolist() == [4.0]
