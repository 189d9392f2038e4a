"""Columns of numbers on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

Column = Sequence[float | None]


DIGITS: Final = 4
"""Significant digits of numbers that are drawn: more than a pixel can show."""
DIGITS_READ: Final = 9
"""Those of numbers that are read: rounded again for the reader, they are the same as anywhere else."""


def rounded(value: float | None, digits: int = DIGITS) -> float | None:
    """Return the value with few significant digits. None if it is not finite."""
    return float(f"{value:.{digits}g}") if value is not None and math.isfinite(value) else None


def readable(value: float | None) -> float | None:
    """Return the value for a reader, who sees it rounded once."""
    return rounded(value, DIGITS_READ)


def column(values: Column, digits: int = DIGITS) -> list[float | int | None]:
    """Return rounded values; whole numbers without a point, which is shorter."""
    numbers = [rounded(value, digits) for value in values]
    return [int(value) if value is not None and value.is_integer() else value for value in numbers]
