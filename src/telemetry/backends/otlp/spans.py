"""The conversion of spans to traces. Pure, except for the import of OpenTelemetry's messages.

All spans are one trace, unless each is to be a trace of its own, or another program gave them a trace. Nested spans
have ids, and keep them. Other ids are derived from the run's id and the items' keys. So a span that is sent twice
stays the same span.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final, cast

from telemetry.backends.items import Span
from telemetry.backends.otlp.points import attributes_of
from telemetry.wire import spans as words

_ROOT: Final = ""
_SCOPE: Final = "telemetry.spans"
_DIGITS: Final = {words.TRACE_ID: 32, words.SPAN_ID: 16, words.PARENT_ID: 16}
_HEXADECIMAL: Final = re.compile(r"[0-9a-fA-F]+")
_KINDS: Final[dict[str | int, int]] = {"server": 2, "client": 3, "producer": 4, "consumer": 5}
"""Label of a span that the gateway received → kind in OTLP."""
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")  # fits in 64 bits


class Spans:
    """A converter for the spans of a run."""

    def __init__(self, run_id: str, *, roots: bool = False, integers: Collection[str] = ()) -> None:
        """`roots`: make each span a trace of its own. `integers`: labels to send as integers if they are any."""
        self._run_id = run_id
        self._trace_id = _digest(f"trace {run_id}", 16)
        self._roots = roots
        self._integers = frozenset(integers)

    def of(self, item: Span) -> Any:
        """Return the span of an item, with its own ids if it has them: as labels, in hexadecimal digits.

        A span of the trace of another program stays in that trace. Others are in the trace of the run.
        """
        own = {} if self._roots else _ids(item.labels)
        origin = {"telemetry.track": item.track, "telemetry.producer": item.producer}
        labels: dict[str, str | int] = {
            key: self._typed(key, label) for key, label in item.labels.items() if key not in own
        }
        labels |= {key: word for key, word in origin.items() if word}
        trace_id = own.get(words.TRACE_ID)
        kind = self._kind(labels) if trace_id is not None else 0
        span = self._span(item.key, item.name, item.time_ns, item.end_ns, labels, kind=kind)
        span.span_id = own.get(words.SPAN_ID, span.span_id)
        span.trace_id = trace_id or span.trace_id
        span.parent_span_id = own.get(words.PARENT_ID, b"" if trace_id or self._roots else self._id(_ROOT))
        return span

    def is_of_run(self, span: Any) -> bool:
        """Return True if a span is in the trace of the run, so that it has the span of the run above it."""
        return bool(span.trace_id == self._trace_id)

    def root(self, name: str, started_ns: int, ended_ns: int) -> Any:
        """Return the span of the run itself, which is above all other spans of its trace."""
        return self._span(_ROOT, name, started_ns, ended_ns, {})

    def _typed(self, key: str, label: str) -> str | int:
        return int(label) if key in self._integers and _INTEGER.fullmatch(label) else label

    def _kind(self, labels: dict[str, str | int]) -> int:
        """Take the kind out of the labels of a span that OpenTelemetry recorded."""
        kind = _KINDS.get(labels.get("kind", ""), 0)
        if kind:
            del labels["kind"]
        return kind

    def _span(
        self, key: str, name: str, start_ns: int, end_ns: int, labels: dict[str, str | int], *, kind: int = 0
    ) -> Any:
        from opentelemetry.proto.trace.v1 import trace_pb2

        span = trace_pb2.Span(
            trace_id=_digest(f"trace {self._run_id} {key}", 16) if self._roots else self._trace_id,
            span_id=self._id(key),
            name=name,
            kind=cast(Any, kind or trace_pb2.Span.SPAN_KIND_INTERNAL),
            start_time_unix_nano=max(0, start_ns),
            end_time_unix_nano=max(0, end_ns),
        )
        if labels.get("status") == "error":
            span.status.code = trace_pb2.Status.STATUS_CODE_ERROR
            span.status.message = str(labels.get("status_message", ""))
        span.attributes.extend(attributes_of(labels))
        return span

    def _id(self, key: str) -> bytes:
        return _digest(f"span {self._run_id} {key}", 8)


def _ids(labels: Mapping[str, str]) -> dict[str, bytes]:
    """Return the ids among the labels. An id of another form stays a label."""
    ids = {}
    for key, digits in _DIGITS.items():
        text = labels.get(key, "")
        if len(text) == digits and _HEXADECIMAL.fullmatch(text) and text.strip("0"):
            ids[key] = bytes.fromhex(text)
    return ids


def _digest(text: str, length: int) -> bytes:
    return sha256(text.encode()).digest()[:length]


def traces_request(spans: Iterable[Any], resource: Mapping[str, str]) -> Any:
    """Build an `ExportTraceServiceRequest` with all spans."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    request = ExportTraceServiceRequest()
    group = request.resource_spans.add()
    group.resource.attributes.extend(attributes_of(resource))
    scope = group.scope_spans.add()
    scope.scope.name = _SCOPE
    scope.spans.extend(spans)
    return request
