"""The conversion of items to metric points. Pure, except for the import of OpenTelemetry's messages.

Names are those of the run. Separate scopes avoid name conflicts:

  telemetry.steps          a gauge for each name of a step, with attributes `axis` and `step`
  telemetry.readings       series as exponential histograms of their seconds, counters as sums, gauges
  telemetry.percentiles    percentiles of series, as gauges with an attribute `percentile`
  telemetry.result         the whole run, with names that begin with `final/`
  telemetry.params         parameters, as gauges with an attribute `value`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

from telemetry.backends.exponential_histogram import buckets, scale_within
from telemetry.backends.items import Params, Reading, SeriesReading, Step
from telemetry.backends.naming import FINAL

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
    """The metric of a point."""

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
