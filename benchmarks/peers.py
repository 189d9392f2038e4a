"""What one event costs with other libraries: a label child or metric that the caller holds, default settings."""

from __future__ import annotations

import random
import socket
from collections.abc import Callable
from typing import Any, Final

from benchmarks.worker import Measure, Operation, timed


def seconds(count: int) -> list[float]:
    """Latencies: lognormal around 50 ms."""
    source = random.Random(1)
    return [source.lognormvariate(-3, 1) for _ in range(count)]


def nanoseconds(count: int) -> list[int]:
    return [max(1, int(value * 1e9)) for value in seconds(count)]


SECONDS: Final = seconds(1000)
NANOSECONDS: Final = nanoseconds(1000)
HIGHEST_NS: Final = 3_600_000_000_000

Recorder = Callable[[Any], object]


def cycle(record: Recorder, values: list[Any]) -> Operation:
    """Calls `record` with the values over and over; the loop itself costs about 6 ns a call."""

    def operation(n: int) -> None:
        whole, rest = divmod(n, len(values))
        for _ in range(whole):
            for value in values:
                record(value)
        for value in values[:rest]:
            record(value)

    return operation


def measured(record: Recorder, values: list[Any], settle: Callable[[], None] | None = None) -> Measure:
    operation = cycle(record, values)
    return lambda n, threads=1: timed(operation, n, threads, settle)


# --- recorders -----------------------------------------------------------------------------------


def prometheus_counter() -> Recorder:
    from prometheus_client import CollectorRegistry, Counter

    return Counter("requests", "requests", ["route"], registry=CollectorRegistry()).labels("x").inc


def prometheus_histogram() -> Recorder:
    from prometheus_client import CollectorRegistry, Histogram

    return Histogram("latency", "latency", ["route"], registry=CollectorRegistry()).labels("x").observe


def _otel_meter() -> Any:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    return MeterProvider(metric_readers=[InMemoryMetricReader()]).get_meter("bench")


def otel_counter() -> Recorder:
    recorder: Recorder = _otel_meter().create_counter("requests").add
    return recorder


def otel_histogram() -> Recorder:
    recorder: Recorder = _otel_meter().create_histogram("latency").record
    return recorder


def _udp_sink() -> socket.socket:
    """A bound socket that nobody reads: datagrams to it succeed."""
    sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sink.bind(("127.0.0.1", 0))
    return sink


def _statsd_client() -> Any:
    import statsd  # type: ignore[import-untyped]

    sink = _udp_sink()
    client = statsd.StatsClient("127.0.0.1", sink.getsockname()[1])
    client.sink = sink  # closed only with the client
    return client


def statsd_udp() -> Recorder:
    client = _statsd_client()
    return lambda value: client.timing("latency", value)


def _dogstatsd() -> Any:
    from datadog.dogstatsd.base import DogStatsd

    sink = _udp_sink()
    client = DogStatsd(host="127.0.0.1", port=sink.getsockname()[1], disable_buffering=False)
    client.sink = sink  # type: ignore[attr-defined]  # closed only with the client
    return client


def hdr_record() -> Recorder:
    from hdrh.histogram import HdrHistogram

    recorder: Recorder = HdrHistogram(1, HIGHEST_NS, 3).record_value
    return recorder


# --- alternatives --------------------------------------------------------------------------------


def list_append() -> Measure:
    values: list[float] = []
    return measured(values.append, SECONDS, values.clear)


def statsd_pipeline() -> Measure:
    pipeline = _statsd_client().pipeline()
    return measured(lambda value: pipeline.timing("latency", value), SECONDS, pipeline.send)


def dogstatsd_buffered() -> Measure:
    client = _dogstatsd()
    return measured(lambda value: client.timing("latency", value), SECONDS, client.flush)


ALTERNATIVES: Final[dict[str, Callable[[], Measure]]] = {
    "list.append": list_append,
    "prometheus_client Counter.inc": lambda: measured(prometheus_counter(), SECONDS),
    "prometheus_client Histogram.observe": lambda: measured(prometheus_histogram(), SECONDS),
    "opentelemetry-sdk Counter.add": lambda: measured(otel_counter(), SECONDS),
    "opentelemetry-sdk Histogram.record": lambda: measured(otel_histogram(), SECONDS),
    "statsd pipeline": statsd_pipeline,
    "statsd UDP": lambda: measured(statsd_udp(), SECONDS),
    "datadog buffered": dogstatsd_buffered,
    "HdrHistogram record_value": lambda: measured(hdr_record(), NANOSECONDS),
}
