"""The SDK of OpenTelemetry exports traces and metrics to the gateway of a run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import Observation
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.sdk.metrics import (
    Counter,
    Histogram,
    MeterProvider,
    ObservableCounter,
    UpDownCounter,
)
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    InMemoryMetricReader,
    PeriodicExportingMetricReader,
)
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode
from tests.gateway_run import GatewayRun
from tests.process.conftest import Ground

RESOURCE: Final = Resource.create({"service.name": "trainer"})
LABELS: Final = {"service": "trainer", "route": "/a"}
CUMULATIVE: Final = dict.fromkeys(
    (Counter, Histogram, ObservableCounter, UpDownCounter), AggregationTemporality.CUMULATIVE
)
DELTA: Final = CUMULATIVE | dict.fromkeys((Counter, Histogram, ObservableCounter), AggregationTemporality.DELTA)
BOUNDS: Final = [1.0, 10.0, 100.0]
LATENCIES: Final = [0.5, 2.0, 3.0, 50.0, 99.0]
"""Milliseconds, exact in binary."""


@pytest.fixture
def run(ground: Ground) -> GatewayRun:
    return GatewayRun(ground)


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = Ground()
    yield made
    made.close()


def records(run: GatewayRun, kind: str) -> list[dict[str, Any]]:
    lines = (run.folder / "records" / "records.jsonl").read_text().splitlines()
    return [record for record in map(json.loads, lines) if record.get("type") == kind]


def instruments(final: dict[str, Any], kind: str) -> dict[str, float]:
    """Return values by name. All of them have the labels of the test."""
    for stat in final[kind]:
        assert stat["labels"] == LABELS, stat
    return {stat["name"]: stat["value"] for stat in final[kind]}


@pytest.mark.parametrize("temporality", [CUMULATIVE, DELTA], ids=["cumulative", "delta"])
def test_metrics_of_the_sdk_are_instruments_of_the_run(
    ground: Ground, run: GatewayRun, temporality: dict[type, AggregationTemporality]
) -> None:
    """Counters equal what was added and gauges what was last, after several exports.

    Bins of histograms hold each value once, in buckets with given bounds and in exponential ones.
    """
    exporter = OTLPMetricExporter(
        endpoint=f"{run.url}/v1/metrics", preferred_temporality=temporality, compression=Compression.Gzip
    )
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=1e9)
    exponential = View(instrument_name="size", aggregation=ExponentialBucketHistogramAggregation())
    provider = MeterProvider([reader], RESOURCE, views=[exponential])
    meter = provider.get_meter("test")
    attributes = {"route": "/a"}
    observed = 0

    def tokens(_: object) -> list[Observation]:
        return [Observation(observed, attributes)]

    requests = meter.create_counter("requests", "{request}")
    active = meter.create_up_down_counter("active")
    memory = meter.create_gauge("memory", "By")
    latency = meter.create_histogram("latency", "ms", explicit_bucket_boundaries_advisory=BOUNDS)
    size = meter.create_histogram("size", "By")
    meter.create_observable_counter("tokens", [tokens])
    for value in LATENCIES:
        requests.add(2, attributes)
        active.add(3, attributes)
        active.add(-1, attributes)
        memory.set(value, attributes)
        latency.record(value, attributes)
        size.record(value, attributes)
        observed += 100
        assert provider.force_flush(60_000)
    provider.shutdown()
    run.end()

    final = ground.final()
    count, total = len(LATENCIES), sum(LATENCIES)
    assert instruments(final, "counters") == {
        "requests": 2 * count,
        "tokens": 100 * count,
        "latency.count": count,
        "latency.sum": total,
        "size.count": count,
        "size.sum": total,
    }
    assert instruments(final, "gauges") == {"active": 2 * count, "memory": LATENCIES[-1]}
    units = {stat["name"]: stat["unit"] for kind in ("counters", "gauges") for stat in final[kind]}
    assert (units["requests"], units["latency.sum"], units["memory"]) == ("requests", "ms", "B")
    for name in ("latency", "size"):
        found = [
            record for record in records(run, "bins") if record["name"] == f"{name}{{route=/a,service=trainer}}"
        ]
        assert sum(sum(record["counts"]) for record in found) == count
        for record, value in zip(found, LATENCIES, strict=True):
            (index,) = (index for index, number in enumerate(record["counts"]) if number)
            low, high = list(pairwise(record["edges"]))[index]
            assert low <= value <= high
    assert (final["completeness"], final["accounting"]["dropped_by_producer"]) == ("complete", {})


def test_spans_of_the_sdk_are_spans_of_the_run(ground: Ground, run: GatewayRun) -> None:
    """Spans of the SDK arrive with their times, ids, kinds and attributes.

    Their durations are series, and exceptions are marks.
    """
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{run.url}/v1/traces")))
    tracer = provider.get_tracer("test")
    ids = []
    for number in range(20):
        with tracer.start_as_current_span("step", attributes={"number": number}) as outer:
            ids.append((f"{outer.context.trace_id:032x}", f"{outer.context.span_id:016x}"))
            with tracer.start_as_current_span("generate", kind=SpanKind.CLIENT):
                pass
    failed = tracer.start_span("save")
    failed.record_exception(RuntimeError("no space"))
    failed.set_status(Status(StatusCode.ERROR, "not saved"))
    failed.end()
    provider.shutdown()
    run.end()

    spans = records(run, "span")
    assert len(spans) == 41
    assert {span["track"] for span in spans} == {"trainer"}
    steps = [span["labels"] for span in spans if span["name"] == "step"]
    assert sorted((one["trace_id"], one["span_id"]) for one in steps) == sorted(ids)
    assert sorted(int(one["number"]) for one in steps) == list(range(20))
    inner = [span["labels"] for span in spans if span["name"] == "generate"]
    assert {one["kind"] for one in inner} == {"client"}
    assert sorted((one["trace_id"], one["parent_id"]) for one in inner) == sorted(ids)
    (save,) = (span for span in spans if span["name"] == "save")
    assert (save["labels"]["status"], save["labels"]["status_message"]) == ("error", "not saved")
    assert save["end_ns"] - save["start_ns"] == pytest.approx(failed.end_time - failed.start_time, abs=1_000)

    final = ground.final()
    series = {one["name"]: one["count"] for one in final["series"]}
    assert series == {"span.step": 20, "span.generate": 20, "span.save": 1}
    (mark,) = final["marks"]
    assert (mark["text"], mark["labels"]["span"]) == ("RuntimeError: no space", "save")
    assert final["completeness"] == "complete"


def test_what_can_not_be_recorded_is_counted_in_the_answer(ground: Ground, run: GatewayRun) -> None:
    """A sum that falls, in deltas, is refused with its reason. The other points of the request are taken."""
    temporality = DELTA | {UpDownCounter: AggregationTemporality.DELTA}
    reader = InMemoryMetricReader(preferred_temporality=temporality)
    provider = MeterProvider([reader], RESOURCE)
    meter = provider.get_meter("test")
    meter.create_counter("requests").add(2, {"route": "/a"})
    active = meter.create_up_down_counter("active")
    for route in ("/a", "/b"):
        active.add(1, {"route": route})
    body = encode_metrics(reader.get_metrics_data()).SerializeToString()
    provider.shutdown()
    client = run.client()
    answer = client.post("/v1/metrics", body, "application/x-protobuf")
    again = client.post("/v1/metrics", body, "application/x-protobuf")
    broken = client.post("/v1/metrics", b"\xff", "application/x-protobuf")
    run.end()

    assert (answer.status, answer.headers["content-type"]) == (200, "application/x-protobuf")
    partial = ExportMetricsServiceResponse.FromString(answer.body).partial_success
    assert partial.rejected_data_points == 2
    assert "cumulative" in partial.error_message
    assert again.status == 200
    assert broken.status == 400
    assert instruments(ground.final(), "counters") == {"requests": 2}, "a repeated export counts once"
