"""Percentile curves of both sides: the median over the runs for each percentile."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from telemetry.compare.model import Curve
from telemetry.errors import UsageError
from telemetry.hdr.ranks import parse_percentile
from telemetry.wire.report import Report
from telemetry.wire.snapshot import SeriesStat

Id = tuple[str, tuple[tuple[str, str], ...]]


def curves(before: Sequence[Report], after: Sequence[Report]) -> list[Curve]:
    """Return the curves of every series that all runs have in the same unit, sorted by name.

    A curve goes from the minimum to the maximum, through all percentiles that every run has.
    """
    sides = [[_by_id(report) for report in side] for side in (before, after)]
    runs = [run for side in sides for run in side]
    shared = sorted(set(runs[0]).intersection(*runs[1:])) if runs else []
    found = []
    for key in shared:
        stats = [run[key] for run in runs]
        if len({stat.unit for stat in stats}) > 1:
            continue
        points = [_points([run[key] for run in side], stats) for side in sides]
        found.append(Curve(name=key[0], labels=dict(key[1]), unit=stats[0].unit, before=points[0], after=points[1]))
    return found


def _by_id(report: Report) -> dict[Id, SeriesStat]:
    return {
        (stat.name, tuple(sorted(stat.labels.items()))): stat
        for stat in report.snapshot.series
        if stat.count and stat.min is not None and stat.max is not None
    }


def _fraction(key: str) -> float:
    """Return a percentile as a fraction, or 0 for an invalid key."""
    try:
        numerator, denominator = parse_percentile(key)
    except UsageError:
        return 0.0
    return numerator / denominator


def _points(side: Sequence[SeriesStat], everybody: Sequence[SeriesStat]) -> list[tuple[float, float]]:
    keys = set(everybody[0].percentiles).intersection(*(stat.percentiles for stat in everybody[1:]))
    fractions = sorted((_fraction(key), key) for key in keys)
    low = median(float(stat.min or 0) for stat in side)
    high = median(float(stat.max or 0) for stat in side)
    inner = [
        (fraction, median(float(stat.percentiles[key]) for stat in side))
        for fraction, key in fractions
        if 0 < fraction < 1
    ]
    return [(0.0, low), *inner, (1.0, high)]
