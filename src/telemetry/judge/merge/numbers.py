"""Sums of numbers in snapshots: integers stay integers, and floats are independent of their order."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry import limits

Number = int | float

LARGEST: Final = sys.float_info.max
_WIRE_INTEGER: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class MergedMoments:
    """Moments of some values. `stddev` is of the population. None means that it exceeds a float."""

    count: int
    total: Number
    stddev: float | None


def total_of(values: Iterable[Number]) -> Number:
    """Return the sum, rounded once. It is an integer of any size if all values are. LARGEST if it overflows."""
    numbers = list(values)
    if all(isinstance(value, int) for value in numbers):
        return sum(numbers)
    try:
        return math.fsum(numbers)
    except OverflowError:
        return LARGEST


def carried(value: Number) -> Number:
    """Return the value, or the nearest float for an integer that wire formats and JSON can't hold."""
    return value if isinstance(value, float) or -_WIRE_INTEGER <= value < _WIRE_INTEGER else float(value)


def plain(value: float) -> Number:
    """Convert to an int if that is exact."""
    return int(value) if 0.0 <= value < limits.EXACT_INTEGER and value == int(value) else value


def mean_of(total: Number, count: int) -> float | None:
    mean = total / count
    return mean if mean <= LARGEST else None


def stddev_of(parts: Sequence[MergedMoments]) -> float | None:
    """Return the standard deviation of all values together. `parts` must contain at least one value.

    It combines the spread within the parts and between their means, without subtracting large numbers.
    """
    count = sum(part.count for part in parts)
    mean = total_of(part.total for part in parts) / count
    squares = []
    for part in parts:
        if part.stddev is None:
            return None
        distance = part.total / part.count - mean
        squares += [part.count * (part.stddev * part.stddev), part.count * (distance * distance)]
    try:
        deviation = math.sqrt(math.fsum(squares) / count)
    except (OverflowError, ValueError):  # a sum of infinities, or NaN
        return None
    return deviation if deviation <= LARGEST else None
