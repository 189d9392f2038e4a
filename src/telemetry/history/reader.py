"""The history of one run: its instruments, and its intervals, one by one or in steps."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from telemetry.errors import RunDirectoryError
from telemetry.formatting import number_of
from telemetry.hdr.layout import Floats, Integers
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.interval_sums import Added, Rows, Sum
from telemetry.history.intervals.columns import Columns
from telemetry.history.intervals.digest import Digest
from telemetry.history.range_totals import RangeTotals
from telemetry.store.append_file import describe
from telemetry.store.history import LEVELS, HistoryReader, Picked
from telemetry.store.intervals.levels import segments
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, ValueColumns

FAR_NS: Final = (1 << 63) - 1
_LATE_NS: Final = 120_000_000_000
"""Few results come later than that after the last interval."""


class RunHistory:
    """One owner. Every method may block on the disk, and raises RunDirectoryError for files that can't be read."""

    def __init__(self, directory: Path, started_ns: int, time_ns: int) -> None:
        """Wall clock: of the run's start, and of its result. Reads what the indices stand for."""
        self._directory = directory
        self.reader = HistoryReader(directory)
        self._time_ns = time_ns
        keys = self.reader.keys()
        self.rows = Rows([key for key in keys if key.kind == "series"])
        self.counters = Values([key for key in keys if key.kind == "counter"])
        self.gauges = Values([key for key in keys if key.kind == "gauge"])
        self.started_ns = started_ns or next((one.start_ns for one in self.reader.intervals()), 0)

    def damage(self) -> list[str]:
        """What the last reading of intervals found damaged and left out. For a run that is over: the end of a file
        that is being written looks the same."""
        return damage_of(self.reader)

    def rows_of(self, series: Collection[SeriesId] | None) -> Rows:
        """Of these, as far as there are any; None: of all."""
        if series is None:
            return self.rows
        return Rows([self.rows.key_of(one) for one in series if one in self.rows.place])

    def ns(self, at_s: float) -> int:
        """Wall clock of a moment of the run, as far as 64 bits go."""
        return max(min(self.started_ns + round(min(max(at_s, -1e10), 1e10) * 1e9), FAR_NS), 0)

    def seconds(self, at_ns: int) -> float:
        """Since the run's start."""
        return (at_ns - self.started_ns) / 1e9

    @cached_property
    def end_s(self) -> float:
        """Where the last interval ends; 0 without any."""
        for start_ns in (max(self._time_ns - _LATE_NS, 0), 0):
            ends_ns = [picked.end_ns for picked in self.reader.pick(0, start_ns)]
            if ends_ns:
                return self.seconds(max(ends_ns))
        return 0.0

    def stored_bytes(self, step_s: float) -> int:
        """On disk, of the intervals that steps are made of."""
        level = _level(step_s)
        try:
            return sum(one.path.stat().st_size for one in segments(self._directory) if one.level == level)
        except OSError as error:
            raise RunDirectoryError(f"the history can't be read: {describe(error)}") from error

    def windows(
        self, step_s: float, start_ns: int, end_ns: int, percentiles: Sequence[str], rows: Rows
    ) -> Iterator[RangeTotals]:
        """Those of `RecordedRun.windows`."""
        number, gathered = -1, _Gathered(self, rows)
        for interval in self.reader.coarse(start_ns, end_ns, _level(step_s)):
            middle_ns = interval.start_ns // 2 + interval.end_ns // 2
            own = max(int(self.seconds(middle_ns) // step_s), 0)
            if own != number and number >= 0:
                yield gathered.window(percentiles)
                gathered = _Gathered(self, rows)
            number = own
            gathered.add(interval)
        if number >= 0:
            yield gathered.window(percentiles)

    def digest(self, series: SeriesId, start_ns: int, end_ns: int) -> Digest:
        """All values of a series in the intervals that overlap this part. Raises KeyError."""
        key = self.rows.key_of(series)
        rows, start, end = Rows([key]), FAR_NS, 0
        total = Sum(rows)
        for picked in self.reader.pick(key.index, start_ns, end_ns, coarse=True):
            start, end = min(start, picked.start_ns), max(end, picked.end_ns)
            total.include(_picked(picked, rows))
        if not end:
            start = end = start_ns
        return Digest(key, start, end, total.added().only(0, rows))


def damage_of(reader: HistoryReader) -> list[str]:
    """A sentence for each file of which the last reading could not read all."""
    return [
        f"{path} is damaged: its last {number_of(count, 'byte')} can't be read, and what they say is left out where"
        " no other file has it"
        for path, count in sorted(reader.torn.items())
    ]


def _picked(picked: Picked, rows: Rows) -> Added:
    """As what is added to the only row."""
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
        """Of an index that comes twice, the last one counts."""
        known = {key.index: key for key in keys}
        self.ids = [series_id(known[index]) for index in sorted(known)]
        self.index = np.array(sorted(known), dtype=np.int64)


class _Gathered:
    """Some neighbouring intervals."""

    def __init__(self, past: RunHistory, rows: Rows) -> None:
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
        with np.errstate(over="ignore", invalid="ignore"):  # values may be as large as floats go
            np.add.at(self._increases, places, increases)
        places, values = _values(self._past.gauges, interval.gauges)
        self._values[places] = values

    def window(self, percentiles: Sequence[str]) -> RangeTotals:
        added = self._sum.added()
        increased, known = np.flatnonzero(self._increases), np.flatnonzero(~np.isnan(self._values))
        return RangeTotals(
            start_s=self._past.seconds(self._start_ns),
            end_s=self._past.seconds(self._end_ns),
            seconds=added.seconds,
            counters=_by_id(self._past.counters, increased, self._increases),
            gauges=_by_id(self._past.gauges, known, self._values),
            percentiles=percentiles,
            rows=self._rows,
            added=added,
        )


def _values(of: Values, columns: ValueColumns) -> tuple[Integers, Floats]:
    """Places among the ids, and what is said of them; what no key stands for is passed over."""
    index = np.frombuffer(columns.index, "<u4").astype(np.int64)
    values = np.frombuffer(columns.value, "<f8")
    places = np.searchsorted(of.index, index)
    known = np.append(of.index, -1)[places] == index
    return places[known], values[known]


def _by_id(of: Values, places: Integers, values: Floats) -> dict[SeriesId, float]:
    return dict(zip((of.ids[place] for place in places.tolist()), values[places].tolist(), strict=True))


def _level(step_s: float) -> int:
    """The coarsest whose intervals fill steps as a whole."""
    return next((level for level in reversed(LEVELS) if not step_s % level), LEVELS[0])
