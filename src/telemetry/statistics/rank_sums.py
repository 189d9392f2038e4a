"""Mann and Whitney's test: are the values of two sides mixed as if they came from one distribution?

It makes no assumption about that distribution. Up to `EXACT_TO` values it is exact, also with equal values; above,
the sum of the ranks is close enough to normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import groupby
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

EXACT_TO: Final = 80
"""Largest number of values on both sides together: the sums of 40 of them take some milliseconds."""
_NORMAL: Final = NormalDist()


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
    found: NDArray[np.float64] = ways[size]
    return found


def _nearly(ranks: Sequence[int], size: int, off: int) -> float:
    """Return the probability of a sum this far from its mean, from the spread of doubled ranks."""
    count = len(ranks)
    mean = count + 1
    spread = sum((rank - mean) ** 2 for rank in ranks) / (count - 1)
    sigma = math.sqrt(spread * size * (count - size) / count)
    if not sigma:
        return 1.0
    return min(math.erfc(max(off - 1.0, 0.0) / sigma / math.sqrt(2.0)), 1.0)
