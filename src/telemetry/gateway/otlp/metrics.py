"""Metrics of OTLP as instruments: sums as counters, gauges as gauges, histograms as counters and bins."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from telemetry import limits
from telemetry.client.recording import Recording
from telemetry.errors import InstrumentError
from telemetry.gateway.otlp.attributes import UnixClock, service_of
from telemetry.gateway.otlp.distributions import (
    Distribution,
    ExplicitBuckets,
    ExponentialBuckets,
    exponential_side,
)
from telemetry.gateway.otlp.messages import Accepted, Refused, Tally, answer, read
from telemetry.gateway.otlp.metric_state import MetricState, attributes_key, stream_key
from telemetry.gateway.otlp.points import CUMULATIVE, DELTA, Metric, PointWriter, Target
from telemetry.gateway.otlp.units import unit_of

_NO_VALUE: Final = 1
"""Flag of a point that says: the stream has no value now."""
_QUANTILE: Final = "quantile"


def take_metrics(
    body: bytes, content_type: str, recording: Recording, state: MetricState
) -> tuple[bytes, Accepted]:
    """Record the data points of a request. Return the body of the answer, and how many points were taken.

    Raises BadBody, and then nothing is recorded.
    """
    request = read("metrics", body, content_type)
    tally = Tally()
    target = Target(recording, state, UnixClock(), tally)
    for group in request.resource_metrics:
        service = service_of(group.resource)
        resource = attributes_key(group.resource.attributes)
        for scope in group.scope_metrics:
            origin = stream_key(resource, scope.scope.name.encode(), scope.scope.version.encode())
            for metric in scope.metrics:
                _take_metric(metric, service, origin, target)
    accepted = tally.accepted()
    return answer("metrics", accepted, content_type), accepted


def _take_metric(metric: Any, service: str, origin: bytes, target: Target) -> None:
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    data = getattr(metric, kind)
    take, temporality = _way_of(kind, data)
    key = stream_key(origin, metric.name.encode(), metric.unit.encode(), kind.encode(), bytes([temporality & 3]))
    known = Metric(metric.name, unit_of(metric.unit), service, temporality, key)
    for point in data.data_points:
        try:
            if not point.flags & _NO_VALUE:
                take(PointWriter(known, point, target))
        except Refused as error:
            target.tally.refuse(f"{metric.name!r}: {error}")
        except InstrumentError as error:
            target.tally.refuse(str(error))
        else:
            target.tally.take()


# --- kinds of metrics ----------------------------------------------------------------------------


def _take_gauge(writer: PointWriter) -> None:
    value = _number(writer.point)
    writer.set(writer.gauge(), value)


def _take_sum(writer: PointWriter) -> None:
    value = _number(writer.point)
    counter = writer.counter(writer.name, writer.unit)
    found = writer.increments((value,))
    if found is not None:
        writer.add(counter, found[0][0])


def _refuse_changes(writer: PointWriter) -> None:
    raise Refused("a sum that also falls must have cumulative temporality, since a gauge shows its value")


def _take_histogram(writer: PointWriter) -> None:
    point = writer.point
    buckets = ExplicitBuckets(tuple(point.explicit_bounds), tuple(point.bucket_counts))
    problem = buckets.problem()
    if problem:
        raise Refused(problem)
    _take_distribution(writer, buckets if buckets.counts else None)


def _take_exponential(writer: PointWriter) -> None:
    point = writer.point
    buckets = ExponentialBuckets(
        point.scale,
        point.zero_threshold,
        point.zero_count,
        exponential_side(point.positive.offset, point.positive.bucket_counts),
        exponential_side(point.negative.offset, point.negative.bucket_counts),
    )
    if not 0.0 <= buckets.threshold < math.inf:
        raise Refused(f"its zero threshold is {buckets.threshold}, must be a number from 0 up")
    _take_distribution(writer, buckets)


def _take_distribution(writer: PointWriter, buckets: Distribution | None) -> None:
    point = writer.point
    if buckets is not None and buckets.total != point.count:
        raise Refused(f"its buckets hold {buckets.total:,} values, but its count is {point.count:,}")
    added = _add_totals(writer, point.HasField("sum"), buckets)
    if added is None:
        return
    count, distribution = added
    if count and buckets is not None:
        low = point.min if point.HasField("min") else None
        high = point.max if point.HasField("max") else None
        writer.write_bins(count, distribution, _finite_or_none(low), _finite_or_none(high))


def _take_summary(writer: PointWriter) -> None:
    """Record quantiles as gauges. A quantile of no values is NaN, and is left out."""
    known = [each for each in writer.point.quantile_values if math.isfinite(each.value)]
    gauges = [writer.gauge(**{_QUANTILE: f"{each.quantile:g}"}) for each in known]
    _add_totals(writer, True, None)
    for gauge, each in zip(gauges, known, strict=True):
        writer.set(gauge, each.value)


def _add_totals(
    writer: PointWriter, has_sum: bool, buckets: Distribution | None
) -> tuple[int, Distribution | None] | None:
    """Add to the counters of a count and a sum. Return the added count with its distribution."""
    point = writer.point
    if point.count >= limits.EXACT_INTEGER:
        raise Refused(f"its count is {point.count:,}, which is too large to be exact")
    totals: tuple[float, ...] = (point.count,)
    counters = [writer.counter(f"{writer.name}.count", "")]
    if has_sum:
        totals += (_finite("sum", point.sum),)
        counters.append(writer.counter(f"{writer.name}.sum", writer.unit))
    found = writer.increments(totals, buckets)
    if found is None:
        return None
    increments, distribution = found
    for counter, increment in zip(counters, increments, strict=True):
        writer.add(counter, increment)
    return int(increments[0]), distribution


def _way_of(kind: str, data: Any) -> tuple[Callable[[PointWriter], None], int]:
    """Return the function that takes points of a metric, and their temporality."""
    match kind:
        case "sum" if data.is_monotonic:
            return _take_sum, data.aggregation_temporality
        case "sum" if data.aggregation_temporality == DELTA:
            return _refuse_changes, DELTA
        case "histogram":
            return _take_histogram, data.aggregation_temporality
        case "exponential_histogram":
            return _take_exponential, data.aggregation_temporality
        case "summary":
            return _take_summary, CUMULATIVE
    return _take_gauge, CUMULATIVE


# --- checks --------------------------------------------------------------------------------------


def _number(point: Any) -> float:
    kind = point.WhichOneof("value")
    if kind is None:
        raise Refused("it has no value")
    return _finite("value", getattr(point, kind))


def _finite(what: str, value: float) -> float:
    if not math.isfinite(value):
        raise Refused(f"its {what} is {value}, which is not a number")
    return value


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
