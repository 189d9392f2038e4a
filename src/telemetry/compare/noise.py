"""Noise between identical runs: its measurement from calibration runs, and its use in comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Final

from telemetry.compare.figures import PERCENTILES, Figure, readings
from telemetry.compare.model import Noise
from telemetry.statistics.beta import t_quantile
from telemetry.store.calibrations import Calibration, MetricNoise
from telemetry.wire.report import Report

SIDES: Final = (3, 5, 10, 20, 40)
"""Runs per side for which a calibration reports the detectable difference."""
_POWER: Final = 0.9
_CONFIDENCE: Final = 0.95
_ENOUGH: Final = 2
"""Minimum number of runs for a standard deviation."""


def noise_of(runs: Sequence[Report], percentiles: Sequence[str] = PERCENTILES) -> list[MetricNoise]:
    """Return the noise of all figures that every run has, and of all rates that gates may use, sorted by name.

    Values are in the order of `runs`.
    """
    read = [readings(run, percentiles, every_rate=True) for run in runs]
    figures = sorted(set(read[0]).intersection(*read[1:])) if read else []
    found = []
    for figure in figures:
        values = [run[figure].value for run in read]
        numbers = [value for value in values if value is not None and math.isfinite(value)]
        if len(numbers) == len(values):
            found.append(_noise(figure, read[0][figure].unit, numbers))
    return found


def detectable(cv: float, runs: int, confidence: float = _CONFIDENCE) -> float:
    """Return the smallest relative difference that nine of ten comparisons find with so many runs per side.

    It holds for a single figure, without pairs. `cv`: standard deviation between runs as a fraction of their mean.
    Raises ValueError for less than 2 runs.
    """
    if runs < _ENOUGH:
        raise ValueError(f"{runs} run per side detects no difference")
    freedom = 2 * runs - 2
    reach = t_quantile(0.5 + confidence / 2, freedom) + t_quantile(_POWER, freedom)
    return reach * cv * math.sqrt(2 / runs)


def noise_for(
    calibration: Calibration | None,
    figure: Figure,
    sizes: tuple[int, int],
    difference: float | None,
    confidence: float = _CONFIDENCE,
) -> Noise | None:
    """Return the noise of a figure for sides of `sizes` runs.

    Returns None if the calibration lacks the figure, or has less than two runs of it.
    """
    if calibration is None or 0 in sizes:
        return None
    metric = calibration.noise(figure.of, figure.statistic, figure.name, dict(figure.labels))
    if metric is None or metric.cv is None or len(metric.values) < _ENOUGH:
        return None
    limit = (
        t_quantile(0.5 + confidence / 2, len(metric.values) - 1) * metric.cv * math.sqrt(sum(1 / n for n in sizes))
    )
    exceeded = None if difference is None else abs(difference) > limit
    return Noise(cv=metric.cv, runs=len(metric.values), limit=limit, exceeded=exceeded)


def _noise(figure: Figure, unit: str, values: list[float]) -> MetricNoise:
    middle = fmean(values)
    spread = stdev(values) if len(values) >= _ENOUGH else 0.0
    cv = spread / abs(middle) if middle and len(values) >= _ENOUGH else None
    return MetricNoise(
        of=figure.of,
        statistic=figure.statistic,
        name=figure.name,
        labels=dict(figure.labels),
        unit=unit,
        values=values,
        mean=middle,
        cv=cv,
        detectable={} if cv is None else {str(runs): detectable(cv, runs) for runs in SIDES},
    )
