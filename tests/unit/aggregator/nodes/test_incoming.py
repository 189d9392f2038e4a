"""Intervals of leaves in the tables of the root."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.unit.aggregator.nodes.leaf_and_root import (
    SECOND,
    Leaf,
    Root,
    counter,
    extent,
    gauge,
    series,
)

from telemetry import limits
from telemetry.aggregator import Aggregator
from telemetry.aggregator.nodes import incoming
from telemetry.aggregator.nodes.columns import (
    read_counters,
    write_counters,
    write_extents,
    write_gauges,
    write_series,
)
from telemetry.aggregator.nodes.interval_sums import join_counters
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.events import Define
from telemetry.wire.nodes import CounterSums, GaugeSums, NodeInterval, SeriesSums

TIME = Define(0, "time", "series", "ns")
DONE = Define(1, "done", "counter")
DEPTH = Define(2, "depth", "gauge")
DEFINITIONS = (TIME, DONE, DEPTH)
LINE = series(0, [100.0, 200.0], [100, 200], [1, 1])


def interval(**columns: Any) -> NodeInterval:
    return NodeInterval(0, WALL_NS, WALL_NS + SECOND, **columns)


def test_the_sums_of_a_leaf_are_the_roots() -> None:
    """Series, counters and gauges, in the snapshot and in the history."""
    leaf, root = Leaf(*DEFINITIONS), Root()
    leaf.record((0, 100.0), (0, 300.0), (1, 2.0), (2, 7.0))
    assert root.add(leaf.take()) == 4
    shown = root.snapshot()
    assert (shown.series[0].count, shown.series[0].total, shown.series[0].stddev) == (2, 400, 100.0)
    assert (shown.counters[0].value, shown.counters[0].events) == (2, 1)
    assert (shown.gauges[0].value, shown.gauges[0].time_ns) == (7, WALL_NS + 3_000_000)
    rolled = root.aggregator.roll(WALL_NS, WALL_NS + SECOND, SECOND)
    assert np.frombuffer(rolled.series.count, "<u8").tolist() == [2]
    assert np.frombuffer(rolled.counters.value, "<f8").tolist() == [2.0]
    assert np.frombuffer(rolled.gauges.value, "<f8").tolist() == [7.0]
    assert root.snapshot().series[0].window.count == 2


def test_values_of_leaves_and_of_producers_add_up() -> None:
    """Values of leaves and of producers add up in either order, with the spread of all of them."""
    leaf, root = Leaf(*DEFINITIONS), Root("l")
    leaf.record((0, 100.0), (0, 300.0), (1, 2.0))
    direct = batch("p", records=DEFINITIONS, rows=[(0, MONO_NS, 500.0), (1, MONO_NS, 0.5)])
    root.aggregator.admit(direct, MONO_NS)
    root.aggregator.apply([direct], MONO_NS, WALL_NS)
    root.add(leaf.take())
    direct = batch("p", 1, 2, rows=[(0, MONO_NS, 700.0)])
    root.aggregator.admit(direct, MONO_NS)
    root.aggregator.apply([direct], MONO_NS, WALL_NS)
    shown = root.snapshot()
    assert (shown.series[0].count, shown.series[0].total, shown.series[0].max) == (4, 1_600, 700)
    assert shown.series[0].stddev == pytest.approx(np.std([100, 300, 500, 700]), rel=1e-14)
    assert shown.counters[0].value == 2.5


def test_a_middle_level_hands_on_what_it_gets() -> None:
    """A leaf whose producers are leaves: its own interval has their sums."""
    bottom, middle, top = Leaf(*DEFINITIONS), Root(is_leaf=True), Root()
    bottom.record((0, 100.0), (0, 300.1), (1, 2.0), (1, 0.5), (2, 7.0))
    middle.add(bottom.take())
    middle.aggregator.roll(WALL_NS, WALL_NS + SECOND, SECOND)
    handed_on = middle.aggregator.leaf.take_interval()
    assert handed_on is not None
    assert top.add(handed_on) == 5
    for one, other in zip(top.snapshot().series, middle.snapshot().series, strict=True):
        for word in ("count", "total", "min", "max", "stddev", "percentiles"):
            assert getattr(one, word) == getattr(other, word), word
    assert [one.value for one in top.snapshot().counters] == [2.5]
    assert [one.value for one in top.snapshot().gauges] == [7]


def test_several_instruments_beyond_the_cap_share_the_overflow_instrument() -> None:
    """The lines of several instruments beyond the cap are added up first. The sum is in the overflow instrument."""
    leaf = Leaf(*(Define(number, f"s{number}", "series", "1") for number in range(4)), Define(9, "c", "counter"))
    leaf.record(*((number, 10.0 + number) for number in range(4)), (9, 1.0))
    root = Root(cap=1)
    assert root.add(leaf.take()) == 5
    stats = {stat.name: stat for stat in root.snapshot().series}
    assert (stats["s0"].count, stats["overflow"].count) == (1, 3)
    assert (stats["overflow"].total, stats["overflow"].min, stats["overflow"].max) == (36, 11, 13)


def test_an_overflow_instrument_of_a_leaf_is_the_roots_own() -> None:
    """The overflow instrument of a leaf is the root's own one, whatever the root's cap is."""
    leaf = Leaf(*(Define(number, f"s{number}", "series") for number in range(3)), cap=1)
    leaf.record((0, 1.0), (1, 2.0), (2, 3.0))
    root = Root()
    root.add(leaf.take())
    assert {stat.name: stat.count for stat in root.snapshot().series} == {"s0": 1, "overflow": 2}


def test_an_instrument_that_conflicts_is_left_out() -> None:
    """The rest of the interval is added; the values left out are missing in the account of the node."""
    leaf, root = Leaf(*DEFINITIONS), Root("l", "k")
    root.send(Define(0, "time", "counter"), leaf="k")
    leaf.record((0, 1.0), (0, 2.0), (1, 5.0))
    taken = leaf.take()
    assert root.add(taken) == 1
    assert taken.values == 3
    assert root.dropped() == {}


def test_times_of_a_leaf_move_to_the_roots_clock() -> None:
    """A wall clock that is wrong by an hour changes nothing, and no time is in the future."""
    root = Root()
    hour = 3_600 * SECOND
    sent = batch(
        "l",
        records=[DEPTH, interval(gauges=write_gauges(gauge(2, 5.0, WALL_NS + hour, 5.0, 5.0)))],
        anchor=(MONO_NS, WALL_NS + hour),
    )
    root.aggregator.admit(sent, MONO_NS)
    root.aggregator.apply([sent], MONO_NS, WALL_NS)
    assert root.snapshot().gauges[0].time_ns == WALL_NS
    late = gauge(2, 6.0, WALL_NS + 3 * hour, 5.0, 6.0)
    sent = batch("l", 1, 1, records=[interval(gauges=write_gauges(late))], anchor=(MONO_NS, WALL_NS + hour))
    root.aggregator.admit(sent, MONO_NS)
    root.aggregator.apply([sent], MONO_NS, WALL_NS)
    assert (root.snapshot().gauges[0].time_ns, root.snapshot().gauges[0].value) == (WALL_NS, 6)


def test_the_time_of_instruments_is_that_of_all_nodes() -> None:
    """The time of an instrument goes from the first event to the last on all nodes.

    A leaf without these times makes the beginning unknown.
    """
    leaf, other, root = Leaf(*DEFINITIONS), Leaf(*DEFINITIONS), Root("l", "m")
    leaf.record((1, 1.0), (0, 2_000_000.0), (1, 1.0))
    root.add(leaf.take())
    shown = root.snapshot()
    assert [(shown.series[0].began_ns, shown.series[0].ended_ns)] == [(WALL_NS - 1_000_000, WALL_NS + 1_000_000)]
    assert [(shown.counters[0].began_ns, shown.counters[0].ended_ns)] == [
        (WALL_NS - 2_000_000, WALL_NS + 2_000_000)
    ]
    other.record((1, 1.0), (1, 1.0), at_ns=6_000_000)
    root.add(other.take(), "m")
    shown = root.snapshot()
    step_ns = 7_000_000 // 3
    assert [(shown.counters[0].began_ns, shown.counters[0].ended_ns)] == [(WALL_NS - step_ns, WALL_NS + 7_000_000)]
    leaf.record((1, 1.0))
    taken = leaf.take()
    old = replace(taken, counters=replace(taken.counters, first_ns=b"", last_ns=b""))
    root.add(old)
    assert root.snapshot().counters[0].began_ns == 0


@pytest.mark.parametrize("times", [(WALL_NS, WALL_NS - 1), (-1, WALL_NS)])
def test_impossible_times_are_refused(times: tuple[int, int]) -> None:
    """An end before its beginning, or a time before all times."""
    root = Root()
    first, last = (np.array([at_ns]) for at_ns in times)
    line = write_counters(dataclasses.replace(counter(1, 1, 1), first_ns=first, last_ns=last))
    root.send(*DEFINITIONS, interval(counters=line))
    assert root.dropped() == {"malformed_record": 1}
    assert root.snapshot().counters[0].value == 0


def test_an_older_value_of_a_gauge_changes_only_the_extremes() -> None:
    """An older value of a gauge changes only the extremes, as rows of several producers do."""
    root = Root("a", "b")
    root.send(DEPTH, interval(gauges=write_gauges(gauge(2, 5.0, WALL_NS + 9, 5.0, 5.0))), leaf="a")
    root.send(DEPTH, interval(gauges=write_gauges(gauge(2, 1.0, WALL_NS + 3, 0.5, 8.0))), leaf="b")
    shown = root.snapshot().gauges[0]
    assert (shown.value, shown.min, shown.max, shown.events) == (5, 0.5, 8, 2)


# --- extents -------------------------------------------------------------------------------------


def test_extents_of_nodes_are_joined() -> None:
    """First is the earliest, the others are of the latest beginning, and inside adds up."""
    within = (Define(0, "time", "series", "ns"), Define(1, "done", "counter", within="time"))
    root = Root("a", "b")
    base = WALL_NS + SECOND
    for leaf, times, inside, total in (
        ("a", (base, base + 50, base + 60, base + 90), 4, 8.0),
        ("b", (base - 9, base + 70, base + 75, base + 80), 3, 1.5),
    ):
        sums = write_extents(extent(1, times, inside, total))
        root.send(*within, interval(extents=sums, counters=write_counters(counter(1, 5, 9))), leaf=leaf)
    found = root.snapshot().counters[0].extent
    assert found is not None
    assert (found.first_ns, found.last_ns, found.last_done_ns, found.end_ns) == (
        *(base - 9, base + 70, base + 75, base + 90),
    )
    assert (found.inside, found.inside_total) == (7, 9.5)


def test_rows_of_the_roots_own_producers_keep_their_own_extent() -> None:
    """A later beginning on a node does not make them inside."""
    within = (Define(0, "time", "series", "ns", within="time"), Define(1, "done", "counter", within="time"))
    root = Root("a")
    rows = [(1, MONO_NS + 5, 3.0), (0, MONO_NS + 20, 10.0), (1, MONO_NS + 30, 4.0)]
    direct = batch("p", records=within, rows=rows)
    root.aggregator.admit(direct, MONO_NS + SECOND)
    root.aggregator.apply([direct], MONO_NS + SECOND, WALL_NS + SECOND)
    alone = root.snapshot().counters[0].extent
    later = write_extents(extent(1, (WALL_NS, WALL_NS + 500, WALL_NS + 600, WALL_NS + 700), 2, 20.0))
    root.send(*within, interval(extents=later), leaf="a")
    found = root.snapshot().counters[0].extent
    assert alone is not None
    assert found is not None
    assert (alone.inside, alone.inside_total) == (1, 3)
    assert (found.inside, found.inside_total, found.last_ns) == (3, 23, WALL_NS + 500)


# --- refused -------------------------------------------------------------------------------------


def changed(sums: Any, **columns: Any) -> Any:
    """The line with other values, each given as a list."""
    arrays = {name: np.array(column, getattr(sums, name).dtype) for name, column in columns.items()}
    return dataclasses.replace(sums, **arrays)


BAD_SERIES = {
    "a total that is no number": changed(LINE, total=[np.nan]),
    "a negative total": changed(LINE, total=[-1.0]),
    "a mean that is no number": changed(LINE, mean=[np.nan]),
    "a mean beyond the maximum": changed(LINE, mean=[300.0]),
    "an infinite maximum": changed(LINE, max=[np.inf]),
    "a negative minimum": changed(LINE, min=[-1.0]),
    "squares that are no number": changed(LINE, squares=[np.nan]),
    "an infinite rest": changed(LINE, rest=[np.inf]),
    "a count that is not that of the slots": changed(LINE, count=[3]),
    "a negative count": changed(LINE, count=[-2]),
    "no count": changed(LINE, count=[0], occupied=[0], slots=[], counts=[]),
    "more below than there are values": changed(LINE, below=[3]),
    "negative above": changed(LINE, above=[-1]),
    "too many imprecise ones": changed(LINE, imprecise=[5]),
    "a total that its values can't have": changed(LINE, total=[5_000.0]),
    "a total below that of its smallest values": changed(LINE, total=[150.0]),
    "more spread than its extremes": changed(LINE, squares=[20_001.0]),
    "a slot above its maximum": changed(LINE, slots=[100, 201]),
    "a slot below its minimum": changed(LINE, slots=[99, 200]),
    "a slot that does not exist": changed(LINE, slots=[100, 1 << 31]),
    "slots that do not ascend": changed(LINE, slots=[200, 100]),
    "a slot without a count": changed(LINE, counts=[2, 0]),
    "a line without slots": changed(LINE, occupied=[0]),
}


@pytest.mark.parametrize("sums", BAD_SERIES.values(), ids=BAD_SERIES)
def test_impossible_series_are_refused_as_a_whole(sums: Any) -> None:
    """The counters of the same record are not added either."""
    root = Root()
    root.send(*DEFINITIONS)
    bound = root.snapshot()
    root.send(interval(series=write_series(sums), counters=write_counters(counter(1, 1, 1))))
    after = root.snapshot()
    assert root.dropped() == {"malformed_record": 1}
    assert (root.values(), after.series, after.counters) == (0, bound.series, bound.counters)


BAD_COLUMNS = {
    "an odd number of bytes": interval(series=replace(write_series(LINE), id=b"\0\0\0")),
    "columns of different lengths": interval(series=replace(write_series(LINE), mean=b"")),
    "slots without counts": interval(series=replace(write_series(LINE), counts=b"")),
    "slots without a line": interval(series=SeriesSums(slots=bytes(4), counts=bytes(4))),
    "a flag of 2": interval(series=replace(write_series(LINE), integral=b"\2")),
    "counters of different lengths": interval(counters=CounterSums(id=bytes(4))),
    "a negative increment": interval(counters=write_counters(counter(1, 1, -1))),
    "an infinite increment": interval(counters=write_counters(counter(1, 1, 1, np.inf))),
    "a huge fraction of an integer": interval(counters=write_counters(counter(1, 1, 1, 0.5))),
    "a fraction that is no number": interval(counters=write_counters(counter(1, 1, 1, 0.0, np.nan))),
    "no event": interval(counters=write_counters(counter(1, 0, 1))),
    "a gauge beyond its maximum": interval(gauges=write_gauges(gauge(2, 9.0, 5, 1.0, 8.0))),
    "a gauge that is no number": interval(gauges=write_gauges(gauge(2, np.nan, 5, 1.0, 8.0))),
    "a gauge before all time": interval(gauges=write_gauges(gauge(2, 5.0, -5, 1.0, 8.0))),
    "gauges of different lengths": interval(gauges=GaugeSums(events=bytes(8))),
    "an extent that ends before it begins": interval(extents=write_extents(extent(1, (9, 8, 8, 8), 1, 1.0))),
    "an extent of a gauge": interval(extents=write_extents(extent(2, (1, 2, 3, 4), 1, 1.0))),
    "a sum inside that is no number": interval(extents=write_extents(extent(1, (1, 2, 3, 4), 1, np.nan))),
    "a series with the id of a counter": interval(series=write_series(changed(LINE, id=[1]))),
    "a counter with the id of a gauge": interval(counters=write_counters(counter(2, 1, 1))),
    "an id that no producer can have": interval(counters=write_counters(counter(limits.PRODUCER_IDS, 1, 1))),
    "an id twice": interval(counters=write_counters(counter(1, 1, 1).take([0, 0]))),
}


@pytest.mark.parametrize("record", BAD_COLUMNS.values(), ids=BAD_COLUMNS)
def test_impossible_columns_are_refused(record: NodeInterval) -> None:
    """An interval of impossible columns adds nothing, and its record is dropped by reason."""
    root = Root()
    root.send(*DEFINITIONS)
    bound = root.snapshot()
    root.send(record)
    after = root.snapshot()
    assert root.dropped() == {"malformed_record": 1}
    assert (root.values(), after.series, after.counters, after.gauges) == (
        *(0, bound.series, bound.counters, bound.gauges),
    )


def test_more_events_than_can_be_counted_are_refused() -> None:
    """A record with more events than can be counted is refused, so no column overflows."""
    root = Root()
    root.send(*DEFINITIONS)
    most = write_counters(counter(1, limits.EVENT_NUMBERS, 1))
    root.send(interval(counters=most))
    root.send(interval(counters=most))
    assert root.snapshot().counters[0].events == limits.EVENT_NUMBERS
    assert root.dropped() == {"malformed_record": 1}


# --- out of order --------------------------------------------------------------------------------


def test_an_interval_waits_for_the_batch_with_its_definitions() -> None:
    """Batches may overtake each other; all values are there in the end."""
    leaf, root = Leaf(*DEFINITIONS), Root()
    leaf.record((0, 100.0), (1, 2.0))
    first = leaf.take().records(0, WALL_NS, WALL_NS, 1 << 20)
    leaf.record((0, 300.0))
    second = leaf.take().records(1, WALL_NS, WALL_NS, 1 << 20)
    root.send(*second, at=1)
    assert (root.values(), root.dropped()) == (0, {})
    root.send(*first, at=0)
    assert (root.values(), root.dropped()) == (3, {})
    assert (root.snapshot().series[0].count, root.snapshot().series[0].total) == (2, 400)


def test_a_restored_root_still_has_what_is_waiting() -> None:
    """A restored root still has the waiting intervals.

    The root's journal may have been cut before the batch with the definitions.
    """
    leaf, root = Leaf(*DEFINITIONS), Root()
    leaf.record((0, 100.0))
    first = leaf.take().records(0, WALL_NS, WALL_NS, 1 << 20)
    leaf.record((0, 300.0))
    root.send(*leaf.take().records(1, WALL_NS, WALL_NS, 1 << 20), at=1)
    root.aggregator = Aggregator.restore(root.aggregator.checkpoint())
    root.send(*first, at=0)
    assert root.values() == 2


def test_waiting_intervals_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interval that does not fit among the waiting ones is dropped, and its values are missing."""
    one = interval(counters=write_counters(counter(1, 1, 1)))
    monkeypatch.setattr(limits, "NODE_WAITING_BYTES", 8 * 600)
    root = Root()
    for number in range(1, 6):
        root.send(one, at=number)
    assert root.dropped() == {"malformed_record": 3}
    root.send(*DEFINITIONS, one, at=0)
    assert root.values() == 3


def test_waiting_intervals_are_read_again_only_for_a_definition_that_they_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Waiting intervals are read again only for a definition that they need.

    Else a leaf that sends thousands of them and many other records would keep the root busy for hours.
    """
    root = Root()
    looked_up: list[Any] = []
    for number in (1, 4, 7):
        root.send(interval(counters=write_counters(counter(number, 1, 1))), at=number + 1)
    monkeypatch.setattr(incoming, "read_counters", lambda sums: looked_up.append(sums) or read_counters(sums))
    root.send(*[interval()] * 3, at=20)
    root.send(replace(DONE, id=10), at=21)
    assert looked_up == []
    root.send(replace(DONE, id=4), interval(), at=22)
    assert len(looked_up) == 1
    assert root.values() == 1
    root.send(replace(DONE, id=1), replace(DONE, id=7), at=23)
    assert root.values() == 3


def test_an_interval_waits_for_all_of_its_definitions() -> None:
    """One after the other."""
    both = write_counters(join_counters([counter(4, 1, 1), counter(7, 2, 2)]))
    root = Root()
    root.send(interval(counters=both), at=1)
    root.send(replace(DONE, id=4), at=2)
    assert root.values() == 0
    root.aggregator = Aggregator.restore(root.aggregator.checkpoint())
    root.send(replace(DONE, id=7, name="other"), at=3)
    assert root.values() == 3


def test_counts_whose_sum_overflows_are_refused() -> None:
    """Each of them alone would be possible."""
    lines = [counter(3 * number + 1, 1 << 53, 0) for number in range(1_024)]
    root = Root()
    root.send(*(replace(DONE, id=3 * number + 1, name=f"c{number}") for number in range(1_024)))
    root.send(interval(counters=write_counters(join_counters(lines))))
    assert (root.values(), root.dropped()) == (0, {"malformed_record": 1})


def test_fractions_that_no_increments_have_are_refused() -> None:
    """Sums of them would be infinite, then no number at all."""
    root = Root()
    huge = interval(counters=write_counters(counter(1, 1, 0, fraction=1.7e308)))
    root.send(DONE, huge, huge)
    assert (root.values(), root.dropped()) == (0, {"malformed_record": 2})
    root.send(interval(counters=write_counters(counter(1, 2, 0, fraction=2.0**54))))
    assert root.values() == 2
