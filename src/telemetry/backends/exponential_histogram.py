"""Cells of a distribution as the buckets of an exponential histogram, as Prometheus and OTLP have them. Pure.

At a scale `s` there are `2**s` buckets to each doubling: with `b = 2**(2**-s)`, bucket `i` holds values in
`(b**i, b**(i + 1)]`. The edges of our cells are others, so a cell is divided evenly: whole values, never fewer in a
bucket than before as the cell's count grows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

Cells = Sequence[tuple[float, float, int]]
"""(from, to, count), ascending. `from` and `to` may be the same value: all of them are it."""

FINEST: Final = 3  # eight buckets to a doubling, twice as many as there are cells
_COARSEST: Final = -4  # a bucket of sixteen doublings: seventy of them hold all floats


class Buckets(NamedTuple):
    zero: int
    """How many are zero, or so little that nobody can tell."""
    threshold: float
    """That is at most this."""
    counts: dict[int, int]
    """By index, ascending; none is 0."""


def buckets(cells: Cells, scale: int) -> Buckets:
    """The same distribution at a scale. Cells that begin at 0 or below count as zero."""
    zero, threshold = 0, 0.0
    counts: dict[int, int] = {}
    for low, high, count in cells:
        if low <= 0.0:
            zero, threshold = zero + count, max(threshold, high)
        else:
            _divide(counts, low, high, count, scale)
    return Buckets(zero, threshold, {index: counts[index] for index in sorted(counts) if counts[index]})


def scale_within(cells: Cells, most: int) -> int:
    """The finest scale at which they reach over at most `most` buckets."""
    positive = [(low, high) for low, high, _ in cells if low > 0.0]
    if not positive:
        return FINEST
    lowest, highest = min(low for low, _ in positive), max(high for _, high in positive)
    scale = FINEST
    while scale > _COARSEST and _last(highest, scale) - _first(lowest, scale) >= most:
        scale -= 1
    return scale


def runs(indices: Iterable[int]) -> list[tuple[int, int]]:
    """(first, length) of indices that follow each other; they come in ascending order."""
    found: list[tuple[int, int]] = []
    for index in indices:
        if found and index == sum(found[-1]):
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((index, 1))
    return found


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
    """The bucket of values just above."""
    return math.floor(_doublings(low) * 2.0**scale)


def _last(high: float, scale: int) -> int:
    """The bucket of the value itself."""
    return math.ceil(_doublings(high) * 2.0**scale) - 1


def _doublings(value: float) -> float:
    """Its binary logarithm, exact for powers of two."""
    mantissa, exponent = math.frexp(value)
    return exponent + math.log2(mantissa)
