"""Confidence intervals of a proportion: Wilson's score interval."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

_ROUNDING: Final = 1e-12
_z = lru_cache(16)(lambda confidence: NormalDist().inv_cdf(0.5 + confidence / 2.0))


def wilson(successes: float, total: float, confidence: float = 0.95) -> tuple[float, float]:
    """Return the interval of the proportion behind `successes` of `total` trials; (0, 1) without trials.

    It lies within [0, 1] and has an end at 0 or 1 only without successes or without failures.
    """
    if not total > 0:
        return 0.0, 1.0
    z = _z(confidence)
    share, spread = successes / total, z * z / total
    middle = (share + spread / 2.0) / (1.0 + spread)
    reach = z / (1.0 + spread) * math.sqrt(share * (1.0 - share) / total + spread / (4.0 * total))
    low = 0.0 if successes <= 0 else max(0.0, middle - reach)
    high = 1.0 if successes >= total else min(1.0, middle + reach)
    return low, high


def least_total(proportion: float, confidence: float = 0.95) -> int | None:
    """Return the number of trials from which the interval can lie above, or below, a proportion.

    With fewer, not even trials that all succeed, or all fail, exclude it. Return None for 0 and 1, which no number
    of trials excludes.
    """
    rarer = min(proportion, 1.0 - proportion)
    if not rarer > 0.0:
        return None
    square = _z(confidence) ** 2
    return max(1, math.ceil(square * (1.0 - rarer) / rarer * (1.0 - _ROUNDING)))
