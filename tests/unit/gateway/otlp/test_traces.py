"""Spans of OTLP as spans and marks of a run."""

from __future__ import annotations

import time
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.trace.v1 import trace_pb2
from tests.unit.gateway.otlp.recorded import NOW_NS, PROTOBUF, Recorded, S, attributes

from telemetry.gateway.otlp import Accepted, take_traces
from telemetry.wire.events import Mark, Span

TRACE_ID = bytes(range(16))
SPAN_ID = bytes(range(8, 16))
IDS = {"trace_id": TRACE_ID.hex(), "span_id": SPAN_ID.hex()}


def span(name: str = "decode", start_s: float = 1.0, end_s: float = 1.25, **more: Any) -> trace_pb2.Span:
    return trace_pb2.Span(
        name=name,
        trace_id=TRACE_ID,
        span_id=SPAN_ID,
        start_time_unix_nano=NOW_NS + round(start_s * S),
        end_time_unix_nano=NOW_NS + round(end_s * S),
        attributes=more.pop("attributes", []),
        **more,
    )


def take(recorded: Recorded, *spans: trace_pb2.Span, service: str = "vllm") -> Accepted:
    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.extend(attributes(host__name="h", service__name=service))
    group.scope_spans.add(spans=spans)
    body, accepted = take_traces(request.SerializeToString(), PROTOBUF, recorded)
    partial = ExportTraceServiceResponse.FromString(body).partial_success
    assert (partial.rejected_spans, partial.error_message) == (accepted.refused, accepted.reason)
    return accepted


def test_a_span_keeps_name_times_track_and_ids_and_is_a_series() -> None:
    """A span is on this machine's monotonic clock, and its length is exact to the nanosecond."""
    recorded = Recorded()
    assert take(recorded, span()) == (1, 0, "")
    [found] = recorded.records(Span)
    assert (found.name, found.track, found.labels) == ("decode", "vllm", IDS)
    assert found.end_ns - found.start_ns == 250_000_000
    assert abs(found.start_ns - time.monotonic_ns() - (NOW_NS + S - time.time_ns())) < S
    assert recorded.of("span.decode") == [250.0]
    assert recorded.units()["span.decode"] == ("series", "ms")


@pytest.mark.parametrize(
    ("more", "labels"),
    [
        ({"kind": trace_pb2.Span.SPAN_KIND_INTERNAL}, {}),
        ({"kind": trace_pb2.Span.SPAN_KIND_SERVER}, {"kind": "server"}),
        ({"kind": trace_pb2.Span.SPAN_KIND_CLIENT}, {"kind": "client"}),
        ({"kind": 99}, {}),
        ({"kind": trace_pb2.Span.SPAN_KIND_PRODUCER}, {"kind": "producer", "flow_out": SPAN_ID.hex()}),
        (
            {"kind": trace_pb2.Span.SPAN_KIND_CONSUMER, "parent_span_id": b"\x01" * 8},
            {"kind": "consumer", "parent_id": "01" * 8, "flow_in": "01" * 8},
        ),
        ({"kind": trace_pb2.Span.SPAN_KIND_CONSUMER}, {"kind": "consumer"}),
        ({"status": trace_pb2.Status(code=1, message="fine")}, {}),
        ({"status": trace_pb2.Status(code=2)}, {"status": "error"}),
        ({"status": trace_pb2.Status(code=2, message="no room")}, {"status": "error", "status_message": "no room"}),
    ],
)
def test_kind_status_and_parent_are_labels(more: dict[str, Any], labels: dict[str, str]) -> None:
    """Labels have only unusual facts, because most spans are internal and fine."""
    recorded = Recorded()
    assert take(recorded, span(**more)) == (1, 0, "")
    assert recorded.records(Span)[0].labels == IDS | labels


def test_attributes_are_texts() -> None:
    """Lists and maps are JSON, and an attribute without a value is left out."""
    recorded = Recorded()
    inner = AnyValue(kvlist_value=KeyValueList(values=attributes(a=1)))
    listed = AnyValue(array_value=ArrayValue(values=[AnyValue(double_value=float("inf")), inner, AnyValue()]))
    given = [
        *attributes(text="x", whole=-(1 << 63), part=0.5, yes=True, empty=""),
        KeyValue(key="raw", value=AnyValue(bytes_value=b"\xff\x00")),
        KeyValue(key="list", value=listed),
        KeyValue(key="none"),
    ]
    take(recorded, span(attributes=given))
    assert recorded.records(Span)[0].labels == IDS | {
        "text": "x",
        "whole": "-9223372036854775808",
        "part": "0.5",
        "yes": "true",
        "raw": "ff00",
        "list": '["inf",{"a":1},null]',
    }


def test_attributes_beyond_the_limit_are_left_out_last() -> None:
    """Ids and status come first, then attributes in their order. Long values are cut."""
    recorded = Recorded()
    given = attributes(**{f"k{at:02}": "v" * 300 for at in range(30)}, kind="mine", span_id="mine")
    assert take(recorded, span(attributes=given, status=trace_pb2.Status(code=2))) == (1, 0, "")
    labels = recorded.records(Span)[0].labels
    assert list(labels) == ["status", "trace_id", "span_id", *(f"k{at:02}" for at in range(13))]
    assert len(labels["k00"]) == 200


def test_an_attribute_does_not_replace_an_id() -> None:
    """The span's own fields are what its name says."""
    recorded = Recorded()
    take(recorded, span(attributes=attributes(span_id="mine", trace_id="mine", note="kept")))
    assert recorded.records(Span)[0].labels == IDS | {"note": "kept"}


def test_an_exception_is_a_mark_and_other_events_are_left_out() -> None:
    """A mark has the time of its event, or that of the span's end if the event has none."""
    recorded = Recorded()
    told = attributes(exception__type="ValueError", exception__message="too long", exception__stacktrace="…")
    events = [
        trace_pb2.Span.Event(name="exception", time_unix_nano=NOW_NS + round(1.1 * S), attributes=told),
        trace_pb2.Span.Event(name="exception"),
        trace_pb2.Span.Event(name="token", time_unix_nano=NOW_NS + S),
    ]
    assert take(recorded, span(events=events)) == (1, 0, "")
    [found] = recorded.records(Span)
    first, second = recorded.records(Mark)
    assert first.text == "ValueError: too long"
    assert first.labels == IDS | {"service": "vllm", "span": "decode"}
    assert first.time_ns - found.start_ns == 100_000_000
    assert (second.text, second.time_ns) == ("exception", found.end_ns)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (span(start_s=2.0, end_s=1.0), "span 'decode': it ends 1,000,000,000 ns before it starts"),
        (trace_pb2.Span(name="x", end_time_unix_nano=NOW_NS), "span 'x': it has no start time"),
        (trace_pb2.Span(name="x", start_time_unix_nano=NOW_NS), "span 'x': it has no end time"),
        (
            trace_pb2.Span(name="x", start_time_unix_nano=1, end_time_unix_nano=NOW_NS),
            "span 'x': its start time is before this machine started, or too far in the future",
        ),
        (
            trace_pb2.Span(name="x", start_time_unix_nano=NOW_NS, end_time_unix_nano=(1 << 64) - 1),
            "span 'x': its end time is before this machine started, or too far in the future",
        ),
    ],
)
def test_only_a_wrong_span_is_refused(wrong: trace_pb2.Span, reason: str) -> None:
    """The spans around it are recorded, and the answer names the first reason."""
    recorded = Recorded()
    assert take(recorded, span("a"), wrong, wrong, span("b")) == (2, 2, reason)
    assert [each.name for each in recorded.records(Span)] == ["a", "b"]
    assert recorded.program.recorders.refused.take() == 0


def test_a_reason_is_a_line() -> None:
    """A name may be as long as the sender likes."""
    accepted = take(Recorded(), span("x" * 10_000 + "\n", start_s=2.0, end_s=1.0))
    assert accepted.refused == 1
    assert len(accepted.reason) == 300
    assert "\n" not in accepted.reason


def test_a_span_without_name_and_service_is_recorded() -> None:
    """Protobuf leaves both out if they are empty."""
    recorded = Recorded()
    assert take(recorded, span("", start_s=1.0, end_s=1.0), service="") == (1, 0, "")
    [found] = recorded.records(Span)
    assert (found.name, found.track, found.start_ns) == ("_", "", found.end_ns)
