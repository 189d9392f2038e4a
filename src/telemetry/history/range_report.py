"""The result of a run, computed again for a time range of its history."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from msgspec.structs import replace

from telemetry.history.bounds import bound_ranks, is_percentile
from telemetry.history.early_stopping import early_ranks
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.interval_sums import Added, RangeTotals, Sum, SumRows
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.histograms import Digest
from telemetry.history.rates import Paces, Stat, TimeRange, per_second
from telemetry.limits import EXACT_INTEGER
from telemetry.statistics.hdr.layout import Integers, Layout
from telemetry.wire.report import EarlyRule
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat, WindowStat

_USUAL: Final = EarlyRule()
_REASON: Final = "percentiles of a time range are computed from the history"


@dataclass
class RangeReport:
    """A sum of windows in order of time. Not thread-safe."""

    rows: SumRows
    start_s: float = 0.0
    end_s: float = 0.0
    seconds: float = 0.0
    windows: int = 0
    counters: dict[SeriesId, float] = field(default_factory=dict)
    gauges: dict[SeriesId, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._sum = Sum(self.rows)

    def add(self, window: RangeTotals) -> None:
        """Add a window that was made of the same rows."""
        assert window.added is not None
        self.start_s = min(self.start_s, window.start_s) if self.windows else window.start_s
        self.end_s = max(self.end_s, window.end_s)
        self.seconds += window.seconds
        self.windows += 1
        self._sum.include(window.added)
        for counter, increase in window.counters.items():
            self.counters[counter] = self.counters.get(counter, 0.0) + increase
        self.gauges.update(window.gauges)

    def added(
        self,
        percentiles: Sequence[str] = (),
        early: Collection[SeriesId] = (),
        rule: EarlyRule = _USUAL,
    ) -> Added:
        """Return the sum of all values.

        With `percentiles` the sum is valid for their bounds only, and for early stopping of the `early` series, but
        takes less work.
        """

        def wanted(counts: Integers) -> Integers:
            early_lines = early_ranks(counts, percentiles, self.rows, early, rule)
            return np.hstack([bound_ranks(counts, percentiles), early_lines])

        return self._sum.added(wanted if percentiles else None)

    def values_of(self, rows: Integers) -> Added:
        """Return the sum of all values of some rows, ascending."""
        return self._sum.of_rows(rows)


def snapshot_of(run: MetricsSnapshot, part: RangeReport, added: Added) -> MetricsSnapshot:
    """Return the run's snapshot with series, counters, gauges and marks of a time range.

    The rest covers the whole run. Axes lack their times, because the range has no rate of steps.
    """
    start_ns, end_ns = (run.started_ns + round(at_s * 1e9) for at_s in (part.start_s, part.end_s))
    paces = Paces(run)

    def recorded(stat: Stat) -> TimeRange:
        """Return when it was recorded in the time range."""
        began_ns, ended_ns = paces.time_range([stat]) or (0, 0)
        began_ns, ended_ns = max(began_ns, start_ns), min(ended_ns, end_ns)
        return (began_ns, ended_ns) if began_ns < ended_ns else (0, 0)

    return replace(
        run,
        exact=False,
        exact_reason=_REASON,
        window_s=0.0,
        series=_series(run.series, part, added, recorded),
        counters=[_counter(stat, part, recorded(stat)) for stat in run.counters],
        axes=[replace(stat, began_ns=0, ended_ns=0) for stat in run.axes],
        gauges=[_gauge(stat, part.gauges) for stat in run.gauges],
        marks=[mark for mark in run.marks if start_ns <= mark.time_ns <= end_ns],
    )


def _series(
    stats: Sequence[SeriesStat], part: RangeReport, added: Added, recorded: Callable[[SeriesStat], TimeRange]
) -> list[SeriesStat]:
    keys = list(dict.fromkeys(key for stat in stats for key in stat.percentiles if is_percentile(key)))
    all_figures = dict(zip(added.rows.tolist(), added.histograms(part.rows).figures(keys), strict=True))
    range_stats = []
    for stat in stats:
        row = part.rows.place.get(series_id(stat))
        figures = None if row is None else all_figures.get(row)
        if row is None or figures is None or not figures.count:
            range_stats.append(_empty(stat))
            continue
        digest = Digest(part.rows.keys[row], 0, 0, added.only(row, part.rows))
        range_stats.append(_stat(stat, figures, digest, recorded(stat)))
    return range_stats


def _empty(stat: SeriesStat) -> SeriesStat:
    return SeriesStat(
        name=stat.name, labels=stat.labels, unit=stat.unit, digits=stat.digits, cell_unit=stat.cell_unit
    )


def _stat(run: SeriesStat, figures: Figures, digest: Digest, recorded: TimeRange) -> SeriesStat:
    """Return the stat of a series. Values outside its range are counted in edge slots, without their time."""
    total = plain(figures.total) if isinstance(run.total, int) else figures.total
    return SeriesStat(
        name=run.name,
        labels=run.labels,
        unit=run.unit,
        digits=run.digits,
        count=figures.count,
        total=total,
        min=None if figures.min is None else plain(figures.min),
        max=None if figures.max is None else plain(figures.max),
        mean=total / figures.count if math.isfinite(total) else None,
        percentiles={key: plain(figures.percentiles[key]) for key in run.percentiles if key in figures.percentiles},
        error_bound=None if run.above else Layout.of(digest.key.digits).error_bound,
        resolution=1.0 / digest.key.ticks_per_unit,
        histogram=digest.cells(),
        cell_unit=digest.cell_unit,
        window=WindowStat(),
        began_ns=recorded[0],
        ended_ns=recorded[1],
    )


def _counter(stat: CounterStat, part: RangeReport, recorded: TimeRange) -> CounterStat:
    """Return a counter of a time range. The history lacks its number of events."""
    increase = part.counters.get(series_id(stat), 0.0)
    value = plain(increase) if isinstance(stat.value, int) else increase
    began_ns, ended_ns = recorded
    rate = per_second(increase, (ended_ns - began_ns) / 1e9 or part.seconds) or 0.0
    return CounterStat(
        name=stat.name,
        labels=stat.labels,
        unit=stat.unit,
        value=value,
        rate=rate,
        began_ns=began_ns,
        ended_ns=ended_ns,
    )


def _gauge(stat: GaugeStat, values: Mapping[SeriesId, float]) -> GaugeStat:
    """Return a gauge; without a value if it was not set in the time range."""
    value = values.get(series_id(stat))
    return GaugeStat(
        name=stat.name, labels=stat.labels, unit=stat.unit, value=None if value is None else plain(value)
    )


def plain(value: float) -> int | float:
    """Return an int if that is exact, as in every snapshot."""
    return int(value) if abs(value) < EXACT_INTEGER and value == int(value) else value
