"""Periodic readings of a run's instruments from its history. Repeated runs yield the same readings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from telemetry.backends.items import CounterReading, GaugeReading, Reading, SeriesReading
from telemetry.backends.sources.snapshots import cells_within, finite
from telemetry.history.interval_source import IntervalSource
from telemetry.history.interval_sums import Added, Sum, SumRows
from telemetry.history.intervals.columns import Columns
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.histograms import Digest
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, ValueColumns

_SECOND_NS: Final = 1_000_000_000


class HistoryReadings:
    """Readings that end at multiples of the period since the run's start. Not thread-safe.

    An interval of the history belongs to the reading that contains its middle. A counter has the sum of its
    increases in the history, and appears in a reading after its first increase. A gauge keeps its last value. A gap
    in the history has no readings.
    """

    def __init__(
        self, past: IntervalSource, started_ns: int, every_s: float, percentiles: Sequence[str], until_ns: int = 0
    ) -> None:
        """Prepare without reading. `until_ns`: end of the intervals that were read before."""
        self.until_ns = until_ns
        """End of the newest interval of the newest reading."""
        self._past = past
        self._started_ns = started_ns
        self._every_ns = round(every_s * _SECOND_NS)
        self._percentiles = tuple(percentiles)
        self._keys = _Keys([])
        self._before = until_ns > 0
        """True until the intervals before `until_ns` have been added up."""
        self._taken_ns = until_ns
        """End of the newest interval that was added."""
        self._pass: Iterator[Interval] | None = None
        self._values: dict[int, float] = {}
        """Counter index → value since the start."""
        self._gauges: dict[int, float] = {}
        self._part: _ReadingIntervals | None = None

    def take(self, *, last: bool = False) -> Reading | None:
        """Return the next complete reading, or None if there is none yet.

        With `last` the history is complete, so the final reading is returned even if its period is not full. Blocks
        on the history. Raises TelemetryError.
        """
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
        """Return the damage found in the last pass over the history of a finished run."""
        return self._past.damage()

    def close(self) -> None:
        self._pass = None
        self._past.close()

    # --- intervals -------------------------------------------------------------------------------

    def _new(self) -> Iterator[Interval]:
        """Return the intervals not added yet. An unfinished pass continues."""
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
        """Sum up the counters and gauges of intervals that were read before."""
        values: dict[int, float] = {}
        gauges: dict[int, float] = {}
        for interval in self._past.before(self.until_ns):
            if _middle_ns(interval) < self.until_ns:
                _increase(values, interval)
                gauges.update(_numbers(interval.gauges))
        self._values, self._gauges, self._before = values, gauges, False

    def _take(self, interval: Interval) -> Reading | None:
        """Add an interval. Returns the previous reading if the interval belongs to a later one."""
        if not self._keys.cover(interval):  # it has keys defined since
            self._know()
        self._taken_ns = max(self._taken_ns, interval.end_ns)
        if self._part is None and _middle_ns(interval) < self.until_ns:
            return None  # a coarse interval, mostly read before as finer ones
        number = max((_middle_ns(interval) - self._started_ns) // self._every_ns, 0)
        reading = self._made(complete=True) if self._part is not None and number > self._part.number else None
        self._part = self._part or _ReadingIntervals(number, self._keys.rows)
        self._part.add(interval, self._keys.rows)
        _increase(self._values, interval)
        self._gauges.update(_numbers(interval.gauges))
        return reading

    # --- readings --------------------------------------------------------------------------------

    def _made(self, *, complete: bool) -> Reading:
        """Return the current reading and start the next one.

        An incomplete reading ends with its last interval, at a whole second since the start, so that no two
        readings end in the same one.
        """
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

    def _counters(self, part: _ReadingIntervals) -> list[CounterReading]:
        readings = []
        for index, value in sorted(self._values.items()):
            key = self._keys.counters.get(index)
            if key is not None:
                rate = part.increases.get(index, 0.0) / part.seconds if part.seconds > 0.0 else 0.0
                numbers = {"value": finite(value), "rate": finite(rate)}
                readings.append(CounterReading(name=key.name, labels=key.labels, unit=key.unit, **numbers))
        return readings

    def _last_values(self) -> list[GaugeReading]:
        pairs = ((self._keys.gauges.get(index), value) for index, value in sorted(self._gauges.items()))
        return [
            GaugeReading(name=key.name, labels=key.labels, unit=key.unit, value=finite(value))
            for key, value in pairs
            if key is not None
        ]


class _Keys:
    """The instruments behind the indices in intervals."""

    def __init__(self, keys: Sequence[SeriesKey]) -> None:
        self.number = len(keys)
        self.rows = SumRows([key for key in keys if key.kind == "series"])
        self.counters = {key.index: key for key in keys if key.kind == "counter"}
        self.gauges = {key.index: key for key in keys if key.kind == "gauge"}

    def cover(self, interval: Interval) -> bool:
        """Check whether all indices of an interval are known."""
        return (
            bool(np.isin(Columns.of(interval).index, self.rows.index).all())
            and all(index in self.counters for index, _ in _numbers(interval.counters))
            and all(index in self.gauges for index, _ in _numbers(interval.gauges))
        )


class _ReadingIntervals:
    """The intervals of one reading."""

    def __init__(self, number: int, rows: SumRows) -> None:
        self.number = number
        self.end_ns = 0
        self.seconds = 0.0
        self.increases: dict[int, float] = {}
        self._rows = rows
        self._sum = Sum(rows)

    def add(self, interval: Interval, rows: SumRows) -> None:
        """Add an interval. `rows`: all known series; values of other series are skipped."""
        if rows is not self._rows:
            self._widen(rows)
        seconds = max(interval.end_ns - interval.start_ns, 0) / 1e9  # the clock may have been set back
        self.seconds += seconds
        self.end_ns = max(self.end_ns, interval.end_ns)
        self._sum.add(Columns.of(interval), seconds)
        _increase(self.increases, interval)

    def series(self, percentiles: Sequence[str]) -> list[SeriesReading]:
        """Return the series that have values."""
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

    def _widen(self, rows: SumRows) -> None:
        """Extend the sum to more series, which may lie between the known ones."""
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
