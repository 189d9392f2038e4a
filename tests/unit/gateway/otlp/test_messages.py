"""Bodies of OTLP as protobuf and JSON, and bodies that are neither."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from tests.unit.gateway.otlp.recorded import JSON, NOW_NS, PROTOBUF, Recorded, S, gauge, number, request, state

from telemetry.gateway.otlp import BadBody, check_library, take_metrics, take_traces
from telemetry.wire.events import Span

SPAN = {
    "name": "decode",
    "traceId": "5B8EFFF798038103D269B633813FC60C",
    "spanId": "EEE19B7EC3C1B174",
    "parentSpanId": "",
    "kind": 2,
    "startTimeUnixNano": str(NOW_NS),
    "endTimeUnixNano": str(NOW_NS + S),
    "attributes": [
        {"key": "traceId", "value": {"stringValue": "not an id"}},
        {"key": "count", "value": {"intValue": "7"}},
        {"key": "raw", "value": {"bytesValue": "/wA="}},
    ],
    "links": [{"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174"}],
    "status": {"code": 2},
    "fieldOfTheFuture": {"x": [1]},
}


def traces(*spans: Any) -> bytes:
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": spans}]}]}).encode()


@pytest.mark.parametrize("content_type", [JSON, "Application/JSON; charset=utf-8"])
def test_json_has_ids_in_hexadecimal_and_integers_as_texts(content_type: str) -> None:
    """The fields of OTLP's JSON are in camel case, and unknown fields are skipped."""
    recorded = Recorded()
    body, accepted = take_traces(traces(SPAN), content_type, recorded)
    assert (json.loads(body), accepted) == ({}, (1, 0, ""))
    [found] = recorded.records(Span)
    assert found.end_ns - found.start_ns == S
    assert found.labels == {
        "kind": "server",
        "status": "error",
        "trace_id": "5b8efff798038103d269b633813fc60c",
        "span_id": "eee19b7ec3c1b174",
        "traceId": "not an id",
        "count": "7",
        "raw": "ff00",
    }


def test_an_answer_in_json_says_what_was_refused() -> None:
    """The number is a text, as all 64-bit integers are."""
    body, accepted = take_traces(traces(SPAN, {"name": "x"}), JSON, Recorded())
    assert accepted == (1, 1, "span 'x': it has no start time")
    assert json.loads(body) == {
        "partialSuccess": {"rejectedSpans": "1", "errorMessage": "span 'x': it has no start time"}
    }


def test_metrics_come_as_json_too() -> None:
    """The same points as in protobuf."""
    point = {"timeUnixNano": str(NOW_NS), "asDouble": 0.5, "exemplars": [{"spanId": "EEE19B7EC3C1B174"}]}
    metric = {"name": "load", "gauge": {"dataPoints": [point, {"asDouble": "NaN"}]}}
    body = {"resourceMetrics": [{"scopeMetrics": [{"metrics": [metric]}]}]}
    recorded = Recorded()
    answer, accepted = take_metrics(json.dumps(body).encode(), JSON, recorded, state())
    assert accepted == (1, 1, "'load': its value is nan, which is not a number")
    assert json.loads(answer)["partialSuccess"]["rejectedDataPoints"] == "1"
    assert recorded.of("load") == [0.5]


@pytest.mark.parametrize(("body", "content_type"), [(b"", PROTOBUF), (b"{}", JSON)])
def test_an_empty_request_is_taken(body: bytes, content_type: str) -> None:
    """Exporters send one to try the connection. A success has no part."""
    answer, accepted = take_traces(body, content_type, Recorded())
    assert accepted == (0, 0, "")
    assert answer == body
    assert not ExportTraceServiceResponse().HasField("partial_success")


@pytest.mark.parametrize(
    ("body", "content_type", "reason"),
    [
        (b"", "", "the content type is ''; send application/x-protobuf or application/json"),
        (b"", "text/plain", "the content type is 'text/plain'; send application/x-protobuf or application/json"),
        (b"\xff\xff\xff", PROTOBUF, "the body is not an OTLP message"),
        (b"{}", PROTOBUF, "the body is not an OTLP message"),
        (b"", JSON, "the body is not an OTLP message"),
        (b"[]", JSON, "the body is not a JSON object"),
        (b'{"resourceSpans": 7}', JSON, "the body is not an OTLP message"),
        (b'{"resourceSpans": [7]}', JSON, "the body is not an OTLP message"),
        (b'{"resourceSpans": [{"resource": 7}]}', JSON, "the body is not an OTLP message"),
        (b"[" * 100_000, JSON, "the body is not an OTLP message"),
        (b'{"a":' * 100_000, JSON, "the body is not an OTLP message"),
        (traces({"spanId": "xyz"}), JSON, "spanId is 'xyz', must be hexadecimal digits"),
        (traces({"name": 7}), JSON, "the body is not an OTLP message"),
        (traces({"startTimeUnixNano": "-1"}), JSON, "the body is not an OTLP message"),
        (traces({"startTimeUnixNano": 1.5}), JSON, "the body is not an OTLP message"),
        (traces({"name": "\ud800"}), JSON, "the body is not an OTLP message"),
    ],
)
def test_a_body_that_can_not_be_read_records_nothing(body: bytes, content_type: str, reason: str) -> None:
    """The reason is one line for the answer of the server."""
    recorded = Recorded()
    with pytest.raises(BadBody) as caught:
        take_traces(body, content_type, recorded)
    message = str(caught.value)
    assert message.startswith(reason)
    assert len(message) <= 400
    assert "\n" not in message
    assert recorded.program.records == []


@given(st.binary(max_size=200), st.sampled_from([PROTOBUF, JSON]))
def test_any_bytes_are_taken_or_are_a_bad_body(body: bytes, content_type: str) -> None:
    """Bytes of any kind raise no other exception in the server."""
    for signal in ("traces", "metrics"):
        try:
            if signal == "traces":
                _, accepted = take_traces(body, content_type, Recorded())
            else:
                _, accepted = take_metrics(body, content_type, Recorded(), state())
        except BadBody:
            continue
        assert accepted.taken >= 0


_FIELDS = (
    "resourceMetrics scopeMetrics metrics name sum gauge histogram summary exponentialHistogram dataPoints asInt "
    "asDouble timeUnixNano count bucketCounts explicitBounds quantileValues positive attributes key value scale "
    "flags isMonotonic aggregationTemporality zeroCount"
)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["1", "NaN"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_FIELDS.split()), inner, max_size=4)
    ),
    max_leaves=30,
)


@given(_VALUES, st.sampled_from(["resourceMetrics", "scopeMetrics", "metrics", "dataPoints"]))
def test_any_json_is_taken_or_is_a_bad_body(value: Any, depth: str) -> None:
    """JSON may stop being OTLP at any depth."""
    nested = {
        "resourceMetrics": value,
        "scopeMetrics": [{"scopeMetrics": value}],
        "metrics": [{"scopeMetrics": [{"metrics": value}]}],
        "dataPoints": [{"scopeMetrics": [{"metrics": [{"name": "x", "histogram": {"dataPoints": value}}]}]}],
    }[depth]
    body = json.dumps({"resourceMetrics": nested}).encode()
    try:
        _, accepted = take_metrics(body, JSON, Recorded(), state())
    except BadBody:
        return
    assert bool(accepted.refused) == bool(accepted.reason)


def test_missing_packages_are_named() -> None:
    """The error for missing packages has the command that installs them."""
    program = (
        "import sys\n"
        "sys.modules['opentelemetry.proto'] = None\n"
        "from telemetry.gateway.otlp import check_library\n"
        "from telemetry.errors import UsageError\n"
        "try:\n"
        "    check_library()\n"
        "except UsageError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("OTLP can't be decoded: ")
    assert done.stdout.endswith("(pip install 'telemetryd[gateway]')\n")
    check_library()


def test_importing_the_package_does_not_load_protobuf() -> None:
    """A gateway without a sender of OTLP doesn't pay for it."""
    program = "import sys, telemetry.gateway.otlp; print('google.protobuf' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "False\n"


def test_a_request_may_hold_many_points() -> None:
    """One state and one answer for all."""
    made = request(*(gauge(f"g{at}", number(at)) for at in range(500)))
    recorded = Recorded()
    _, accepted = take_metrics(made.SerializeToString(), PROTOBUF, recorded, state())
    assert accepted == (500, 0, "")
    assert len(recorded.values) == 500
