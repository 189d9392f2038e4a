"""Small plots of braille dots: two dots across and four down in each cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from telemetry.tui.model.grid import Cell, Line, Tone

ACROSS: Final = 2
DOWN: Final = 4
_BITS: Final = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLANK: Final = 0x2800


@dataclass(frozen=True, slots=True)
class Layer:
    """A line or a shaded band. Heights are from 0, the lower edge, to 1; one for each column of dots.

    None leaves a column empty, and the line is not drawn across it.
    """

    tone: Tone
    heights: Sequence[float | None]
    upper: Sequence[float | None] | None = None
    """Upper edge of a band, whose lower edge is `heights`."""


def dots(layers: Sequence[Layer], width: int, height: int) -> tuple[Line, ...]:
    """Draw layers above each other, the first one at the back, in `width` × `height` cells.

    A cell has one colour, so it shows the dots of the frontmost layer in it.
    """
    bits = [[0] * width for _ in range(height)]
    tones: list[list[Tone]] = [["plain"] * width for _ in range(height)]
    for layer in layers:
        drawn: dict[tuple[int, int], int] = {}
        for x, y in _places(layer, width * ACROSS, height * DOWN):
            row, column = y // DOWN, x // ACROSS
            drawn[row, column] = drawn.get((row, column), 0) | _BITS[x % ACROSS][y % DOWN]
        for (row, column), found in drawn.items():
            bits[row][column], tones[row][column] = found, layer.tone
    return tuple(_line(bits[row], tones[row]) for row in range(height))


def _places(layer: Layer, width: int, height: int) -> Iterator[tuple[int, int]]:
    """Yield the dots of a layer, counted from the upper left corner."""
    lows = [_dot(at, height) for at in layer.heights[:width]]
    if layer.upper is None:
        yield from _stroke(lows)
        return
    for x, (low, top) in enumerate(zip(lows, layer.upper, strict=False)):
        high = _dot(top, height)
        if low is not None and high is not None:
            # Every other dot: a band is lighter than the line in front of it.
            yield from ((x, y) for y in range(high, low + 1) if (x + y) % 2)


def _stroke(rows: Sequence[int | None]) -> Iterator[tuple[int, int]]:
    """Yield the dots of a line without holes: steep parts fill the rows between two columns."""
    before: int | None = None
    for x, y in enumerate(rows):
        if y is not None:
            yield x, y
            if before is not None:
                middle = (before + y) // 2
                yield from ((x - 1, at) for at in _between(before, middle))
                yield from ((x, at) for at in _between(y, middle))
        before = y


def _between(start: int, end: int) -> range:
    return range(start, end + 1) if end >= start else range(end, start + 1)


def _dot(height: float | None, rows: int) -> int | None:
    """Return the row of dots at a height."""
    if height is None or math.isnan(height):
        return None
    return rows - 1 - round(min(max(height, 0.0), 1.0) * (rows - 1))  # infinite for values near the largest float


def _line(bits: Sequence[int], tones: Sequence[Tone]) -> Line:
    cells = [(chr(_BLANK + found) if found else " ", tone) for found, tone in zip(bits, tones, strict=True)]
    return tuple(
        Cell("".join(text for text, _ in run), tone) for tone, run in groupby(cells, key=lambda cell: cell[1])
    )
