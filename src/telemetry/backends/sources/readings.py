"""Readings of a run's instruments, every so many seconds: from its history, so that they are the same whenever and
however often they are made."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from telemetry.backends.items import CounterReading, GaugeReading, Reading, SeriesReading
from telemetry.backends.sources.snapshots import cells_within, finite
from telemetry.history.interval_source import IntervalSource
from telemetry.history.interval_sums import Added, Rows, Sum
from telemetry.history.intervals.columns import Columns
from telemetry.history.intervals.digest import Digest
from telemetry.history.intervals.figures import Figures
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, ValueColumns

_SECOND_NS: Final = 1_000_000_000


class HistoryReadings:
    """Readings that end at multiples of the cadence since the run's start; each interval of the history is in the
    one that its middle is in. One owner.

    Counters have what the history adds up to, from the first reading on in which they have increased; gauges keep
    their last value. Of seconds that the history knows nothing of there is no reading.
    """

    def __init__(
        self, past: IntervalSource, started_ns: int, every_s: float, percentiles: Sequence[str], until_ns: int = 0
    ) -> None:
        """`until_ns`: what ended by then was read before. Reads nothing yet."""
        self.until_ns = until_ns
        """Where the newest interval of the newest reading ends."""
        self._past = past
        self._started_ns = started_ns
        self._every_ns = round(every_s * _SECOND_NS)
        self._percentiles = tuple(percentiles)
        self._keys = _Keys([])
        self._before = until_ns > 0
        """Whether what was read before has not been added up yet."""
        self._taken_ns = until_ns
        """Where the newest interval ends that was taken in."""
        self._pass: Iterator[Interval] | None = None
        self._values: dict[int, float] = {}
        """Counters since the start."""
        self._gauges: dict[int, float] = {}
        self._part: _Part | None = None

    def take(self, *, last: bool = False) -> Reading | None:
        """The next reading whose time is over; None if there is none yet. With `last` nothing is added to the
        history any more: then also the one whose time is not. Blocks on the history. Raises TelemetryError."""
        try:
            for interval in self._new():
                reading = self._take(interval)
                if reading is not None:
                    return reading
        except BaseException:
            self._pass = None
            raise
        self._pass = None
        return self._made(complete=False) if last and self._part is not None else None

    def damage(self) -> list[str]:
        """What the last pass over the history of a run that is over found damaged and left out."""
        return self._past.damage()

    def close(self) -> None:
        self._pass = None
        self._past.close()

    # --- intervals -------------------------------------------------------------------------------

    def _new(self) -> Iterator[Interval]:
        """Intervals that were not taken in, from the middle of a pass if one was left there."""
        if self._pass is None:
            self._know()
            if self._before:
                self._add_up()
            self._pass = self._past.intervals(self._taken_ns)
        return self._pass

    def _know(self) -> None:
        keys = self._past.keys()
        if len(keys) != self._keys.number:
            self._keys = _Keys(keys)

    def _add_up(self) -> None:
        """What counters and gauges came to before."""
        values: dict[int, float] = {}
        gauges: dict[int, float] = {}
        for interval in self._past.before(self.until_ns):
            if _middle_ns(interval) < self.until_ns:
                _increase(values, interval)
                gauges.update(_numbers(interval.gauges))
        self._values, self._gauges, self._before = values, gauges, False

    def _take(self, interval: Interval) -> Reading | None:
        """Adds an interval; the reading before it, if it belongs to a later one."""
        if not self._keys.cover(interval):  # defined since
            self._know()
        self._taken_ns = max(self._taken_ns, interval.end_ns)
        if self._part is None and _middle_ns(interval) < self.until_ns:
            return None  # a coarse one, most of which was read as finer ones
        number = max((_middle_ns(interval) - self._started_ns) // self._every_ns, 0)
        made = self._made(complete=True) if self._part is not None and number > self._part.number else None
        self._part = self._part or _Part(number, self._keys.rows)
        self._part.add(interval, self._keys.rows)
        _increase(self._values, interval)
        self._gauges.update(_numbers(interval.gauges))
        return made

    # --- readings --------------------------------------------------------------------------------

    def _made(self, *, complete: bool) -> Reading:
        """Of the part that was gathered. One that is not complete ends with its last interval, at a whole second
        since the start: no two readings are of the same one."""
        part, self._part = self._part, None
        assert part is not None
        grid_ns = (part.number + 1) * self._every_ns
        elapsed_s = grid_ns / 1e9
        if not complete:
            elapsed_s = min(elapsed_s, float(math.ceil((part.end_ns - self._started_ns) / 1e9)))
        self.until_ns = part.end_ns
        return Reading(
            key=f"t{part.end_ns}",
            time_ns=self._started_ns + grid_ns if complete else part.end_ns,
            elapsed_s=elapsed_s,
            seconds=part.seconds,
            series=part.series(self._percentiles),
            counters=self._counters(part),
            gauges=self._last_values(),
        )

    def _counters(self, part: _Part) -> list[CounterReading]:
        found = []
        for index, value in sorted(self._values.items()):
            key = self._keys.counters.get(index)
            if key is not None:
                rate = part.increases.get(index, 0.0) / part.seconds if part.seconds > 0.0 else 0.0
                numbers = {"value": finite(value), "rate": finite(rate)}
                found.append(CounterReading(name=key.name, labels=key.labels, unit=key.unit, **numbers))
        return found

    def _last_values(self) -> list[GaugeReading]:
        known = ((self._keys.gauges.get(index), value) for index, value in sorted(self._gauges.items()))
        return [
            GaugeReading(name=key.name, labels=key.labels, unit=key.unit, value=finite(value))
            for key, value in known
            if key is not None
        ]


class _Keys:
    """What the indices in intervals stand for."""

    def __init__(self, keys: Sequence[SeriesKey]) -> None:
        self.number = len(keys)
        self.rows = Rows([key for key in keys if key.kind == "series"])
        self.counters = {key.index: key for key in keys if key.kind == "counter"}
        self.gauges = {key.index: key for key in keys if key.kind == "gauge"}

    def cover(self, interval: Interval) -> bool:
        """Whether all of an interval is known."""
        return (
            bool(np.isin(Columns.of(interval).index, self.rows.index).all())
            and all(index in self.counters for index, _ in _numbers(interval.counters))
            and all(index in self.gauges for index, _ in _numbers(interval.gauges))
        )


class _Part:
    """Intervals of one reading."""

    def __init__(self, number: int, rows: Rows) -> None:
        self.number = number
        self.end_ns = 0
        self.seconds = 0.0
        self.increases: dict[int, float] = {}
        self._rows = rows
        self._sum = Sum(rows)

    def add(self, interval: Interval, rows: Rows) -> None:
        """`rows`: all series that are known by now. Those of others are passed over."""
        if rows is not self._rows:
            self._widen(rows)
        seconds = max(interval.end_ns - interval.start_ns, 0) / 1e9  # the clock may have been set back
        self.seconds += seconds
        self.end_ns = max(self.end_ns, interval.end_ns)
        self._sum.add(Columns.of(interval), seconds)
        _increase(self.increases, interval)

    def series(self, percentiles: Sequence[str]) -> list[SeriesReading]:
        """Those with values."""
        added = self._sum.added()
        lines = zip(added.rows.tolist(), added.histograms(self._rows).figures(percentiles), strict=True)
        return [self._reading(row, figures, added) for row, figures in lines if figures.count]

    def _reading(self, row: int, figures: Figures, added: Added) -> SeriesReading:
        key = self._rows.keys[row]
        total = finite(figures.total)
        digest = Digest(key, 0, 0, added.only(row, self._rows))
        return SeriesReading(
            name=key.name,
            labels=key.labels,
            unit=key.unit,
            count=figures.count,
            rate=figures.rate,
            total=total,
            min=figures.min,
            max=figures.max,
            mean=total / figures.count,
            percentiles=dict(figures.percentiles),
            cells=cells_within(digest.cells(), digest.cell_unit),
        )

    def _widen(self, rows: Rows) -> None:
        """The same for more series, which may lie between those that were known."""
        before, added = self._rows, self._sum.added()
        self._rows, self._sum = rows, Sum(rows)
        moved = np.searchsorted(rows.index, before.index)
        old, slots = np.divmod(added.places, before.span)
        values = (added.count, added.total, added.min, added.max)
        places = moved[old] * rows.span + slots
        self._sum.include(Added(moved[added.rows], added.seconds, *values, places, added.counts))


def _middle_ns(interval: Interval) -> int:
    return interval.start_ns // 2 + interval.end_ns // 2


def _numbers(columns: ValueColumns) -> Iterator[tuple[int, float]]:
    index = np.frombuffer(columns.index, "<u4").tolist()
    return zip(index, np.frombuffer(columns.value, "<f8").tolist(), strict=True)


def _increase(values: dict[int, float], interval: Interval) -> None:
    for index, value in _numbers(interval.counters):
        values[index] = values.get(index, 0.0) + value
