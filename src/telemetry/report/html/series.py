"""The data of the table of series on a page: finished cells and the numbers behind them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from telemetry import formatting, wording
from telemetry.formatting import printable
from telemetry.report.series import between, bounds_of, confidence, percentile_keys, percentile_words
from telemetry.wire.report import Bounds, Report, SeriesOverTime
from telemetry.wire.snapshot import SeriesStat

_PLOTTED: Final = "{:.5g}"
"""Format of plotted numbers: more digits than a pixel can show."""

Column = list[float | None]
Times = list[tuple[Column, Column]]
"""Starts and ends of steps; most series share them."""


def series_data(report: Report) -> dict[str, Any]:
    """Return the data for `report.js`.

    All numbers are those of the JSON form; those over time are rounded for drawing.
    """
    keys = percentile_keys(report.snapshot.series)
    times: Times = []
    over = {_identity(one): _over_time(one, times) for one in report.over_time if one.points}
    return {
        "columns": ["name", "count", "mean", *(f"p{printable(key)}" for key in keys), "max"],
        "keys": [printable(key) for key in keys],
        "confidence": confidence(report),
        "step_s": report.step_s,
        "times": times,
        "series": [
            {**_series(report, stat, keys), "over": over.get(_identity(stat))} for stat in report.snapshot.series
        ],
    }


def _series(report: Report, stat: SeriesStat, keys: Sequence[str]) -> dict[str, Any]:
    bounds = bounds_of(report, stat)
    shape = [stat.mean, *(stat.percentiles.get(key) for key in keys), stat.max]
    window = stat.window
    shown = (
        f"min {formatting.quantity(stat.min, stat.unit)}",
        f"standard deviation {formatting.quantity(stat.stddev, stat.unit)}",
        f"percentiles {wording.error_bound(stat)}",
    )
    recent = (
        f"{formatting.rate(window.rate)} over the last {formatting.duration_s(window.seconds)}"
        if window.count
        else ""
    )
    return {
        "name": wording.instrument(stat.name, stat.labels, stat.unit),
        "unit": printable(stat.unit),
        "cells": [
            formatting.count(stat.count),
            formatting.quantity(stat.mean, stat.unit),
            *(percentile_words(report, stat, key) for key in keys),
            formatting.quantity(stat.max, stat.unit),
        ],
        "values": [None, stat.count, *shape],
        "min": stat.min,
        "bounds": [_bounds(bounds.get(key), stat.unit, few=not report.trusted(stat, key)) for key in keys],
        "facts": [fact for fact in (*shown, recent, wording.outside(stat)) if fact],
        "histogram": stat.histogram,
        "cell_unit": stat.cell_unit,
    }


def _bounds(bounds: Bounds | None, unit: str, *, few: bool) -> tuple[Any, ...] | None:
    """Return lower and upper bound, values beyond, all that as text, and whether the values are too few."""
    if bounds is None or (bounds.low is None and bounds.high is None and not few):
        return None
    return bounds.low, bounds.high, bounds.beyond, "too few values" if few else between(bounds, unit), few


def _over_time(one: SeriesOverTime, times: Times) -> dict[str, Any]:
    points = one.points
    spans = _column([point.start_s for point in points]), _column([point.end_s for point in points])
    if not times or spans != times[-1]:
        times.append(spans)
    keys = sorted({key for point in points for key in point.percentiles}, key=wording.by_number)
    return {
        "times": len(times) - 1,
        "count": [point.count for point in points],
        "max": _column([point.max for point in points]),
        "percentiles": {printable(key): _column([point.percentiles.get(key) for point in points]) for key in keys},
    }


def _column(values: Sequence[float | None]) -> Column:
    return [None if value is None else float(_PLOTTED.format(value)) for value in values]


def _identity(of: SeriesStat | SeriesOverTime) -> tuple[str, tuple[tuple[str, str], ...]]:
    return of.name, tuple(sorted(of.labels.items()))
