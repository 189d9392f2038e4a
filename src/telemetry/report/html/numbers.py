"""Columns of numbers on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence

Column = Sequence[float | None]


def rounded(value: float | None) -> float | None:
    """Return the value with four significant digits: more than a pixel can show. None if it is not finite."""
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None


def column(values: Column) -> list[float | int | None]:
    """Return rounded values; whole numbers without a point, which is shorter."""
    found = map(rounded, values)
    return [int(value) if value is not None and value.is_integer() else value for value in found]
