"""Figures over time as a short row of bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

_BARS: Final = "▁▂▃▄▅▆▇█"


def bars(values: Sequence[float | None], columns: int) -> str:
    """Return bars from zero, for times and rates. Neighbours that share a bar show the highest."""
    highest = [max(own) if own else None for own in _groups(values, columns)]
    most = max((value for value in highest if value is not None), default=0.0)
    return _drawn(highest, 0.0, most)


def curve(values: Sequence[float | None], columns: int) -> str:
    """Return bars from the lowest to the highest value. Neighbours that share a bar show their mean."""
    means = [sum(own) / len(own) if own else None for own in _groups(values, columns)]
    known = [value for value in means if value is not None and math.isfinite(value)]
    return _drawn(means, min(known, default=0.0), max(known, default=0.0))


def _groups(values: Sequence[float | None], columns: int) -> list[list[float]]:
    """Return the known values of neighbours: as many groups as there are columns, or one for each value."""
    number = min(columns, len(values))
    edges = [at * len(values) // number for at in range(number + 1)] if number else [0]
    return [[value for value in values[start:end] if value is not None] for start, end in pairwise(edges)]


def _drawn(values: Sequence[float | None], least: float, most: float) -> str:
    return "".join(" " if value is None else _BARS[_height(value, least, most)] for value in values)


def _height(value: float, least: float, most: float) -> int:
    span = most - least
    part = min((value - least) / span, 1.0) if 0.0 < span < math.inf and value >= least else 0.0
    return min(int(part * len(_BARS)), len(_BARS) - 1)
