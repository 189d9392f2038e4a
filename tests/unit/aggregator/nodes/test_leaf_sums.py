"""Sums of an interval of a leaf."""

from __future__ import annotations

import pytest
from tests.unit.aggregator.nodes.leaf_and_root import SECOND, Leaf, aggregator

from telemetry.aggregator import Aggregator
from telemetry.aggregator.nodes.columns import read_counters, read_extents, read_gauges, read_series
from telemetry.testing.builders import WALL_NS
from telemetry.wire.events import Define


def test_an_aggregator_that_is_no_leaf_has_no_interval() -> None:
    """A root, or the only aggregator of a run, sends nothing."""
    one = aggregator()
    one.roll(WALL_NS, WALL_NS + SECOND, SECOND)
    assert one.leaf.take_interval() is None


def test_an_interval_is_taken_once() -> None:
    """The second call has nothing to return."""
    leaf = Leaf()
    leaf.take()
    assert leaf.aggregator.leaf.take_interval() is None


def test_new_instruments_are_defined_once_by_index_and_kind() -> None:
    """The id is three times the index, plus the kind; digits are those that the series got."""
    leaf = Leaf(
        Define(9, "time", "series", "ns", {"k": "1"}, 2, 5.0, 1e6),
        Define(5, "done", "counter", "tokens"),
        Define(1, "depth", "gauge"),
        Define(2, "other", "series"),
    )
    assert sorted(leaf.take().defines, key=lambda define: define.id) == [
        Define(0, "time", "series", "ns", {"k": "1"}, 2, 5.0, 1e6),
        Define(1, "done", "counter", "tokens"),
        Define(2, "depth", "gauge"),
        Define(3, "other", "series"),
    ]
    leaf.define(Define(3, "later", "counter"))
    assert leaf.take().defines == [Define(4, "later", "counter")]
    assert leaf.take().defines == []


def test_instruments_beyond_the_cap_are_the_overflow_instrument() -> None:
    """The overflow instrument for those beyond the cap is defined like any other, by its name."""
    leaf = Leaf(*(Define(number, f"s{number}", "series") for number in range(3)), cap=2)
    leaf.record((2, 5.0))
    taken = leaf.take()
    assert taken.defines[-1] == Define(6, "overflow", "series")
    assert read_series(taken.series).id.tolist() == [6]


def test_an_instrument_that_becomes_a_follower_is_defined_again() -> None:
    """An instrument that becomes a follower is defined again.

    So the root learns the series that it is within, even if rows came first.
    """
    leaf = Leaf(Define(0, "time", "series", "ns"), Define(1, "done", "counter"))
    assert [define.within for define in leaf.take().defines] == ["", ""]
    leaf.define(Define(1, "done", "counter", within="time"))
    assert leaf.take().defines == [Define(1, "done", "counter", within="time")]
    assert leaf.take().defines == []


def test_moments_are_those_of_the_interval_alone() -> None:
    """The second interval has the mean and spread of its own few values, after a long first one."""
    leaf = Leaf(Define(0, "x", "series"))
    leaf.record(*[(0, 1e4 + 0.3)] * 1_000)
    leaf.take()
    leaf.record((0, 1.0), (0, 2.0), (0, 6.0))
    line = read_series(leaf.take().series)
    assert (line.count.item(), line.total.item(), line.rest.item()) == (3, 9.0, 0.0)
    assert line.mean.item() == pytest.approx(3.0, rel=1e-9)
    assert line.squares.item() == pytest.approx(14.0, rel=1e-6)
    assert (line.min.item(), line.max.item()) == (1.0, 6.0)
    assert not line.integral.item()  # the run so far has fractions


def test_a_series_without_values_has_no_line() -> None:
    """An idle second costs nothing."""
    leaf = Leaf(Define(0, "x", "series"), Define(1, "y", "series"))
    leaf.record((1, 2.0))
    assert read_series(leaf.take().series).id.tolist() == [3]
    assert leaf.take().series.id == b""


def test_values_outside_the_range_are_counted_by_interval() -> None:
    """Below, above and beyond 2**53."""
    leaf = Leaf(Define(0, "x", "series", low=1.0, high=100.0))
    leaf.record((0, 0.25), (0, 1e3), (0, 5.0))
    first = read_series(leaf.take().series)
    leaf.record((0, 2.0**60))
    second = read_series(leaf.take().series)
    assert [(line.below.item(), line.above.item(), line.imprecise.item()) for line in (first, second)] == [
        (1, 1, 0),
        (0, 1, 1),
    ]


def test_sums_that_overflow_can_be_sent() -> None:
    """Sums that overflow are infinite, never NaN, and the mean lies between the extremes."""
    leaf = Leaf(Define(0, "x", "series"))
    leaf.record((0, 1.7e308), (0, 1.7e308), (0, 1.0))
    line = read_series(leaf.take().series)
    assert line.total.item() == line.squares.item() == float("inf")
    assert line.min.item() <= line.mean.item() <= line.max.item()


def test_counters_send_their_exact_increase() -> None:
    """Integers and fractions apart; an increment of zero counts as an event."""
    leaf = Leaf(Define(0, "n", "counter"), Define(1, "idle", "counter"))
    leaf.record((0, 2.0**52), (0, 0.1))
    leaf.take()
    leaf.record((0, 3.0), (0, 0.0), (0, 0.25), (0, 0.5))
    line = read_counters(leaf.take().counters)
    assert (line.id.tolist(), line.events.tolist(), line.whole.tolist()) == ([1], [4], [3])
    assert (line.huge.item(), line.fraction.item(), line.fractional.item()) == (0.0, 0.75, True)


def test_totals_beyond_64_bits_are_sent_in_two_columns() -> None:
    """A total beyond 64 bits is sent in two columns.

    The rest that fits into neither goes with the next interval.
    """
    leaf = Leaf(Define(0, "n", "counter"))
    sent = 0
    for value in (2.0**80 + 2.0**40, 2.0**1023, 1.0, 5.0):
        leaf.record((0, value), (0, 1.0))
        sent += sum(read_counters(leaf.take().counters).integers())
    exact = 2**80 + 2**40 + 2**1023 + 1 + 5 + 4
    assert abs(exact - sent) < 2**62
    leaf.record((0, 0.0))
    assert sent + sum(read_counters(leaf.take().counters).integers()) == exact


def test_gauges_send_extremes_of_the_run_and_the_wall_clock() -> None:
    """Gauges that were set in the interval send extremes of the run and the wall clock.

    Other gauges send nothing.
    """
    leaf = Leaf(Define(0, "g", "gauge"), Define(1, "idle", "gauge"))
    leaf.record((0, 9.0), (0, -5.0))
    leaf.take()
    leaf.record((0, 1.0), at_ns=SECOND)
    line = read_gauges(leaf.take().gauges)
    assert (line.id.tolist(), line.events.tolist(), line.value.tolist()) == ([2], [1], [1.0])
    assert (line.min.item(), line.max.item(), line.time_ns.item()) == (-5.0, 9.0, WALL_NS + SECOND)


def test_extents_are_sent_when_they_change() -> None:
    """Times as they are, rows inside as increase."""
    leaf = Leaf(Define(0, "time", "series", "ns", within="time"), Define(1, "n", "counter", within="time"))
    leaf.record((1, 2.0), (0, 500_000.0))
    first = read_extents(leaf.take().extents)
    assert first.id.tolist() == [0, 1]
    assert first.first_ns.tolist() == [WALL_NS + 500_000] * 2
    assert (first.inside.tolist(), first.inside_total.tolist()) == ([0, 1], [0.0, 2.0])
    assert leaf.take().extents.id == b""
    leaf.record((1, 4.0), at_ns=1_000)
    later = read_extents(leaf.take().extents)
    assert (later.id.tolist(), later.inside.tolist(), later.inside_total.tolist()) == ([1], [1], [4.0])


def test_values_count_all_kinds_and_all_intervals() -> None:
    """The root compares this number with what it has added."""
    leaf = Leaf(Define(0, "x", "series"), Define(1, "n", "counter"), Define(2, "g", "gauge"))
    leaf.record((0, 1.0), (0, 2.0), (1, 1.0), (2, 3.0))
    assert leaf.take().values == 4
    leaf.record((0, 1.0))
    assert leaf.take().values == 5


def test_a_restored_leaf_sends_the_same_next_interval() -> None:
    """Definitions are not repeated, and sums begin where the last interval ended."""
    leaf = Leaf(Define(0, "x", "series"), Define(1, "n", "counter"), Define(2, "g", "gauge"))
    leaf.record((0, 0.1), (1, 2.0**70), (2, 3.0))
    leaf.take()
    leaf.record((0, 1 / 3), (1, 0.5), (2, 4.0))
    other = Leaf()
    other.aggregator = Aggregator.restore(leaf.aggregator.checkpoint())
    assert other.take() == leaf.take()


def test_a_checkpoint_of_instruments_that_do_not_exist_is_refused() -> None:
    """Sums sent so far belong to instruments."""
    leaf = Leaf(Define(0, "n", "counter"))
    sums = leaf.aggregator._leaf_sums
    sums._defined["counter"] = 2
    with pytest.raises(ValueError, match="do not exist"):
        sums.restored()
