"""Comparison of two sets of runs with one value per run, also in pairs, and the noise between identical runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from statistics import NormalDist, fmean, median, stdev, variance
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.statistics.beta import t_quantile, t_two_sided

EXACT_TO: Final = 80
"""Largest number of values on both sides together: the sums of 40 of them take some milliseconds."""
_NORMAL: Final = NormalDist()
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
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        least = max(least, min(1.0, (len(p_values) - rank) * p_values[index]))
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


# It makes no assumption about that distribution. Up to `EXACT_TO` values it is exact, also with equal values;
# above, the sum of the ranks is close enough to normal.


def rank_sum_test(before: Sequence[float], after: Sequence[float]) -> float:
    """Return the two-sided p-value. Raises ValueError if a side has no values."""
    if not before or not after:
        raise ValueError("ranks of two sides need values on both")
    everything = sorted([*before, *after])
    doubled: dict[float, int] = {}
    """Twice the rank, from 1: equal values share the mean of their ranks."""
    first = 1
    for value, equal in groupby(everything):
        size = len(list(equal))
        doubled[value] = 2 * first + size - 1
        first += size
    few = min(before, after, key=len)
    total, mean = sum(doubled[value] for value in few), len(few) * (len(everything) + 1)
    off = abs(total - mean)
    if not off:
        return 1.0
    ranks = [doubled[value] for value in everything]
    if len(everything) > EXACT_TO:
        return _nearly(ranks, len(few), off)
    ways = _sums(ranks, len(few))
    beyond = ways[: mean - off + 1].sum() + ways[mean + off :].sum()
    return min(float(beyond / ways.sum()), 1.0)


@lru_cache(256)
def interval_rank(before: int, after: int, confidence: float) -> int:
    """Return the rank of the difference that bounds the shift between two sides with this confidence.

    The rank counts all differences between the sides, from either end. Return 1, the outermost, also if there are
    too few values for such a bound.
    """
    tail = (1.0 - confidence) / 2.0
    if before + after > EXACT_TO:
        sigma = math.sqrt(before * after * (before + after + 1) / 12.0)
        return max(math.floor(before * after / 2.0 + _NORMAL.inv_cdf(tail) * sigma - 0.5) + 1, 1)
    few = min(before, after)
    ways = _sums(range(2, 2 * (before + after) + 1, 2), few)[few * (few + 1) :: 2]
    chances = np.cumsum(ways) / ways.sum()
    return max(int(np.searchsorted(chances, tail * (1.0 + 1e-12), side="right")), 1)


def _sums(ranks: Sequence[int], size: int) -> NDArray[np.float64]:
    """Return how many choices of `size` ranks have the sum 0, 1, 2, …"""
    most = sum(sorted(ranks)[-size:])
    ways = np.zeros((size + 1, most + 1))
    ways[0, 0] = 1.0
    for rank in ranks:
        ways[1:, rank:] += ways[:-1, : most + 1 - rank]
    counts: NDArray[np.float64] = ways[size]
    return counts


def _nearly(ranks: Sequence[int], size: int, off: int) -> float:
    """Return the probability of a sum this far from its mean, from the spread of doubled ranks."""
    count = len(ranks)
    mean = count + 1
    spread = sum((rank - mean) ** 2 for rank in ranks) / (count - 1)
    sigma = math.sqrt(spread * size * (count - size) / count)
    if not sigma:
        return 1.0
    return min(math.erfc(max(off - 1.0, 0.0) / sigma / math.sqrt(2.0)), 1.0)


_TRIMMED_OF: Final = 5
"""Divisor: at each end, one pair in five is left out."""
_quantile: Final = lru_cache(64)(t_quantile)


def paired_difference(
    before: Sequence[float], after: Sequence[float], confidence: float = 0.95
) -> Difference | None:
    """Return `after / before - 1` from pairs `before[i], after[i]`.

    The result is the trimmed mean of the logarithms of the ratios. Return None with fewer than 2 pairs, or if a
    value is not positive. If all pairs are equal, the interval is a point. Raises ValueError unless both sides have
    the same length.
    """
    if len(before) != len(after):
        raise ValueError(f"{len(before)} values can't be pairs with {len(after)}")
    if len(before) < 2 or min(*before, *after) <= 0:
        return None
    logs = sorted(math.log(new) - math.log(old) for old, new in zip(before, after, strict=True))
    cut = len(logs) // _TRIMMED_OF
    kept = logs[cut : len(logs) - cut]
    middle, error = fmean(kept), _standard_error(logs, cut)
    freedom = len(kept) - 1
    reach = _quantile(0.5 + confidence / 2, freedom) * error
    statistic = middle / error if error else math.copysign(math.inf, middle) if middle else 0.0
    typical = [_typical(side, cut) for side in (before, after)]
    return Difference(
        ratio=relative(middle),
        low=relative(middle - reach),
        high=relative(middle + reach),
        p_value=t_two_sided(statistic, freedom),
        before=typical[0],
        after=typical[1],
    )


def _standard_error(logs: Sequence[float], cut: int) -> float:
    """Return the standard error of the trimmed mean.

    It is based on the deviation after the ends were moved to the outermost kept values.
    """
    drawn_in = [*[logs[cut]] * cut, *logs[cut : len(logs) - cut], *[logs[-cut - 1]] * cut]
    kept = len(logs) - 2 * cut
    return stdev(drawn_in) * math.sqrt((len(logs) - 1) / (kept * (kept - 1)))


def _typical(values: Sequence[float], cut: int) -> float:
    """Return the trimmed geometric mean of one side."""
    return math.exp(fmean(math.log(value) for value in sorted(values)[cut : len(values) - cut]))


_ENOUGH: Final = 2
"""Minimum number of runs for a standard deviation."""


@dataclass(frozen=True, slots=True)
class RunNoise:
    """The spread of a figure between identical runs. Differences are fractions of the first side."""

    spread: float
    """Standard deviation of the logarithms; unless it is `of_ratios`, of the values as a fraction of their mean."""
    runs: int
    of_ratios: bool

    def p_value(self, difference: float, sizes: tuple[int, int]) -> float:
        """Return how often identical runs, `sizes` of them on each side, differ by at least so much."""
        apart = difference
        if self.of_ratios:
            apart = math.log1p(difference) if difference > -1 else -math.inf
        error = self._error(sizes)
        if not error or math.isinf(apart):
            return 0.0 if apart else 1.0
        return t_two_sided(apart / error, self.runs - 1)

    def limits(self, sizes: tuple[int, int], confidence: float) -> tuple[float, float]:
        """Return the largest fall and the largest rise between identical runs, with this confidence."""
        reach = t_quantile(0.5 + confidence / 2, self.runs - 1) * self._error(sizes)
        return self._difference(-reach), self._difference(reach)

    def detectable(self, runs: int, confidence: float, power: float) -> float:
        """Return the smallest rise that a comparison of so many runs per side finds with the probability `power`.

        It holds for a single figure, without pairs. Raises ValueError for less than 2 runs.
        """
        if runs < _ENOUGH:
            raise ValueError(f"{runs} run per side detects no difference")
        freedom = 2 * runs - 2
        reach = t_quantile(0.5 + confidence / 2, freedom) + t_quantile(power, freedom)
        return self._difference(reach * self._error((runs, runs)))

    def _error(self, sizes: tuple[int, int]) -> float:
        return self.spread * math.sqrt(sum(1 / size for size in sizes))

    def _difference(self, reach: float) -> float:
        return relative(reach) if self.of_ratios else reach


def run_noise(values: Sequence[float]) -> RunNoise | None:
    """Return the noise between runs with these values; None for less than 2 runs, and for a mean of 0."""
    if len(values) < _ENOUGH:
        return None
    if min(values) > 0:
        return RunNoise(stdev(map(math.log, values)), len(values), of_ratios=True)
    largest = max(map(abs, values)) or 1.0
    parts = [value / largest for value in values]
    middle = fmean(parts)
    return RunNoise(stdev(parts) / abs(middle), len(values), of_ratios=False) if middle else None
