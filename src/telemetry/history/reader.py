"""The history of one run: its instruments, and its intervals, one by one or in windows."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from telemetry.common.formatting import number_of
from telemetry.errors import RunDirectoryError
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.interval_sums import Added, RangeTotals, Sum, SumRows
from telemetry.history.intervals.columns import Columns
from telemetry.history.intervals.histograms import Digest
from telemetry.history.over_time import step_for
from telemetry.statistics.hdr.layout import Floats, Integers
from telemetry.store.append_file import describe
from telemetry.store.history import LEVELS, HistoryReader, Picked
from telemetry.store.intervals.levels import segments
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, ValueColumns

FAR_NS: Final = (1 << 63) - 1
SLICE_S: Final = 0.1
"""Usual length of a slice of the first minute."""
_LATE_NS: Final = 120_000_000_000
"""Usual limit of the time between the last interval and the result."""


class RunHistory:
    """A history on disk. Not thread-safe.

    Every method may block, and raises RunDirectoryError for unreadable files.
    """

    def __init__(self, directory: Path, started_ns: int, time_ns: int) -> None:
        """Read the keys of the indices. Both times are wall clock: the run's start, and its result."""
        self._directory = directory
        self.reader = HistoryReader(directory)
        self._time_ns = time_ns
        keys = self.reader.keys()
        self.rows = SumRows([key for key in keys if key.kind == "series"])
        self.counters = Values([key for key in keys if key.kind == "counter"])
        self.gauges = Values([key for key in keys if key.kind == "gauge"])
        self.started_ns = started_ns or next((interval.start_ns for interval in self.reader.intervals()), 0)

    def damage(self) -> list[str]:
        """Return the damage found and skipped by the last reading of intervals.

        Valid for an ended run: the end of a file that is being written looks like damage.
        """
        return damage_of(self.reader)

    def rows_of(self, series: Collection[SeriesId] | None) -> SumRows:
        """Return the rows of these series, as far as they exist; None means all."""
        if series is None:
            return self.rows
        return SumRows([self.rows.key_of(identity) for identity in series if identity in self.rows.place])

    def ns(self, at_s: float) -> int:
        """Return the wall-clock time of a moment of the run, limited to 64 bits."""
        return max(min(self.started_ns + round(min(max(at_s, -1e10), 1e10) * 1e9), FAR_NS), 0)

    def seconds(self, at_ns: int) -> float:
        """Return seconds since the run's start."""
        return (at_ns - self.started_ns) / 1e9

    @cached_property
    def end_s(self) -> float:
        """End of the last interval in seconds since the run's start; 0 without intervals."""
        for start_ns in (max(self._time_ns - _LATE_NS, 0), 0):
            ends_ns = [picked.end_ns for picked in self.reader.pick(0, start_ns)]
            if ends_ns:
                return self.seconds(max(ends_ns))
        return 0.0

    def step_for(self, seconds: float) -> float:
        """Return a round step for figures over this time: down to a tenth of a second where the history has it."""
        return step_for(seconds, SLICE_S if self.reader.slice_bytes else float(LEVELS[0]))

    def stored_bytes(self, step_s: float) -> int:
        """Return the size on disk of the intervals used for these steps."""
        level = _level(step_s)
        try:
            sizes = [segment.path.stat().st_size for segment in segments(self._directory) if segment.level == level]
        except OSError as error:
            raise RunDirectoryError(f"can't read the history: {describe(error)}") from error
        return sum(sizes) + (self.reader.slice_bytes if step_s < LEVELS[0] else 0)

    def edges(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """Return the edges of intervals nearest to these moments.

        If there is nothing between them, they are those of the interval that overlaps the time range longest.
        """
        nearest = self._edge(start_ns), self._edge(end_ns)
        if next(self.reader.fine(*nearest), None) is not None:
            return nearest
        overlaps = [
            (min(interval.end_ns, end_ns) - max(interval.start_ns, start_ns), interval.start_ns, interval.end_ns)
            for interval in self.reader.fine(start_ns, end_ns)
        ]
        return max(overlaps)[1:] if overlaps else nearest

    def _edge(self, at_ns: int) -> int:
        """Return the nearer edge of the interval around a moment; the moment itself in a gap."""
        for interval in self.reader.fine(at_ns, at_ns + 1):
            return interval.start_ns if at_ns - interval.start_ns <= interval.end_ns - at_ns else interval.end_ns
        return at_ns

    def windows(
        self, step_s: float, start_ns: int, end_ns: int, percentiles: Sequence[str], rows: SumRows
    ) -> Iterator[RangeTotals]:
        """Yield the windows of `RecordedRun.windows`."""
        if step_s < LEVELS[0]:
            intervals = self.reader.fine(start_ns, end_ns)
        else:
            intervals = self.reader.coarse(start_ns, end_ns, _level(step_s), slices=True)
        number, gathered = -1, _WindowSum(self, rows)
        for interval in intervals:
            middle_ns = interval.start_ns // 2 + interval.end_ns // 2
            own = max(int(self.seconds(middle_ns) // step_s), 0)
            if own != number and number >= 0:
                yield gathered.window(percentiles)
                gathered = _WindowSum(self, rows)
            number = own
            gathered.add(interval)
        if number >= 0:
            yield gathered.window(percentiles)

    def increases(self, end_ns: int) -> dict[SeriesId, float]:
        """Return the increases of all counters in the intervals before a moment."""
        totals: dict[SeriesId, float] = {}
        for window in self.windows(float(LEVELS[-1]), 0, end_ns, (), SumRows([])):
            for counter, increase in window.counters.items():
                totals[counter] = totals.get(counter, 0.0) + increase
        return totals

    def digest(self, series: SeriesId, start_ns: int, end_ns: int) -> Digest:
        """Return all values of a series in the intervals that overlap this time range.

        Raises KeyError for an unknown series.
        """
        key = self.rows.key_of(series)
        rows, start, end = SumRows([key]), FAR_NS, 0
        total = Sum(rows)
        for picked in self.reader.pick(key.index, start_ns, end_ns, coarse=True):
            start, end = min(start, picked.start_ns), max(end, picked.end_ns)
            total.include(_picked(picked, rows))
        if not end:
            start = end = start_ns
        return Digest(key, start, end, total.added().only(0, rows))


def damage_of(reader: HistoryReader) -> list[str]:
    """Return a sentence for each file that the last reading could not read completely."""
    return [
        f"{path} is damaged: can't read its last {number_of(count, 'byte')}; these values are "
        "missing unless another file has them"
        for path, count in sorted(reader.torn.items())
    ]


def _picked(picked: Picked, rows: SumRows) -> Added:
    """Return intervals of one series as the sum of a single row."""
    return Added(
        np.zeros(1, dtype=np.int64),
        max(picked.end_ns - picked.start_ns, 0) / 1e9,  # the clock may have been set back
        np.array([picked.count]),
        np.array([picked.total]),
        np.array([picked.min]),
        np.array([picked.max]),
        np.minimum(picked.slots, rows.span - 1).astype(np.int64),
        picked.counts.astype(np.int64),
    )


class Values:
    """Counters or gauges by index."""

    def __init__(self, keys: Sequence[SeriesKey]) -> None:
        """Sort the keys by index. Of keys with the same index, the last one counts."""
        key_by_index = {key.index: key for key in keys}
        self.ids = [series_id(key_by_index[index]) for index in sorted(key_by_index)]
        self.index = np.array(sorted(key_by_index), dtype=np.int64)


class _WindowSum:
    """A sum of neighbouring intervals."""

    def __init__(self, past: RunHistory, rows: SumRows) -> None:
        self._past = past
        self._rows = rows
        self._sum = Sum(rows)
        self._start_ns, self._end_ns = FAR_NS, 0
        self._increases = np.zeros(len(past.counters.ids))
        self._values = np.full(len(past.gauges.ids), np.nan)

    def add(self, interval: Interval) -> None:
        self._start_ns = min(self._start_ns, interval.start_ns)
        self._end_ns = max(self._end_ns, interval.end_ns)
        # The clock may have been set back.
        self._sum.add(Columns.of(interval), max(interval.end_ns - interval.start_ns, 0) / 1e9)
        places, increases = _values(self._past.counters, interval.counters)
        with np.errstate(over="ignore", invalid="ignore"):  # values may be as large as floats allow
            np.add.at(self._increases, places, increases)
        places, values = _values(self._past.gauges, interval.gauges)
        self._values[places] = values

    def window(self, percentiles: Sequence[str]) -> RangeTotals:
        added = self._sum.added()
        increased, present = np.flatnonzero(self._increases), np.flatnonzero(~np.isnan(self._values))
        return RangeTotals(
            start_s=self._past.seconds(self._start_ns),
            end_s=self._past.seconds(self._end_ns),
            seconds=added.seconds,
            counters=_by_id(self._past.counters, increased, self._increases),
            gauges=_by_id(self._past.gauges, present, self._values),
            percentiles=percentiles,
            rows=self._rows,
            added=added,
        )


def _values(of: Values, columns: ValueColumns) -> tuple[Integers, Floats]:
    """Return places among the ids, and their values. Ignores indices without a key."""
    index = np.frombuffer(columns.index, "<u4").astype(np.int64)
    values = np.frombuffer(columns.value, "<f8")
    places = np.searchsorted(of.index, index)
    mask = np.append(of.index, -1)[places] == index
    return places[mask], values[mask]


def _by_id(of: Values, places: Integers, values: Floats) -> dict[SeriesId, float]:
    return dict(zip((of.ids[index] for index in places.tolist()), values[places].tolist(), strict=True))


def _level(step_s: float) -> int:
    """Return the coarsest level whose intervals divide the step."""
    return next((level for level in reversed(LEVELS) if not step_s % level), LEVELS[0])
