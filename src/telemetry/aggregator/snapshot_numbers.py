"""Numbers as snapshots show them."""

from __future__ import annotations

import sys
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from telemetry import limits

LARGEST: Final = sys.float_info.max
_WIRE_INTEGER: Final = 1 << 63
_Scalar = TypeVar("_Scalar", bound=np.generic)


def plain(value: float) -> int | float:
    """Return an int if that is exact."""
    if value == int(value) and abs(value) < limits.EXACT_INTEGER:
        return int(value)
    return value


def bounded(value: int | float) -> int | float:
    """Return a number unchanged if wire and JSON can carry it, else the nearest float.

    LARGEST after an overflow.
    """
    if isinstance(value, int) and -_WIRE_INTEGER <= value < _WIRE_INTEGER:
        return value
    try:
        number = float(value)
    except OverflowError:
        return LARGEST
    return number if number <= LARGEST else LARGEST  # false for NaN


def grown(column: NDArray[_Scalar], size: int) -> NDArray[_Scalar]:
    """Return the column with room for at least `size` entries; new ones are zero.

    Capacity doubles to keep growth cheap.
    """
    if size <= len(column):
        return column
    larger = np.zeros(max(size, 2 * len(column), 16), column.dtype)
    larger[: len(column)] = column
    return larger
