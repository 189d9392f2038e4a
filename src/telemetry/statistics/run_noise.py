"""The noise between identical runs, and the differences that noise alone causes.

Logarithms are compared if all values are positive: doubling by chance is then as likely as halving.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from telemetry.statistics.beta import t_quantile, t_two_sided
from telemetry.statistics.runs import relative

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
