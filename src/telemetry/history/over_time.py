"""Series in steps of time, for tables and plots."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from telemetry.common import formatting
from telemetry.errors import UsageError
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.interval_sums import Added, RangeTotals, SumRows
from telemetry.history.rates import Activity, Paces, RateSteps
from telemetry.wire.report import SeriesOverTime, SeriesPoint
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

STEPS: Final = 60
"""Approximate number of steps by default."""
POINTS: Final = 250_000
"""Points of all series together in one report: 80 MB of JSON."""
OWN_POINTS: Final = 6_000
"""Points of all series together in a report by default."""
_NICE_S: Final = (
    0.1,
    0.2,
    0.5,
    1,
    2,
    5,
    10,
    20,
    30,
    60,
    120,
    300,
    600,
    1_200,
    1_800,
    3_600,
    7_200,
    14_400,
    28_800,
    86_400,
)
_ROUNDING: Final = 1.02
"""Allowance for intervals of a history, which are a little longer than seconds."""
_SHOWN: Final = ("50", "90", "99", "99.9")


def step_for(seconds: float, least_s: float = 1.0) -> float:
    """Return a round step of at least `least_s` that gives about `STEPS` steps."""
    wanted = max(seconds / STEPS / _ROUNDING, least_s)
    return float(next((step for step in _NICE_S if step >= wanted), _NICE_S[-1]))


def shown(percentiles: Sequence[str]) -> list[str]:
    """Return the percentiles of figures over time: the few most used ones."""
    return [key for key in percentiles if key in _SHOWN] or list(percentiles[: len(_SHOWN)])


def check_step(step_s: float) -> None:
    """Raise UsageError for a step that is not positive and finite."""
    if not 0.0 < step_s < math.inf:
        raise UsageError(f"a step of {step_s:g} s is too short", hint="write it like 10s or 1m")


def check_points(steps: float, series: int, step_s: float) -> None:
    """Raise UsageError for more points than a report can hold."""
    if steps * series > POINTS:
        least_s = step_s * steps * series / POINTS
        raise UsageError(
            f"steps of {step_s:g} s give {formatting.count(math.ceil(steps))} points for each of "
            f"{formatting.count(series)} series; the limit of a report is "
            f"{formatting.count(POINTS)}",
            hint=f"use steps of at least {math.ceil(least_s):,} s",
        )


def busiest(stats: Sequence[SeriesStat], steps: float) -> list[SeriesStat]:
    """Return the series with the most values, as many as fit in a report by default, in their order."""
    room = int(OWN_POINTS // max(steps, 1.0))
    most = sorted(range(len(stats)), key=lambda index: -stats[index].count)[:room]
    return [stats[index] for index in sorted(most)]


class OverTime:
    """A collector of points, window by window. Not thread-safe."""

    def __init__(self, of: Sequence[SeriesStat], snapshot: MetricsSnapshot) -> None:
        """Take the series of points, and the result of the whole run."""
        self._paces, self._started_ns = Paces(snapshot), snapshot.started_ns
        self._of = {series_id(stat): stat for stat in of}
        self._points: dict[SeriesId, list[SeriesPoint]] = {}
        self._rows: SumRows | None = None
        self._mask = np.zeros(0, dtype=np.bool_)
        """Mask of the rows that are among `of`."""
        self._empty: list[SeriesPoint] = []
        """An empty point for each window."""
        self._seconds: list[float] = []
        """Seconds of each window."""

    def add(self, window: RangeTotals) -> None:
        """Add a window. It must have the percentiles of the points."""
        of = self._chosen(window)
        for series, figures in window.figures(of).items() if of is not None else ():
            points = self._points.setdefault(series, [])
            points.extend(self._empty[len(points) :])
            points.append(
                SeriesPoint(
                    start_s=window.start_s,
                    end_s=window.end_s,
                    count=figures.count,
                    min=figures.min,
                    max=figures.max,
                    percentiles=dict(figures.percentiles),
                )
            )
        self._empty.append(SeriesPoint(start_s=window.start_s, end_s=window.end_s))
        self._seconds.append(window.seconds)

    def _chosen(self, window: RangeTotals) -> Added | None:
        if window.added is None:
            return None
        if self._rows is not window.rows:
            self._rows = window.rows
            self._mask = np.array([series in self._of for series in window.rows.ids], dtype=np.bool_)
        return window.added if self._mask.all() else window.added.some(self._mask, window.rows)

    def series(self) -> list[SeriesOverTime]:
        """Return series with values, each with a point for every window."""
        for points in self._points.values():
            points.extend(self._empty[len(points) :])
        edges = [point.start_s for point in self._empty], [point.end_s for point in self._empty]
        steps = RateSteps(*edges, self._seconds)
        return [
            SeriesOverTime(
                name=stat.name,
                labels=stat.labels,
                unit=stat.unit,
                points=self._rated(stat, self._points[series], steps),
            )
            for series, stat in self._of.items()
            if series in self._points
        ]

    def _rated(self, stat: SeriesStat, points: Sequence[SeriesPoint], steps: RateSteps) -> list[SeriesPoint]:
        activity = Activity.of(self._paces, [stat], self._started_ns)
        rates = steps.rates([point.count for point in points], activity)
        return [replace(point, rate=rate) for point, rate in zip(points, rates, strict=True)]
