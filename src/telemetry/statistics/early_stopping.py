"""Early stopping as MLPerf does it: how many samples a percentile takes, and the value it is surely not above.

Of n samples t may be above a limit: the most that a process whose percentile is above the limit stays within no
more often than the confidence leaves. The t-th largest sample is the bound, so t is at least 1. Samples have to be
independent.
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
    """Rank, from 1 for the smallest, of that of so many samples which the percentile is below with this confidence.

    With a `tolerance` it is the percentile less that much which is below: 0.01 makes 99 % into 98 %. None if there
    are fewer samples than `samples_needed`, and always for the 100th percentile without a tolerance. At most
    milliseconds, up to 1e9 samples. Raises ValueError for a ratio outside (0, 1], a confidence outside (0, 1) and a
    tolerance outside [0, ratio).
    """
    chance, rest = _checked(ratio, confidence, tolerance)
    if count <= 0 or not chance:
        return None
    above = most_within(count, chance, rest, 1.0 - confidence)
    return count - above + 1 if above else None


@lru_cache(_CACHED)
def samples_needed(ratio: Ratio, confidence: float = CONFIDENCE, tolerance: float = 0.0) -> int:
    """The least number of samples that have a bound. Raises ValueError as `bound_rank` does, and where no number
    has one: for the 100th percentile without a tolerance."""
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
    """The chance of a sample above the limit, and of one that is not."""
    numerator, denominator = ratio
    if not 0 < numerator <= denominator:
        raise ValueError(f"no percentile is {numerator}/{denominator}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence of {confidence}")
    rest = numerator / denominator - tolerance
    if not (tolerance >= 0.0 and rest > 0.0):
        raise ValueError(f"a tolerance of {tolerance} of the percentile {numerator}/{denominator}")
    return (denominator - numerator) / denominator + tolerance, rest
