"""The conversion of spans to traces. Pure, except for the import of OpenTelemetry's messages.

All spans are one trace, unless each is to be a trace of its own.

Ids are derived from the run's id and the items' keys, so a span that is sent twice stays the same span.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from telemetry.backends.items import Span
from telemetry.backends.otlp.points import attributes_of

_ROOT: Final = ""
_SCOPE: Final = "telemetry.spans"
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
        told = {"telemetry.track": item.track, "telemetry.producer": item.producer}
        labels: dict[str, str | int] = {key: self._typed(key, label) for key, label in item.labels.items()}
        labels |= {key: word for key, word in told.items() if word}
        return self._span(item.key, item.name, item.time_ns, item.end_ns, labels, parent=not self._roots)

    def _typed(self, key: str, label: str) -> str | int:
        return int(label) if key in self._integers and _INTEGER.fullmatch(label) else label

    def root(self, name: str, started_ns: int, ended_ns: int) -> Any:
        """Return the span of the run itself, the parent of all other spans."""
        return self._span(_ROOT, name, started_ns, ended_ns, {}, parent=False)

    def _span(
        self, key: str, name: str, start_ns: int, end_ns: int, labels: Mapping[str, str | int], *, parent: bool
    ) -> Any:
        from opentelemetry.proto.trace.v1 import trace_pb2

        return trace_pb2.Span(
            trace_id=_digest(f"trace {self._run_id} {key}", 16) if self._roots else self._trace_id,
            span_id=self._id(key),
            parent_span_id=self._id(_ROOT) if parent else b"",
            name=name,
            kind=trace_pb2.Span.SPAN_KIND_INTERNAL,
            start_time_unix_nano=max(0, start_ns),
            end_time_unix_nano=max(0, end_ns),
            attributes=attributes_of(labels),
        )

    def _id(self, key: str) -> bytes:
        return _digest(f"span {self._run_id} {key}", 8)


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
