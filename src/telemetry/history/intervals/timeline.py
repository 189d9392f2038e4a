"""The timeline of one series, for any time range and any step."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.history.intervals.columns import Columns
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.histograms import Digest, Histograms, added_up
from telemetry.statistics.hdr.layout import Integers
from telemetry.statistics.hdr.pages import grown
from telemetry.wire.cells import cell, edge
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval

PARTS: Final = 1 << 14  # a history has two hours of seconds and a day of tens of seconds: 15,840
SLOTS: Final = 1 << 22  # of all intervals together: 48 MiB

_SECOND_NS: Final = 1_000_000_000
_SHORT_NS: Final = _SECOND_NS // 2
_SHORT_SLICE_NS: Final = _SECOND_NS // 20
_STEPS_NS: Final = (_SECOND_NS // 10, _SECOND_NS // 5, _SECOND_NS // 2)
_IN_A_ROW: Final = 3
"""Short intervals in a row that are slices of the first minute. A restart leaves two at most."""
_FAR_NS: Final = 1 << 62  # in the year 2116; sums of two moments before it fit into 64 bits
_PART: Final = np.dtype(
    [
        *((name, np.int64) for name in ("start_ns", "end_ns", "covered_ns", "count")),
        *((name, np.float64) for name in ("total", "min", "max")),
        ("slots_end", np.int64),
    ]
)


class Point(NamedTuple):
    """The figures of neighbouring intervals, from the start of the first to the end of the last."""

    start_ns: int
    end_ns: int
    figures: Figures


class _RangeParts(NamedTuple):
    """Consecutive time ranges. The slots of each begin where those of the previous one end."""

    rows: NDArray[Any]
    slots: NDArray[np.uint32] | Integers
    counts: Integers

    def between(self, first: int, last: int) -> _RangeParts:
        """Return the time ranges from `first` up to, but excluding, `last`."""
        begin = int(self.rows["slots_end"][first - 1]) if first else 0
        end = int(self.rows["slots_end"][last - 1]) if last else 0
        rows = self.rows[first:last].copy()
        rows["slots_end"] -= begin
        return _RangeParts(rows, self.slots[begin:end], self.counts[begin:end])

    def merged(self, begins: Integers) -> _RangeParts:
        """Merge the time ranges from each of `begins` up to the next into one. The first of `begins` must be 0."""
        lasts = np.append(begins[1:], self.rows.size) - 1
        merged = np.zeros(begins.size, _PART)
        merged["start_ns"] = self.rows["start_ns"][begins]
        merged["end_ns"] = self.rows["end_ns"][lasts]
        with np.errstate(over="ignore", invalid="ignore"):  # values may be as large as floats allow
            for name in ("covered_ns", "count", "total"):
                merged[name] = np.add.reduceat(self.rows[name], begins)
        merged["min"] = np.minimum.reduceat(self.rows["min"], begins)
        merged["max"] = np.maximum.reduceat(self.rows["max"], begins)
        ends = self.rows["slots_end"][lasts].tolist()
        sums = [
            added_up(self.slots[begin:end], self.counts[begin:end])
            for begin, end in zip([0, *ends[:-1]], ends, strict=True)
        ]
        merged["slots_end"] = np.cumsum([slots.size for slots, _ in sums])
        slots, counts = zip(*sums, strict=True)
        return _RangeParts(merged, np.concatenate(slots), np.concatenate(counts))

    def histograms(self, key: SeriesKey) -> Histograms:
        rows = self.rows
        return Histograms(
            digits=np.full(rows.size, key.digits),
            ticks_per_unit=np.full(rows.size, key.ticks_per_unit),
            seconds=rows["covered_ns"] / 1e9,
            count=rows["count"],
            total=rows["total"],
            min=rows["min"],
            max=rows["max"],
            ends=rows["slots_end"],
            slots=self.slots.astype(np.int64, copy=False),
            counts=self.counts,
        )


class Timeline:
    """The figures of one series in each interval, added in order of time.

    A time range covers all intervals from the first to the last one that overlap it. One thread adds; other threads
    use a `copy`. It holds at most PARTS intervals and SLOTS histogram slots. Beyond that, neighbours in all but the
    newest quarter are merged, which only costs detail in time.
    """

    def __init__(self, key: SeriesKey) -> None:
        """Create an empty timeline. `key` must belong to a series."""
        self.key = key
        self._parts = _RangeParts(np.zeros(0, _PART), np.zeros(0, np.uint32), np.zeros(0, np.int64))
        self._size = 0
        """Number of intervals. Behind them and their slots, the arrays have room that copies do not see."""
        self._slots = 0
        self._step_s = 1

    def __len__(self) -> int:
        return self._size

    @property
    def start_ns(self) -> int:
        """Start of the first interval; 0 without intervals."""
        return int(self._parts.rows["start_ns"][0]) if self._size else 0

    @property
    def end_ns(self) -> int:
        """End of the last interval; 0 without intervals."""
        return int(self._parts.rows["end_ns"][self._size - 1]) if self._size else 0

    def add(self, interval: Interval) -> bool:
        """Add the next decoded interval. Return False if the series has no values in it."""
        part = Columns.of(interval).pick(self.key.index)
        slots = part.slots.size if part is not None else 0
        self._make_room(slots)
        rows, self._slots = self._parts.rows, self._slots + slots
        start_ns, end_ns = (max(min(at_ns, _FAR_NS), 0) for at_ns in (interval.start_ns, interval.end_ns))
        times = start_ns, end_ns, max(end_ns - start_ns, 0)  # the clock may have been set back
        if part is None:
            rows[self._size] = (*times, 0, 0.0, np.inf, -np.inf, self._slots)
        else:
            rows[self._size] = (*times, part.count, part.total, part.min, part.max, self._slots)
            self._parts.slots[self._slots - slots : self._slots] = part.slots
            self._parts.counts[self._slots - slots : self._slots] = part.counts
        self._size += 1
        if self._fills(4):
            self._coarsen()
        return part is not None

    def copy(self) -> Timeline:
        """Return a copy for another thread. Existing data is shared."""
        twin = Timeline(self.key)
        rows, slots, counts = self._parts
        twin._parts = _RangeParts(rows[: self._size], slots[: self._slots], counts[: self._slots])
        twin._size, twin._slots, twin._step_s = self._size, self._slots, self._step_s
        return twin

    def points(self, start_ns: int, end_ns: int, most: int, percentiles: Sequence[str]) -> list[Point]:
        """Return at most `most` points, 1 or more, of this time range.

        Raises UsageError for a percentile outside (0, 100].

        Neighbours are merged by the same steps for every start: tenths of a second where the history has them, or
        whole seconds. Intervals of less than half of that are merged into the one before them.
        """
        parts = self._overlapping(start_ns, end_ns)
        if not parts.rows.size:
            return []
        merged = parts.merged(self._begins(parts.rows, most))
        times = merged.rows["start_ns"].tolist(), merged.rows["end_ns"].tolist()
        return [Point(*row) for row in zip(*times, merged.histograms(self.key).figures(percentiles), strict=True)]

    def between(self, start_ns: int, end_ns: int) -> Digest:
        """Return all values of this time range together; an empty digest if no interval overlaps it."""
        parts = self._overlapping(start_ns, end_ns)
        if not parts.rows.size:
            empty = np.zeros(1, _PART)
            return Digest(self.key, start_ns, start_ns, parts._replace(rows=empty).histograms(self.key))
        merged = parts.merged(np.zeros(1, np.int64))
        row = merged.rows[0]
        return Digest(self.key, int(row["start_ns"]), int(row["end_ns"]), merged.histograms(self.key))

    def _overlapping(self, start_ns: int, end_ns: int) -> _RangeParts:
        rows = self._parts.rows[: self._size]
        hits = np.flatnonzero((rows["start_ns"] < end_ns) & (rows["end_ns"] > start_ns))
        return self._parts.between(int(hits[0]), int(hits[-1]) + 1) if hits.size else self._parts.between(0, 0)

    def _begins(self, rows: NDArray[Any], most: int) -> Integers:
        """Return the start indices of at most `most` points, each of at least half of its step."""
        lasting, fine = _lasting(rows["covered_ns"]), _slices(rows["covered_ns"])
        for step_ns in _STEPS_NS if fine.size > lasting.size else ():
            starts: Integers = fine[_changes(self._middles(rows[fine]) // step_ns)]
            if starts.size <= most:
                return starts
        if lasting.size <= most:
            return lasting
        seconds = self._seconds(rows[lasting])
        for step in count(max(cell(int(seconds.max() - seconds.min()) // most), 1)):
            begins: Integers = lasting[_changes(seconds // edge(step))]
            if begins.size <= most:
                break
        return begins

    def _seconds(self, rows: NDArray[Any]) -> Integers:
        """Return the seconds from the earliest start to the middle of each interval."""
        seconds: Integers = self._middles(rows) // _SECOND_NS
        return seconds

    def _middles(self, rows: NDArray[Any]) -> Integers:
        """Return the time from the earliest start to the middle of each interval.

        The middle stays in the same step even if an interval begins a little early or late.
        """
        origin_ns = self._parts.rows["start_ns"][: self._size].min()
        middles = (rows["start_ns"] - origin_ns) // 2 + (rows["end_ns"] - origin_ns) // 2
        limited: Integers = np.maximum(middles, 0)
        return limited

    def _make_room(self, slots: int) -> None:
        """Make room for one more interval with this many slots."""
        rows, all_slots, counts = self._parts
        if self._size == rows.size:
            rows = grown(rows, max(64, 2 * self._size))
        if self._slots + slots > all_slots.size:
            room = max(1_024, min(2 * self._slots, SLOTS), self._slots + slots)
            all_slots, counts = grown(all_slots, room), grown(counts, room)
        self._parts = _RangeParts(rows, all_slots, counts)

    def _fills(self, quarters: int) -> bool:
        """Return whether more than this many quarters of the limits are used."""
        return 4 * self._size > quarters * PARTS or 4 * self._slots > quarters * SLOTS

    def _coarsen(self) -> None:
        """Free a quarter of the limits, so that the next `add` need not merge again."""
        self._merge_old()
        while self._fills(3) and self._size > 1:
            self._step_s *= 2
            self._merge_old()

    def _merge_old(self) -> None:
        """Merge all but the newest quarter into steps of `_step_s`."""
        parts = self._parts.between(0, self._size)
        old = max(self._size * 3 // 4, 2)
        begins = _changes(self._seconds(parts.rows[:old]) // self._step_s)
        rows, slots, counts = parts.merged(np.append(begins, np.arange(old, self._size)))
        self._parts = _RangeParts(rows, slots.astype(np.uint32), counts)
        self._size, self._slots = rows.size, slots.size


def _slices(covered_ns: Integers) -> Integers:
    """Return start indices of seconds and of slices. Intervals that are too short are joined with those before."""
    short = covered_ns < _SHORT_NS
    slices = short.copy()
    for shift in range(1, _IN_A_ROW):
        slices[shift:] &= short[:-shift]
        slices[:shift] = False
    for _ in range(1, _IN_A_ROW):
        slices[:-1] |= slices[1:] & short[:-1]
    begins = ~short | (slices & (covered_ns >= _SHORT_SLICE_NS))
    begins[0] = True
    return np.flatnonzero(begins)


def _lasting(covered_ns: Integers) -> Integers:
    """Return start indices such that intervals shorter than half a second are joined with those before them.

    Late events arrive together in such an interval, and belong to the gap before it. Alone, it would show a rate
    that never occurred.
    """
    begins = covered_ns >= _SHORT_NS
    gathered_ns = 0
    for index in np.flatnonzero(~begins).tolist():
        follows = index and not covered_ns[index - 1] >= _SHORT_NS
        gathered_ns = (gathered_ns if follows else 0) + int(covered_ns[index])
        if gathered_ns >= _SECOND_NS:
            begins[index], gathered_ns = True, 0
    # Short intervals at the very beginning are joined with those after them.
    first = int(np.argmax(begins)) if begins.any() else 0
    if covered_ns[:first].sum() < _SHORT_NS:
        begins[first] = False
    begins[0] = True
    return np.flatnonzero(begins)


def _changes(numbers: Integers) -> Integers:
    """Return the indices of numbers that differ from the one before."""
    return np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
