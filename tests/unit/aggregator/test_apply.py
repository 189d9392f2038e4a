"""Tests of the way from admitted batches to columns, through the whole aggregator."""

from __future__ import annotations

import math

import pytest
from msgspec import Raw

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.testing import batch, loose_rows, with_raw_rows
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.events import ClosedStep, Count, Define, EventBatch, Gauge, Mark, Sample, Scalars
from telemetry.wire.snapshot import MetricsSnapshot

T = MONO_NS
NOW = WALL_NS + 10**12
DEFINES = [
    Define(1, "latency", "series", "ns"),
    Define(2, "requests", "counter", "requests"),
    Define(3, "depth", "gauge", "items"),
]


def _aggregator() -> Aggregator:
    return Aggregator(AggregatorConfig())


def _feed(aggregator: Aggregator, *batches: EventBatch) -> MetricsSnapshot:
    admitted = [sent for sent in batches if aggregator.admit(sent, 0)]
    aggregator.apply(admitted, 0, NOW)
    return _snapshot(aggregator)


def _snapshot(aggregator: Aggregator) -> MetricsSnapshot:
    snapshot = aggregator.snapshot(SnapshotFacts(run_id="r", name="n", state="LIVE"), 0, NOW)
    account = snapshot.accounting
    assert account.received == account.applied + sum(account.dropped.values()) + account.waiting
    return snapshot


def test_rows_of_every_kind_in_one_batch() -> None:
    """Each goes to its instrument, in one pass."""
    rows = [(1, T, 5), (2, T, 2), (3, T + 1, 7), (1, T, 9), (2, T, 1), (3, T, -1)]
    snapshot = _feed(_aggregator(), batch(records=DEFINES, rows=rows))
    assert (snapshot.series[0].count, snapshot.series[0].max) == (2, 9)
    assert snapshot.counters[0].value == 3
    assert (snapshot.gauges[0].value, snapshot.gauges[0].min) == (7, -1)
    assert snapshot.accounting.applied == 6


@pytest.mark.parametrize("row_id", [1, 2, 3])
def test_a_batch_of_one_kind_takes_the_short_way(row_id: int) -> None:
    """A batch of one kind gives the same numbers as among others."""
    rows = [(row_id, T + n, n) for n in range(4)]
    snapshot = _feed(_aggregator(), batch(records=DEFINES, rows=rows))
    events = (snapshot.series[0].count, snapshot.counters[0].events, snapshot.gauges[0].events)
    assert events == tuple(4 if row_id == kind else 0 for kind in (1, 2, 3))
    assert snapshot.accounting.applied == 4


def test_bad_values_are_dropped_by_reason_and_their_neighbours_stay() -> None:
    """Bad values are dropped by reason: NaN, infinities, and negatives where a kind has none.

    The neighbours of bad values stay.
    """
    bad = [(1, T, math.nan), (1, T, math.inf), (1, T, -1), (2, T, -5), (2, T, math.nan), (3, T, -math.inf)]
    good = [(1, T, 4), (2, T, 3), (3, T, -2)]
    rows = [row for pair in zip(bad, good * 2, strict=True) for row in pair]
    snapshot = _feed(_aggregator(), batch(records=DEFINES, rows=rows))
    assert snapshot.accounting.dropped == {"negative": 2, "not_finite": 4}
    assert snapshot.accounting.applied == 6
    assert (snapshot.series[0].count, snapshot.counters[0].value, snapshot.gauges[0].value) == (2, 6, -2)


def test_drops_are_booked_to_the_producer_that_sent_them() -> None:
    """Although rows of several producers are applied as one."""
    batches = [
        batch(name, records=DEFINES, rows=[(1, T, 1), (1, T, value)])
        for name, value in (("a", 1), ("b", math.nan), ("c", -1))
    ]
    producers = _feed(_aggregator(), *batches).producers
    assert [producer.dropped for producer in producers] == [{}, {"not_finite": 1}, {"negative": 1}]
    assert [producer.applied for producer in producers] == [2, 1, 1]


def test_rows_wait_for_their_definition() -> None:
    """Rows are received before their definition, then applied with the time they had."""
    aggregator = _aggregator()
    waiting = _feed(aggregator, batch(seq=0, rows=[(1, T, 5), (3, T + 5, 8), (9, T, 1)]))
    assert (waiting.accounting.waiting, waiting.accounting.applied) == (3, 0)
    snapshot = _feed(aggregator, batch(seq=1, first=3, records=DEFINES, rows=[(3, T + 1, 4)]))
    assert (snapshot.accounting.waiting, snapshot.accounting.applied) == (1, 3)
    assert snapshot.series[0].count == 1
    assert (snapshot.gauges[0].value, snapshot.gauges[0].time_ns) == (8, WALL_NS + 5)


def test_waiting_rows_may_turn_out_to_be_bad() -> None:
    """The value of a waiting row is judged when its kind is known."""
    aggregator = _aggregator()
    _feed(aggregator, batch(seq=0, rows=[(1, T, math.nan), (2, T, -1), (3, T, -1)]))
    snapshot = _feed(aggregator, batch(seq=1, first=3, records=DEFINES))
    assert snapshot.accounting.dropped == {"negative": 1, "not_finite": 1}
    assert snapshot.accounting.applied == 1


def test_a_definition_later_in_the_same_call_is_early_enough() -> None:
    """Records of all batches come before rows of any."""
    rows = batch(seq=0, rows=[(1, T, 5)])
    snapshot = _feed(_aggregator(), rows, batch(seq=1, first=1, records=DEFINES))
    assert snapshot.accounting.applied == 1


def test_the_room_for_waiting_rows_is_bounded() -> None:
    """Rows beyond the room for waiting drop as unknown, and closing the books drops the rest."""
    aggregator = _aggregator()
    rows = [(1, T, 1)] * 16_000
    sent = [batch(seq=seq, first=seq * 16_000, rows=rows) for seq in range(13)]
    account = _feed(aggregator, *sent).accounting
    assert account.waiting == limits.UNKNOWN_ROWS
    assert account.dropped == {"unknown_id": 13 * 16_000 - limits.UNKNOWN_ROWS}
    aggregator.close()
    assert _snapshot(aggregator).accounting.dropped == {"unknown_id": 13 * 16_000}


def test_bad_ids_and_rows_that_are_none_are_malformed() -> None:
    """Negative, fractional, too large; no array, a piece of a row; all counted, none fatal."""
    aggregator = _aggregator()
    rows = [(1, T, 1), (-1, T, 1), (0.5, T, 1), (70_000, T, 1), (math.nan, T, 1), (1, T, 2)]
    snapshot = _feed(aggregator, batch(records=DEFINES, rows=rows))
    assert snapshot.accounting.dropped == {"malformed_rows": 4}
    assert snapshot.series[0].count == 2
    for seq, raw in enumerate([Raw(b"\xc0"), loose_rows([1, T]), loose_rows([1, T, 1, "x", T, 1])], 1):
        snapshot = _feed(aggregator, with_raw_rows(batch(seq=seq, first=9), raw))
    assert snapshot.accounting.dropped == {"malformed_rows": 7}
    assert snapshot.series[0].count == 3


def test_a_batch_that_only_looks_canonical_costs_only_itself() -> None:
    """A batch that only looks canonical costs only itself.

    The neighbours in its group are applied, and so are its own readable rows.
    """
    good = batch("a", records=DEFINES, rows=[(1, T, 1)] * 3)
    disguised = Raw(b"\x93\xcb" + bytes(8) + b"\xcf" + bytes(8) + b"\xa8" + b"not a 64")
    other = Raw(b"\x93" + b"\xcb\x3f\xf0" + bytes(6) + b"\xd3" + bytes(8) + b"\xcb" + bytes(8))
    last = batch("c", records=DEFINES, rows=[(1, T, 1)] * 2)
    snapshot = _feed(
        _aggregator(),
        good,
        with_raw_rows(batch("b"), disguised),
        with_raw_rows(batch("d", records=DEFINES), other),
        last,
    )
    assert snapshot.accounting.dropped == {"malformed_rows": 1}
    assert snapshot.series[0].count == 6


@pytest.mark.parametrize("time_mark", [b"\xcf", b"\xd3"], ids=["uint64", "int64"])
@pytest.mark.parametrize("row_id", [3, 3.0])
def test_batches_are_applied_in_order(row_id: float, time_mark: bytes) -> None:
    """Batches are applied in order, also if rows in the middle are not canonical.

    Such rows have the canonical size or another.
    """
    rows = Raw(bytes(loose_rows([row_id, T, 2.0])).replace(b"\xcf", time_mark))
    between, last = with_raw_rows(batch("a", 1, 1), rows), batch("a", 2, 2, rows=[(1, T, 1)])
    snapshot = _feed(_aggregator(), batch("a", records=DEFINES, rows=[(3, T, 1)]), between, last)
    assert [stat.value for stat in snapshot.gauges] == [2]


def test_small_integers_are_as_good_as_canonical_rows() -> None:
    """A producer in another language may send what its msgpack library makes of numbers."""
    sent = with_raw_rows(batch(records=DEFINES), loose_rows([1, 5, 7, 2, 5, 3, 3, 5, 2.5]))
    snapshot = _feed(_aggregator(), sent)
    assert (snapshot.series[0].max, snapshot.counters[0].value, snapshot.gauges[0].value) == (7, 3, 2.5)


def test_self_describing_events_meet_defined_ones() -> None:
    """Same name, labels and unit: one instrument; another kind: a conflict."""
    records = [
        *DEFINES,
        Sample("latency", 3.0, 0, "ns"),
        Count("requests", 2.0, 0, "requests"),
        Gauge("latency", 1.0),
    ]
    snapshot = _feed(_aggregator(), batch(records=records, rows=[(1, T, 5), (2, T, 1)]))
    assert (snapshot.series[0].count, snapshot.counters[0].value) == (2, 3)
    assert snapshot.accounting.dropped == {"definition_conflict": 1}
    assert any("conflicts with" in warning for warning in snapshot.warnings)


def test_rows_of_conflicting_and_invalid_definitions_are_dropped_as_such() -> None:
    """Two producers disagree about a name: the later one's events drop."""
    aggregator = _aggregator()
    _feed(aggregator, batch("a", records=[Define(1, "x", "series", "ms")], rows=[(1, T, 1)]))
    other = [Define(1, "x", "counter", "ms"), Define(2, "y", "series", "", {}, 3, 5.0, 1.0)]
    snapshot = _feed(aggregator, batch("b", records=other, rows=[(1, T, 1), (2, T, 1), (2, T, 1)]))
    assert snapshot.accounting.dropped == {"definition_conflict": 1, "definition_invalid": 2}
    assert snapshot.series[0].count == 1


def test_more_rows_than_a_chunk_in_small_batches() -> None:
    """Groups are cut by size, and every row arrives once."""
    aggregator = _aggregator()
    per_batch, count = 700, 40
    _feed(aggregator, batch(records=DEFINES))
    rows = [(1, T, n) for n in range(per_batch)]
    sent = [batch(seq=seq + 1, first=seq * per_batch, rows=rows) for seq in range(count)]
    snapshot = _feed(aggregator, *sent)
    assert snapshot.series[0].count == per_batch * count
    assert snapshot.series[0].total == count * sum(range(per_batch))


def test_streamed_records_come_back_in_order() -> None:
    """Streamed records come back in order with producer and wall time, over all batches of the call."""
    aggregator = _aggregator()
    batches = [batch("a", records=[Mark("1"), Mark("2", T + 9)]), batch("b", records=[Mark("3")])]
    assert all(aggregator.admit(sent, 0) for sent in batches)
    streamed = aggregator.apply(batches, 0, NOW)
    assert [(item.producer, item.wall_ns - WALL_NS) for item in streamed] == [("a", 0), ("a", 9), ("b", 0)]


def test_what_overtakes_others_within_a_call_ends_nothing_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that overtakes others within a call ends nothing for them.

    Without room to wait for the end of the call, only as many steps close as have to.
    """
    monkeypatch.setattr(limits, "STEPS_OPEN", 3)
    aggregator = _aggregator()
    low = batch(seq=0, records=[Scalars("train", 0, {"x": 0.0})])
    high = batch(seq=1, first=1, records=[Scalars("train", step, {"x": 1.0}) for step in (3, 4, 5)])
    assert [aggregator.admit(one, MONO_NS) for one in (high, low)] == [True, True]
    said = [item.record for item in aggregator.apply([high, low], MONO_NS, WALL_NS)]
    assert [(step.step, step.closed) for step in said if isinstance(step, ClosedStep)] == [
        (3, "timeout"),
        (0, "ended"),
        (4, "ended"),
    ]


def test_an_empty_call_does_nothing() -> None:
    """A turn without batches is fine."""
    assert _aggregator().apply([], 0, NOW) == []
