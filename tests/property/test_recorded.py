"""Tests that a history and the run's journal agree on a part of a run, within the stated bound."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from tests.unit.history.journaled import Heard, between, chosen, journaled

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.write_ahead import WriteAheadLog
from telemetry.history import RecordedRun, TimeRangeChoice, open_run
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.store.final_snapshot import write_final
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import JournalWriter
from telemetry.store.run_directory import RunDirectory
from telemetry.testing import FakeClock, frame
from telemetry.wire.control import Hello
from telemetry.wire.events import Define, EventRecord
from telemetry.wire.journal import RunState
from telemetry.wire.snapshot import SeriesStat

pytestmark = pytest.mark.slow

SECONDS = 200  # three minutes have been rolled up, and what follows has not
PERCENTILES = ("50", "75", "90", "95", "99", "99.9")
WINDOWS = 40
Draw = Callable[[random.Random], float]
DISTRIBUTIONS: dict[str, Draw] = {
    "lognormal": lambda rng: rng.lognormvariate(2.0, 1.0),
    "bimodal": lambda rng: rng.gauss(2.0, 0.1) if rng.random() < 0.97 else rng.gauss(250.0, 20.0),
    "pareto": lambda rng: rng.paretovariate(1.1),
}


class Recording(NamedTuple):
    distribution: str
    run: RecordedRun
    intervals: list[Heard]
    """What its journal says."""


@pytest.fixture(scope="module", params=DISTRIBUTIONS)
def recording(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    run = recorded(request.param, tmp_path_factory.mktemp(request.param))
    assert run.directory is not None
    return Recording(request.param, run, list(journaled(run.directory)))


def recorded(distribution: str, root: Path) -> RecordedRun:
    """Three producers through the logbook of an aggregator, which writes journal and history. Turns come whenever
    they like, and seconds last a little longer or shorter than that."""
    draw, rng, clock = DISTRIBUTIONS[distribution], random.Random(distribution), FakeClock()
    wall_ns, now_ns = clock.wall_ns(), clock.monotonic_ns()
    directory = RunDirectory.create(root, "job", "r1", wall_ns)
    began = {"started_ns": wall_ns, "started_mono_ns": now_ns, "rolled_wall_ns": wall_ns, "rolled_mono_ns": now_ns}
    run = RunState(run_id="r1", name="job", **began)
    numbers = Numbers(Aggregator(AggregatorConfig(percentiles=PERCENTILES)), run)
    journal = JournalWriter(directory.journal, numbers.checkpoint(), now_ns, 1 << 18, 1 << 30)
    book, history = WriteAheadLog(numbers, journal, clock, now_ns), HistoryWriter(directory.history)
    senders = [Sender(number, draw, rng) for number in range(3)]
    for second in range(SECONDS):
        for _ in range(rng.randrange(1, 4)):
            clock.advance(rng.uniform(0.2, 0.5))
            book.renew([])
            book.turn([sender.batch(book, clock) for sender in senders])
        history.append(book.roll(second), numbers.aggregator.keys())
    history.close()
    assert not history.failed
    journal.close()
    facts = SnapshotFacts(run_id="r1", name="job", state="COMPLETE", started_ns=wall_ns, started_mono_ns=now_ns)
    write_final(numbers.aggregator.snapshot(facts, clock.monotonic_ns(), clock.wall_ns()), [directory.final])
    return open_run(directory.path)


class Sender:
    """A producer. Ids mean something else to each, and when an event was says nothing about its interval."""

    def __init__(self, number: int, draw: Draw, rng: random.Random) -> None:
        self.number = number
        self.name = f"p{number}"
        self._draw = draw
        self._rng = rng
        self._batches = self._events = 0

    def batch(self, book: WriteAheadLog, clock: FakeClock) -> bytes:
        rng, now_ns = self._rng, clock.monotonic_ns()
        latency, requests, load = ((place + self.number) % 3 for place in range(3))
        definitions: list[EventRecord] = []
        if not self._batches:
            assert book.hello(Hello(producer=self.name, name=self.name)) == ""
            definitions = [
                Define(latency, "latency", "series", "ms"),
                Define(requests, "requests", "counter"),
                Define(load, "load", "gauge"),
            ]
        rows = [
            *((latency, now_ns - rng.randrange(10**9), abs(self._draw(rng))) for _ in range(rng.randrange(40))),
            *((requests, now_ns, float(rng.randrange(5))) for _ in range(3)),
            (load, now_ns + self.number, rng.random()),
        ]
        anchor = now_ns, clock.wall_ns()
        made = frame(self.name, self._batches, self._events, records=definitions, rows=rows, anchor=anchor)
        self._batches += 1
        self._events += len(rows)
        return bytes(made)


def agrees(stat: SeriesStat, values: np.ndarray) -> None:
    """Counts and extremes are equal, each percentile is within its bound of the order statistic."""
    assert stat.count == values.size
    assert (stat.min, stat.max) == (values[0], values[-1])
    assert stat.total == pytest.approx(values.sum(), rel=1e-12)
    assert stat.mean == pytest.approx(values.mean(), rel=1e-12)
    assert not stat.exact
    assert stat.error_bound == 0.001
    for percentile in PERCENTILES:
        true = values[rank(parse_percentile(percentile), values.size) - 1]
        assert abs(stat.percentiles[percentile] - true) <= max(stat.error_bound * true, stat.resolution)
    assert sum(count for _, count in stat.histogram) == values.size


def test_any_part_of_a_run_is_that_part_of_its_journal(recording: Recording) -> None:
    """Percentiles, counts, totals and extremes of the series, increases of the counter, and the last gauge."""
    _, run, intervals = recording
    origin, rng = intervals[0].start_ns, random.Random(recording.distribution)
    for _ in range(WINDOWS):
        start_s = rng.choice([0.0, rng.uniform(0.0, run.end_s - 1.0)])
        end_s = rng.uniform(start_s + 0.01, run.end_s)
        own = chosen(intervals, start_s, end_s)
        report = run.time_range(TimeRangeChoice(from_s=start_s, to_s=end_s))
        assert report.time_range is not None
        assert report.time_range.start_s == pytest.approx((own[0].start_ns - origin) / 1e9)
        assert report.time_range.end_s == pytest.approx((own[-1].end_ns - origin) / 1e9)
        values = np.sort([value for one in own for value in one.values.get("latency", ())])
        agrees(report.series("latency"), values)
        increase = sum(one.increases["requests"] for one in own)
        assert report.counter("requests").value == increase
        counted = run.result.snapshot.counters[0]
        seconds = (min(own[-1].end_ns, counted.ended_ns) - max(own[0].start_ns, counted.began_ns)) / 1e9
        assert report.counter("requests").rate == pytest.approx(increase / seconds)
        assert report.gauge("load").value == own[-1].gauges["load"]
        points = report.over_time[0].points
        assert sum(point.count for point in points) == values.size
        bounds = report.bounds_of(report.series("latency"))
        assert bounds is not None
        for percentile, found in bounds.percentiles.items():
            shown = report.series("latency").percentiles[percentile]
            assert found.low is None or found.low <= shown
            assert found.high is None or shown <= found.high
            assert found.beyond == (values.size - rank(parse_percentile(percentile), values.size))


@pytest.mark.parametrize("step_s", [1.0, 7.0, 10.0, 30.0, 60.0])
def test_steps_hold_every_value_once(recording: Recording, step_s: float) -> None:
    """Each interval is in the step of its middle, whatever history level the steps are made of."""
    _, run, intervals = recording
    origin = intervals[0].start_ns
    expected: dict[int, list[Heard]] = {}
    for one in intervals:
        expected.setdefault(int(((one.start_ns + one.end_ns) / 2 - origin) / 1e9 // step_s), []).append(one)
    windows = list(run.windows(step_s, percentiles=PERCENTILES))
    if step_s not in (10.0, 30.0, 60.0):  # where a minute of the history began is not where one began by the clock
        assert len(windows) == len(expected)
        for window, own in zip(windows, expected.values(), strict=True):
            values = np.sort([value for one in own for value in one.values.get("latency", ())])
            assert window.series["latency", ()].count == values.size
            assert window.counters["requests", ()] == sum(one.increases["requests"] for one in own)
            assert window.gauges["load", ()] == own[-1].gauges["load"]
    edges = [(round(window.start_s * 1e9), round(window.end_s * 1e9)) for window in windows]
    assert [start for start, _ in edges[1:]] == [end for _, end in edges[:-1]]
    for window in windows:
        own = between(intervals, window.start_s + 1e-6, window.end_s - 1e-6)
        values = np.sort([value for one in own for value in one.values.get("latency", ())])
        figures = window.series["latency", ()]
        assert (figures.count, figures.min, figures.max) == (values.size, values[0], values[-1])
        assert window.counters["requests", ()] == sum(one.increases["requests"] for one in own)
        for percentile, value in figures.percentiles.items():
            true = values[rank(parse_percentile(percentile), values.size) - 1]
            assert abs(value - true) <= max(0.001 * true, 1e-6)


def test_one_series_of_any_part(recording: Recording) -> None:
    """A digest of one series has the values that the journal has of the part."""
    _, run, intervals = recording
    rng = random.Random(recording.distribution)
    for _ in range(WINDOWS):
        start_s = rng.uniform(0.0, run.end_s - 1.0)
        end_s = rng.uniform(start_s + 0.01, run.end_s)
        own = between(intervals, start_s, end_s)
        values = np.sort([value for one in own for value in one.values.get("latency", ())])
        figures = run.digest(("latency", ()), start_s, end_s).figures(PERCENTILES)
        assert (figures.count, figures.min, figures.max) == (values.size, values[0], values[-1])
        for percentile, value in figures.percentiles.items():
            true = values[rank(parse_percentile(percentile), values.size) - 1]
            assert abs(value - true) <= max(0.001 * true, 1e-6)


def test_the_whole_run_is_its_result(recording: Recording) -> None:
    """The history adds up to all of it, and the bounds have the percentiles between them."""
    report = recording.run.report()
    assert report.snapshot == recording.run.result.snapshot
    assert not [line for line in report.findings if "history" in line]
    (bounds,) = report.bounds
    values = np.sort([value for one in recording.intervals for value in one.values.get("latency", ())])
    for percentile, found in bounds.percentiles.items():
        true = values[rank(parse_percentile(percentile), values.size) - 1]
        assert found.low is not None
        assert found.low <= true
        assert found.high is None or true <= found.high
    assert sum(point.count for point in report.over_time[0].points) == values.size
