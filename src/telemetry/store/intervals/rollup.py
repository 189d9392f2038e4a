"""Sums of history intervals: counts, totals and increases are added, extremes widened, last gauge values kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.wire.codec import Malformed
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns

_U32: Final = np.dtype("<u4")
_U64: Final = np.dtype("<u8")
_F64: Final = np.dtype("<f8")
_COUNT_MAX: Final = (1 << 32) - 1
_INDEX_SHIFT: Final = np.uint64(32)

_PENDING_SLOTS: Final = 100_000  # merging many at once is cheaper; these take 1.6 MB
_BLOCK_SLOTS: Final = 1 << 16  # merged at once: temporaries stay below 4 MB, and in the cache

_Array = NDArray[Any]


@dataclass(frozen=True)
class WideColumns:
    """The columns of `SeriesColumns` as arrays, wide enough for sums."""

    index: _Array
    count: _Array
    total: _Array
    min: _Array
    max: _Array
    keys: _Array
    """Keys `index << 32 | slot`, ascending."""
    counts: _Array
    """Counts of the slots; u32 while that is enough, because they are most of a roll-up."""

    @staticmethod
    def of(columns: SeriesColumns) -> WideColumns:
        """Convert columns that fit together. Raises Malformed if they are not in order."""
        index = np.frombuffer(columns.index, _U32)
        keys = np.repeat(index.astype(_U64) << _INDEX_SHIFT, np.frombuffer(columns.occupied, _U32))
        keys |= np.frombuffer(columns.slots, _U32)
        if (index[1:] <= index[:-1]).any() or (keys[1:] < keys[:-1]).any():
            raise Malformed(Reason.FRAME_UNREADABLE, "the columns of an interval are not in order")
        return WideColumns(
            index,
            np.frombuffer(columns.count, _U64),
            np.frombuffer(columns.total, _F64),
            np.frombuffer(columns.min, _F64),
            np.frombuffer(columns.max, _F64),
            keys,
            np.frombuffer(columns.counts, _U32),
        )

    @staticmethod
    def sum(parts: Sequence[WideColumns]) -> WideColumns:
        """Return the sum of all parts. Needs at least one."""
        if len(parts) == 1:
            return parts[0]
        series = _Groups(np.concatenate([part.index for part in parts]))
        keys, counts = _sum_cells(parts)
        return WideColumns(
            index=series.keys,
            count=series.reduce(np.add, [part.count for part in parts]),
            total=series.reduce(np.add, [part.total for part in parts]),
            min=series.reduce(np.minimum, [part.min for part in parts]),
            max=series.reduce(np.maximum, [part.max for part in parts]),
            keys=keys,
            counts=counts,
        )

    def columns(self) -> SeriesColumns:
        """Return the columns.

        A count too large for its column is split over repeated slots; readers add them up.
        """
        keys, counts = _split(self.keys, self.counts)
        begins = np.searchsorted(keys, self.index.astype(_U64) << _INDEX_SHIFT)
        return SeriesColumns(
            index=_bytes(self.index, _U32),
            count=_bytes(self.count, _U64),
            total=_bytes(self.total, _F64),
            min=_bytes(self.min, _F64),
            max=_bytes(self.max, _F64),
            occupied=_bytes(np.diff(begins, append=len(keys)), _U32),
            slots=_bytes(keys, _U32),
            counts=_bytes(counts, _U32),
        )


class RollUp:
    """A running sum of intervals. Holds one sum, and at most `_PENDING_SLOTS` not yet in it."""

    def __init__(self) -> None:
        self._start_ns: int | None = None
        self._end_ns = self._covered_ns = 0
        self._series: list[WideColumns] = []
        self._counters: dict[int, float] = {}
        self._gauges: dict[int, float] = {}

    @property
    def empty(self) -> bool:
        return self._start_ns is None

    def add(self, interval: Interval) -> None:
        if self._start_ns is None:
            self._start_ns, self._covered_ns = interval.start_ns, 0
        self._end_ns = interval.end_ns
        self._covered_ns += max(0, interval.end_ns - interval.start_ns)
        self._series.append(WideColumns.of(interval.series))
        if sum(len(part.keys) for part in self._series[1:]) > _PENDING_SLOTS:
            self._series = [WideColumns.sum(self._series)]
        for index, value in _values(interval.counters):
            self._counters[index] = self._counters.get(index, 0.0) + value
        self._gauges.update(_values(interval.gauges))

    def take(self, span_s: int = 0) -> Interval:
        """Return the sum since the last `take`. Needs at least one interval.

        `span_s`: the seconds that its rolls stand for, including missing ones. If the sum lasts longer than that,
        or shorter than its intervals together, the clock was changed meanwhile. Then the sum ends with the last
        interval and lasts as long as all its intervals.
        """
        assert self._start_ns is not None
        start_ns = self._start_ns
        lasts_ns = self._end_ns - start_ns
        longest_ns = max(self._covered_ns, span_s * 1_000_000_000)
        if not self._covered_ns - limits.CLOCK_STEP_NS < lasts_ns < longest_ns + limits.CLOCK_STEP_NS:
            start_ns = max(0, self._end_ns - self._covered_ns)
        interval = Interval(
            start_ns,
            self._end_ns,
            WideColumns.sum(self._series).columns(),
            _value_columns(self._counters),
            _value_columns(self._gauges),
        )
        self._start_ns = None
        self._series, self._counters, self._gauges = [], {}, {}
        return interval


def merge(intervals: Iterable[Interval], span_s: int = 0) -> Interval:
    """Sum intervals to one, from the first start to the last end.

    Needs at least one; they must be in order of time.

    `span_s` as in `RollUp.take`.
    """
    total = RollUp()
    for interval in intervals:
        total.add(interval)
    return total.take(span_s)


class _Groups:
    """Equal keys, grouped by sorting. Runs that are already sorted, as columns are, merge in almost linear time."""

    def __init__(self, keys: _Array) -> None:
        self._order = np.argsort(keys, kind="stable")
        ordered = keys[self._order]
        begins = np.empty(len(keys), bool)
        begins[:1] = True
        np.not_equal(ordered[1:], ordered[:-1], out=begins[1:])
        self._begins = np.flatnonzero(begins)
        self.keys: _Array = ordered[self._begins]
        """Distinct keys, ascending."""

    def reduce(self, ufunc: np.ufunc, columns: Sequence[_Array]) -> _Array:
        """Return one value for each key, from columns in the order of the original keys."""
        column = np.concatenate(columns)
        if not len(column):
            return column
        reduced: _Array = ufunc.reduceat(column[self._order], self._begins)
        return reduced


def _sum_cells(parts: Sequence[WideColumns]) -> tuple[_Array, _Array]:
    """Return (keys, counts) of the sum of all parts. Works block by block, where a block is a range of keys."""
    largest = max(parts, key=lambda part: len(part.keys))
    bounds = largest.keys[:: max(1, _BLOCK_SLOTS // len(parts))][1:]
    cuts = [[0, *np.searchsorted(part.keys, bounds).tolist(), len(part.keys)] for part in parts]
    total = sum(len(part.keys) for part in parts)
    highest = sum(int(part.counts.max(initial=0)) for part in parts)
    kind = _U32 if highest < _COUNT_MAX else _U64  # a slot with the largest count may continue in a second cell
    keys, counts = np.empty(total, _U64), np.empty(total, kind)  # memory that is never written costs nothing
    end = 0
    for block in range(len(bounds) + 1):
        spans = [slice(cut[block], cut[block + 1]) for cut in cuts]
        cells = _Groups(np.concatenate([part.keys[span] for part, span in zip(parts, spans, strict=True)]))
        begin, end = end, end + len(cells.keys)
        keys[begin:end] = cells.keys
        counts[begin:end] = cells.reduce(
            np.add, [part.counts[span] for part, span in zip(parts, spans, strict=True)]
        )
    keys.resize(end, refcheck=False)
    counts.resize(end, refcheck=False)
    return keys, counts


def _split(keys: _Array, counts: _Array) -> tuple[_Array, _Array]:
    if not len(counts) or counts.max() <= _COUNT_MAX:
        return keys, counts
    parts = (counts + np.uint64(_COUNT_MAX - 1)) // np.uint64(_COUNT_MAX)
    parts = parts.astype(np.intp)
    split = np.full(parts.sum(), _COUNT_MAX, _U64)
    split[np.cumsum(parts) - 1] = counts - (parts - 1).astype(_U64) * np.uint64(_COUNT_MAX)
    return np.repeat(keys, parts), split


def _values(columns: ValueColumns) -> Iterable[tuple[int, float]]:
    index = np.frombuffer(columns.index, _U32).tolist()
    return zip(index, np.frombuffer(columns.value, _F64).tolist(), strict=True)


def _value_columns(values: dict[int, float]) -> ValueColumns:
    index = sorted(values)
    return ValueColumns(_bytes(np.array(index), _U32), _bytes(np.array([values[at] for at in index]), _F64))


def _bytes(array: _Array, kind: np.dtype[Any]) -> bytes:
    return array.astype(kind).tobytes()
