"""The size of differences, and the largest ones of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from telemetry.history.headlines.loads import TIMES
from telemetry.judge.compare.figures import SHARE
from telemetry.judge.compare.model import ONE_RUN, WITHOUT_BOUNDS, Comparison, MetricResult
from telemetry.wire.units import TIME_NS

_JUDGED: Final = ("worse", "better", "changed", "differs")
_SHOWN: Final = 3
_USUAL: Final = "p99"
_MEDIAN: Final = "p50"


def size(metric: MetricResult) -> float:
    """Return the size of a difference, the same for a value that doubles and for one that halves.

    A change to or from 0 is infinite. Figures without a difference have none: they return -1.
    """
    before, after = metric.before, metric.after
    if before is None or after is None:
        return -1.0
    if before == after:
        return 0.0
    if before == 0 or after == 0 or (before < 0) != (after < 0):
        return math.inf
    return abs(math.log(after / before))


def largest(comparison: Comparison) -> list[MetricResult]:
    """Return up to three figures whose verdict is a difference, the largest ones, one of each instrument.

    Figures without a better direction, such as settings, come after those with one, and figures of the command
    last. A number of errors is left out if its share of the requests is known.
    """
    judged = [metric for metric in comparison.metrics if metric.verdict in _JUDGED]
    matters = [metric for metric in _sorted(judged) if _matters(metric)]
    shares = {metric.name for metric in comparison.metrics if metric.statistic == SHARE}
    matters = [metric for metric in matters if metric.statistic != "value" or metric.name not in shares]
    return _sorted(list(_one_of_each(matters)))[:_SHOWN]


def largest_without_bounds(comparison: Comparison) -> list[MetricResult]:
    """Return up to three figures of two single runs that differ, but can't be told for want of bounds.

    They are the largest ones that have a better direction, one of each instrument. A training has its speed among
    them.
    """
    return _largest_untold(comparison, WITHOUT_BOUNDS)


def largest_outside(comparison: Comparison) -> list[MetricResult]:
    """Return up to three figures in which a single run lies above or below all runs of the other side.

    They have no verdict. For their order see `largest_without_bounds`.
    """
    return _largest_untold(comparison, ONE_RUN)


def _largest_untold(comparison: Comparison, reason: str) -> list[MetricResult]:
    untold = [
        metric
        for metric in comparison.metrics
        if metric.verdict == "cannot_tell"
        and metric.reason.startswith(reason)
        and metric.better != "neither"
        and abs(metric.difference or 0.0) >= comparison.min_effect
        and (reason != ONE_RUN or _are_apart(metric))
    ]
    return _sorted(list(_one_of_each(_sorted(untold))))[:_SHOWN]


def _are_apart(metric: MetricResult) -> bool:
    before, after = metric.before_values, metric.after_values
    return max(before) < min(after) or max(after) < min(before)


def main_difference(comparison: Comparison) -> MetricResult | None:
    """Return the figure that tells most about the difference of two single runs; None if none differs.

    The times of a headline come first, their medians before their 99th percentiles. The medians of other times,
    such as the lateness of a load generator, follow, then the largest difference of a figure that has a better
    direction.
    """

    def sort_key(metric: MetricResult) -> tuple[bool, bool, bool, bool, float]:
        is_time = metric.of == "series" and metric.unit in TIME_NS
        is_median = is_time and metric.statistic == _MEDIAN
        is_shown = is_time and metric.name.rpartition(".")[2] in TIMES and metric.statistic in (_MEDIAN, _USUAL)
        return not is_shown, not is_median, metric.better == "neither", metric.of == "command", -size(metric)

    differing = [metric for metric in comparison.metrics if metric.verdict == "differs"]
    return min(differing, key=sort_key, default=None)


def _sorted(metrics: Sequence[MetricResult]) -> list[MetricResult]:
    return sorted(metrics, key=lambda metric: (metric.of == "command", metric.better == "neither", -size(metric)))


def _matters(metric: MetricResult) -> bool:
    """Return whether a difference is worth a line at the top. A count that leaves 0 is, if it is one of trouble."""
    return metric.difference is not None or metric.better == "lower"


def _one_of_each(metrics: Sequence[MetricResult]) -> Iterator[MetricResult]:
    """Yield one figure of each instrument: the 99th percentile if it is among them, else the first."""
    instruments: dict[object, list[MetricResult]] = {}
    for metric in metrics:
        key = metric.of, metric.name, tuple(sorted(metric.labels.items()))
        instruments.setdefault(key, []).append(metric)
    for first, *others in instruments.values():
        yield next((candidate for candidate in (first, *others) if candidate.statistic == _USUAL), first)
