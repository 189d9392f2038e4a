"""Distributions as Aim knows them: bins of one width."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

Cell = tuple[float, float, int]
"""(from, to, count)."""
BINS: Final = 64
_NARROWEST: Final = 1e-9  # of the larger end: what all have the same value is still drawn


class Bins(NamedTuple):
    weights: list[float]
    """Their sum is the number of values."""
    low: float
    high: float


def even(cells: Iterable[Cell]) -> Bins | None:
    """`BINS` bins over what is not empty; None if all is. The values of a cell are taken to lie evenly in it."""
    full = [(start, stop, count) for start, stop, count in cells if count > 0]
    if not full:
        return None
    low = min(start for start, _, _ in full)
    high = max(stop for _, stop, _ in full)
    narrowest = max(abs(low), abs(high), 1.0) * _NARROWEST
    if high - low < narrowest:  # widened towards zero, where there is room
        low, high = (low - narrowest, high) if low > 0.0 else (low, high + narrowest)
    weights = [0.0] * BINS
    for start, stop, count in full:
        # Scaled before they are taken from each other: between the ends of floats there is no float.
        first = (start / BINS - low / BINS) / (high / BINS - low / BINS) * BINS
        last = (stop / BINS - low / BINS) / (high / BINS - low / BINS) * BINS
        _spread(weights, first, last, count)
    return Bins(weights, low, high)


def _spread(weights: list[float], first: float, last: float, count: int) -> None:
    """Gives `count` to bins, by how much of them lies between the two positions."""
    begin, end = min(int(first), BINS - 1), min(int(last), BINS - 1)
    if begin == end:
        weights[begin] += count
        return
    width = last - first
    for number in range(begin, end + 1):
        weights[number] += count * (min(last, number + 1) - max(first, number)) / width
