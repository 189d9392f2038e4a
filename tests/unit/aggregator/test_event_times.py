"""Times of the first and the last event of an instrument, and the time that its rates are counted over."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec import msgpack

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts, fast_rows
from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.counters import CounterTable
from telemetry.aggregator.event_times import EventTimes
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.events import Define
from telemetry.wire.snapshot import MetricsSnapshot

MS = 1_000_000
SECOND = 1_000 * MS
LATENCY = Define(1, "latency", "series", "ms")
SIZE = Define(2, "size", "series", "B")
REQUESTS = Define(3, "requests", "counter", "requests")
DEFINITIONS = (LATENCY, SIZE, REQUESTS)


@pytest.fixture(params=["compiled", "numpy"])
def numbers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Aggregator:
    """An aggregator by either way of reading rows."""
    if request.param == "numpy":
        monkeypatch.setattr(fast_rows, "Columns", None)
    return Aggregator(AggregatorConfig(percentiles=("50",)))


def feed(numbers: Aggregator, *rows: tuple[int, int, float], seq: int = 0, first: int = 0) -> None:
    """Apply rows: id, milliseconds since the start, value."""
    timed = [(of, MONO_NS + at_ms * MS, value) for of, at_ms, value in rows]
    sent = batch(seq=seq, first=first, records=() if seq else DEFINITIONS, rows=timed)
    now_ns = MONO_NS + 100 * SECOND
    assert numbers.admit(sent, now_ns)
    numbers.apply([sent], now_ns, WALL_NS + 100 * SECOND)


def snapshot(numbers: Aggregator) -> MetricsSnapshot:
    facts = SnapshotFacts(run_id="r", name="n", started_ns=WALL_NS, started_mono_ns=MONO_NS)
    return numbers.snapshot(facts, MONO_NS + 100 * SECOND, WALL_NS + 100 * SECOND)


def times(numbers: Aggregator) -> dict[str, tuple[float, float]]:
    """Name → beginning and end in milliseconds since the start."""
    found = snapshot(numbers)
    return {
        stat.name: ((stat.began_ns - WALL_NS) / MS, (stat.ended_ns - WALL_NS) / MS)
        for stat in (*found.series, *found.counters)
        if stat.began_ns
    }


def test_durations_begin_before_their_events(numbers: Aggregator) -> None:
    """Three requests one after the other take from the beginning of the first to the end of the last."""
    for turn in range(2):  # the second turn has no new series
        at_ms = 1_000 * turn
        rows = [(1, at_ms + 510, 10.0), (1, at_ms + 530, 20.0), (1, at_ms + 560, 30.0)]
        feed(numbers, *rows, seq=turn, first=3 * turn)
    assert times(numbers) == {"latency": (500.0, 1_560.0)}


def test_a_first_event_stands_for_the_mean_time_between_two(numbers: Aggregator) -> None:
    """A first event counts as if it came after the mean time between two.

    The number of events divided by the time is thus their rate: 4 in 400 ms.
    """
    feed(numbers, *((of, at_ms, 7.0) for at_ms in (1_100, 1_200, 1_300, 1_400) for of in (2, 3)))
    assert times(numbers) == {"size": (1_000.0, 1_400.0), "requests": (1_000.0, 1_400.0)}


def test_a_single_event_has_no_length(numbers: Aggregator) -> None:
    """Unless it is a duration."""
    feed(numbers, (1, 100, 25.0), (2, 100, 25.0), (3, 100, 25.0))
    assert times(numbers) == {"latency": (75.0, 100.0), "size": (100.0, 100.0), "requests": (100.0, 100.0)}


def test_the_order_of_events_does_not_matter(numbers: Aggregator) -> None:
    """Batches of several producers, and resent ones, come in any order. A long value may have begun first."""
    feed(numbers, (1, 500, 1.0), (1, 900, 800.0), (1, 300, 1.0), (3, 500, 1.0), (3, 300, 1.0))
    assert times(numbers) == {"latency": (100.0, 900.0), "requests": (100.0, 500.0)}


def test_no_value_begins_before_all_times(numbers: Aggregator) -> None:
    """However long it is said to have taken."""
    feed(numbers, (1, 500, 1e300), (3, 500, 1.0))
    feed(numbers, (1, 501, 1e13), seq=1, first=2)
    assert snapshot(numbers).series[0].began_ns == 0


def test_both_ways_keep_the_same_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows read as columns and rows read one by one give the same times, to the last bit.

    The rows are in random order, and some have no time or one in the future.
    """
    random = np.random.default_rng(5)
    at_ms = random.integers(-100, 200_000, 600)
    values = random.integers(0, 90_000, 600).astype(float)
    rows = [
        (1 + number % 3, int(at), float(value))
        for number, (at, value) in enumerate(zip(at_ms, values, strict=True))
    ]
    states = []
    for columns in (fast_rows.Columns, None):
        monkeypatch.setattr(fast_rows, "Columns", columns)
        made = Aggregator(AggregatorConfig(percentiles=("50",)))
        for turn in range(6):
            feed(made, *rows[100 * turn : 100 * turn + 100], seq=turn, first=100 * turn)
        states.append(bytes(encode([save(made.series.times), save(made.series)])))
    assert states[0] == states[1]


def rate_and_window(numbers: Aggregator, now_ms: int, seconds: float) -> tuple[float, float, float]:
    """End an interval: the rates of the counter and the durations, and the seconds of the latter."""
    elapsed_ns = round(seconds * SECOND)
    numbers.roll(WALL_NS, WALL_NS + now_ms * MS, elapsed_ns, MONO_NS + now_ms * MS)
    found = snapshot(numbers)
    window = found.series[0].window
    return found.counters[0].rate, window.rate, window.seconds


def test_a_young_instrument_has_a_shorter_window(numbers: Aggregator) -> None:
    """The seconds before the first event do not count: here 5 of 8."""
    rows = [(1, at_ms, 100.0) for at_ms in range(5_100, 8_001, 100)]
    rows += [(3, at_ms, 2.0) for at_ms in range(5_100, 8_001, 100)]
    feed(numbers, *rows)
    rate, of_durations, seconds = rate_and_window(numbers, 8_000, 8.0)
    assert (rate, of_durations, seconds) == (pytest.approx(20.0), pytest.approx(10.0), pytest.approx(3.0))


def test_an_instrument_without_new_events_falls_to_zero(numbers: Aggregator) -> None:
    """First over the time since its first event, then with the window."""
    feed(numbers, *((of, at_ms, 100.0) for at_ms in range(100, 1_001, 100) for of in (1, 3)))
    assert rate_and_window(numbers, 1_000, 1.0) == (pytest.approx(1_000.0), pytest.approx(10.0), pytest.approx(1.0))
    found = [rate_and_window(numbers, 1_000 * second, 1.0)[1] for second in range(2, 13)]
    assert found[:3] == [pytest.approx(5.0), pytest.approx(10 / 3), pytest.approx(2.5)]
    assert found[-2:] == [0.0, 0.0]


def test_a_checkpoint_keeps_the_times(numbers: Aggregator) -> None:
    """A restored aggregator has the times of the events and the rates of the window."""
    feed(numbers, *((of, at_ms, 100.0) for at_ms in range(100, 1_001, 100) for of in (1, 2, 3)))
    before = rate_and_window(numbers, 1_000, 5.0), times(numbers)
    again = Aggregator.restore(bytes(numbers.checkpoint()))
    found = snapshot(again)
    assert found.series == snapshot(numbers).series
    assert found.counters == snapshot(numbers).counters
    assert (found.counters[0].rate, times(again)) == (before[0][0], before[1])


def test_events_from_before_an_old_checkpoint_have_no_time() -> None:
    """A beginning that was not kept stays unknown. An instrument without events has none yet."""
    recorded, old = CounterTable(1), CounterTable(1)
    for table in (recorded, old):
        table.add("requests", {}, "requests")
        table.add("errors", {}, "errors")
    recorded.record(np.array([0]), np.array([2.0]))
    state = save(recorded)
    del state["times"]
    load(old, msgpack.decode(bytes(encode(state))))
    old.times.note(np.array([0, 1]), np.array([1.0, 1.0]), np.array([WALL_NS, WALL_NS]))
    assert [stat.began_ns for stat in old.stats()] == [0, WALL_NS]


def test_an_impossible_time_is_refused() -> None:
    """A state with a time that can't be, as in a forged checkpoint, is refused."""
    made = EventTimes()
    made.add("ms")
    state = save(made)
    state["first"] = np.array([-1])
    fresh = EventTimes()
    fresh.add("ms")
    with pytest.raises(ValueError, match="an invalid time"):
        load(fresh, msgpack.decode(bytes(encode(state))))
