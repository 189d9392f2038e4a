"""Adding numbers as snapshots have them: integers stay integers, floats lose nothing to the order."""

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
class Moments:
    """Of some values; `stddev` is that of the population. None: beyond what a float can say."""

    count: int
    total: Number
    stddev: float | None


def total_of(values: Iterable[Number]) -> Number:
    """The sum, rounded once; an integer of any size if all are. LARGEST if it overflows."""
    numbers = list(values)
    if all(isinstance(value, int) for value in numbers):
        return sum(numbers)
    try:
        return math.fsum(numbers)
    except OverflowError:
        return LARGEST


def carried(value: Number) -> Number:
    """As it is while wire and JSON can carry it, else the nearest float."""
    return value if isinstance(value, float) or -_WIRE_INTEGER <= value < _WIRE_INTEGER else float(value)


def plain(value: float) -> Number:
    """An int where that is exact."""
    return int(value) if 0.0 <= value < limits.EXACT_INTEGER and value == int(value) else value


def mean_of(total: Number, count: int) -> float | None:
    mean = total / count
    return mean if mean <= LARGEST else None


def stddev_of(parts: Sequence[Moments]) -> float | None:
    """Of all values together, of which there is at least one. What lies between the means of the parts counts as
    well as what lies within them, and neither is the difference of large numbers."""
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
    except (OverflowError, ValueError):  # sums of infinities, or of what is no number
        return None
    return deviation if deviation <= LARGEST else None
