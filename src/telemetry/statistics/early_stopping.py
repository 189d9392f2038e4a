"""Early stopping as in MLPerf: the samples that a percentile needs, and an upper bound for it.

Of n samples, t may be above a limit. If the percentile of the process is above the limit, at most t samples are
above it with a probability of at most one minus the confidence; t is the largest such number. The t-th largest
sample is the bound, so t must be at least 1. Samples must be independent.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

from telemetry.statistics.confidence import Ratio, most_within

CONFIDENCE: Final = 0.99
_CACHED: Final = 1 << 12


@lru_cache(_CACHED)
def bound_rank(ratio: Ratio, count: int, confidence: float = CONFIDENCE, tolerance: float = 0.0) -> int | None:
    """Return the rank, from 1 for the smallest, of the sample that is an upper bound of the percentile.

    The bound holds with this confidence. With a `tolerance` it is a bound for a lower percentile: 0.01 turns 99 %
    into 98 %. Return None for fewer samples than `samples_needed`, and always for the 100th percentile without a
    tolerance. Takes milliseconds at most, for up to 1e9 samples. Raises ValueError for a ratio outside (0, 1], a
    confidence outside (0, 1) and a tolerance outside [0, ratio).
    """
    chance, rest = _checked(ratio, confidence, tolerance)
    if count <= 0 or not chance:
        return None
    above = most_within(count, chance, rest, 1.0 - confidence)
    return count - above + 1 if above else None


@lru_cache(_CACHED)
def samples_needed(ratio: Ratio, confidence: float = CONFIDENCE, tolerance: float = 0.0) -> int:
    """Return the smallest number of samples that have a bound.

    Raises ValueError as `bound_rank` does, and for the 100th percentile without a tolerance, which never has a
    bound.
    """
    chance, _ = _checked(ratio, confidence, tolerance)
    if not chance:
        raise ValueError("no number of samples bounds the 100th percentile")
    few, enough = 0, max(math.ceil(1.0 / chance), 1)
    while bound_rank(ratio, enough, confidence, tolerance) is None:
        few, enough = enough, 2 * enough
    while enough - few > 1:
        middle = (few + enough) // 2
        if bound_rank(ratio, middle, confidence, tolerance) is None:
            few = middle
        else:
            enough = middle
    return enough


def _checked(ratio: Ratio, confidence: float, tolerance: float) -> tuple[float, float]:
    """Return the probabilities of a sample above the limit, and of one that is not above it."""
    numerator, denominator = ratio
    if not 0 < numerator <= denominator:
        raise ValueError(f"no percentile is {numerator}/{denominator}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence of {confidence}")
    rest = numerator / denominator - tolerance
    if not (tolerance >= 0.0 and rest > 0.0):
        raise ValueError(f"a tolerance of {tolerance} of the percentile {numerator}/{denominator}")
    return (denominator - numerator) / denominator + tolerance, rest
