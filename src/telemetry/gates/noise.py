"""The noise floors from a calibration: differences between single runs of the same program."""

from __future__ import annotations

import math
from typing import Final

from telemetry.gates.check import NoiseKey
from telemetry.gates.value import CONFIDENCE
from telemetry.statistics.beta import t_quantile
from telemetry.store.calibrations import Calibration

_FEWEST: Final = 2
"""Minimum number of runs for a standard deviation."""


def floors(calibration: Calibration | None) -> dict[NoiseKey, float]:
    """Return metric → largest difference between two runs of the same program with `CONFIDENCE`, as a fraction.

    Empty without a calibration.
    """
    found: dict[NoiseKey, float] = {}
    for metric in calibration.metrics if calibration else ():
        if metric.cv is None or len(metric.values) < _FEWEST:
            continue
        reach = t_quantile(0.5 + CONFIDENCE / 2, len(metric.values) - 1)
        name = f"command.{metric.statistic}" if metric.of == "command" else metric.statistic
        found[name, metric.name, tuple(sorted(metric.labels.items()))] = reach * metric.cv * math.sqrt(2)
    return found
