"""Spans of OTLP as spans of the run, and exceptions in them as marks."""

from __future__ import annotations

from typing import Any, Final

from telemetry import limits
from telemetry.client.recording import Recording
from telemetry.gateway.otlp.attributes import SERVICE, UnixClock, service_of, text_of, texts_of
from telemetry.gateway.otlp.messages import Accepted, OtlpRefusal, OtlpTally, answer, read
from telemetry.wire import spans as words

_PRODUCER: Final = 4
_CONSUMER: Final = 5
_KINDS: Final = {2: "server", 3: "client", _PRODUCER: "producer", _CONSUMER: "consumer"}
"""Kinds worth a label. All others are internal."""
_ERROR: Final = 2
_EXCEPTION: Final = "exception"


def take_traces(body: bytes, content_type: str, recording: Recording) -> tuple[bytes, Accepted]:
    """Record the spans of a request. Return the body of the answer, and how many spans were taken.

    Raises BadBody, and then nothing is recorded.
    """
    request = read("traces", body, content_type)
    tally, clock = OtlpTally(), UnixClock()
    for group in request.resource_spans:
        service = service_of(group.resource)
        for scope in group.scope_spans:
            for span in scope.spans:
                try:
                    _take(span, service, recording, clock)
                except OtlpRefusal as error:
                    tally.refuse(f"span {span.name!r}: {error}")
                else:
                    tally.take()
    accepted = tally.accepted()
    return answer("traces", accepted, content_type), accepted


def _take(span: Any, service: str, recording: Recording, clock: UnixClock) -> None:
    start_ns = _checked_ns("start", span.start_time_unix_nano, clock)
    end_ns = _checked_ns("end", span.end_time_unix_nano, clock)
    if end_ns < start_ns:
        raise OtlpRefusal(f"it ends {start_ns - end_ns:,} ns before it starts")
    labels = _labels(span)
    recording.span_at(span.name, start_ns, end_ns, service, labels=labels)
    ids: dict[str, str] = {key: labels[key] for key in (words.TRACE_ID, words.SPAN_ID) if key in labels}
    origin = {SERVICE: service} if service else {}
    for event in span.events:
        if event.name == _EXCEPTION:
            at_ns = clock.monotonic_ns(event.time_unix_nano)
            at_ns = end_ns if at_ns is None else at_ns
            recording.mark(_words(event), at_ns=at_ns, labels=origin | {"span": span.name} | ids)


def _checked_ns(what: str, unix_ns: int, clock: UnixClock) -> int:
    if not unix_ns:
        raise OtlpRefusal(f"it has no {what} time")
    time_ns = clock.monotonic_ns(unix_ns)
    if time_ns is None:
        raise OtlpRefusal(f"its {what} time is before this machine started, or too far in the future")
    return time_ns


def _labels(span: Any) -> dict[str, str]:
    """Return the labels of a span: kind, status and ids, then attributes while there is room."""
    ids = {
        words.TRACE_ID: span.trace_id.hex(),
        words.SPAN_ID: span.span_id.hex(),
        words.PARENT_ID: span.parent_span_id.hex(),
    }
    labels = {"kind": _KINDS.get(span.kind, "")}
    if span.status.code == _ERROR:
        labels |= {"status": "error", "status_message": span.status.message}
    labels |= ids
    # names that the timeline draws as an arrow: from a message's producer to its consumers
    if span.kind == _PRODUCER:
        labels["flow_out"] = ids[words.SPAN_ID]
    elif span.kind == _CONSUMER:
        labels["flow_in"] = ids[words.PARENT_ID]
    labels = {key: value for key, value in labels.items() if value}
    for key, text in texts_of(span.attributes):
        if len(labels) >= limits.LABEL_COUNT:
            break
        labels.setdefault(key, text)
    return labels


def _words(event: Any) -> str:
    """Return type and message of an exception."""
    attributes = {pair.key: text_of(pair.value) for pair in event.attributes}
    parts = [attributes.get("exception.type", ""), attributes.get("exception.message", "")]
    return ": ".join(part for part in parts if part) or _EXCEPTION
