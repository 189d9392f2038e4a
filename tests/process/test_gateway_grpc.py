"""OTLP over gRPC: the SDK of OpenTelemetry in a process of its own, and the answers of the gateway."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as traces
from tests.backends.otlp_receiver import HttpReceiver
from tests.backends.reading_otlp import spans
from tests.gateway_run import GatewayRun, until
from tests.process.conftest import Ground

TOKEN: Final = "0123456789abcdef"
METRICS: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
TRACES: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
LOGS: Final = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
PROGRAM: Final = """
import os, sys
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

if sys.argv[1] == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
    place = {"endpoint": os.environ["TELEMETRY_GATEWAY_GRPC_URL"], "insecure": True}
    exporters = OTLPSpanExporter(**place), OTLPMetricExporter(**place)
else:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    url = os.environ["TELEMETRY_GATEWAY_URL"]
    exporters = OTLPSpanExporter(url + "/v1/traces"), OTLPMetricExporter(url + "/v1/metrics")

resource = Resource.create({"service.name": "trainer"})
tracers = TracerProvider(resource=resource)
tracers.add_span_processor(BatchSpanProcessor(exporters[0]))
meters = MeterProvider(
    [PeriodicExportingMetricReader(exporters[1], 60_000)],
    resource,
    views=[View(instrument_name="sizes", aggregation=ExponentialBucketHistogramAggregation())],
)
tracer, meter = tracers.get_tracer("t"), meters.get_meter("t")
jobs = meter.create_counter("jobs")
latency, sizes = meter.create_histogram("latency", "ms"), meter.create_histogram("sizes")
for number in range(300):
    with tracer.start_as_current_span("outer"), tracer.start_as_current_span("inner"):
        jobs.add(2)
        latency.record(number)
        sizes.record(number + 0.5)
for provider in (tracers, meters):
    provider.shutdown()
"""


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = Ground()
    yield made
    made.close()


def result_of(ground: Ground, how: str) -> dict[str, Any]:
    """Run the program beside a gateway, and return counters, and series without durations, of the result."""
    program = ground.program("sdk.py", PROGRAM)
    gates = ("--gate", "p90(sizes) < 300", "--gate", "p50(latency) <= 250ms", "--gate", "count(latency) == 300")
    words = ("--name", how, "--strict", "--gateway", "0", "--gateway-grpc", "0", *gates, "--", sys.executable)
    code, _, err = ground.run("run", *words, program, how)
    assert code == 0, err
    assert "Transient error" not in err
    final = ground.final()
    counters = {stat["name"]: (stat["value"], stat["labels"]) for stat in final["counters"]}
    bins = [
        (record["name"], record["edges"], record["counts"])
        for record in map(
            json.loads, (ground.folder / "runs/latest/records/records.jsonl").read_text().splitlines()
        )
        if record.get("type") == "bins"
    ]
    return {"counters": counters, "spans": {s["name"]: s["count"] for s in final["series"]}, "bins": bins}


def test_the_sdk_records_the_same_over_grpc_and_http(ground: Ground) -> None:
    """Spans, counters and both kinds of histograms, from the exporters of the SDK, which found nothing to retry."""
    over_grpc, over_http = result_of(ground, "grpc"), result_of(ground, "http")
    assert over_grpc["counters"]["jobs"] == (600, {"service": "trainer"})
    assert over_grpc["spans"] == {"span.outer": 300, "span.inner": 300}
    assert over_grpc == over_http


def test_nested_spans_are_sent_on_with_their_ids(ground: Ground, tmp_path: Path) -> None:
    """Spans from the SDK through the gateway into another receiver keep their traces and parents."""
    program = ground.program("sdk.py", PROGRAM)
    with HttpReceiver(tmp_path / "got") as receiver:
        words = (
            "--gateway",
            "0",
            "--gateway-grpc",
            "0",
            "--to",
            f"otlp:endpoint={receiver.endpoint},metrics=false",
        )
        code, _, err = ground.run("run", *words, "--", sys.executable, program, "grpc")
    assert code == 0, err
    found = spans(tmp_path / "got")
    outer = {span.span_id: span for span in found if span.name == "outer"}
    inner = [span for span in found if span.name == "inner"]
    assert (len(found), len(outer), len({span.trace_id for span in found})) == (600, 300, 300)
    assert {span.parent_span_id for span in outer.values()} == {b""}
    assert {span.parent_span_id for span in inner} == set(outer)
    assert all(span.trace_id == outer[span.parent_span_id].trace_id for span in inner)
    logged = (ground.folder / "runs/latest/records/records.jsonl").read_text().splitlines()
    labels = [record["labels"] for record in map(json.loads, logged) if record.get("type") == "span"]
    assert {one["span_id"] for one in labels} == {span.span_id.hex() for span in found}


class Caller:
    """A client of gRPC that sends bytes."""

    def __init__(self, run: GatewayRun) -> None:
        words = next(words for _, words in run._processes() if b"--grpc" in words)
        self.place = next(after for word, after in pairwise(words) if word == b"--grpc").decode()
        self.channel = grpc.insecure_channel(self.place)

    def call(self, method: str, body: bytes, token: str = TOKEN, **options: Any) -> bytes:
        metadata = [("authorization", f"Bearer {token}")]
        return bytes(self.channel.unary_unary(method)(body, metadata=metadata, timeout=60.0, **options))

    def refused(
        self, method: str, body: bytes, token: str = TOKEN, **options: Any
    ) -> tuple[str, str, dict[str, Any]]:
        """Return code, details and metadata of a refusal."""
        with pytest.raises(grpc.RpcError) as caught:
            self.call(method, body, token, **options)
        error: Any = caught.value
        return error.code().name, error.details(), dict(error.trailing_metadata() or ())


@pytest.fixture
def run(ground: Ground) -> GatewayRun:
    return GatewayRun(ground, "--gateway-grpc", "0", environ={"TELEMETRY_GATEWAY_TOKEN": TOKEN})


@pytest.fixture
def caller(run: GatewayRun) -> Iterator[Caller]:
    made = Caller(run)
    yield made
    made.channel.close()


def counted(value: float, name: str = "jobs") -> bytes:
    """Return a request with a delta counter. A negative value is refused."""
    request = metrics.ExportMetricsServiceRequest()
    metric = request.resource_metrics.add().scope_metrics.add().metrics.add(name=name)
    metric.sum.is_monotonic, metric.sum.aggregation_temporality = True, 1
    metric.sum.data_points.add(as_double=value)
    return bytes(request.SerializeToString())


def test_requests_are_checked_as_over_http(run: GatewayRun, caller: Caller) -> None:
    """A wrong token, body, point, size or signal costs only its request."""
    assert caller.refused(METRICS, counted(1), token="wrong")[0] == "UNAUTHENTICATED"
    code, details, _ = caller.refused(TRACES, b"\xff\xff")
    assert (code, "not an OTLP message" in details) == ("INVALID_ARGUMENT", True)
    assert caller.refused(LOGS, b"")[0] == "UNIMPLEMENTED"
    assert caller.refused(METRICS, bytes(17 << 20))[0] == "RESOURCE_EXHAUSTED"
    assert caller.refused(METRICS, bytes(64 << 20), compression=grpc.Compression.Gzip)[0] == "RESOURCE_EXHAUSTED"
    assert caller.call(METRICS, counted(3), compression=grpc.Compression.Gzip) == b""
    partial = metrics.ExportMetricsServiceResponse.FromString(caller.call(METRICS, counted(-1))).partial_success
    assert (partial.rejected_data_points, "only grows" in partial.error_message) == (1, True)
    timeless = traces.ExportTraceServiceRequest()
    timeless.resource_spans.add().scope_spans.add().spans.add(name="timeless")
    answer = traces.ExportTraceServiceResponse.FromString(caller.call(TRACES, timeless.SerializeToString()))
    assert answer.partial_success.rejected_spans == 1
    run.end()
    assert {stat["name"]: stat["value"] for stat in run._ground.final()["counters"]} == {"jobs": 3}


def test_a_restarted_gateway_has_the_same_address(run: GatewayRun, caller: Caller) -> None:
    """A restarted gateway has the same address, and what was confirmed before is in the run once."""
    caller.call(METRICS, counted(1))
    run.kill_gateway()
    until(lambda: accepted(caller), "a gateway that answers")
    run.end()
    assert run._ground.final()["counters"][0]["value"] == 2


def test_a_request_that_the_run_can_not_take_is_to_be_sent_again(run: GatewayRun, caller: Caller) -> None:
    """A request gets a code that clients retry, with a delay, while the aggregator does not answer."""
    from google.rpc import error_details_pb2, status_pb2

    aggregator = next(pid for pid, words in run._processes() if b"serve" in words or b"telemetry.daemon" in words)
    os.kill(aggregator, signal.SIGSTOP)
    try:
        refusals = until(lambda: refusal(caller), "a refusal")
    finally:
        os.kill(aggregator, signal.SIGCONT)
    code, details, metadata = refusals
    assert (code, "try again" in details) == ("UNAVAILABLE", True)
    info = error_details_pb2.RetryInfo()
    status = status_pb2.Status.FromString(metadata["grpc-status-details-bin"])
    assert status.details[0].Unpack(info)
    assert info.retry_delay.seconds == 1
    run.end()


def accepted(caller: Caller) -> bool:
    """Send a request, as clients do again if nobody is there."""
    try:
        return caller.call(METRICS, counted(1), wait_for_ready=True) == b""
    except grpc.RpcError as error:
        if error.code() is not grpc.StatusCode.UNAVAILABLE:
            raise
        return False


def refusal(caller: Caller) -> tuple[str, str, dict[str, Any]] | None:
    try:
        caller.call(METRICS, counted(1))
    except grpc.RpcError:
        return caller.refused(METRICS, counted(1))
    return None


def test_an_address_that_is_taken_is_an_error_at_the_start(ground: Ground) -> None:
    """An address that is taken is an error at the start.

    This holds also if its owner lets others share the port, as servers of gRPC do.
    """
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        with socket.socket() as taken:
            taken.setsockopt(socket.SOL_SOCKET, option, 1)
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            code, _, err = ground.run("run", "--gateway", "0", "--gateway-grpc", port, "--", "true")
        assert code == 2
        assert f"can't listen for gRPC on 127.0.0.1:{port}" in err


def test_without_grpcio_the_command_does_not_start(ground: Ground) -> None:
    """The error says what to install."""
    ground.program("sitecustomize.py", "import sys\nsys.modules['grpc'] = None\n")
    words = ("run", "--gateway", "0", "--gateway-grpc", "0", "--", "touch", "started")
    code, _, err = ground.run(*words, environ={"PYTHONPATH": str(ground.folder)})
    assert (code, (ground.folder / "started").exists()) == (2, False)
    assert "OTLP over gRPC needs grpcio" in err
    assert "pip install 'telemetryd[gateway,otlp]'" in err


def test_grpc_without_a_gateway_is_refused(ground: Ground) -> None:
    """The option for gRPC without a gateway is refused, like every option that would have no effect."""
    code, _, err = ground.run("run", "--gateway-grpc", "4317", "--", "true")
    assert (code, "add --gateway 8000" in err) == (2, True)
