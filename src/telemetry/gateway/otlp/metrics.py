"""Metrics of OTLP as instruments: sums as counters, gauges as gauges, histograms as counters and bins."""

from __future__ import annotations

import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final, NamedTuple, TypeVar

from telemetry import limits
from telemetry.client.instruments import Counter, Gauge
from telemetry.client.recording import Recording
from telemetry.client.records import clean
from telemetry.common.wording import labelled
from telemetry.errors import InstrumentError
from telemetry.gateway.otlp.attributes import SERVICE, UnixClock, service_of, texts_of
from telemetry.gateway.otlp.distributions import BucketCounts, ExplicitBuckets, ExponentialBuckets, exponential_side
from telemetry.gateway.otlp.messages import Accepted, OtlpRefusal, OtlpTally, answer, read
from telemetry.wire.units import WHOLE

DELTA: Final = 1
CUMULATIVE: Final = 2
_Instrument = TypeVar("_Instrument", Counter, Gauge)
_UCUM: Final = {
    "1": "",
    "By": "B",
    "kBy": "kB",
    "MBy": "MB",
    "GBy": "GB",
    "KiBy": "KiB",
    "MiBy": "MiB",
    "GiBy": "GiB",
    "Cel": "°C",
}
_NOTE: Final = re.compile(r"\{([^{}]*)\}")
_PER: Final = re.compile(r"/(?![^{]*\})")  # not within braces, which hold free text
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
    tally = OtlpTally()
    target = PointTarget(recording, state, UnixClock(), tally)
    for group in request.resource_metrics:
        service = service_of(group.resource)
        resource = attributes_key(group.resource.attributes)
        for scope in group.scope_metrics:
            origin = stream_key(resource, scope.scope.name.encode(), scope.scope.version.encode())
            for metric in scope.metrics:
                _take_metric(metric, service, origin, target)
    accepted = tally.accepted()
    return answer("metrics", accepted, content_type), accepted


def _take_metric(metric: Any, service: str, origin: bytes, target: PointTarget) -> None:
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    data = getattr(metric, kind)
    take, temporality = _way_of(kind, data)
    key = stream_key(origin, metric.name.encode(), metric.unit.encode(), kind.encode(), bytes([temporality & 3]))
    stream = PointMetric(metric.name, unit_of(metric.unit), service, temporality, key)
    for point in data.data_points:
        try:
            if not point.flags & _NO_VALUE:
                take(PointWriter(stream, point, target))
        except OtlpRefusal as error:
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
    increase = writer.increments((value,))
    if increase is not None:
        writer.add(counter, increase[0][0])


def _refuse_changes(writer: PointWriter) -> None:
    raise OtlpRefusal("a sum that also falls must have cumulative temporality, since a gauge shows its value")


def _take_histogram(writer: PointWriter) -> None:
    point = writer.point
    buckets = ExplicitBuckets(tuple(point.explicit_bounds), tuple(point.bucket_counts))
    problem = buckets.problem()
    if problem:
        raise OtlpRefusal(problem)
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
        raise OtlpRefusal(f"its zero threshold is {buckets.threshold}, must be a number from 0 up")
    _take_distribution(writer, buckets)


def _take_distribution(writer: PointWriter, buckets: BucketCounts | None) -> None:
    point = writer.point
    if buckets is not None and buckets.total != point.count:
        raise OtlpRefusal(f"its buckets hold {buckets.total:,} values, but its count is {point.count:,}")
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
    quantiles = [each for each in writer.point.quantile_values if math.isfinite(each.value)]
    gauges = [writer.gauge(**{_QUANTILE: f"{each.quantile:g}"}) for each in quantiles]
    _add_totals(writer, True, None)
    for gauge, each in zip(gauges, quantiles, strict=True):
        writer.set(gauge, each.value)


def _add_totals(
    writer: PointWriter, has_sum: bool, buckets: BucketCounts | None
) -> tuple[int, BucketCounts | None] | None:
    """Add to the counters of a count and a sum. Return the added count with its distribution."""
    point = writer.point
    if point.count >= limits.EXACT_INTEGER:
        raise OtlpRefusal(f"its count is {point.count:,}, which is too large to be exact")
    totals: tuple[float, ...] = (point.count,)
    counters = [writer.counter(f"{writer.name}.count", "")]
    if has_sum:
        totals += (_finite("sum", point.sum),)
        counters.append(writer.counter(f"{writer.name}.sum", writer.unit))
    increase = writer.increments(totals, buckets)
    if increase is None:
        return None
    increments, distribution = increase
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
        raise OtlpRefusal("it has no value")
    return _finite("value", getattr(point, kind))


def _finite(what: str, value: float) -> float:
    if not math.isfinite(value):
        raise OtlpRefusal(f"its {what} is {value}, which is not a number")
    return value


def _finite_or_none(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def unit_of(ucum: str) -> str:
    """Return the unit of an instrument: `By/s` as `B/s`, `{request}` as `requests`, `1` as no unit."""
    ucum = ucum.strip()
    above, *below = _PER.split(ucum)
    return clean(
        "/".join([_part(above, plural=True), *(_part(each, plural=False) for each in below)]), limits.UNIT_CHARS
    )


def _part(part: str, *, plural: bool) -> str:
    note = _NOTE.fullmatch(part)
    if note is None:
        return _UCUM.get(part, part)
    word = note[1].strip()
    return f"{word}s" if plural and f"{word}s" in WHOLE else word


class PointMetric(NamedTuple):
    """The OTLP metric that a data point belongs to: name, unit, service and temporality."""

    name: str
    unit: str
    service: str
    temporality: int
    key: bytes
    """Key of the metric, from resource, scope, name, unit, kind and temporality."""


class PointTarget(NamedTuple):
    """The destination of a request's points."""

    recording: Recording
    state: MetricState
    clock: UnixClock
    tally: OtlpTally


class PointWriter:
    """One data point, with the calls that record it."""

    def __init__(self, metric: PointMetric, point: Any, target: PointTarget) -> None:
        self.name = metric.name
        self.unit = metric.unit
        self.point = point
        self._metric = metric
        self._recording = target.recording
        self._state = target.state
        self._labels = dict(texts_of(point.attributes))
        if metric.service:
            self._labels.setdefault(SERVICE, metric.service)
        self._at_ns = target.clock.monotonic_ns(point.time_unix_nano) if point.time_unix_nano else None
        if self._at_ns is None and point.time_unix_nano:
            raise OtlpRefusal("its time is before this machine started, or too far in the future")

    def counter(self, name: str, unit: str) -> Counter:
        """Return a counter with the labels of the point. Raise InstrumentError."""
        return _with_id(self._recording.counter(name, unit, labels=self._labels))

    def gauge(self, **more_labels: str) -> Gauge:
        """Return the gauge of the point. Raise InstrumentError."""
        return _with_id(self._recording.gauge(self.name, self.unit, labels=self._labels | more_labels))

    def set(self, gauge: Gauge, value: float) -> None:
        """Set a gauge at the time of the point."""
        gauge.set(value, self._at_ns)

    def increments(
        self, totals: tuple[float, ...], distribution: BucketCounts | None = None
    ) -> tuple[tuple[float, ...], BucketCounts | None] | None:
        """Return by how much the point raises the totals and the distribution of its stream.

        Return None if the growth is unknown, or was counted before. The distribution of the result is None if
        buckets can't be compared. Raises OtlpRefusal for a negative growth.
        """
        point = self.point
        parts = [self._metric.key, attributes_key(point.attributes), bytes([len(totals)])]
        start_ns, time_ns = point.start_time_unix_nano, point.time_unix_nano
        _check_increments(totals)
        if self._metric.temporality == DELTA:
            key = stream_key(*parts)
            return None if self._state.is_repeated(key, start_ns, time_ns) else (totals, distribution)
        if self._metric.temporality != CUMULATIVE:
            raise OtlpRefusal("its temporality must be delta or cumulative")
        key = stream_key(*parts, start_ns.to_bytes(8))
        before = self._state.advance(key, start_ns, StreamTotals(time_ns, totals, distribution))
        if before is None:
            return None
        if not before.totals:
            return totals, distribution
        added = tuple(now - then for now, then in zip(totals, before.totals, strict=True))
        _check_increments(added)
        if distribution is None or before.distribution is None:
            return added, None
        return added, distribution.since(before.distribution)

    def add(self, counter: Counter, increment: float) -> None:
        """Add to a counter at the time of the point."""
        if increment:
            counter.add(increment, self._at_ns)

    def write_bins(
        self, count: int, distribution: BucketCounts | None, low: float | None, high: float | None
    ) -> None:
        """Record a distribution as bins. Count the values that no bin holds in a counter of their own."""
        outside = count
        if distribution is not None:
            edges, counts, outside = distribution.bins(low, high)
            if any(counts):
                name = labelled(self.name, self._labels)
                self._recording.histogram(name, (edges, counts), at_ns=self._at_ns)
        with suppress(InstrumentError, OtlpRefusal):  # of this name alone: the point itself is recorded already
            if outside:
                self.add(self.counter(f"{self.name}.outside", ""), outside)


def _check_increments(increments: Iterable[float]) -> None:
    for each in increments:
        if not 0 <= each < math.inf:
            raise OtlpRefusal(f"it grew by {each:g}, but a total only grows")


def _with_id(instrument: _Instrument) -> _Instrument:
    """Return an instrument whose values are recorded. Raise OtlpRefusal beyond the limit of a process."""
    if instrument.definition.id >= limits.PRODUCER_IDS:
        raise OtlpRefusal(f"the gateway has {limits.PRODUCER_IDS:,} instruments already; send fewer attributes")
    return instrument


_POINT_NUMBERS: Final = 8  # that a point takes beside its buckets
_LENGTH_BYTES: Final = 8


class StreamTotals(NamedTuple):
    """The totals of a stream at one time."""

    time_ns: int = 0
    totals: tuple[float, ...] = ()
    """Totals since the start of the stream: a value, or a count and a sum."""
    distribution: BucketCounts | None = None

    @property
    def size(self) -> int:
        """Approximate size, in numbers."""
        return _POINT_NUMBERS + (0 if self.distribution is None else self.distribution.size)


NOTHING: Final = StreamTotals()
"""The totals at the start of a stream."""


class MetricState:
    """The last point of each stream of one gateway. Thread-safe, and bounded.

    A stream is a metric with a resource, a scope, attributes and a start time. If a stream started at `since_ns`
    (Unix) or later, its first point counts as a whole. The default of `since_ns` is now. An older stream had
    values before this gateway listened. Another process may have counted these values, so the first point is only
    the base for later differences.
    """

    def __init__(self, since_ns: int | None = None, *, numbers: int = limits.GATEWAY_OTLP_NUMBERS) -> None:
        self._since_ns = time.time_ns() if since_ns is None else since_ns
        self._points: OrderedDict[bytes, tuple[int, StreamTotals]] = OrderedDict()
        self._room = numbers
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._points)

    def advance(self, key: bytes, start_ns: int, point: StreamTotals) -> StreamTotals | None:
        """Remember a point. Return the totals of the previous point, which the caller subtracts.

        For a first point that counts as a whole, return NOTHING: totals of 0.

        Return None if the point adds nothing: it is only a base for later points, or it repeats a point that was
        counted.
        """
        with self._lock:
            _, before = self._points.get(key, (0, None))
            if before is not None and 0 < point.time_ns <= before.time_ns:
                return None
            counts_whole = before is None and self._since_ns <= start_ns < point.time_ns
            self._put(key, start_ns, point)
            return NOTHING if counts_whole else before

    def is_repeated(self, key: bytes, start_ns: int, time_ns: int) -> bool:
        """Return True if the last increment of a stream had these times. Else remember them."""
        with self._lock:
            if time_ns and self._points.get(key) == (start_ns, StreamTotals(time_ns)):
                return True
            self._put(key, start_ns, StreamTotals(time_ns))
            return False

    def _put(self, key: bytes, start_ns: int, point: StreamTotals) -> None:
        """Remember a point as the newest one. Forget the oldest ones if there is no room."""
        _, before = self._points.pop(key, (0, None))
        self._points[key] = start_ns, point
        self._room += (0 if before is None else before.size) - point.size
        while self._room < 0:
            _, (start_ns, point) = self._points.popitem(last=False)
            self._room += point.size
            # its next point looks like a first one, and must not count whole again
            self._since_ns = max(self._since_ns, start_ns + 1)


def stream_key(*parts: bytes) -> bytes:
    """Return a short key for a stream, from everything that identifies it."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(_LENGTH_BYTES))
        digest.update(part)
    return digest.digest()


def attributes_key(attributes: Iterable[Any]) -> bytes:
    """Return a key for attributes in any order."""
    return stream_key(*sorted(pair.SerializeToString(deterministic=True) for pair in attributes))
