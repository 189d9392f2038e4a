"""Confidence bounds of a percentile, from the order of the values alone, and of a proportion."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Final

from telemetry.statistics.beta import binomial_pmf

Ratio = tuple[int, int]
"""A percentile as a fraction: (999, 1000) is 99.9 %."""

_NORMAL: Final = NormalDist()
_EXPANDED_FROM: Final = 30.0
"""Variance from which the expansion around the normal distribution gives its own error."""
_CACHED: Final = 1 << 14  # for 2,000 series with 8 percentiles


@lru_cache(_CACHED)
def rank_bounds(ratio: Ratio, count: int, confidence: float = 0.95) -> tuple[int | None, int | None]:
    """Return the ranks (low, high), from 1, of two values that enclose the percentile of their process.

    They enclose it with this confidence at least. Each side alone is wrong with at most half of the remaining
    probability, and no narrower ranks satisfy that.

    A side is None if there are too few values for a bound. The 100th percentile has no bounds. The values must be
    independent. Raises ValueError for a ratio outside (0, 1] and a confidence outside (0, 1).
    """
    numerator, denominator, tail = _checked(ratio, confidence)
    if count <= 0 or numerator == denominator:
        return None, None
    chance, rest = numerator / denominator, (denominator - numerator) / denominator
    below = most_within(count, chance, rest, tail)
    above = most_within(count, rest, chance, tail)
    return None if below is None else below + 1, None if above is None else count - above


def least_count(ratio: Ratio, confidence: float = 0.95) -> int | None:
    """Return the smallest number of values with bounds on both sides.

    Return None for the 100th percentile, which has no bounds. Raises ValueError as `rank_bounds` does.
    """
    numerator, denominator, tail = _checked(ratio, confidence)
    if numerator == denominator:
        return None
    rarer = min(numerator, denominator - numerator) / denominator
    count = max(math.ceil(math.log(tail) / math.log1p(-rarer)), 1)
    # Logarithms are rounded, so the neighbours are checked too.
    return next(
        number
        for number in range(max(count - 1, 1), count + 2)
        if None not in rank_bounds(ratio, number, confidence)
    )


def _checked(ratio: Ratio, confidence: float) -> tuple[int, int, float]:
    numerator, denominator = ratio
    if not 0 < numerator <= denominator:
        raise ValueError(f"no percentile is {numerator}/{denominator}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence of {confidence}")
    return numerator, denominator, (1.0 - confidence) / 2.0


def most_within(trials: int, chance: float, rest: float, tail: float) -> int | None:
    """Return the largest k for which the probability of at most k successes is at most `tail`; None if not even 0.

    Each trial succeeds with `chance`; `rest` is `1 - chance`. Both are above 0, and `tail` is between 0 and 1.
    """
    variance = trials * chance * rest
    if variance < _EXPANDED_FROM:
        if trials * math.log1p(-chance) > math.log(tail) + 1e-9:
            return None
        near = trials * chance + _NORMAL.inv_cdf(tail) * math.sqrt(variance)
        return _exactly(trials, chance, rest, tail, min(max(int(near), 0), trials))
    edge, error = _expanded(trials * chance, variance, rest - chance, chance * rest, _NORMAL.inv_cdf(tail))
    largest = math.floor(edge)
    if error < edge - largest < 1.0 - error:
        return largest if largest >= 0 else None
    return _exactly(trials, chance, rest, tail, min(max(largest, 0), trials))


def _expanded(mean: float, variance: float, skew: float, product: float, z: float) -> tuple[float, float]:
    """Return the binomial's quantile at z by the Cornish-Fisher expansion, and the error of that quantile.

    The quantile includes the continuity correction. `skew` is 1 - 2p, `product` p * (1 - p). Even cumulants are
    those of the smooth curve through the steps.
    """
    smooth = variance - 1.0 / 12.0
    sigma = math.sqrt(smooth)
    third = variance * skew / (smooth * sigma)
    fourth = (variance * (1.0 - 6.0 * product) + 1.0 / 120.0) / smooth**2
    fifth = variance * skew * (1.0 - 12.0 * product) / (smooth**2 * sigma)
    square = z * z
    first = (square - 1.0) * third / 6.0
    second = z * (square - 3.0) * fourth / 24.0 - z * (2.0 * square - 5.0) * third**2 / 36.0
    last = (
        (square * (square - 6.0) + 3.0) * fifth / 120.0
        - (square * (square - 5.0) + 2.0) * third * fourth / 24.0
        + (square * (12.0 * square - 53.0) + 17.0) * third**3 / 324.0
    )
    edge = mean + sigma * (z + first + second + last) - 0.5
    return edge, sigma * abs(last) + _next_term(z, variance) + 1e-13 * mean


def _next_term(z: float, variance: float) -> float:
    """Return an upper bound of the first omitted term, in ranks."""
    return (1.0 + math.pow(abs(z), 5.0)) / (100.0 * math.pow(variance, 1.5))


def _exactly(trials: int, chance: float, rest: float, tail: float, near: int) -> int | None:
    """Return the result of `most_within`, computed from a number near it.

    Sums the probabilities of `near` and all smaller numbers, then moves `near` to the result.
    """
    odds = chance / rest
    own = binomial_pmf(near, trials, chance, rest)
    term = total = own
    tail *= 1.0 + 1e-12  # halves and quarters are met exactly, except for rounding
    for k in range(near, 0, -1):
        term *= k / ((trials - k + 1) * odds)
        total += term
        if term < 1e-17 * total:
            break
    while total > tail:
        if near == 0:
            return None
        total -= own
        own *= near / ((trials - near + 1) * odds)
        near -= 1
    while near < trials:
        own *= (trials - near) * odds / (near + 1)
        if total + own > tail:
            break
        total += own
        near += 1
    return near


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
