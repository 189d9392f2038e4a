"""The size of differences, and the largest ones of a comparison."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from telemetry.compare.model import Comparison, MetricResult

_JUDGED: Final = ("worse", "better", "changed", "differs")
_SHOWN: Final = 3
_USUAL: Final = "p99"


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
    """Return up to three figures with the largest differences that matter, one of each instrument.

    Figures with a verdict come first. Figures without a better direction, such as settings, come after those with
    one, and figures of the command last.
    """
    judged = [metric for metric in comparison.metrics if metric.verdict in _JUDGED]
    others = [metric for metric in comparison.metrics if metric.verdict == "cannot_tell"]
    matters = [metric for metric in (*_sorted(judged), *_sorted(others)) if _matters(metric, comparison.min_effect)]
    return list(_one_of_each(matters))[:_SHOWN]


def _sorted(metrics: Sequence[MetricResult]) -> list[MetricResult]:
    return sorted(metrics, key=lambda one: (one.of == "command", one.better == "neither", -size(one)))


def _matters(metric: MetricResult, least: float) -> bool:
    """Return whether a difference is worth a line at the top. A count that leaves 0 is, if it is one of trouble."""
    if metric.difference is None:
        return metric.better == "lower" and metric.before == 0 and bool(metric.after)
    return metric.difference != 0 and abs(metric.difference) >= least


def _one_of_each(metrics: Sequence[MetricResult]) -> Iterator[MetricResult]:
    """Yield one figure of each instrument: the 99th percentile if it is among them, else the first."""
    instruments: dict[object, list[MetricResult]] = {}
    for metric in metrics:
        key = metric.of, metric.name, tuple(sorted(metric.labels.items()))
        instruments.setdefault(key, []).append(metric)
    for first, *others in instruments.values():
        yield next((one for one in (first, *others) if one.statistic == _USUAL), first)
