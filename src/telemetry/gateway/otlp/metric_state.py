"""The last points of cumulative streams, from which increments are computed."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from telemetry.gateway.otlp.distributions import BucketCounts

_NUMBERS: Final = 1 << 20  # of all points that are remembered: 100 MiB at most
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

    A stream is a metric with a resource, a scope, attributes and a start time. The first point of a stream counts
    whole if the stream started at `since_ns` (Unix) or later; the default is now. An older stream had values before
    this gateway listened. Another process may have counted them, so its first point is only a base.
    """

    def __init__(self, since_ns: int | None = None, *, numbers: int = _NUMBERS) -> None:
        self._since_ns = time.time_ns() if since_ns is None else since_ns
        self._points: OrderedDict[bytes, tuple[int, StreamTotals]] = OrderedDict()
        self._room = numbers
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._points)

    def advance(self, key: bytes, start_ns: int, point: StreamTotals) -> StreamTotals | None:
        """Remember a point, and return the one before it, whose totals are to be subtracted.

        Return None if the point adds nothing: it is a base, or a repetition of one that was counted.
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
