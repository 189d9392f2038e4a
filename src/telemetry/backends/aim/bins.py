"""Distributions with bins of equal width, as Aim stores them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

Cell = tuple[float, float, int]
"""(from, to, count)."""
BINS: Final = 64
_NARROWEST: Final = 1e-9  # relative to the larger end, so that equal values are still visible


class Bins(NamedTuple):
    weights: list[float]
    """Counts of the bins. Their sum is the number of values."""
    low: float
    high: float


def even(cells: Iterable[Cell]) -> Bins | None:
    """Return `BINS` bins over the non-empty cells, or None without values. Values spread evenly over their cell."""
    full = [(start, stop, count) for start, stop, count in cells if count > 0]
    if not full:
        return None
    low = min(start for start, _, _ in full)
    high = max(stop for _, stop, _ in full)
    narrowest = max(abs(low), abs(high), 1.0) * _NARROWEST
    if high - low < narrowest:  # widen towards zero, where floats have room
        low, high = (low - narrowest, high) if low > 0.0 else (low, high + narrowest)
    weights = [0.0] * BINS
    for start, stop, count in full:
        # Scale before subtracting: the difference of the largest and the smallest float overflows.
        first = (start / BINS - low / BINS) / (high / BINS - low / BINS) * BINS
        last = (stop / BINS - low / BINS) / (high / BINS - low / BINS) * BINS
        _spread(weights, first, last, count)
    return Bins(weights, low, high)


def _spread(weights: list[float], first: float, last: float, count: int) -> None:
    """Distribute `count` over bins, in proportion to their overlap with the range."""
    begin, end = min(int(first), BINS - 1), min(int(last), BINS - 1)
    if begin == end:
        weights[begin] += count
        return
    width = last - first
    for number in range(begin, end + 1):
        weights[number] += count * (min(last, number + 1) - max(first, number)) / width
