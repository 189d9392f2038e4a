"""Noise between identical runs: its measurement from calibration runs, and its use in comparisons."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, stdev
from typing import Final

from telemetry.judge.compare.evidence import confidences
from telemetry.judge.compare.figures import PERCENTILES, FigureKey, readings
from telemetry.judge.compare.model import Noise
from telemetry.statistics.runs import RunNoise, run_noise
from telemetry.store.calibrations import Calibration, MetricNoise
from telemetry.wire.report import Report

SIDES: Final = (3, 5, 10, 20, 40)
"""Runs per side for which a calibration reports the detectable difference."""
_POWER: Final = 0.9
_CONFIDENCE: Final = 0.95


def noise_of(runs: Sequence[Report], percentiles: Sequence[str] = PERCENTILES) -> list[MetricNoise]:
    """Return the noise of all figures that every run has, and of all rates that gates may use, sorted by name.

    Values are in the order of `runs`.
    """
    read = [readings(run, percentiles, every_rate=True) for run in runs]
    figures = sorted(set(read[0]).intersection(*read[1:])) if read else []
    metrics = []
    for figure in figures:
        values = [run[figure].value for run in read]
        numbers = [value for value in values if value is not None and math.isfinite(value)]
        if len(numbers) == len(values):
            metrics.append(_noise(figure, read[0][figure].unit, numbers))
    return metrics


def noises(
    calibration: Calibration | None,
    differences: Sequence[tuple[FigureKey, float | None]],
    sizes: tuple[int, int],
    level: float,
) -> list[Noise | None]:
    """Return the noise of each figure for sides of `sizes` runs, in the order of the figures.

    The limits of all figures hold together with a confidence of 1 - `level`, by the steps of Holm's method. A
    figure has no noise if the calibration lacks it, or has less than two runs of it.
    """
    figure_noises = [_known(calibration, figure) if all(sizes) else None for figure, _ in differences]
    p_values = [
        1.0 if difference is None else noise.p_value(difference, sizes)
        for noise, (_, difference) in zip(figure_noises, differences, strict=True)
        if noise is not None
    ]
    own = iter(confidences(p_values, level))
    return [
        None if noise is None else _limited(noise, difference, sizes, next(own))
        for noise, (_, difference) in zip(figure_noises, differences, strict=True)
    ]


def _known(calibration: Calibration | None, figure: FigureKey) -> RunNoise | None:
    metric = calibration and calibration.noise(figure.of, figure.statistic, figure.name, dict(figure.labels))
    return run_noise(metric.values) if metric else None


def _limited(noise: RunNoise, difference: float | None, sizes: tuple[int, int], confidence: float) -> Noise:
    low, high = noise.limits(sizes, confidence)
    return Noise(
        runs=noise.runs,
        low=low,
        high=high if math.isfinite(high) else None,
        exceeded=None if difference is None else not low <= difference <= high,
    )


def _noise(figure: FigureKey, unit: str, values: list[float]) -> MetricNoise:
    middle, noise = fmean(values), run_noise(values)
    return MetricNoise(
        of=figure.of,
        statistic=figure.statistic,
        name=figure.name,
        labels=dict(figure.labels),
        unit=unit,
        values=values,
        mean=middle,
        cv=stdev(values) / abs(middle) if noise else None,
        detectable={str(runs): noise.detectable(runs, _CONFIDENCE, _POWER) for runs in SIDES} if noise else {},
    )
