"""A test of paired differences that is valid after every pair, whatever the machine does meanwhile.

The two commands of a pair run in random order. If they do not differ, the sign of the difference is a fair coin.
So the test bets on the sign. The stake depends only on the rank of the size among the sizes so far, which does not
predict the sign. Without a difference the wealth is a martingale that begins at 1: at any moment, however it was
chosen, the chance of a wealth of at least `w` is at most `1/w` (Ville's inequality).

The same test with another difference in place of 0 rejects that difference. The differences that it does not reject
are the confidence interval.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from typing import Final

import numpy as np
from numpy.typing import NDArray

STAKES: Final = np.array([0.3, 0.5, 0.7, 0.9])
"""Shares of the wealth that are bet on the largest sizes.

The wealth is the mean over all of them, so that no size of the effect has to be guessed. benchmarks/verdicts.py
measures the choice.
"""
_STEEPNESS: Final = 1.5
"""The largest third of the sizes gets the whole stake; smaller ones get less, in proportion to their rank."""


class PairedBets:
    """The differences of all pairs so far, and the wealth of the bets on "more" and on "less"."""

    def __init__(self) -> None:
        self._differences: list[float] = []
        self._sizes: list[float] = []
        """Sizes of the differences, sorted."""
        self._more = np.ones(len(STAKES))
        self._less = np.ones(len(STAKES))
        self._middle: float | None = None
        self._intervals: dict[float, tuple[float, float]] = {}
        """Intervals of these pairs, by alpha."""
        self._wealths: dict[tuple[int, int], float] = {}
        """Wealths of these pairs in the gaps of `_end`, by sign and number: other alphas need the same ones."""

    def add(self, difference: float) -> None:
        """Bet on the next pair. A difference of 0 changes no wealth. Raises ValueError unless it is finite."""
        if not math.isfinite(difference):
            raise ValueError(f"a difference of {difference}")
        self._differences.append(difference)
        insort(self._sizes, abs(difference))
        rank = bisect_right(self._sizes, abs(difference)) / len(self._sizes)
        bets = STAKES * min(1.0, _STEEPNESS * rank) * float(np.sign(difference))
        self._more *= 1 + bets
        self._less *= 1 - bets
        self._middle = None
        self._intervals.clear()
        self._wealths.clear()

    @property
    def pairs(self) -> int:
        return len(self._differences)

    @property
    def more(self) -> float:
        """Wealth of the bet that differences are above 0."""
        return float(self._more.mean())

    @property
    def less(self) -> float:
        """Wealth of the bet that differences are below 0."""
        return float(self._less.mean())

    @property
    def middle(self) -> float:
        """Estimate of the difference: the median of the means of any two pairs; 0 without pairs.

        It is the estimate of Hodges and Lehmann.
        """
        if self._middle is None:
            self._middle = float(np.median(self._means())) if self._differences else 0.0
        return self._middle

    def interval(self, alpha: float) -> tuple[float, float]:
        """Return the differences that are not rejected at this moment; infinite ends while all are possible.

        The chance that it misses the true difference is at most `alpha`, also if a look at the pairs decided that
        this is the moment.
        """
        if alpha not in self._intervals:
            means = np.unique(self._means())
            limit = 2 / alpha if alpha else math.inf  # a half of alpha for each end
            low, high = self._end(means, limit, 1), self._end(-means[::-1], limit, -1)
            self._intervals[alpha] = low, -high
        return self._intervals[alpha]

    def _means(self) -> NDArray[np.float64]:
        """Return the means of any two pairs, and of each pair with itself. The wealth changes only there."""
        values = np.array(self._differences, dtype=np.float64)
        rows, columns = np.triu_indices(len(values))
        means: NDArray[np.float64] = (values[rows] + values[columns]) / 2
        return means

    def _end(self, means: NDArray[np.float64], limit: float, sign: int) -> float:
        """Return the lower end of the interval of the differences times `sign`.

        The wealth of "more" falls as the assumed difference rises, so the rejected ones are below one point.
        """
        values = sign * np.array(self._differences)
        rejected, kept = -1, len(means)  # numbers of the gaps between the means: gap 0 is below all of them
        while rejected + 1 < kept:
            gap = (rejected + kept) // 2
            inside = means[0] - 1.0 if gap == 0 else (means[gap - 1] + means[gap]) / 2
            if (sign, gap) not in self._wealths:
                self._wealths[sign, gap] = _wealth(values - inside)
            if self._wealths[sign, gap] >= limit:
                rejected = gap
            else:
                kept = gap
        return float(means[rejected]) if rejected >= 0 else -math.inf


def _wealth(differences: NDArray[np.float64]) -> float:
    """Return the wealth of the bet on "more" after all differences."""
    sizes: list[float] = []
    ranks = []
    for size in np.abs(differences).tolist():
        insort(sizes, size)
        ranks.append(bisect_right(sizes, size) / len(sizes))
    bets = np.sign(differences) * np.minimum(1.0, _STEEPNESS * np.array(ranks))
    return float(np.prod(1 + STAKES[:, np.newaxis] * bets, axis=1).mean())
