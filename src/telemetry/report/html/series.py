"""The data of the table of series on a page: finished cells and the numbers behind them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import printable
from telemetry.report.html.data import DIGITS, Column, column, rounded
from telemetry.report.html.help import explanation
from telemetry.report.html.over_time import PERCENTILES, identity
from telemetry.report.series import between, bounds_of, confidence, percentile_keys, percentile_words
from telemetry.wire.pictures import Distribution, Pictures
from telemetry.wire.report import Bounds, Report, SeriesOverTime
from telemetry.wire.snapshot import SeriesStat

_SORTED: Final = "{:.6g}"
"""Format of numbers in the table: more digits than it shows."""

_LINES: Final = 3
"""Largest number of percentiles over time if none is a usual one."""

Times = list[tuple[Column, Column]]
"""Starts and ends of steps; most series share them."""


def series_data(report: Report) -> dict[str, Any]:
    """Return the data for `report.js`.

    Numbers are rounded: those over time for drawing, the others to more digits than are shown.
    """
    keys = percentile_keys(report.snapshot.series)
    times: Times = []
    over = {identity(series): _over_time(series, times) for series in report.over_time if series.points}
    fine = {
        identity(distribution): _fine(distribution)
        for distribution in (report.pictures or Pictures()).distributions
        if any(distribution.counts)
    }
    return {
        "columns": ["name", "count", "mean", *(f"p{printable(key)}" for key in keys), "max"],
        "keys": [printable(key) for key in keys],
        "confidence": confidence(report),
        "help": explanation("percentiles bounds" if report.bounds else "percentiles"),
        "step_s": report.step_s,
        "times": [(column(start), column(end)) for start, end in times],
        "series": [
            {
                **_series(report, stat, keys),
                **({"fine": fine[identity(stat)]} if identity(stat) in fine else _coarse(stat)),
                "over": over.get(identity(stat)),
            }
            for stat in report.snapshot.series
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
        "values": [None, stat.count, *map(_number, shape)],
        "min": _number(stat.min),
        "bounds": [_bounds(bounds.get(key), stat.unit, few=not report.trusted(stat, key)) for key in keys],
        "facts": [fact for fact in (*shown, recent, wording.outside(stat)) if fact],
    }


def _coarse(stat: SeriesStat) -> dict[str, Any]:
    return {"histogram": stat.histogram, "cell_unit": stat.cell_unit}


def _fine(distribution: Distribution) -> dict[str, Any]:
    return {"edges": [_number(edge) for edge in distribution.edges], "counts": distribution.counts}


def _bounds(bounds: Bounds | None, unit: str, *, few: bool) -> tuple[Any, ...] | None:
    """Return lower and upper bound, values beyond, all that as text, and whether the values are too few."""
    if bounds is None or (bounds.low is None and bounds.high is None and not few):
        return None
    return (
        rounded(bounds.low),
        rounded(bounds.high),
        bounds.beyond,
        "too few values" if few else between(bounds, unit),
        few,
    )


def _over_time(series: SeriesOverTime, times: Times) -> dict[str, Any]:
    points = series.points
    steps = [point.start_s for point in points], [point.end_s for point in points]
    if not times or steps != times[-1]:
        times.append(steps)
    available = {key for point in points for key in point.percentiles}
    keys = [key for key in PERCENTILES if key in available] or sorted(available, key=wording.by_number)[:_LINES]
    # Quantities with a unit are read with three digits.
    digits = DIGITS - formatting.carries_unit(series.unit)
    return {
        "times": len(times) - 1,
        "max": column([point.max for point in points], digits),
        "percentiles": {
            printable(key): column([point.percentiles.get(key) for point in points], digits) for key in keys
        },
    }


def _number(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else float(_SORTED.format(value))
