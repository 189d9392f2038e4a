"""The noise floors from a calibration: differences between single runs of the same program."""

from __future__ import annotations

from telemetry.judge.gates.check import NoiseKey
from telemetry.judge.gates.value import CONFIDENCE, Range
from telemetry.statistics.runs import run_noise
from telemetry.store.calibrations import Calibration


def floors(calibration: Calibration | None) -> dict[NoiseKey, Range]:
    """Return metric → largest fall and rise between two runs of the same program with `CONFIDENCE`, as fractions.

    Empty without a calibration.
    """
    ranges: dict[NoiseKey, Range] = {}
    for metric in calibration.metrics if calibration else ():
        noise = run_noise(metric.values)
        if noise is not None:
            name = f"command.{metric.statistic}" if metric.of == "command" else metric.statistic
            limits = noise.limits((1, 1), CONFIDENCE)
            ranges[name, metric.name, tuple(sorted(metric.labels.items()))] = Range(*limits)
    return ranges
