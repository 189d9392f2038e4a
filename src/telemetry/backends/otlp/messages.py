"""The conversion of items to metric points, and of spans to traces. Imports only OpenTelemetry's messages."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any, Final, Literal, NamedTuple, cast

from telemetry.backends.exponential_histogram import buckets, scale_within
from telemetry.backends.items import Params, Reading, SeriesReading, Span, Step
from telemetry.backends.naming import FINAL
from telemetry.wire import spans as words

_BUCKETS: Final = 160  # per histogram; every receiver accepts that many
_BUCKETS_OF_A_POINT: Final = 8  # buckets that weigh as much as a point in a request, roughly
_PERCENTILE: Final = "percentile"
_UNITS: Final = {
    "": "",
    "µs": "us",
    "B": "By",
    "bytes": "By",
    "kB": "kBy",
    "KB": "kBy",
    "MB": "MBy",
    "GB": "GBy",
    "KiB": "KiBy",
    "MiB": "MiBy",
    "GiB": "GiBy",
    "C": "Cel",
    "°C": "Cel",
}
_UCUM: Final = frozenset(
    {"1", "ns", "us", "ms", "s", "min", "h", "%", "W", "J", "V", "A", "Hz", "K", "m", "g", "bit"}
)


class OtlpMetric(NamedTuple):
    """The OTLP metric that a data point belongs to. Points of equal metrics are sent together."""

    scope: str
    name: str
    kind: Literal["gauge", "sum", "delta", "whole"]
    """Kind of the metric. `delta` and `whole` are histograms of some seconds and of the whole run."""
    unit: str = ""


class OtlpPoint(NamedTuple):
    metric: OtlpMetric
    data: Any
    """OpenTelemetry message."""
    weight: int = 1
    """Approximate size, in numbers."""


def library() -> Any:
    """Import OpenTelemetry's messages. Raises ImportError."""
    from opentelemetry.proto.metrics.v1 import metrics_pb2

    return metrics_pb2


class Points:
    """A converter of items to points. An item always yields the same points in the same order."""

    def __init__(self, started_ns: int, *, spread: bool) -> None:
        self._messages = library()
        self._started_ns = started_ns
        self._spread = spread

    def of(self, item: Step | Reading | Params) -> Iterator[OtlpPoint]:
        match item:
            case Step():
                yield from self._step(item)
            case Params():
                yield from self._params(item)
            case Reading():
                yield from self._reading(item)

    def _step(self, item: Step) -> Iterator[OtlpPoint]:
        attributes = attributes_of({"axis": item.axis, "step": item.step})
        values = list(item.values.items())
        if self._spread:
            for name, spread in item.spread.items():
                values += [(f"{name}/min", spread.min), (f"{name}/max", spread.max)]
        for name, value in values:
            metric = OtlpMetric("telemetry.steps", name, "gauge")
            yield self._number(metric, value, attributes, item.time_ns)

    def _params(self, item: Params) -> Iterator[OtlpPoint]:
        """Yield a gauge for each parameter: a number as its value, anything else as 1."""
        for name, value in item.values.items():
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            number = _float(value) if is_number else 1.0
            attributes = attributes_of({"value": "null" if value is None else str(value)})
            yield self._number(OtlpMetric("telemetry.params", name, "gauge"), number, attributes, item.time_ns)

    def _reading(self, item: Reading) -> Iterator[OtlpPoint]:
        head = FINAL if item.final else ""
        scope = "telemetry.result" if item.final else "telemetry.readings"
        time_ns = item.time_ns
        for series in item.series:
            attributes = attributes_of(series.labels)
            metric = OtlpMetric(scope, head + series.name, "whole" if item.final else "delta", ucum(series.unit))
            data = self._histogram(series, item, attributes)
            filled = len(data.positive.bucket_counts)
            yield OtlpPoint(metric, data, 2 + filled // _BUCKETS_OF_A_POINT)
            yield from self._percentiles(series, metric, time_ns)
        for counter in item.counters:
            metric = OtlpMetric(scope, head + counter.name, "sum", ucum(counter.unit))
            attributes = attributes_of(counter.labels)
            yield self._number(metric, counter.value, attributes, time_ns, self._started_ns)
        for gauge in item.gauges:
            metric = OtlpMetric(scope, head + gauge.name, "gauge", ucum(gauge.unit))
            yield self._number(metric, gauge.value, attributes_of(gauge.labels), time_ns)

    def _percentiles(self, series: SeriesReading, metric: OtlpMetric, time_ns: int) -> Iterator[OtlpPoint]:
        own = OtlpMetric("telemetry.percentiles", metric.name, "gauge", metric.unit)
        which = _PERCENTILE if _PERCENTILE not in series.labels else f"telemetry.{_PERCENTILE}"
        for key, value in series.percentiles.items():
            yield self._number(own, value, attributes_of({**series.labels, which: key}), time_ns)

    def _histogram(self, series: SeriesReading, item: Reading, attributes: list[Any]) -> Any:
        scale = scale_within(series.cells, _BUCKETS)
        histogram = buckets(series.cells, scale)
        start_ns = self._started_ns if item.final else item.time_ns - round(item.seconds * 1e9)
        point = self._messages.ExponentialHistogramDataPoint(
            attributes=attributes,
            start_time_unix_nano=max(0, start_ns),
            time_unix_nano=max(0, item.time_ns),
            count=series.count,
            sum=series.total,
            scale=scale,
            zero_count=histogram.zero,
            zero_threshold=histogram.threshold,
        )
        if histogram.counts:
            first, last = min(histogram.counts), max(histogram.counts)
            point.positive.offset = first
            point.positive.bucket_counts.extend(histogram.counts.get(index, 0) for index in range(first, last + 1))
        if series.min is not None and series.max is not None:
            point.min, point.max = series.min, series.max
        return point

    def _number(
        self, metric: OtlpMetric, value: float, attributes: list[Any], time_ns: int, start_ns: int = 0
    ) -> OtlpPoint:
        data = self._messages.NumberDataPoint(
            as_double=value,
            attributes=attributes,
            time_unix_nano=max(0, time_ns),
            start_time_unix_nano=max(0, start_ns),
        )
        return OtlpPoint(metric, data)


def attributes_of(values: Mapping[str, str | int]) -> list[Any]:
    """Convert attributes to messages."""
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

    return [
        KeyValue(
            key=key, value=AnyValue(string_value=value) if isinstance(value, str) else AnyValue(int_value=value)
        )
        for key, value in values.items()
    ]


def metrics_request(points: Iterable[OtlpPoint], resource: Mapping[str, str]) -> Any:
    """Build an `ExportMetricsServiceRequest` with all points."""
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    request = ExportMetricsServiceRequest()
    messages = library()
    group = request.resource_metrics.add()
    group.resource.attributes.extend(attributes_of(resource))
    scopes: dict[str, Any] = {}
    by_metric: dict[OtlpMetric, Any] = {}
    for metric, data, _ in points:
        data_points = by_metric.get(metric)
        if data_points is None:
            scope = scopes.get(metric.scope)
            if scope is None:
                scope = scopes[metric.scope] = group.scope_metrics.add()
                scope.scope.name = metric.scope
            data_points = by_metric[metric] = _place(
                scope.metrics.add(name=metric.name, unit=metric.unit), metric, messages
            )
        data_points.append(data)
    return request


def _place(message: Any, metric: OtlpMetric, messages: Any) -> Any:
    """Return the list in the message that holds a metric's points."""
    if metric.kind == "gauge":
        return message.gauge.data_points
    if metric.kind == "sum":
        message.sum.is_monotonic = True
        message.sum.aggregation_temporality = messages.AGGREGATION_TEMPORALITY_CUMULATIVE
        return message.sum.data_points
    whole = metric.kind == "whole"
    message.exponential_histogram.aggregation_temporality = (
        messages.AGGREGATION_TEMPORALITY_CUMULATIVE if whole else messages.AGGREGATION_TEMPORALITY_DELTA
    )
    return message.exponential_histogram.data_points


def ucum(unit: str) -> str:
    """Return a unit in OpenTelemetry's notation. An unknown unit becomes a word in braces."""
    if unit in _UNITS:
        return _UNITS[unit]
    if unit in _UCUM:
        return unit
    return f"{{{unit.replace('{', '(').replace('}', ')')}}}"


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


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
        """Prepare the converter.

        With `roots`, each span becomes a trace of its own. `integers` names labels that are sent as integers if
        their values are whole numbers.
        """
        self._run_id = run_id
        self._trace_id = _digest(f"trace {run_id}", 16)
        self._roots = roots
        self._integers = frozenset(integers)

    def of(self, item: Span) -> Any:
        """Return an item as an OTLP span. Labels with ids in hexadecimal digits become the ids of the span.

        A span with a trace id stays in that trace, which may be of another program. Other spans are in the trace
        of the run.
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
