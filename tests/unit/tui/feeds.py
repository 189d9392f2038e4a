"""A run that was played through the aggregator itself, and a feed that tells of it what a test wants told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
from msgspec.structs import replace

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.history.intervals.range_sums import RangeSums
from telemetry.history.intervals.timeline import Timeline
from telemetry.history.step_curves import StepCurves
from telemetry.testing.builders import MONO_NS, WALL_NS, batch
from telemetry.tui.feed.history_thread import ValueHistory, columns, keys_of
from telemetry.tui.feed.news import News, RangeFiguresOf, Tell, TimelineOf, Trends, ValuesOf, ViewerNote
from telemetry.tui.model.scene import RangeFigures, SeriesId, ValuesOverTime, series_id
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.control import Hello, SeriesKey
from telemetry.wire.events import Define, EventRecord, Expect, Mark, StreamRecord
from telemetry.wire.history import Interval
from telemetry.wire.pictures import StepCurve
from telemetry.wire.snapshot import MetricsSnapshot, Pending, SelfCost
from telemetry.wire.version import PROTOCOL

SECOND_NS = 1_000_000_000
SECONDS = 75
_SERIES = (
    ("request", "ms", {"route": "/v1/chat", "model": "llama-70b"}, 180.0, 0.45, 40),
    ("request", "ms", {"route": "/v1/embed", "model": "bge-large"}, 12.0, 0.30, 90),
    ("request", "ms", {"route": "/v1/rerank", "model": "bge-large"}, 31.0, 0.35, 25),
    ("ttft", "ms", {"model": "llama-70b"}, 62.0, 0.50, 40),
    ("inter_token", "ms", {"model": "llama-70b"}, 9.5, 0.20, 300),
    ("queue_wait", "us", {}, 240.0, 0.90, 150),
    ("db.query", "us", {"pool": "primary"}, 850.0, 0.60, 60),
    ("db.query", "us", {"pool": "replica"}, 700.0, 0.60, 30),
    ("prompt", "tokens", {}, 512.0, 0.70, 40),
    ("response_body", "B", {}, 24_000.0, 0.80, 60),
    ("gpu.step", "ms", {"rank": "0"}, 48.0, 0.05, 20),
    ("gpu.step", "ms", {"rank": "1"}, 48.6, 0.05, 20),
)
"""Name, unit, labels, median, spread, values a second of each producer."""
Row = tuple[float, int, float]
_PRODUCERS = (("worker-0", 0), ("worker-1", 1), ("worker-2", 2))


class Recorded:
    """A run of so many seconds: what it said at each of them, and its history."""

    def __init__(self, name: str, producers: Sequence[tuple[str, int]], seconds: int) -> None:
        """Each producer is a name and a rank."""
        self._name = name
        self._producers = producers
        self._aggregator = Aggregator(AggregatorConfig())
        self._first = {producer: 0 for producer, _ in producers}
        self.intervals: list[Interval] = []
        self.snapshots: list[MetricsSnapshot] = []
        self.streamed: list[StreamRecord] = []
        """The record stream."""
        for producer, rank in producers:
            hello = Hello(producer=producer, name=name, host="node-1", pid=4_100 + rank, rank=rank)
            assert self._aggregator.hello(hello, MONO_NS, WALL_NS)
        for second in range(seconds):
            self._play(second)
        self.keys: list[SeriesKey] = self._aggregator.keys()

    def records(self, second: int, rank: int) -> Iterable[EventRecord]:
        """Return the event records of a producer in this second."""
        raise NotImplementedError

    def rows(self, second: int, rank: int, begin_ns: int) -> Sequence[Row]:
        """Return the rows that a producer records in this second.

        `begin_ns` is when the second begins, monotonic.
        """
        raise NotImplementedError

    @property
    def last(self) -> MetricsSnapshot:
        return self.snapshots[-1]

    def timeline(self, series: SeriesId) -> Timeline:
        """Return the timeline of a series, or an empty one if the series is not in the run."""
        known = {series_id(key.name, key.labels): key for key in self._series()}
        if series not in known:
            return Timeline(SeriesKey(index=0, name=series[0], kind="series"))
        found = Timeline(known[series])
        for interval in self.intervals:
            found.add(interval)
        return found

    def values(self, wanted: SeriesId) -> ValuesOverTime | None:
        """The history of a counter or gauge."""
        keys = keys_of(self.keys, wanted)
        if not keys:
            return None
        found = ValueHistory(keys)
        for interval in self.intervals:
            found.add(interval)
        return found.values()

    def curves(self) -> tuple[StepCurve, ...]:
        """Return the curves of all steps."""
        found = StepCurves(WALL_NS)
        found.feed(self.streamed)
        return tuple(found.curves())

    def moment(self, end_ns: int, seconds: float) -> RangeFigures:
        start_ns = end_ns - round(seconds * 1e9)
        time_range = RangeSums(self.keys, ("50", "90", "99", "99.9"))
        for interval in self.intervals:
            if interval.start_ns < end_ns and interval.end_ns > start_ns:
                time_range.add(interval)
        names = {key.index: series_id(key.name, key.labels) for key in self._series()}
        figures = {names[index]: figures for index, figures in time_range.figures().items()}
        return RangeFigures(start_ns=start_ns, end_ns=end_ns, series=figures)

    def trends(self) -> Trends:
        points: dict[SeriesId, list[float | None]] = {}
        held: dict[SeriesId, float] = {}
        for interval in self.intervals:
            time_range = RangeSums(self.keys, ("99",))
            time_range.add(interval)
            found, gauges, values = time_range.figures(), columns(interval.gauges), dict[SeriesId, float]()
            for key in self.keys:
                series = series_id(key.name, key.labels)
                if key.kind == "series" and found[key.index].count:
                    values[series] = found[key.index].percentiles["99"]
                elif key.kind == "gauge" and key.index in gauges and is_of_machine(key.name):
                    held[series] = gauges[key.index]
            values |= held
            for series in points.keys() | values.keys():
                points.setdefault(series, []).append(values.get(series))
        return Trends({series: tuple(trend) for series, trend in points.items()}, steps=len(self.intervals))

    def _series(self) -> list[SeriesKey]:
        return [key for key in self.keys if key.kind == "series"]

    def _play(self, second: int) -> None:
        begin_ns, end_ns = MONO_NS + second * SECOND_NS, MONO_NS + (second + 1) * SECOND_NS
        for name, rank in self._producers:
            one = batch(
                name,
                second,
                self._first[name],
                rows=self.rows(second, rank, begin_ns),
                records=list(self.records(second, rank)),
            )
            assert self._aggregator.admit(one, end_ns)
            for item in self._aggregator.apply([one], end_ns, WALL_NS + (second + 1) * SECOND_NS):
                numbered = len(self.streamed), item.producer, item.wall_ns, item.record
                self.streamed.append(StreamRecord(PROTOCOL, name, *numbered))
            self._first[name] = self._aggregator.book[name].account.ledger.received
        wall_ns = WALL_NS + second * SECOND_NS
        self.intervals.append(self._aggregator.roll(wall_ns, wall_ns + SECOND_NS, SECOND_NS))
        self._aggregator.pass_time(SECOND_NS)
        self.snapshots.append(self._aggregator.snapshot(self._facts(second), end_ns, wall_ns + SECOND_NS))

    def _facts(self, second: int) -> SnapshotFacts:
        cost = SelfCost(
            cpu_s=0.05 * second,
            cpu_percent=4.8,
            rss_bytes=71 << 20,
            events_per_s=2_628.0,
            ticks=10 * second,
            series=12,
        )
        return SnapshotFacts(
            run_id=f"{self._name}-20231114T221320Z-a1b2",
            name=self._name,
            epoch="1",
            started_ns=WALL_NS,
            started_mono_ns=MONO_NS,
            seq=second * 10,
            state="LIVE",
            refresh_hz=10.0,
            cost=cost,
            directory=f"runs/{self._name}-20231114T221320Z-a1b2",
        )


class Play(Recorded):
    """A benchmark of a server. `pace` slows everything down."""

    def __init__(self, pace: float = 1.0) -> None:
        self._pace = pace
        self._random = np.random.default_rng(7)
        super().__init__("serve-bench", _PRODUCERS, SECONDS)

    def records(self, second: int, rank: int) -> list[EventRecord]:
        marks = {3: "warm-up over", 30: "concurrency 64 → 128", 68: "replica failover"}
        records: list[EventRecord] = []
        if second == 0:
            records += [
                Define(index, name, "series", unit, labels)
                for index, (name, unit, labels, *_) in enumerate(_SERIES)
            ]
            records += [
                Define(100, "requests", "counter"),
                Define(101, "failures", "counter", "", {"reason": "timeout"}),
                Define(102, "sent", "counter", "B"),
                Define(103, "connections", "gauge"),
                Define(104, "gpu.memory", "gauge", "MiB", {"rank": str(rank)}),
            ]
            records += [Expect("requests", 40_000.0)] if rank == 0 else []
        if rank == 0 and second in marks:
            records.append(Mark(marks[second], MONO_NS + second * SECOND_NS))
        return records

    def rows(self, second: int, rank: int, begin_ns: int) -> list[Row]:
        rows: list[Row] = []
        for index, (name, _, labels, median, spread, per_second) in enumerate(_SERIES):
            slow = 2.4 if second >= 66 and (name, labels.get("pool")) == ("db.query", "replica") else 1.0
            values = self._random.lognormal(np.log(median * self._pace * slow), spread, per_second)
            values[self._random.random(per_second) < 0.004] *= 6.0
            rows += [(index, begin_ns + place, value) for place, value in enumerate(values.tolist())]
        rows += [(100, begin_ns, 155.0), (102, begin_ns, 3.1e6)]
        rows += [(101, begin_ns, 1.0)] if second % 9 == 4 else []
        if rank == 0:
            rows.append((103, begin_ns, 64.0 if second < 30 else 128.0))
        return [*rows, (104, begin_ns, 61_440.0 + 512 * rank)]


@cache
def play() -> Play:
    """The run, played once."""
    return Play()


@cache
def baseline() -> MetricsSnapshot:
    """The result of an earlier run, a fifth faster."""
    return replace(ended(Play(0.8).last), run_id="serve-bench-20231113T090000Z-0c0d", name="serve-bench")


def draining(snapshot: MetricsSnapshot) -> MetricsSnapshot:
    return replace(
        snapshot, state="DRAINING", pending=Pending(producers=["worker-1"], events=120, deadline_s=8.0), reason=""
    )


def ended(snapshot: MetricsSnapshot) -> MetricsSnapshot:
    return replace(snapshot, state="COMPLETE", completeness="complete", exact=True, reason="the command ended")


def interrupted(snapshot: MetricsSnapshot) -> MetricsSnapshot:
    return replace(snapshot, state="INTERRUPTED", completeness="interrupted", reason="SIGTERM")


class FakeFeed:
    """Tells what it is given to tell, and answers questions about a run at once: the played one, or another."""

    def __init__(self, *news: News, answers: bool = True, run: Recorded | None = None) -> None:
        self._run = run or play()
        self._first = news
        self._answers = answers
        self._tell: Tell = lambda news: None
        self.followed: list[SeriesId | None] = []
        self.looked_at: list[tuple[int, float]] = []
        self.listed: list[str] = []
        self.stops = 0
        self.closed = False

    def start(self, tell: Tell) -> None:
        self._tell = tell
        for news in self._first:
            tell(news)

    def tell(self, *news: News) -> None:
        for one in news:
            self._tell(one)

    def follow(self, series: SeriesId | None) -> None:
        self.followed.append(series)
        if series is not None and self._answers:
            values = self._run.values(series)
            self._tell(ValuesOf(series, values) if values else TimelineOf(series, self._run.timeline(series)))

    def look_at(self, end_ns: int, seconds: float) -> None:
        self.looked_at.append((end_ns, seconds))
        if self._answers:
            self._tell(RangeFiguresOf(self._run.moment(end_ns, seconds)))

    def list_members(self, node: str) -> None:
        self.listed.append(node)

    def stop_run(self) -> None:
        self.stops += 1
        self._tell(ViewerNote("The run has been asked to stop."))

    def close(self) -> None:
        self.closed = True
