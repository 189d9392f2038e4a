"""Counters: exact integers, compensated fractions, rates."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from tests.unit.aggregator.nodes.leaf_and_root import counter

from telemetry import limits
from telemetry.aggregator.counters import CounterTable


def _table(counters: int = 1, window_rolls: int = 3) -> CounterTable:
    table = CounterTable(window_rolls)
    for number in range(counters):
        assert table.add(f"c{number}", {"n": str(number)}, "ops") == number
    return table


def _record(table: CounterTable, *events: tuple[int, float]) -> None:
    index, value = zip(*events, strict=True)
    table.record(np.array(index, np.intp), np.array(value, np.float64))


def test_integers_add_up_exactly_and_stay_integers() -> None:
    """Increments of several counters in one call, in any order."""
    table = _table(3)
    _record(table, (0, 1), (2, 5), (0, 2), (2, 0))
    assert [table.value(i) for i in range(3)] == [3, 0, 5]
    assert all(isinstance(table.value(i), int) for i in range(3))
    assert [stat.events for stat in table.stats()] == [2, 0, 2]


def test_large_integers_are_exact_beyond_float_precision() -> None:
    """Sums that float64 can't hold, from few large or many increments, are right to the last digit."""
    table = _table()
    _record(table, *[(0, 2.0**53)] * 3, (0, 1), (0, 2.0**60))
    assert table.value(0) == 3 * 2**53 + 1 + 2**60
    many = _table()
    count = limits.CHUNK_EVENTS * 3
    many.record(np.zeros(count, np.intp), np.full(count, 2.0**38 + 1))
    assert many.value(0) == count * (2**38 + 1)


def test_a_total_beyond_int64_neither_wraps_nor_breaks_the_wire() -> None:
    """The total goes on as an exact integer inside and is shown as a float."""
    table = _table()
    _record(table, *[(0, 2.0**62)] * 5)
    value = table.value(0)
    assert value == 5 * 2.0**62
    assert isinstance(value, float)
    _record(table, *[(0, sys.float_info.max)] * 4)
    assert table.value(0) == sys.float_info.max
    table.roll(1.0)
    assert math.isfinite(table.stats()[0].rate)


def test_int64_spills_before_it_overflows() -> None:
    """Many chunks of the largest small increments pass 2**63 and stay exact inside."""
    table = _table()
    step = 2**38 - 1
    chunk = np.full(limits.CHUNK_EVENTS, float(step))
    index = np.zeros(limits.CHUNK_EVENTS, np.intp)
    rounds = 2**63 // (step * limits.CHUNK_EVENTS) + 5
    for _ in range(rounds):
        table.record(index, chunk)
    assert table.value(0) == float(rounds * limits.CHUNK_EVENTS * step)


def test_fractions_are_compensated() -> None:
    """A million tenths after a huge number come out as `math.fsum` has them."""
    table = _table(2)
    count = 200_000
    values = np.full(count, 0.1)
    values[0] = 1e9 + 0.5
    table.record(np.zeros(count, np.intp), values)
    assert table.value(0) == pytest.approx(math.fsum(values), rel=1e-15)
    assert isinstance(table.value(0), float)
    _record(table, (1, 0.5), (1, 3), (1, 0.25))
    assert table.value(1) == 3.75


def test_the_smallest_fractions_there_are_add_up() -> None:
    """Splitting them into a coarse and a fine part has a limit."""
    table = _table()
    _record(table, *[(0, 5e-324)] * 3, (0, 1e-315))
    assert table.value(0) == 3 * 5e-324 + 1e-315


def test_a_roll_tells_the_increase_and_starts_anew() -> None:
    """A roll has only counters that moved in the interval, by ascending index."""
    table = _table(3)
    _record(table, (2, 4), (0, 1), (2, 1))
    columns = table.roll(1.0)
    assert np.frombuffer(columns.index, "<u4").tolist() == [0, 2]
    assert np.frombuffer(columns.value, "<f8").tolist() == [1.0, 5.0]
    assert table.roll(1.0).index == b""


def test_rates_cover_the_window_only() -> None:
    """The rate is the increase over the last rolls by their length, and forgets what leaves the window."""
    table = _table(1, window_rolls=2)
    assert table.stats()[0].rate == 0.0
    _record(table, (0, 10))
    table.roll(1.0)
    assert table.stats()[0].rate == 10.0
    table.roll(1.0)
    assert table.stats()[0].rate == 5.0
    table.roll(1.0)
    assert table.stats()[0].rate == 0.0
    assert table.value(0) == 10


def test_counters_may_come_at_any_time() -> None:
    """One added after rolls has a rate and a total like the others."""
    table = _table(1)
    _record(table, (0, 3))
    table.roll(1.0)
    late = table.add("late", {}, "")
    assert table.stats()[late].rate == 0.0
    _record(table, (late, 8))
    table.roll(1.0)
    assert table.stats()[late].rate == 4.0
    assert len(table) == 2


def test_increments_that_were_rounded_are_counted() -> None:
    """Increments from 2**53 on are counted as rounded, since the float may stand for another integer.

    Totals of smaller ones stay whole.
    """
    table = _table(3)
    _record(table, *[(0, 2.0**52 + 1)] * 4, (1, 2.0**53), (1, 1.0), (1, 1e300), (2, 0.5))
    stats = table.stats()
    assert [stat.imprecise for stat in stats] == [0, 2, 0]
    assert stats[0].value == 4 * (2**52 + 1)


def test_a_total_beyond_the_wire_is_no_whole_number_either() -> None:
    """A total beyond the wire is the nearest float, and counted as imprecise. So is a total with a fraction."""
    table = _table(2)
    _record(table, *[(0, 2.0**52)] * 2_048, *[(1, 2.0**52)] * 2, (1, 0.5))
    _record(table, (0, 1.0))
    stats = table.stats()
    assert isinstance(stats[0].value, float)
    assert [stat.imprecise for stat in stats] == [1, 1]


def test_added_sums_are_exact() -> None:
    """Small and huge integers, and fractions, beside recorded increments."""
    table = _table(3)
    _record(table, (0, 5), (2, 0.5))
    table.add_sums(counter(0, 2, 7))
    table.add_sums(counter(1, 1, (1 << 62) - 1, 2.0**90))
    table.add_sums(counter(1, 1, (1 << 62) - 1))
    table.add_sums(counter(2, 3, 4, 0.0, 0.25))
    assert (table.value(0), table.value(2)) == (12, 4.75)
    assert int(table._whole[1]) + table.beyond[1] == 2**90 + 2**63 - 2
    assert [stat.events for stat in table.stats()] == [3, 2, 4]
    increase = np.frombuffer(table.roll(1.0).value, "<f8")
    assert increase.tolist() == [12.0, 2.0**90 + 2.0**63, 4.75]


def test_only_a_leaf_sums_the_fractions_of_an_interval() -> None:
    """A leaf sums fractions from zero after each interval, those of its own leaves too.

    Other aggregators sum none.
    """
    for leaf, wanted in ((False, 0.0), (True, 1.0)):
        table = CounterTable(3, leaf=leaf)
        table.add("c", {}, "")
        _record(table, (0, 0.25))
        table.start_interval()
        _record(table, *[(0, 0.1)] * 9)
        table.add_sums(counter(0, 1, 0, 0.0, 0.1))
        assert table.totals().fraction.tolist() == pytest.approx([wanted], rel=1e-15)
