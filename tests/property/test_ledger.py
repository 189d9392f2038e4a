"""Conservation: whatever producers send and whatever happens on the way, every event is somewhere.

received = applied + dropped + waiting
emitted  = received + dropped by the producer + missing
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.testing import batch, loose_rows, with_raw_rows
from telemetry.testing.builders import MONO_NS, Row
from telemetry.wire.codec import encode_snapshot
from telemetry.wire.control import End, Hello
from telemetry.wire.events import Count, Define, EventBatch, EventRecord, Gauge, Mark, Sample
from telemetry.wire.rows import read
from telemetry.wire.snapshot import MetricsSnapshot

pytestmark = pytest.mark.slow

DEFINES = [
    Define(1, "latency", "series", "ns"),
    Define(2, "requests", "counter"),
    Define(3, "depth", "gauge"),
    Define(4, "size", "series", "B"),
]
SERIES, COUNTER, GAUGE = {1, 4}, {2}, {3}
KNOWN = SERIES | COUNTER | GAUGE
NEVER = 9  # an id nobody defines
BROKEN_RECORD = Raw(b"\x92\xa6sample\x05")
NOW = (1 << 62) + 5


@dataclass
class Made:
    """One batch of a producer, and what is true about it."""

    batch: EventBatch
    events: int
    rows: list[Row] = field(default_factory=list)
    defined: set[int] = field(default_factory=set)


VALUES = st.sampled_from([0.0, 1.0, 2.5, 7.0, 1e6, -1.0, math.nan, math.inf, -math.inf])
IDS = st.sampled_from([1, 2, 3, 4, NEVER, -1, 0.5])
ROWS = st.lists(st.tuples(IDS, st.integers(0, 1 << 41).map(lambda ns: MONO_NS + ns), VALUES), max_size=6)
RECORDS: st.SearchStrategy[list[EventRecord]] = st.lists(
    st.sampled_from(
        [
            *DEFINES,
            Sample("latency", 3.0, 0, "ns"),
            Count("requests"),
            Gauge("depth", 2.0),
            Mark("m"),
            Count("depth"),
        ]
    ),
    max_size=4,
)
DISGUISE = st.sampled_from(["canonical", "canonical", "loose", "broken record", "no rows"])


@st.composite
def produced(draw: st.DrawFn, producer: str) -> tuple[list[Made], End]:
    """Return what a producer makes: batches with right numbers, drops between them, and its end."""
    made: list[Made] = []
    first = 0
    dropped = 0
    for seq in range(draw(st.integers(0, 6))):
        loss = draw(st.integers(0, 3))
        first, dropped = first + loss, dropped + loss
        rows, records = draw(ROWS), draw(RECORDS)
        drops = {"buffer_full": dropped} if dropped else {}
        sent = batch(producer, seq, first, rows=rows, records=records, dropped=drops)
        one = _make(sent, rows, records, draw(DISGUISE))
        first += one.events
        made.append(one)
    tail = draw(st.integers(0, 2))
    drops = {"buffer_full": dropped + tail} if dropped + tail else {}
    return made, End(producer=producer, batches=len(made), emitted=first + tail, dropped=drops)


def _make(sent: EventBatch, rows: list[Row], records: list[EventRecord], disguise: str) -> Made:
    """The batch in one of its disguises, with what is true about it."""
    events = len(rows) + sum(not isinstance(record, Define) for record in records)
    if disguise == "loose":
        sent = with_raw_rows(sent, loose_rows([number for row in rows for number in row]))
    elif disguise == "broken record":
        sent = replace(sent, records=[BROKEN_RECORD, *sent.records])
        events += 1
    elif disguise == "no rows":
        sent = with_raw_rows(sent, Raw(b"\xc0"))
        events += 1 - len(rows)
        rows = []
    return Made(sent, events, rows, {record.id for record in records if isinstance(record, Define)})


@st.composite
def journeys(draw: st.DrawFn) -> tuple[dict[str, tuple[list[Made], End]], list[Made], list[int]]:
    """Producers, the order in which batches arrive (some never, some twice), and where calls are cut."""
    producers = {name: draw(produced(name)) for name in ("a", "b")}
    everything = [one for made, _ in producers.values() for one in made]
    arriving = draw(st.lists(st.sampled_from(everything), max_size=16)) if everything else []
    if draw(st.booleans()):
        arriving += draw(st.permutations(everything))
    cuts = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6))
    return producers, arriving, cuts


def _laws(aggregator: Aggregator) -> MetricsSnapshot:
    """Both laws, of each producer and of all together; nothing is negative; the snapshot can be sent."""
    snapshot = aggregator.snapshot(SnapshotFacts(run_id="r", name="n", state="COMPLETE"), 0, NOW)
    for account in (*snapshot.producers, snapshot.accounting):
        assert account.received == account.applied + sum(account.dropped.values()) + account.waiting
        assert account.emitted == account.received + sum(account.dropped_by_producer.values()) + account.missing
        counts = [account.emitted, account.received, account.applied, account.missing, account.waiting]
        assert min(counts + list(account.dropped.values())) >= 0
    encode_snapshot(snapshot)
    return snapshot


def _deliver(aggregator: Aggregator, arriving: list[Made], cuts: list[int]) -> list[Made]:
    """Feeds the batches in calls of varying size; returns those that were new."""
    new: list[Made] = []
    at = turn = 0
    while at < len(arriving):
        size = cuts[turn % len(cuts)]
        admitted = [one for one in arriving[at : at + size] if aggregator.admit(one.batch, 0)]
        _laws(aggregator)
        aggregator.apply([one.batch for one in admitted], 0, NOW)
        _laws(aggregator)
        new += admitted
        at, turn = at + size, turn + 1
    return new


def _good(row: Row, kind: set[int]) -> bool:
    return row[0] in kind and math.isfinite(row[2]) and (row[2] >= 0 or kind is GAUGE)


def _rows_applied(new: list[Made], kind: set[int]) -> list[float]:
    """Values that must be in the numbers: of good rows whose id a delivered batch of their producer defines."""
    defined: dict[str, set[int]] = {}
    for one in new:
        defined.setdefault(one.batch.producer, set()).update(one.defined)
    return [row[2] for one in new for row in one.rows if _good(row, kind) and row[0] in defined[one.batch.producer]]


def _described(new: list[Made], word: bytes) -> int:
    return sum(bytes(raw)[1:].startswith(word) for one in new for raw in one.batch.records)


@settings(max_examples=3 * settings().max_examples // 2)
@given(journeys())
def test_every_event_is_somewhere(
    journey: tuple[dict[str, tuple[list[Made], End]], list[Made], list[int]],
) -> None:
    """The ledger balances at any moment under losses, duplicates, reordering and resends.

    The numbers hold exactly the good events that came, and the end record makes the missing ones exact.
    """
    producers, arriving, cuts = journey
    aggregator = Aggregator(AggregatorConfig())
    for name in producers:
        aggregator.hello(Hello(producer=name), 0, NOW)
    new = _deliver(aggregator, arriving, cuts)
    assert len({(one.batch.producer, one.batch.seq) for one in new}) == len(new)

    for _, end in producers.values():
        aggregator.end(end, 0)
        _laws(aggregator)
    aggregator.close()
    snapshot = _laws(aggregator)

    received = Counter(dict.fromkeys(producers, 0))
    for one in new:
        received[one.batch.producer] += one.events
    for stat in snapshot.producers:
        made, end = producers[stat.producer]
        assert stat.received == received[stat.producer]
        assert stat.waiting == 0
        if not any(one.batch.rows.count is None for one in made):  # a producer that counts its own rows
            assert stat.emitted == end.emitted
            assert stat.missing == sum(one.events for one in made) - received[stat.producer]
        came = {one.batch.seq for one in new if one.batch.producer == stat.producer}
        assert (aggregator.book.ended(stat.producer) is not None) == (len(came) == len(made))

    _compare_numbers(snapshot, new)
    _compare_replay(aggregator, snapshot, new)


def _compare_numbers(snapshot: MetricsSnapshot, new: list[Made]) -> None:
    samples = _described(new, b"\xa6sample\xa7latency")
    counts = _described(new, b"\xa5count\xa8requests")
    assert sum(stat.count for stat in snapshot.series) == len(_rows_applied(new, SERIES)) + samples
    total = sum(stat.value for stat in snapshot.counters if stat.name == "requests")
    assert total == sum(_rows_applied(new, COUNTER)) + counts


def _compare_replay(aggregator: Aggregator, snapshot: MetricsSnapshot, new: list[Made]) -> None:
    """A second pass over what was admitted finds the same values, series by series."""
    found: Counter[int] = Counter()
    for one in new:
        found.update(aggregator.series_values(one.batch)[0].tolist())
    assert found == {index: stat.count for index, stat in enumerate(snapshot.series) if stat.count}


LIES = st.fixed_dictionaries(
    {},
    optional={
        "seq": st.integers(0, (1 << 63) - 1),
        "first": st.integers(0, (1 << 63) - 1),
        "dropped": st.dictionaries(st.text(max_size=5), st.integers(0, (1 << 63) - 1), max_size=3),
        "anchor": st.tuples(st.integers(0, (1 << 63) - 1), st.integers(0, (1 << 63) - 1)),
        "rows": st.binary(max_size=60).map(lambda tail: read(b"\xc4" + bytes([len(tail)]) + tail))
        | st.lists(st.none() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats(), max_size=9).map(
            lambda numbers: read(loose_rows(numbers))
        ),
        "records": st.lists(st.sampled_from([BROKEN_RECORD, Raw(b"\xc0"), Raw(b"\x91\xa6define")]), max_size=3),
    },
)


@settings(max_examples=3 * settings().max_examples // 2)
@given(
    st.lists(st.tuples(ROWS, RECORDS, LIES), max_size=8),
    st.integers(0, (1 << 63) - 1),
    st.integers(0, (1 << 63) - 1),
    st.dictionaries(st.text(max_size=5), st.integers(0, (1 << 63) - 1), max_size=3),
)
def test_no_lie_breaks_the_law(
    sent: list[tuple[list[Row], list[EventRecord], dict[str, object]]],
    batches: int,
    emitted: int,
    dropped: dict[str, int],
) -> None:
    """A producer's false numbers, drops, times and rows raise no error and make no count negative.

    The ledger balances.
    """
    aggregator = Aggregator(AggregatorConfig())
    for seq, (rows, records, lie) in enumerate(sent):
        told = replace(batch("p", seq, seq, rows=rows, records=records), **lie)
        if aggregator.admit(told, 0):
            aggregator.apply([told], 0, NOW)
            aggregator.series_values(told)
        _laws(aggregator)
    aggregator.end(End(producer="p", batches=batches, emitted=emitted, dropped=dropped), 0)
    _laws(aggregator)
    aggregator.roll(0, 1, 1)
    aggregator.close()
    _laws(aggregator)
