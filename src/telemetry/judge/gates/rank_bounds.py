"""Bounds on the value at a rank, and percentiles with their uncertainty from them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate
from typing import Final, Protocol

import numpy as np

from telemetry.errors import UsageError
from telemetry.history.distributions import CountedDistribution
from telemetry.history.intervals.histograms import Histograms
from telemetry.judge.gates.evidence import Loss, Quantile, Share
from telemetry.judge.gates.value import CONFIDENCE, Range
from telemetry.statistics.confidence import rank_bounds
from telemetry.statistics.hdr.layout import Layout
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.wire.cells import CELLS, edge
from telemetry.wire.snapshot import SeriesStat
from telemetry.wire.units import WHOLE

_LEAST: Final = 0.0
"""Lowest value of a series: series have no negative values."""


class Order(Protocol):
    """The sorted values of a series, as far as they are known."""

    count: int
    least: float
    """Smallest value that there can be."""

    def at(self, rank: int) -> Range:
        """Return the range that holds the value of this rank. Ranks are 1 … `count`."""

    def shown(self, percentile: str, rank: int) -> float:
        """Return the percentile as every report shows it."""


def quantile(order: Order, percentile: str, loss: Loss) -> Quantile | None:
    """Return a percentile, or None without values. Raises UsageError for a percentile outside (0, 100]."""
    ratio, count = parse_percentile(percentile), order.count
    if not count:
        return None
    own = rank(ratio, count)
    if not loss.most:
        possible = order.at(own)
    elif math.isinf(loss.most):
        possible = Range(order.least, math.inf)
    else:
        # Assume first that all lost values are below the percentile, then that all are above it.
        lost = int(loss.most)
        reached = rank(ratio, count + lost)
        low = order.at(reached - lost).low if reached > lost else order.least
        high = order.at(reached).high if reached <= count else math.inf
        possible = Range(min(low, order.at(own).low), max(high, order.at(own).high))
    below, above = rank_bounds(ratio, count, CONFIDENCE)
    value = order.shown(percentile, own)
    likely = Range(
        -math.inf if below is None else min(order.at(below).low, value),
        math.inf if above is None else max(order.at(above).high, value),
    )
    return Quantile(value, possible, likely, count)


def share(order: Order, relation: str, limit: float) -> Share | None:
    """Return the number of values on one side of a limit, or None without values."""
    count = order.count
    if not count:
        return None
    inside = relation in ("<=", ">")  # values at the limit belong to the lower side
    least = _ranks_below(order, limit, inside=inside, end=1)
    most = _ranks_below(order, limit, inside=inside, end=0)
    slot = order.at(least + 1) if most > least else None
    if relation.startswith(">"):
        least, most = count - most, count - least
    return Share(least, most, count, slot)


def _ranks_below(order: Order, limit: float, *, inside: bool, end: int) -> int:
    """Return the number of ranks whose lower bound (`end` 0) or upper bound (`end` 1) is below a limit.

    With `inside`, count a bound that equals the limit, too.
    """

    def beyond(rank: int) -> bool:
        value = order.at(rank)[end]
        return not (value <= limit if inside else value < limit)

    return bisect_left(range(1, order.count + 1), True, key=beyond)


class BinsOrder:
    """An order from the bins of a histogram that another program has counted."""

    least = -math.inf

    def __init__(self, distribution: CountedDistribution) -> None:
        self.count = distribution.count
        self._between = distribution.between

    def at(self, rank: int) -> Range:
        return Range(*self._between(rank))

    def shown(self, percentile: str, rank: int) -> float:
        low, high = self._between(rank)
        return high if math.isfinite(high) else low


class SlotOrder:
    """An order from a histogram of the history."""

    least = _LEAST

    def __init__(self, histogram: Histograms, unit: str) -> None:
        """Read a `histogram` that has a single row, with each of its slots once.

        The first and the last slot also hold the values outside the range of the series.
        """
        layout = Layout.of(int(histogram.digits[0]))
        ticks = float(histogram.ticks_per_unit[0])
        half = 0.0 if unit in WHOLE and ticks == 1.0 else 0.5  # values are rounded to ticks
        self._lowest = (layout.lowest_of(histogram.slots) - half) / ticks
        self._highest = layout.highest_of(histogram.slots) / ticks
        self._half = half / ticks
        self._reached = np.cumsum(histogram.counts)
        self._min, self._max = float(histogram.min[0]), float(histogram.max[0])
        self.count = int(self._reached[-1]) if self._reached.size else 0

    def at(self, rank: int) -> Range:
        slot = int(np.searchsorted(self._reached, rank))
        low = max(float(self._lowest[slot]), self._min) if slot else self._min
        high = float(self._highest[slot]) + self._half if slot < self._reached.size - 1 else self._max
        return Range(low, min(max(high, self._min), self._max))

    def shown(self, percentile: str, rank: int) -> float:
        highest = float(self._highest[int(np.searchsorted(self._reached, rank))])
        return min(max(highest, self._min), self._max)


class CellOrder:
    """An order from the display histogram of a snapshot, with four cells for each doubling."""

    least = _LEAST

    def __init__(self, stat: SeriesStat) -> None:
        """Read the cells. If they don't hold all values, only `min` and `max` are known."""
        reached = list(accumulate(max(count, 0) for _, count in stat.histogram))
        usable = (
            bool(reached) and reached[-1] == stat.count and all(0 <= cell < CELLS for cell, _ in stat.histogram)
        )
        self._reached = reached if usable else []
        self._stat = stat
        self._whole = Range(
            _LEAST if stat.min is None else float(stat.min), math.inf if stat.max is None else float(stat.max)
        )
        self.count = stat.count

    def at(self, rank: int) -> Range:
        if not self._reached:
            return self._whole
        index = bisect_left(self._reached, rank)
        cell = self._stat.histogram[index][0]
        low = max(edge(cell) * self._stat.cell_unit, self._whole.low) if index else self._whole.low
        high = edge(cell + 1) * self._stat.cell_unit if index < len(self._reached) - 1 else self._whole.high
        return Range(low, max(min(high, self._whole.high), self._whole.low))

    def shown(self, percentile: str, rank: int) -> float:
        return self.at(rank).high


class StatOrder:
    """An order from the percentiles of a snapshot, on top of another order for all other ranks."""

    least = _LEAST

    def __init__(self, stat: SeriesStat, base: Order) -> None:
        """Add the percentiles to `base`, which must have the same number of values."""
        self.count = stat.count
        self._base = base
        self._named: dict[str, float] = {key: float(value) for key, value in stat.percentiles.items()}
        ranges = _known(stat, self._named) if stat.count else {}
        self._ranks = sorted(ranges)
        self._known = [ranges[number] for number in self._ranks]

    def at(self, rank: int) -> Range:
        base = self._base.at(rank)
        index = bisect_left(self._ranks, rank)
        if index < len(self._ranks) and self._ranks[index] == rank and self._known[index].point:
            return self._known[index]
        low = self._known[index - 1].low if index else base.low
        high = self._known[index].high if index < len(self._known) else base.high
        if index < len(self._ranks) and self._ranks[index] == rank:
            low = max(low, self._known[index].low)
        low, high = max(low, base.low), min(high, base.high)
        return Range(min(low, high), max(low, high))

    def shown(self, percentile: str, rank: int) -> float:
        named = self._named.get(percentile)
        return self._base.shown(percentile, rank) if named is None else named


def _known(stat: SeriesStat, named: Mapping[str, float]) -> dict[int, Range]:
    """Return rank → range of its value. A percentile from a histogram is the highest value of a slot."""
    ranges: dict[int, Range] = {}
    for key, value in named.items():
        try:
            ratio = parse_percentile(key)
        except UsageError:
            continue
        if stat.exact:
            ranges[rank(ratio, stat.count)] = Range(value, value)
        elif stat.error_bound is not None:
            off = max(value * stat.error_bound, stat.resolution)
            ranges[rank(ratio, stat.count)] = Range(max(value - off, _LEAST), value + stat.resolution / 2)
    return ranges
