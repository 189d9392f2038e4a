"""Comparisons of two sets of runs, and verdicts on their differences."""

from __future__ import annotations

from telemetry.judge.compare.compare import compare
from telemetry.judge.compare.figures import COMMAND_WORDS, Directions
from telemetry.judge.compare.model import (
    ONE_SIDED,
    SIDES,
    VERDICT_WORDS,
    BoundedFigure,
    ChangedSetting,
    Comparison,
    Curve,
    MetricResult,
    Noise,
    Overlay,
    OverlayLine,
    SideRun,
    Verdict,
)
from telemetry.judge.compare.noise import noise_of
from telemetry.judge.compare.options import Options
from telemetry.judge.compare.sizes import largest, largest_outside, largest_without_bounds, main_difference

__all__ = [
    "COMMAND_WORDS",
    "ONE_SIDED",
    "SIDES",
    "VERDICT_WORDS",
    "BoundedFigure",
    "ChangedSetting",
    "Comparison",
    "Curve",
    "Directions",
    "MetricResult",
    "Noise",
    "Options",
    "Overlay",
    "OverlayLine",
    "SideRun",
    "Verdict",
    "compare",
    "largest",
    "largest_outside",
    "largest_without_bounds",
    "main_difference",
    "noise_of",
]
