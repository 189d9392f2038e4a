"""Text with tones → strips of an exact width.

Widths are computed by rich: the compositor cuts strips by them, and other widths would shift columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from telemetry.common.formatting import MORE, without_middle
from telemetry.tui.model.grid import Cell, Line
from telemetry.tui.theme import Tones

MOST_ROWS: Final = 20
"""Largest number of rows for one line. Without a limit, a line of megabytes would fill the whole view."""


# Names repeat with every frame; more of them than this don't fit on any screen.
@lru_cache(maxsize=4096)
def fitted(text: str, width: int, *, right: bool = False) -> str:
    """Fit text to exactly `width` columns. Long text loses its middle: names often differ at the end only."""
    text = without_middle(text, width, cell_len)
    blank = " " * (width - cell_len(text))
    return blank + text if right else text + blank


def line_strip(line: Line, width: int, tones: Tones) -> Strip:
    """Return the line, padded or cut at its end."""
    segments = [Segment(cell.text, tones[cell.tone]) for cell in line if cell.text]
    return Strip(segments).adjust_cell_length(width, tones["plain"])


def blank_strip(width: int, style: Style) -> Strip:
    return Strip([Segment(" " * width, style)], width)


def wrapped(line: Line, width: int) -> tuple[Line, ...]:
    """Break a line into at most MOST_ROWS rows of at most `width` columns, at spaces if possible."""
    text = "".join(cell.text for cell in line)
    if cell_len(text) <= width or width < 1:
        return (line,)
    breaks = list(islice(_breaks(text, width), MOST_ROWS))
    rows = [_slice(line, start, end) for start, end in breaks]
    start, end = breaks[-1]
    if end < len(text.rstrip()):
        end -= 1
        while end > start and cell_len(text[start:end]) >= width:  # the character before may have had no width
            end -= 1
        rows[-1] = (*_slice(line, start, end), Cell(MORE, "dim"))
    return tuple(rows)


def _breaks(text: str, width: int) -> Iterator[tuple[int, int]]:
    start, used, space = 0, 0, -1
    for at, character in enumerate(text):
        taken = cell_len(character)
        if used + taken > width and at > start:
            end = space if space > start else at
            if character == " ":
                end = at
            yield start, end
            start = end + (text[end] == " ")
            used = cell_len(text[start:at])
            space = -1
            if start > at:
                continue
        used += taken
        if character == " ":
            space = at
    if start < len(text):
        yield start, len(text)


def _slice(line: Line, start: int, end: int) -> Line:
    cells: list[Cell] = []
    at = 0
    for cell in line:
        piece = cell.text[max(0, start - at) : max(0, end - at)]
        if piece:
            cells.append(Cell(piece, cell.tone))
        at += len(cell.text)
    return tuple(cells)
