"""Figures over time as a short row of bars for text, and as a small line for HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from telemetry.common.formatting import differ

_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH: Final = 120
_HEIGHT: Final = 22
_MARGIN: Final = 2
_COLOR: Final = "#3f83d1"
"""A colour that can be read on light and on dark ground."""


class Bars(str):
    """A row of bars that remembers its heights, from 0 to 1, so that HTML can draw a line instead."""

    __slots__ = ("heights",)
    heights: Sequence[float | None]


def bars(values: Sequence[float | None], columns: int) -> Bars:
    """Return bars from zero, for times and rates. Neighbours that share a bar show the highest."""
    highest = [max(own) if own else None for own in _groups(values, columns)]
    most = max((value for value in highest if value is not None), default=0.0)
    return _drawn(highest, 0.0, most)


def curve(values: Sequence[float | None], columns: int) -> Bars:
    """Return bars from the lowest to the highest value. Neighbours that share a bar show their mean.

    Values that differ only by rounding are flat.
    """
    means = [sum(own) / len(own) if own else None for own in _groups(values, columns)]
    finite = [value for value in means if value is not None and math.isfinite(value)]
    least, most = min(finite, default=0.0), max(finite, default=0.0)
    return _drawn(means, least, most if differ(least, most) else least)


def svg(of: Bars) -> str:
    """Return bars as a line in SVG. A value between two gaps is a dot."""
    step = (_WIDTH - 2 * _MARGIN) / max(1, len(of.heights) - 1)
    spots = [
        None
        if height is None
        else (f"{_MARGIN + at * step:.1f}", f"{_HEIGHT - _MARGIN - height * (_HEIGHT - 2 * _MARGIN):.1f}")
        for at, height in enumerate(of.heights)
    ]
    shapes, part = [], list[tuple[str, str]]()
    for spot in [*spots, None]:
        if spot is not None:
            part.append(spot)
        elif len(part) == 1:
            shapes.append(f'<circle cx="{part[0][0]}" cy="{part[0][1]}" r="1.5" fill="{_COLOR}"/>')
            part = []
        elif part:
            points = " ".join(f"{x},{y}" for x, y in part)
            shapes.append(f'<polyline points="{points}" fill="none" stroke="{_COLOR}" stroke-width="1.5"/>')
            part = []
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" '
        f'height="{_HEIGHT}" role="img" aria-label="{of}">{"".join(shapes)}</svg>'
    )


def _groups(values: Sequence[float | None], columns: int) -> list[list[float]]:
    """Return the known values of neighbours: as many groups as there are columns, or one for each value."""
    number = min(columns, len(values))
    edges = [at * len(values) // number for at in range(number + 1)] if number else [0]
    return [[value for value in values[start:end] if value is not None] for start, end in pairwise(edges)]


def _drawn(values: Sequence[float | None], least: float, most: float) -> Bars:
    heights = [None if value is None else _height(value, least, most) for value in values]
    drawing = Bars(
        "".join(
            " " if height is None else _BARS[min(int(height * len(_BARS)), len(_BARS) - 1)] for height in heights
        )
    )
    drawing.heights = heights
    return drawing


def _height(value: float, least: float, most: float) -> float:
    """Return the height of a value from 0 to 1."""
    span = most - least
    return min((value - least) / span, 1.0) if 0.0 < span < math.inf and value >= least else 0.0
