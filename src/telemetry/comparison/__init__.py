"""Sets of runs beside each other, and what may be said of their differences."""

from __future__ import annotations

from telemetry.comparison.compare import compare
from telemetry.comparison.direction import Directions
from telemetry.comparison.model import (
    ONE_SIDED,
    VERDICT_WORDS,
    Comparison,
    Curve,
    MetricResult,
    Noise,
    RunFacts,
    Verdict,
    Within,
)
from telemetry.comparison.noise import noise_of
from telemetry.comparison.options import Options
from telemetry.comparison.patterns import COMMAND_WORDS

__all__ = [
    "COMMAND_WORDS",
    "ONE_SIDED",
    "VERDICT_WORDS",
    "Comparison",
    "Curve",
    "Directions",
    "MetricResult",
    "Noise",
    "Options",
    "RunFacts",
    "Verdict",
    "Within",
    "compare",
    "noise_of",
]
