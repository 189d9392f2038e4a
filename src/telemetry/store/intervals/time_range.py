"""Reader of the stored intervals that cover a time range.

The history has three levels, with intervals of 1, 10 and 60 s. The reader prefers the longest intervals that fit.
Shorter ones fill the edges of the time range, and replace missing ones. To select an interval, the reader loads
only its head if it has one: times, and positions of the series. Values are loaded on request.
"""

from __future__ import annotations

import io
import math
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.store.framing import Frame, FramePosition, SegmentSteps
from telemetry.store.intervals.levels import KINDS, LEVELS, MAGIC, PACKED, Segment, damage, decoded
from telemetry.store.intervals.packed import OPENING_BYTES, Head, PackedRow, intact, pick
from telemetry.wire.codec import Malformed
from telemetry.wire.history import Interval, SeriesColumns

_TIMES: Final = struct.Struct("<qq")
_COUNT: Final = struct.Struct("<Q")
_FLOAT: Final = struct.Struct("<d")
_HEAD_BYTES: Final = 512  # enough for the head of a second of some thousand series
_END: Final = 1 << 64
_NO_SLOTS: Final = np.zeros(0, np.uint32)


@dataclass(frozen=True, slots=True)
class Picked:
    """The values of one series in `[start_ns, end_ns)`."""

    start_ns: int
    end_ns: int
    count: int
    total: float
    min: float
    """Smallest value; inf without values (`max` is then -inf)."""
    max: float
    slots: NDArray[np.uint32]
    """HDR slots, ascending. A slot may repeat; then its counts must be added."""
    counts: NDArray[np.uint32]


class OpenSegment(NamedTuple):
    segment: Segment
    file: io.FileIO


class FoundInterval:
    """An interval in a segment, with an intact head. An interval without a head has been read as a whole.

    Values are read from the file on request. This may raise OSError. It raises RunDirectoryError for data that has
    right checksums but can't be decoded.
    """

    __slots__ = ("_data", "_steps", "end_ns", "place", "start_ns")

    def __init__(self, steps: SegmentSteps, position: FramePosition, data: bytes | Interval) -> None:
        """Take the head of the interval as `data`, or the whole interval if it has no head."""
        self.place = position
        self._steps = steps
        self._data = data
        if isinstance(data, Interval):
            self.start_ns, self.end_ns = data.start_ns, data.end_ns
        else:
            self.start_ns, self.end_ns = _TIMES.unpack_from(data)

    def interval(self) -> Interval | None:
        """Return the interval; None if it is torn."""
        if isinstance(self._data, Interval):
            return self._data
        return _whole(self._steps, self.place)

    def pick(self, index: int) -> Picked | None:
        """Return one series, even without values; None if the frame is torn."""
        try:
            row = self._row(index)
        except Malformed as error:
            if self._steps.payload(self.place) is None:
                self._steps.tear(self.place)
                return None
            raise damage(self._steps.path, error) from error
        if row is None:
            row = PackedRow(0, 0.0, math.inf, -math.inf, _NO_SLOTS, _NO_SLOTS)
        return Picked(self.start_ns, self.end_ns, row.values, row.total, row.min, row.max, row.slots, row.counts)

    def _row(self, index: int) -> PackedRow | None:
        if isinstance(self._data, Interval):
            return _row_of(self._data.series, index)
        head = Head.of(self._data, self.place.length)
        group = head.group_of(index)
        if group is None:
            return None
        return pick(head, group, self._steps.read(self.place, group.begin, group.bytes), index)


def _row_of(series: SeriesColumns, index: int) -> PackedRow | None:
    indices, occupied, slots, counts = (
        np.frombuffer(data, "<u4") for data in (series.index, series.occupied, series.slots, series.counts)
    )
    row = int(np.searchsorted(indices, index))
    if row == indices.size or indices[row] != index:
        return None
    begin = int(occupied[:row].sum(dtype=np.int64))
    own = slice(begin, begin + int(occupied[row]))
    (values,) = _COUNT.unpack_from(series.count, _COUNT.size * row)
    wide = (series.total, series.min, series.max)
    total, least, most = (_FLOAT.unpack_from(data, _FLOAT.size * row)[0] for data in wide)
    return PackedRow(values, total, least, most, slots[own], counts[own])


def _whole(steps: SegmentSteps, position: FramePosition) -> Interval | None:
    """Read the interval with all checks; None if it is torn."""
    payload = steps.payload(position)
    if payload is None:
        steps.tear(position)
        return None
    return decoded(Frame(position.stamp, position.kind, memoryview(payload)), steps.path)


def _head(steps: SegmentSteps, position: FramePosition) -> bytes | None:
    """Return the head of a packed interval; None if it has none, or if the head is damaged."""
    if position.kind == PACKED:
        head = steps.read(position, 0, _HEAD_BYTES)
        if len(head) >= OPENING_BYTES:
            size = Head.size(head)
            if len(head) < size <= position.length:
                head = steps.read(position, 0, size)
            if len(head) >= size and intact(head[:size], position.length, position.stamp, position.kind):
                return head[:size]
    return None


def _is_intact(steps: SegmentSteps, position: FramePosition) -> bool:
    """Return whether its stamp, kind and length are intact. If not, mark the frame as torn."""
    if _head(steps, position) is None and steps.payload(position) is None:
        steps.tear(position)
        return False
    return True


def _found(steps: SegmentSteps, position: FramePosition) -> FoundInterval | None:
    """Return the interval; None if it is torn. Raises as `FoundInterval`."""
    head = _head(steps, position)
    if head is not None:
        return FoundInterval(steps, position, head)
    whole = _whole(steps, position)
    return None if whole is None else FoundInterval(steps, position, whole)


def _from(steps: SegmentSteps, first: int) -> FramePosition | None:
    """Return the next frame of roll `first` or later.

    Check skipped frames: a damaged stamp must not hide an interval.
    """
    while (position := steps.next()) is not None and position.stamp < first:
        _is_intact(steps, position)
    return position


class _Level:
    """A forward reader of the intervals of one level, from its first segment to its last."""

    def __init__(self, opened: Sequence[OpenSegment]) -> None:
        self.torn: dict[Path, int] = {}
        """Unreadable bytes of each damaged segment that was read to its end."""
        self.first = opened[0].segment.first if opened else _END
        """First roll of the level: no segment holds earlier rolls."""
        self.starts = {item.segment.first: item.segment.start_ns for item in opened}
        """Start times of the first rolls of segments."""
        self._left = deque(opened)
        self._steps: SegmentSteps | None = None
        self._ahead: FramePosition | None = None
        """Next frame, if it lies beyond the requested rolls."""

    def between(self, first: int, end: int) -> Iterator[FoundInterval]:
        """Yield intervals of rolls in `[first, end)` that were not passed yet. Raises as `FoundInterval`."""
        while (position := self._next(first)) is not None:
            assert self._steps is not None
            if position.stamp >= end:
                if _is_intact(self._steps, position):
                    self._ahead = position
                    return
                continue
            if position.kind not in KINDS:
                _is_intact(self._steps, position)
            elif (interval := _found(self._steps, position)) is not None:
                yield interval

    def _next(self, first: int) -> FramePosition | None:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.stamp >= first:
            return ahead
        while self._steps is None or (position := _from(self._steps, first)) is None:
            if self._steps is not None and self._steps.torn_bytes:
                self.torn[self._steps.path] = self._steps.torn_bytes
            if not self._left:
                self._steps = None
                return None
            segment, file = self._left.popleft()
            while self._left and self._left[0].segment.first <= first:
                segment, file = self._left.popleft()
            self._steps = SegmentSteps(file, segment.path, MAGIC)
        return position


class RangeReader:
    """The intervals of a time range without overlap, from the coarsest history levels that fit. Iterate it once."""

    def __init__(self, opened: Sequence[OpenSegment], start_ns: int, end_ns: int, longest_s: int) -> None:
        """Select intervals that overlap `[start_ns, end_ns)`.

        Intervals longer than `longest_s` are used only if no finer level has the data. At the edges of the time
        range, an interval that is partly outside is replaced by the finest ones. `opened` is in the order of
        `levels.segments`.
        """
        self._start_ns, self._end_ns, self._longest_s = start_ns, end_ns, longest_s
        by_level = [[item for item in opened if item.segment.level == level] for level in LEVELS]
        by_level[-1] = by_level[-1][skipped(by_level[-1], start_ns) :]
        self._levels = [_Level(items) for items in by_level]

    @property
    def torn(self) -> dict[Path, int]:
        """Unreadable bytes of each damaged segment that was read to its end."""
        return {path: count for level in self._levels for path, count in level.torn.items()}

    def __iter__(self) -> Iterator[FoundInterval]:
        """Yield the intervals in order of time. Raises as `FoundInterval`."""
        coarsest = len(LEVELS) - 1
        first = self._levels[coarsest].first
        yield from self._rolls(coarsest, 0 if first == _END else first, _END)

    def _rolls(self, at: int, first: int, end: int, *, jumped: bool = False) -> Iterator[FoundInterval]:
        """Yield intervals of rolls from `first` up to before `end`.

        Rolls missing in this level are read from a finer one.

        `jumped`: the clock was changed in or before the first of them.
        """
        until_ns: int | None = None
        for interval in self._levels[at].between(first, end):
            begin = interval.place.stamp
            if begin > first:
                until_ns = None
            if at and begin > first:
                yield from self._rolls(at - 1, first, begin)
            first = max(first, begin + LEVELS[at])
            if until_ns is None:
                until_ns = self._levels[0].starts.get(begin)
            if until_ns is not None:
                jumped = abs(interval.start_ns - until_ns) >= limits.CLOCK_STEP_NS
            until_ns = interval.end_ns
            overlaps = interval.start_ns < self._end_ns and interval.end_ns > self._start_ns
            if self._is_split(at, interval, overlaps=overlaps, jumped=jumped):
                yield from self._rolls(at - 1, begin, first, jumped=jumped)
            elif overlaps:
                yield interval
        if at and first < end:
            yield from self._rolls(at - 1, first, end)

    def _is_split(self, at: int, interval: FoundInterval, *, overlaps: bool, jumped: bool) -> bool:
        """Return whether to replace an interval by finer ones.

        Finer intervals also have the right times after a change of the clock.
        """
        jumped = jumped or interval.end_ns < interval.start_ns
        inside = not jumped and self._start_ns <= interval.start_ns <= interval.end_ns <= self._end_ns
        if not (overlaps or jumped) or (inside and LEVELS[at] <= self._longest_s):
            return False
        return any(level.first <= interval.place.stamp for level in self._levels[:at])


def skipped(opened: Sequence[OpenSegment], start_ns: int) -> int:
    """Return how many segments have a successor that begins no later than `start_ns`."""
    return sum(item.segment.start_ns <= start_ns for item in opened[1:])
