"""The sum of several runs' histories, written as one history."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry.errors import RunDirectoryError, UsageError
from telemetry.history.instrument_ids import series_id
from telemetry.history.intervals.columns import Columns
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.range_sums import RangeSums
from telemetry.judge.merge.sources import Input, SeriesId
from telemetry.statistics.hdr.layout import Layout
from telemetry.store.history import LEVELS, HistoryReader, HistoryWriter
from telemetry.store.intervals.rollup import merge as added
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns

_U32: Final = np.dtype("<u4")
_U64: Final = np.dtype("<u8")
_F64: Final = np.dtype("<f8")
_NONE: Final = -1
_KINDS: Final = ("series", "counter", "gauge")
_Array = NDArray[Any]
_Id = tuple[str, SeriesId]
SECOND_NS: Final = 1_000_000_000
_WIDEST: Final = LEVELS[-1]
_FAR_NS: Final = 1 << 62  # in the year 2116
_NEARLY: Final = 0.6
"""Fraction of a level's width from which an interval belongs to that level, despite a delayed start or end."""
OnProgress = Callable[[str, float], None]
"""Progress callback: (current step, completed fraction)."""
_KEEP_ALL: Final[Mapping[int, float | None]] = dict.fromkeys(LEVELS)
"""Retention without limit: the size is bounded by the sources, and runs of other days count as equally recent."""


class Instruments:
    """The instruments of several histories, each once.

    A series gets the lowest number of digits among the histories.
    """

    def __init__(self, keys: Sequence[tuple[str, Sequence[SeriesKey]]]) -> None:
        """Read (owner, keys) of each history.

        Raises UsageError if a series has different ticks in two histories.
        """
        self._known: dict[_Id, tuple[SeriesKey, str]] = {}
        sizes = dict.fromkeys(_KINDS, 0)
        for owner, own in keys:
            for key in own:
                if key.kind not in sizes:
                    continue
                existing = self._known.get(_id(key))
                if existing is None:
                    self._known[_id(key)] = replace(key, index=sizes[key.kind]), owner
                    sizes[key.kind] += 1
                else:
                    self._known[_id(key)] = _agreed(*existing, key, owner), existing[1]

    @property
    def keys(self) -> list[SeriesKey]:
        return [key for key, _ in self._known.values()]

    def translation(self, keys: Sequence[SeriesKey]) -> Translation:
        """Return the translation from indices of these keys to the common indices."""
        return Translation(keys, {identity: key for identity, (key, _) in self._known.items()})


class Translation:
    """A translation of one history's indices to the common indices."""

    def __init__(self, keys: Sequence[SeriesKey], common_keys: dict[_Id, SeriesKey]) -> None:
        self._places: dict[str, _Array] = {}
        self._coarser: dict[int, tuple[Layout, Layout]] = {}
        """Index of a series → its layout, and the layout with fewer digits that it gets."""
        for kind in _KINDS:
            own = [key for key in keys if key.kind == kind]
            places = np.full(max((key.index for key in own), default=-1) + 2, _NONE, dtype=np.int64)
            for key in own:
                target = common_keys[_id(key)]
                places[key.index] = target.index
                if kind == "series" and target.digits != key.digits:
                    self._coarser[key.index] = Layout.of(key.digits), Layout.of(target.digits)
            self._places[kind] = places

    def interval(self, interval: Interval) -> Interval:
        """Translate a decoded interval. Raises RunDirectoryError for an index without a key."""
        return replace(
            interval,
            series=self._series(interval.series),
            counters=self._values("counter", interval.counters),
            gauges=self._values("gauge", interval.gauges),
        )

    def _series(self, columns: SeriesColumns) -> SeriesColumns:
        old = np.frombuffer(columns.index, _U32)
        new = self._translated("series", old)
        occupied = np.frombuffer(columns.occupied, _U32)
        slots, counts = np.frombuffer(columns.slots, _U32), np.frombuffer(columns.counts, _U32)
        if self._coarser:
            slots = self._coarsened(old, np.cumsum(occupied, dtype=np.int64), slots)
        order = np.argsort(new)
        of_slots = np.argsort(np.repeat(new, occupied), kind="stable")
        return SeriesColumns(
            index=new[order].astype(_U32).tobytes(),
            count=np.frombuffer(columns.count, _U64)[order].tobytes(),
            total=np.frombuffer(columns.total, _F64)[order].tobytes(),
            min=np.frombuffer(columns.min, _F64)[order].tobytes(),
            max=np.frombuffer(columns.max, _F64)[order].tobytes(),
            occupied=occupied[order].tobytes(),
            slots=slots[of_slots].tobytes(),
            counts=counts[of_slots].tobytes(),
        )

    def _coarsened(self, old: _Array, ends: _Array, slots: _Array) -> _Array:
        """Convert slots to the layouts with fewer digits. A finer slot always lies within one coarser slot."""
        slots = slots.copy()
        for row, index in enumerate(old.tolist()):
            if index in self._coarser:
                finer, coarser = self._coarser[index]
                own = slice(int(ends[row - 1]) if row else 0, int(ends[row]))
                valid_slots = np.minimum(slots[own].astype(np.int64), finer.slots - 1)
                slots[own] = coarser.slot_of(finer.lowest_of(valid_slots))
        return slots

    def _values(self, kind: str, columns: ValueColumns) -> ValueColumns:
        new = self._translated(kind, np.frombuffer(columns.index, _U32))
        order = np.argsort(new)
        return ValueColumns(new[order].astype(_U32).tobytes(), np.frombuffer(columns.value, _F64)[order].tobytes())

    def _translated(self, kind: str, old: _Array) -> _Array:
        places = self._places[kind]
        new: _Array = places[np.minimum(old, places.size - 1)]
        unknown = old[new == _NONE]
        if unknown.size:
            raise RunDirectoryError(f"the history does not define {kind} {unknown[0]}")
        return new


def _id(key: SeriesKey) -> _Id:
    return key.kind, (key.name, tuple(sorted(key.labels.items())))


def _agreed(first: SeriesKey, first_owner: str, other: SeriesKey, owner: str) -> SeriesKey:
    if first.kind == "series" and first.ticks_per_unit != other.ticks_per_unit:
        lows = [f"{1.0 / key.ticks_per_unit:g}" for key in (first, other)]
        raise UsageError(
            f"the lowest values of series {first.name!r} differ: {lows[0]} in {first_owner} and "
            f"{lows[1]} in {owner}",
            hint="their histograms can't be added; give both the same `low`, or leave out one of the runs",
        )
    return replace(first, digits=min(first.digits, other.digits))


@dataclass(frozen=True, kw_only=True)
class MergedHistory:
    """The sum of all available histories."""

    figures: Mapping[SeriesId, Figures] = field(default_factory=dict)
    keys: Mapping[SeriesId, SeriesKey] = field(default_factory=dict)
    counts: Sequence[Mapping[SeriesId, int]] = ()
    """Values per series in each input's history, -1 if the history contradicts itself. Empty without a history."""
    written: bool = False
    """True if every input has a history, so that the merged run has one."""


def add_histories(
    inputs: Sequence[Input], directory: Path, percentiles: Sequence[str], on_progress: OnProgress = lambda *_: None
) -> MergedHistory:
    """Read all histories once, in order of time. Write their sum to `directory` if each input has a history.

    Blocks on the disk. Raises RunDirectoryError for a history that can't be read or written, and UsageError for
    series with different ticks and for a percentile outside (0, 100].
    """
    parts = [_InputHistory.of(run) for run in inputs if run.directory.history.is_dir()]
    instruments = Instruments([(str(part.input.directory.path), part.keys) for part in parts])
    for part in parts:
        part.translation = instruments.translation(part.keys)
    time_range = RangeSums(instruments.keys, percentiles)
    writer = HistoryWriter(directory, _KEEP_ALL) if len(parts) == len(inputs) else None
    origin_ns = min(run.begin_ns for run in inputs)
    span_ns = max(1, max(run.end_ns for run in inputs) - origin_ns)
    try:
        for cell in cells([part.placed(owner, origin_ns) for owner, part in enumerate(parts)]):
            interval = _sum(cell, parts, origin_ns)
            time_range.add(interval)
            if writer is not None:
                writer.append(interval, instruments.keys, cell.second)
            on_progress("adding histories", min(1.0, cell.end_ns / span_ns))
    finally:
        if writer is not None:
            writer.close()
    if writer is not None and writer.failed:
        raise RunDirectoryError(f"can't write the merged history: {writer.failed}")
    keys = {series_id(key): key for key in instruments.keys if key.kind == "series"}
    figures = time_range.figures()
    tallies = {id(part.input): part.counts() for part in parts}
    return MergedHistory(
        figures={series: figures[key.index] for series, key in keys.items()},
        keys=keys,
        counts=[tallies.get(id(run), {}) for run in inputs],
        written=writer is not None,
    )


class _InputHistory:
    """A history and the counts of what was read from it."""

    translation: Translation

    def __init__(self, source: Input, reader: HistoryReader, keys: list[SeriesKey]) -> None:
        self.input = source
        self.keys = keys
        self._reader = reader
        size = max((key.index for key in keys if key.kind == "series"), default=-1) + 1
        self._values = np.zeros(size, dtype=np.int64)
        self._in_slots = np.zeros(size, dtype=np.int64)

    @staticmethod
    def of(source: Input) -> _InputHistory:
        reader = HistoryReader(source.directory.history)
        return _InputHistory(source, reader, reader.keys())

    def placed(self, owner: int, origin_ns: int) -> Iterator[Placed]:
        return placed(self._reader.intervals(), owner, origin_ns, self.input.shift_ns)

    def take(self, interval: Interval) -> Interval:
        """Translate an interval to the common instruments and count it.

        Raises RunDirectoryError for unknown indices.
        """
        try:
            translated = self.translation.interval(interval)
        except RunDirectoryError as error:
            raise RunDirectoryError(f"{self.input.directory.history} is damaged: {error.message}") from error
        columns = Columns.of(interval)
        rows = np.repeat(columns.index, columns.occupied)
        self._values[columns.index] += columns.count
        self._in_slots += np.bincount(rows, columns.counts, self._in_slots.size).astype(np.int64)
        return translated

    def counts(self) -> dict[SeriesId, int]:
        """Return the number of values per series, or -1 if the counts of its slots disagree."""
        agreed = np.where(self._values == self._in_slots, self._values, -1).tolist()
        return {series_id(key): agreed[key.index] for key in self.keys if key.kind == "series"}


def _sum(cell: MergeCell, parts: Sequence[_InputHistory], origin_ns: int) -> Interval:
    members = [parts[member.owner].take(member.interval) for member in cell.members]
    with np.errstate(over="ignore", invalid="ignore"):  # values may be close to the largest float
        whole = added(members)
    return replace(whole, start_ns=origin_ns + cell.start_ns, end_ns=origin_ns + cell.end_ns)


# Seconds of different runs end at different times. So each interval is put as a whole into the cell that contains
# its middle. The grid's seconds count from the start of the first run. No count is split or lost. If a history only
# keeps intervals of 10 s or 60 s for some time, cells there are as wide.
#
# All seconds of a run are shifted by the same amount, at most half a second, to align with the grid. Wider
# intervals are shifted by at most half their width. Without the shift, a middle near the edge of a cell would
# alternate between two cells.


class Placed(NamedTuple):
    """An interval on the grid, ordered by time, then by owner."""

    at_ns: int
    """Position: its middle, in nanoseconds since the origin of the grid."""
    owner: int
    number: int
    """Number among the intervals of its owner."""
    width_s: int
    """Width of the level that it seems to have: 1, 10 or 60 seconds."""
    start_ns: int
    end_ns: int
    """Start and end on the grid, in nanoseconds since its origin."""
    ended_ns: int
    """Actual end, in nanoseconds since the origin."""
    interval: Interval


@dataclass(frozen=True, slots=True)
class MergeCell:
    second: int
    """First second of the cell, since the origin."""
    start_ns: int
    end_ns: int
    """Part of the cell that its members cover, since the origin. Gaps below a quarter at either end are ignored."""
    members: tuple[Placed, ...]
    """Members, sorted by their actual end; at least one."""


def placed(intervals: Iterable[Interval], owner: int, origin_ns: int, shift_ns: int) -> Iterator[Placed]:
    """Place the intervals of a history, shifted by `shift_ns`. Positions never decrease."""
    offsets: dict[int, int] = {}
    earliest_ns = 0
    for number, interval in enumerate(intervals):
        begin_ns, end_ns = (max(min(at_ns, _FAR_NS), 0) for at_ns in (interval.start_ns, interval.end_ns))
        start_ns, length_ns = begin_ns + shift_ns - origin_ns, max(end_ns - begin_ns, 0)
        ended_ns, width_s = start_ns + length_ns, _width(length_ns)
        if width_s not in offsets and length_ns >= _NEARLY * SECOND_NS:
            offsets[width_s] = _offset(start_ns, width_s * SECOND_NS)
        start_ns -= offsets.get(width_s, 0)
        at_ns = earliest_ns = max(earliest_ns, start_ns + length_ns // 2)
        yield Placed(at_ns, owner, number, width_s, start_ns, start_ns + length_ns, ended_ns, interval)


def cells(streams: Sequence[Iterator[Placed]]) -> Iterator[MergeCell]:
    """Yield the seconds of the merged history in order. At most one minute of intervals is in memory."""
    ordered = heapq.merge(*streams, key=lambda member: member[:3])
    for minute, members in groupby(ordered, lambda member: member.at_ns // (_WIDEST * SECOND_NS)):
        yield from _divided(list(members), minute * _WIDEST, LEVELS[::-1])


def _divided(members: list[Placed], second: int, widths: Sequence[int]) -> Iterator[MergeCell]:
    """Divide `widths[0]` seconds from `second` on into cells, as narrow as their members allow."""
    width_s, *narrower = widths
    if not narrower or any(member.width_s >= width_s for member in members):
        yield _cell(members, second, width_s)
        return
    step_ns = narrower[0] * SECOND_NS
    for step, part in groupby(members, lambda member: member.at_ns // step_ns):
        yield from _divided(list(part), step * narrower[0], narrower)


def _cell(members: list[Placed], second: int, width_s: int) -> MergeCell:
    first_ns, last_ns = second * SECOND_NS, (second + width_s) * SECOND_NS
    start_ns, end_ns = min(member.start_ns for member in members), max(member.end_ns for member in members)
    slack_ns = (last_ns - first_ns) // 4  # a second that starts or ends slightly late still fills its cell
    start_ns = first_ns if start_ns < first_ns + slack_ns else start_ns
    end_ns = last_ns if end_ns > last_ns - slack_ns else end_ns
    if end_ns <= start_ns:  # a clock was set back: these times are off the grid
        start_ns, end_ns = first_ns, last_ns
    return MergeCell(
        second, start_ns, end_ns, tuple(sorted(members, key=lambda member: (member.ended_ns, member[:3])))
    )


def _width(length_ns: int) -> int:
    return max((level for level in LEVELS if length_ns >= _NEARLY * level * SECOND_NS), default=LEVELS[0])


def _offset(start_ns: int, width_ns: int) -> int:
    """Return the distance in nanoseconds from the nearest start of a cell."""
    return (start_ns + width_ns // 2) % width_ns - width_ns // 2
