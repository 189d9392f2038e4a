"""A snapshot of everything, encoded: percentiles, display histogram, window, accounts; every series has changed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks import peers
from benchmarks.frames import FrameMaker
from benchmarks.harness import Figure, Outcome, Size, Worker, interleave, median, paired_ratio, summary
from benchmarks.worker import Measure

LIMITS_MS: Final = {100: 3.0, 1_000: 25.0}
_PEER_SERIES: Final = 100
_PEER_PROMETHEUS: Final = "prometheus_client generate_latest"
_PEER_OTEL: Final = "opentelemetry-sdk collect"
_SECOND_TICKS: Final = 10
_WINDOW_S: Final = 10
_ROUNDS: Final[dict[Size, int]] = {"full": 11, "quick": 3, "tiny": 1}
_REPEATS: Final[dict[Size, int]] = {"full": 20, "quick": 10, "tiny": 1}


def ours(series: int) -> Measure:
    """Between two snapshots every series gets values; each tenth follows a roll, as once a second."""
    from telemetry.aggregator import Aggregator, AggregatorConfig
    from telemetry.wire.codec import decode_batch, encode_snapshot

    maker = FrameMaker(batch_events=max(10_000, 10 * series), series=series)
    aggregator = Aggregator(AggregatorConfig(window_s=_WINDOW_S))
    clock_ns = 0
    seq = 0

    def feed(frames: list[bytes]) -> None:
        batches = [decode_batch(frame) for frame in frames]
        for batch in batches:
            assert aggregator.admit(batch, clock_ns)
        aggregator.apply(batches, clock_ns, clock_ns)

    def roll() -> None:
        nonlocal clock_ns
        aggregator.roll(clock_ns, clock_ns + 1_000_000_000, 1_000_000_000)
        clock_ns += 1_000_000_000

    def measure(n: int) -> dict[str, Any]:
        nonlocal seq
        wall = cpu = roll_cpu = size = 0
        for _ in range(n):
            seq += 1
            feed(maker.frames(1))
            if seq % _SECOND_TICKS == 0:
                begin = time.process_time_ns()
                roll()
                roll_cpu += time.process_time_ns() - begin
            begin_wall, begin = time.perf_counter_ns(), time.process_time_ns()
            size = len(encode_snapshot(aggregator.snapshot(_facts(seq), clock_ns, clock_ns)))
            cpu += time.process_time_ns() - begin
            wall += time.perf_counter_ns() - begin_wall
        return {
            "wall_ms": wall / n / 1e6,
            "cpu_ms": cpu / n / 1e6,
            "cpu_ms_per_series": cpu / n / 1e6 / series,
            "roll_ms": roll_cpu / n / 1e6,
            "bytes": size,
        }

    feed([maker.definitions()])
    for _ in range(_WINDOW_S + 1):
        feed(maker.frames(2))
        roll()
    return measure


def _facts(seq: int) -> Any:
    from telemetry.aggregator import SnapshotFacts
    from telemetry.wire.snapshot import SelfCost

    return SnapshotFacts(
        run_id="bench",
        name="bench",
        epoch="1",
        directory="",
        started_ns=0,
        started_mono_ns=0,
        seq=seq,
        state="LIVE",
        reason="",
        refresh_hz=10.0,
        command=None,
        cost=SelfCost(),
        pending_deadline_s=None,
        exact=False,
        exact_reason="",
        warnings=[],
    )


def _collected(record: Callable[[int, float], object], collect: Callable[[], object]) -> Measure:
    def measure(n: int) -> dict[str, Any]:
        wall = cpu = 0
        for _ in range(n):
            for series in range(_PEER_SERIES):
                record(series, peers.SECONDS[series])
            begin_wall, begin = time.perf_counter_ns(), time.process_time_ns()
            collect()
            cpu += time.process_time_ns() - begin
            wall += time.perf_counter_ns() - begin_wall
        cpu_ms = cpu / n / 1e6
        return {"wall_ms": wall / n / 1e6, "cpu_ms": cpu_ms, "cpu_ms_per_series": cpu_ms / _PEER_SERIES}

    return measure


def prometheus() -> Measure:
    """100 histograms of 15 buckets, in the text format of a scrape; no percentiles."""
    from prometheus_client import CollectorRegistry, Histogram, generate_latest

    registry = CollectorRegistry()
    histogram = Histogram("latency", "latency", ["route"], registry=registry)
    children = [histogram.labels(str(index)) for index in range(_PEER_SERIES)]
    return _collected(lambda series, value: children[series].observe(value), lambda: generate_latest(registry))


def opentelemetry() -> Measure:
    """100 histograms of 15 buckets, as objects; not encoded, no percentiles."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    histogram = MeterProvider(metric_readers=[reader]).get_meter("bench").create_histogram("latency")
    attributes = [{"route": str(index)} for index in range(_PEER_SERIES)]
    return _collected(lambda series, value: histogram.record(value, attributes[series]), reader.get_metrics_data)


ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {
    "100 series": lambda: ours(100),
    "1000 series": lambda: ours(1_000),
    _PEER_PROMETHEUS: prometheus,
    _PEER_OTEL: opentelemetry,
}


def run(size: Size) -> Outcome:
    workers = {name: Worker(__name__, name) for name in ALTERNATIVES}
    arguments = {name: {"n": _REPEATS[size]} for name in workers}
    for name, worker in workers.items():
        worker.measure(**arguments[name])
    rounds = interleave(workers, arguments, _ROUNDS[size])
    for worker in workers.values():
        worker.close()
    peer = _PEER_PROMETHEUS  # OpenTelemetry hands out objects and encodes nothing: in the results file only
    figures = [
        Figure(
            f"snapshot of {series:,} series, encoded",
            median(rounds[f"{series} series"], "cpu_ms"),
            "ms CPU",
            limit,
            peer=f"{peer}, 100 series × {series // _PEER_SERIES}",
            peer_value=median(rounds[peer], "cpu_ms_per_series") * series,
            ratio=paired_ratio(rounds[f"{series} series"], rounds[peer], "cpu_ms_per_series"),
        )
        for series, limit in LIMITS_MS.items()
    ]
    keys = ("wall_ms", "cpu_ms")
    measurements = {name: summary(taken, keys) for name, taken in rounds.items()}
    for name in ("100 series", "1000 series"):
        measurements[name] |= summary(rounds[name], ("roll_ms", "bytes"))
    return Outcome(figures, measurements)
