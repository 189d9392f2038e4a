"""Messages that the SDK of OpenTelemetry makes."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.metrics import Observation
from opentelemetry.sdk import metrics as sdk
from opentelemetry.sdk.metrics.export import AggregationTemporality, InMemoryMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from tests.unit.gateway.otlp.recorded import PROTOBUF, Recorded

from telemetry.gateway.otlp import MetricState, take_metrics, take_traces
from telemetry.wire.events import Mark, Span

RESOURCE = Resource.create({"service.name": "trainer"})
DELTA = dict.fromkeys((sdk.Counter, sdk.Histogram, sdk.ObservableCounter), AggregationTemporality.DELTA)
EXPONENTIAL = View(instrument_type=sdk.Histogram, aggregation=ExponentialBucketHistogramAggregation())


def test_spans_arrive_with_their_tree() -> None:
    """Spans of the SDK arrive with their tree, and with the exception that left the inner one."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=RESOURCE)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("outer", kind=SpanKind.SERVER) as outer:
        with pytest.raises(ValueError, match="no room"), tracer.start_as_current_span("inner", attributes={"n": 3}):
            raise ValueError("no room")
        outer.set_attribute("gen_ai.request.model", "tiny")
    recorded = Recorded()
    body = encode_spans(exporter.get_finished_spans()).SerializeToString()
    assert take_traces(body, PROTOBUF, recorded)[1] == (2, 0, "")
    inner_span, outer_span = sorted(recorded.records(Span), key=lambda each: each.name)
    assert (inner_span.name, inner_span.track) == ("inner", "trainer")
    assert inner_span.labels["parent_id"] == outer_span.labels["span_id"]
    assert inner_span.labels["trace_id"] == outer_span.labels["trace_id"]
    assert inner_span.labels["status"] == "error"
    assert inner_span.labels["status_message"] == "ValueError: no room"
    assert inner_span.labels["n"] == "3"
    assert "parent_id" not in outer_span.labels
    assert (outer_span.labels["kind"], outer_span.labels["gen_ai.request.model"]) == ("server", "tiny")
    assert outer_span.start_ns <= inner_span.start_ns <= inner_span.end_ns <= outer_span.end_ns
    [mark] = recorded.records(Mark)
    assert mark.text == "ValueError: no room"
    assert mark.labels["span"] == "inner"


class Sender:
    """A program that is measured by the SDK, and sends to a recording when told."""

    def __init__(self, preferred: dict[type, AggregationTemporality], views: list[View]) -> None:
        self.state = MetricState()
        self.recorded = Recorded()
        self._reader = InMemoryMetricReader(preferred_temporality=preferred)
        provider = sdk.MeterProvider([self._reader], resource=RESOURCE, views=views)
        self.meter = provider.get_meter("test")

    def send(self) -> None:
        """Send what was collected. All of it must be taken."""
        data = self._reader.get_metrics_data()
        if data is not None:
            body = encode_metrics(data).SerializeToString()
            accepted = take_metrics(body, PROTOBUF, self.recorded, self.state)[1]
            assert accepted.refused == 0, accepted.reason
            assert accepted.taken > 0


@pytest.fixture(params=["cumulative", "delta", "exponential cumulative", "exponential delta"])
def sender(request: pytest.FixtureRequest) -> Sender:
    kind: str = request.param
    return Sender(DELTA if "delta" in kind else {}, [EXPONENTIAL] if "exponential" in kind else [])


@pytest.mark.parametrize("seed", range(5))
def test_what_was_added_is_what_was_counted(sender: Sender, seed: int) -> None:
    """The counts are right for any temporality, kind of histogram and number of requests."""
    chance = random.Random(seed)
    counter = sender.meter.create_counter("hits", unit="{request}")
    level = sender.meter.create_up_down_counter("depth")
    latency = sender.meter.create_histogram("latency", unit="ms")
    added, observed, depth = {"/a": 0, "/b": 0}, list[float](), 0
    for _ in range(6):
        for _ in range(chance.randrange(20)):
            route, amount, value = chance.choice(["/a", "/b"]), chance.randrange(5), chance.lognormvariate(3.0, 2.0)
            counter.add(amount, {"route": route, "status": 200})
            level.add(change := chance.randrange(-3, 4))
            latency.record(value)
            added[route] += amount
            depth += change
            observed.append(value)
        sender.send()
    recorded = sender.recorded
    counted = {route: _total(recorded, lambda labels, route=route: labels.get("route") == route) for route in added}
    assert counted == added
    assert recorded.of("depth")[-1] == depth
    assert sum(recorded.of("latency.count")) == len(observed)
    assert sum(recorded.of("latency.sum")) == pytest.approx(sum(observed))
    inside = sum(sum(counts) for _, _, counts in recorded.bins)
    assert inside + sum(recorded.of("latency.outside")) == len(observed)
    assert recorded.units() | {"latency.outside": ("counter", "")} == {
        "hits": ("counter", "requests"),
        "depth": ("gauge", ""),
        "latency.count": ("counter", ""),
        "latency.sum": ("counter", "ms"),
        "latency.outside": ("counter", ""),
    }


def _total(recorded: Recorded, chosen: Callable[..., bool]) -> float:
    return sum(each.value for each in recorded.values if each.name == "hits" and chosen(each.labels))


def test_bins_of_the_sdk_hold_the_values_between_their_edges(sender: Sender) -> None:
    """Each bin is true of the values that were recorded since the last request."""
    latency = sender.meter.create_histogram("latency", unit="ms")
    chance = random.Random(7)
    latency.record(17.3)
    sender.send()
    sender.recorded.program.records.clear()
    values = [chance.uniform(0.5, 900.0) for _ in range(200)]
    for value in values:
        latency.record(value)
    sender.send()
    [(name, edges, counts)] = sender.recorded.bins
    assert name == "latency{service=trainer}"
    assert sum(counts) == len(values)
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        assert sum(low < value <= high for value in values) == count


def test_an_observable_gauge_and_counter_arrive() -> None:
    """Callbacks report totals; the gateway counts differences."""
    sender = Sender({}, [])
    totals = iter([(3, 0.5), (10, 0.25)])
    now = {"total": 0, "load": 0.0}
    sender.meter.create_observable_counter("done", [lambda _: [Observation(now["total"])]])
    sender.meter.create_observable_gauge("load", [lambda _: [Observation(now["load"], {"core": 0})]], unit="1")
    for total, load in totals:
        now.update(total=total, load=load)
        sender.send()
    assert sender.recorded.of("done") == [3.0, 7.0]
    assert sender.recorded.of("load") == [0.5, 0.25]
    assert sender.recorded.units()["load"] == ("gauge", "")
