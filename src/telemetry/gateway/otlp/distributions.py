"""Distributions of OTLP points: buckets with given bounds, and exponential ones. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol, Self

_SAME_WIDTH: Final = 0.5  # around values that are all the same


class FiniteBins(NamedTuple):
    """Bins with finite edges, and the number of values that no bin holds because their bucket has no end."""

    edges: list[float]
    counts: list[int]
    outside: int


class BucketCounts(Protocol):
    """Counts of values in buckets."""

    @property
    def size(self) -> int:
        """Number of buckets."""

    @property
    def total(self) -> int:
        """Number of values in all buckets."""

    def since(self, before: BucketCounts) -> BucketCounts | None:
        """Return what came after `before`. Return None if the two can't be compared."""

    def bins(self, low: float | None, high: float | None) -> FiniteBins:
        """Return bins. `low` and `high` are bounds of all values, if they are known."""


class ExplicitBuckets(NamedTuple):
    """Buckets with given bounds. The first and the last bucket have no outer bound.

    Without buckets, `counts` is empty.
    """

    bounds: tuple[float, ...]
    counts: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.bounds) + len(self.counts)

    @property
    def total(self) -> int:
        return sum(self.counts)

    def problem(self) -> str:
        """Return what is wrong with the buckets, or an empty text."""
        if len(self.counts) != (len(self.bounds) + 1 if self.counts else 0):
            return f"it has {len(self.counts)} buckets for {len(self.bounds)} bounds"
        if not all(map(math.isfinite, self.bounds)) or any(
            upper <= lower for lower, upper in pairwise(self.bounds)
        ):
            return "the bounds of its buckets don't ascend"
        return ""

    def since(self, before: BucketCounts) -> Self | None:
        """Return the counts after `before`. Return None if the bounds have changed or a count shrank."""
        if not isinstance(before, ExplicitBuckets) or before.bounds != self.bounds:
            return None
        if len(before.counts) != len(self.counts):
            return None
        counts = tuple(now - then for now, then in zip(self.counts, before.counts, strict=True))
        return None if min(counts, default=0) < 0 else self._replace(counts=counts)

    def bins(self, low: float | None, high: float | None) -> FiniteBins:
        """Return a bin for each bucket with two ends. `low` and `high` end the outer buckets."""
        if not self.bounds:
            return _one_bin(self.total, low, high)
        first, *inner, last = self.counts
        edges = list(self.bounds)
        outside = 0
        if first and low is not None and low < edges[0]:
            edges.insert(0, low)
            inner.insert(0, first)
        elif first and low == edges[0] and inner:
            inner[0] += first  # all of them equal the edge, which belongs to the bin above it
        else:
            outside += first
        if last and high is not None and high > edges[-1]:
            edges.append(high)
            inner.append(last)
        else:
            outside += last
        return FiniteBins(edges, inner, outside)


class ExponentialBuckets(NamedTuple):
    """Buckets whose bounds are powers of a base, 2 ** 2 ** -scale, on both sides of zero.

    Bucket `i` holds values above base ** i, up to base ** (i + 1). Empty buckets are left out.
    """

    scale: int
    threshold: float
    """Greatest magnitude that counts as zero."""
    zero: int
    positive: dict[int, int]
    negative: dict[int, int]

    @property
    def size(self) -> int:
        return 2 * (len(self.positive) + len(self.negative))

    @property
    def total(self) -> int:
        return self.zero + sum(self.positive.values()) + sum(self.negative.values())

    def since(self, before: BucketCounts) -> ExponentialBuckets | None:
        """Return the counts after `before`. Return None if buckets became finer or a count shrank."""
        if not isinstance(before, ExponentialBuckets) or before.scale < self.scale:
            return None
        if before.threshold != self.threshold:
            return None
        coarser = before.scale - self.scale
        positive = _difference(self.positive, before.positive, coarser)
        negative = _difference(self.negative, before.negative, coarser)
        zero = self.zero - before.zero
        if zero < 0 or positive is None or negative is None:
            return None
        return ExponentialBuckets(self.scale, self.threshold, zero, positive, negative)

    def bins(self, low: float | None, high: float | None) -> FiniteBins:
        """Return a bin for each bucket that has values, and empty bins between them."""
        edges: list[float] = []
        counts: list[int] = []
        outside = 0
        for below, end, count in self._cells(low, high):
            start = max(below, edges[-1]) if edges else below
            if not math.isfinite(start) or not start < end < math.inf:
                outside += count
                continue
            if not edges:
                edges.append(start)
            elif start > edges[-1]:
                edges.append(start)
                counts.append(0)
            edges.append(end)
            counts.append(count)
        return FiniteBins(edges, counts, outside)

    def _cells(self, low: float | None, high: float | None) -> Iterable[tuple[float, float, int]]:
        """Yield start, end and count of each bucket that has values, in ascending order."""
        for index in sorted(self.negative, reverse=True):
            start = -self._bound(index + 1)
            yield (
                (low if math.isinf(start) and low is not None else start),
                -self._bound(index),
                self.negative[index],
            )
        first = min(self.positive, default=None)
        if self.zero:
            above = _SAME_WIDTH if first is None else self._bound(first)
            end = self.threshold or above
            yield (0.0 if low is not None and low >= 0.0 else -self.threshold), end, self.zero
        for index in sorted(self.positive):
            end = self._bound(index + 1)
            yield self._bound(index), (high if math.isinf(end) and high is not None else end), self.positive[index]

    def _bound(self, index: int) -> float:
        """Return base ** index, or infinity if it does not fit in a float."""
        try:
            return math.exp2(index * 2.0**-self.scale)
        except OverflowError:
            return math.inf if index > 0 else 0.0


def exponential_side(offset: int, counts: Sequence[int]) -> dict[int, int]:
    """Return the buckets of one side that have values, by index."""
    return {index: count for index, count in enumerate(counts, offset) if count}


def _difference(now: dict[int, int], before: dict[int, int], coarser: int) -> dict[int, int] | None:
    """Return the counts that came after `before`, whose buckets are split `coarser` times more often."""
    counts = dict(now)
    for fine_index, count in before.items():
        index = fine_index >> coarser
        left = counts.get(index, 0) - count
        if left < 0:
            return None
        counts[index] = left
    return {index: count for index, count in counts.items() if count}


def _one_bin(total: int, low: float | None, high: float | None) -> FiniteBins:
    if not total or low is None or high is None or low > high:
        return FiniteBins([], [], total)
    wide = 0.0 if low < high else max(abs(low) * 1e-3, _SAME_WIDTH)
    return FiniteBins([low - wide, high + wide], [total], 0)
