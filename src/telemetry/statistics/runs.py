"""Comparison of two sets of runs with one value per run: how large is the difference, and is it chance?

Runs of one program differ more than the values within a run, so the unit is the run. Differences are ratios, so the
logarithms are compared if all values are positive. With at least `RANKED_FROM` runs on both sides ranks are
compared (Mann and Whitney's test, Hodges and Lehmann's estimate): a run that was disturbed by another process then
counts as one rank, however slow it was. With fewer runs ranks have too little power, and means are compared
(Welch's test). docs/STATISTICS.md has the measurements of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, variance
from typing import Final

from telemetry.statistics.beta import t_quantile, t_two_sided
from telemetry.statistics.rank_sums import interval_rank, rank_sum_test

RANKED_FROM: Final = 8
"""Smallest number of runs on both sides for ranks. With 8 no p-value is below 0.00016, with 10 below 0.00001."""
_HIGHEST: Final = 700.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """The difference of the second set of runs from the first, as a fraction of the first: 0.1 is 10 % more."""

    ratio: float
    low: float
    high: float
    """Upper end of the interval with the requested confidence; `low` is the lower end."""
    p_value: float
    """Two-sided p-value: how often runs without any difference would differ by at least this much."""
    before: float
    after: float
    """Typical run of the second set; `before` is that of the first.

    It is the median if ranks are compared, else the mean; of logarithms if those were compared.
    """


def difference(before: Sequence[float], after: Sequence[float], confidence: float = 0.95) -> Difference | None:
    """Return the relative difference `after / before - 1` of the typical runs.

    Unless all values are positive, it is `(after - before) / |before|`. Return None with fewer than 2 runs on a
    side, and if the typical run before is 0 and there is a difference, because the ratio is then undefined. If both
    sides are constant, the interval is a point. Raises ValueError for values that are not finite and for a
    confidence outside (0, 1).
    """
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"a confidence of {confidence}")
    if not all(map(math.isfinite, (*before, *after))):
        raise ValueError("a run's value is not finite")
    if len(before) < 2 or len(after) < 2:
        return None
    positive = min(*before, *after) > 0.0
    old, new = ([math.log(value) for value in side] if positive else [*side] for side in (before, after))
    shift = _shift(old, new, confidence)
    if positive:
        ratio, low, high = (relative(value) for value in (shift.middle, shift.low, shift.high))
        typical = math.exp(shift.before), math.exp(shift.after)
    else:
        unit = abs(shift.before)
        if not unit and (shift.middle or shift.low or shift.high):
            return None
        ratio, low, high = (value / (unit or 1.0) for value in (shift.middle, shift.low, shift.high))
        typical = shift.before, shift.after
    return Difference(ratio=ratio, low=low, high=high, p_value=shift.p_value, before=typical[0], after=typical[1])


def relative(exponent: float) -> float:
    """Return the relative difference of a ratio from its logarithm; infinity beyond the range of floats."""
    return math.expm1(exponent) if exponent < _HIGHEST else math.inf


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for all of them, in their order (Holm's steps).

    If adjusted values below a level are called differences, the probability of even one false call is at most that
    level. The values may depend on each other.
    """
    adjusted = [0.0] * len(p_values)
    least = 0.0
    for place, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = least
    return adjusted


@dataclass(frozen=True, slots=True)
class _Shift:
    """The excess of the second side over the first, on the compared scale."""

    middle: float
    low: float
    high: float
    p_value: float
    before: float
    after: float


def _shift(before: Sequence[float], after: Sequence[float], confidence: float) -> _Shift:
    if min(before) == max(before) and min(after) == max(after):
        return _constant(before, after)
    if min(len(before), len(after)) >= RANKED_FROM:
        return _by_ranks(before, after, confidence)
    return _by_means(before, after, confidence)


def _constant(before: Sequence[float], after: Sequence[float]) -> _Shift:
    """Return the shift of two constant sides.

    Without spread, the p-value is the chance of such a clean separation.
    """
    apart = after[0] - before[0]
    chance = min(1.0, 2.0 / math.comb(len(before) + len(after), len(before))) if apart else 1.0
    return _Shift(apart, apart, apart, chance, before[0], after[0])


def _by_means(before: Sequence[float], after: Sequence[float], confidence: float) -> _Shift:
    """Apply Welch's test: the sides may have different spreads."""
    old, new = fmean(before), fmean(after)
    parts = [variance(side) / len(side) for side in (before, after)]
    square = sum(parts)
    weights = [part / square for part in parts]
    freedom = 1.0 / sum(
        weight * weight / (len(side) - 1) for weight, side in zip(weights, (before, after), strict=True)
    )
    error = math.sqrt(square)
    reach = t_quantile(0.5 + confidence / 2.0, freedom) * error
    apart = new - old
    return _Shift(apart, apart - reach, apart + reach, t_two_sided(apart / error, freedom), old, new)


def _by_ranks(before: Sequence[float], after: Sequence[float], confidence: float) -> _Shift:
    """Return the median of all differences between a run after and a run before, with its confidence interval.

    The interval ends at the outermost differences that the test would not reject.
    """
    apart = sorted(new - old for new in after for old in before)
    rank = interval_rank(len(before), len(after), confidence)
    p_value = rank_sum_test(before, after)
    return _Shift(median(apart), apart[rank - 1], apart[-rank], p_value, median(before), median(after))
