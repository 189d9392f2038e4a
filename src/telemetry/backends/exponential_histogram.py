"""Conversion of histogram cells to the exponential buckets of Prometheus and OTLP. Pure.

A scale `s` has `2**s` buckets for each doubling: with `b = 2**(2**-s)`, bucket `i` holds values in
`(b**i, b**(i + 1)]`. Cells have other edges, so the count of a cell is spread evenly over its buckets, in whole
numbers. A bucket never shrinks while the count of its cell grows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

Cells = Sequence[tuple[float, float, int]]
"""(from, to, count), ascending. If `from` equals `to`, all values of the cell are equal."""

FINEST: Final = 3  # eight buckets for each doubling, twice as many as cells
_COARSEST: Final = -4  # a bucket of sixteen doublings: seventy buckets cover all floats


class Buckets(NamedTuple):
    zero: int
    """Number of values that are zero, or too small to tell from zero."""
    threshold: float
    """Upper bound of these values."""
    counts: dict[int, int]
    """Bucket index → count, ascending, without empty buckets."""


def buckets(cells: Cells, scale: int) -> Buckets:
    """Convert cells to a scale. Cells that begin at 0 or below count as zero."""
    zero, threshold = 0, 0.0
    counts: dict[int, int] = {}
    for low, high, count in cells:
        if low <= 0.0:
            zero, threshold = zero + count, max(threshold, high)
        else:
            _divide(counts, low, high, count, scale)
    return Buckets(zero, threshold, {index: counts[index] for index in sorted(counts) if counts[index]})


def scale_within(cells: Cells, most: int) -> int:
    """Return the finest scale at which the cells span at most `most` buckets."""
    positive = [(low, high) for low, high, _ in cells if low > 0.0]
    if not positive:
        return FINEST
    lowest, highest = min(low for low, _ in positive), max(high for _, high in positive)
    scale = FINEST
    while scale > _COARSEST and _last(highest, scale) - _first(lowest, scale) >= most:
        scale -= 1
    return scale


def runs(indices: Iterable[int]) -> list[tuple[int, int]]:
    """Return (first, length) of each run of consecutive indices. `indices` must ascend."""
    result: list[tuple[int, int]] = []
    for index in indices:
        if result and index == sum(result[-1]):
            result[-1] = (result[-1][0], result[-1][1] + 1)
        else:
            result.append((index, 1))
    return result


def _divide(counts: dict[int, int], low: float, high: float, count: int, scale: int) -> None:
    last = _last(high, scale)
    before = 0
    for index in range(_first(low, scale), last):
        share = (2.0 ** ((index + 1) * 2.0**-scale) - low) / (high - low)
        until = math.floor(count * min(max(share, 0.0), 1.0))
        counts[index] = counts.get(index, 0) + until - before
        before = until
    counts[last] = counts.get(last, 0) + count - before


def _first(low: float, scale: int) -> int:
    """Return the bucket of values just above `low`."""
    return math.floor(_doublings(low) * 2.0**scale)


def _last(high: float, scale: int) -> int:
    """Return the bucket that holds `high`."""
    return math.ceil(_doublings(high) * 2.0**scale) - 1


def _doublings(value: float) -> float:
    """Return the binary logarithm, exact for powers of two."""
    mantissa, exponent = math.frexp(value)
    return exponent + math.log2(mantissa)
