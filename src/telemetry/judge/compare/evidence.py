"""The statistical evidence for differences: size, interval and p-value, and intervals that hold together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from telemetry.judge.compare.model import Method
from telemetry.judge.compare.sides import SideSamples
from telemetry.statistics.runs import Difference, difference, paired_difference

Pairs = Sequence[tuple[int, int]]
"""Indexes on both sides of runs that ran next to each other."""


@dataclass(frozen=True, kw_only=True)
class DifferenceEvidence:
    """The evidence for a figure. Differences are fractions of the side before; an infinite end means no bound."""

    difference: float | None
    """Relative difference, or None if the side before is 0 and the side after is not."""
    low: float
    high: float
    p_value: float
    before: float
    after: float
    method: Method

    @property
    def up(self) -> bool:
        return self.after > self.before if self.difference is None else self.difference > 0


def evidence(sample: SideSamples, pairs: Pairs | None, confidence: float) -> DifferenceEvidence | str:
    """Return the evidence from at least two runs on each side, or a text that explains why it is missing."""
    before, after = sample.before, sample.after
    if not any(before) and any(after):
        return _from_zero(before, after)
    method: Method = "exact" if _constant(before) and _constant(after) else "runs"
    estimate = None
    if method == "runs" and pairs is not None:
        old, new = [before[index] for index, _ in pairs], [after[index] for _, index in pairs]
        estimate = paired_difference(old, new, confidence)
        method = "runs" if estimate is None else "pairs"
    if estimate is None:
        estimate = difference(before, after, confidence)
    if estimate is None:
        return "0 in most runs before, so there is no relative difference"
    typical = _as_far_apart(estimate)
    return DifferenceEvidence(
        difference=estimate.ratio,
        low=estimate.low,
        high=estimate.high,
        p_value=estimate.p_value,
        before=typical[0],
        after=typical[1],
        method=method,
    )


def _as_far_apart(estimate: Difference) -> tuple[float, float]:
    """Return the typical values of both sides, moved until they differ by exactly the estimated difference.

    The estimate rests on pairs or ranks of runs, so the typical runs of the sides may differ otherwise, even in the
    other direction.
    """
    before, after, ratio = estimate.before, estimate.after, estimate.ratio
    if before > 0 and after > 0 and -1 < ratio < math.inf:
        middle, half = math.sqrt(before) * math.sqrt(after), math.sqrt(1 + ratio)
        return middle / half, middle * half
    return before, before + ratio * abs(before) if math.isfinite(ratio) else after


def _constant(values: Sequence[float]) -> bool:
    return min(values) == max(values)


def _from_zero(before: Sequence[float], after: Sequence[float]) -> DifferenceEvidence | str:
    """Return the evidence for a change from 0, which has no relative difference.

    It is the small chance that runs without any difference separate so cleanly.
    """
    if min(after) <= 0 <= max(after):
        return "0 in all runs before and above 0 in some after, so there is no relative difference"
    return DifferenceEvidence(
        difference=None,
        low=math.inf,
        high=math.inf,
        p_value=min(1.0, 2.0 / math.comb(len(before) + len(after), len(after))),
        before=0.0,
        after=fmean(after),
        method="exact",
    )


def confidences(p_values: Sequence[float], level: float) -> list[float]:
    """Return the confidence of each interval, in the order of the p-values.

    All intervals hold together with a confidence of 1 - `level` at least. An interval excludes 0 exactly if
    Holm's method calls its figure different: the smallest p-value is compared with level / n, the next with
    level / (n - 1), and so on. The first figure that is not different, and all after it, share one level.
    """
    result = [0.0] * len(p_values)
    share, going = level, True
    for position, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if going:
            share = level / (len(p_values) - position)
            going = p_values[index] < share
        result[index] = 1.0 - share
    return result
