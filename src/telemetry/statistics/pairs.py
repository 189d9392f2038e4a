"""Comparison of two sides whose runs alternated: each run is compared with its neighbour.

A slowdown of the machine that lasts a while affects both runs of a pair, so it cancels. A disturbance of one run
makes one pair an outlier. So a fifth of the pairs at each end is left out of the mean (Tukey and McLaughlin's
trimmed t interval).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import fmean, stdev
from typing import Final

from telemetry.statistics.beta import t_quantile, t_two_sided
from telemetry.statistics.runs import Difference, relative

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
