"""One data point of a metric, with the calls that record it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from telemetry import limits
from telemetry.client.instruments import Counter, Gauge
from telemetry.client.recording import Recording
from telemetry.errors import InstrumentError
from telemetry.gateway.otlp.attributes import SERVICE, UnixClock, texts_of
from telemetry.gateway.otlp.distributions import Distribution
from telemetry.gateway.otlp.messages import Refused, Tally
from telemetry.gateway.otlp.metric_state import MetricState, Point, attributes_key, stream_key
from telemetry.wording import labelled

DELTA: Final = 1
CUMULATIVE: Final = 2
_Instrument = TypeVar("_Instrument", Counter, Gauge)


class Metric(NamedTuple):
    """The metric of a point."""

    name: str
    unit: str
    service: str
    temporality: int
    key: bytes
    """Key of its resource, scope, name and kind."""


class Target(NamedTuple):
    """The destination of a request's points."""

    recording: Recording
    state: MetricState
    clock: UnixClock
    tally: Tally


class PointWriter:
    """One data point, with the calls that record it."""

    def __init__(self, metric: Metric, point: Any, target: Target) -> None:
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
            raise Refused("its time is before this machine started, or too far in the future")

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
        self, totals: tuple[float, ...], distribution: Distribution | None = None
    ) -> tuple[tuple[float, ...], Distribution | None] | None:
        """Return what the point adds to the totals. Return None if that is unknown or was counted before.

        The distribution of the result is None if buckets can't be compared. Raises Refused for a negative
        increment.
        """
        point = self.point
        parts = [self._metric.key, attributes_key(point.attributes), bytes([len(totals)])]
        start_ns, time_ns = point.start_time_unix_nano, point.time_unix_nano
        _check_increments(totals)
        if self._metric.temporality == DELTA:
            key = stream_key(*parts)
            return None if self._state.is_repeated(key, start_ns, time_ns) else (totals, distribution)
        if self._metric.temporality != CUMULATIVE:
            raise Refused("its temporality must be delta or cumulative")
        key = stream_key(*parts, start_ns.to_bytes(8))
        before = self._state.advance(key, start_ns, Point(time_ns, totals, distribution))
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
        self, count: int, distribution: Distribution | None, low: float | None, high: float | None
    ) -> None:
        """Record a distribution as bins. Count the values that no bin holds in a counter of their own."""
        outside = count
        if distribution is not None:
            edges, counts, outside = distribution.bins(low, high)
            if any(counts):
                name = labelled(self.name, self._labels)
                self._recording.histogram(name, (edges, counts), at_ns=self._at_ns)
        with suppress(InstrumentError, Refused):  # of this name alone: the point itself is recorded already
            if outside:
                self.add(self.counter(f"{self.name}.outside", ""), outside)


def _check_increments(increments: Iterable[float]) -> None:
    for each in increments:
        if not 0 <= each < math.inf:
            raise Refused(f"it grew by {each:g}, but a total only grows")


def _with_id(instrument: _Instrument) -> _Instrument:
    """Return an instrument whose values are recorded. Raise Refused beyond the limit of a process."""
    if instrument.definition.id >= limits.PRODUCER_IDS:
        raise Refused(f"the gateway has {limits.PRODUCER_IDS:,} instruments already; send fewer attributes")
    return instrument
