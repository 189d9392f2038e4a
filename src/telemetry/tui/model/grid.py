"""Text with a tone, in lines and tables: the only input of widgets."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from telemetry.common.formatting import columns

Tone = Literal["plain", "dim", "strong", "accent", "good", "warn", "bad"]
"""Meaning of a piece of text. The theme assigns colours; without colours the words must be enough."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of printable text. Text from outside must pass through `formatting.printable` first."""

    text: str
    tone: Tone = "plain"


Line = tuple[Cell, ...]
"""Pieces beside each other, without space between them."""


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    """Stable name for sorting, and for remembering the selection."""
    title: str
    right: bool = True
    keep: int = 0
    """Priority in a narrow table: columns with the highest `keep` are left out first; 0 always stays."""


class Row:
    """A line of a grid.

    The cells beside its name are computed once, on first access: few rows of a long table are shown.
    """

    __slots__ = ("_figures", "heading", "key", "name")

    def __init__(
        self, key: str, name: Cell, figures: Line | Callable[[], Line] = (), *, heading: bool = False
    ) -> None:
        self.key = key
        """Identity of the row: the cursor stays on it while rows move."""
        self.name = name
        """The first cell."""
        self._figures = figures
        self.heading = heading
        """True for the head of a group: it can't be opened and has no sums."""

    @property
    def made(self) -> bool:
        return not callable(self._figures)

    @property
    def cells(self) -> Line:
        """Cells, one per column; a heading has its name only."""
        if callable(self._figures):
            self._figures = self._figures()
        return (self.name, *self._figures)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Row):
            return NotImplemented
        return (self.key, self.heading, self.cells) == (other.key, other.heading, other.cells)

    def __hash__(self) -> int:
        return hash((self.key, self.heading, self.cells))

    def __repr__(self) -> str:
        return f"Row({self.key!r}, {self.cells!r}, heading={self.heading})"


@dataclass(frozen=True, slots=True)
class Grid:
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    sorted_by: str = ""
    """Key of a column."""
    descending: bool = True
    empty: str = ""
    """Text shown if there are no rows."""
    about: str = ""
    """What the figures are of, such as a time range: the cells of another one are compared with nothing."""


BETWEEN: Final = Cell(" · ", "dim")
_NARROWEST: Final = 8
"""Smallest width in columns for wrapped text."""


class Piece(NamedTuple):
    """A text that may be left out if space is short: the highest `keep` first, 0 never."""

    text: str
    tone: Tone = "plain"
    keep: int = 0


def width_of(line: Line) -> int:
    return sum(columns(cell.text) for cell in line)


def elided(text: str, width: int) -> str:
    """Shorten text to `width` columns, with `…` in place of the rest."""
    if columns(text) <= width:
        return text
    room, kept = width - 1, ""
    for char in text:
        room -= columns(char)
        if room < 0:
            break
        kept += char
    return f"{kept}…" if width > 0 else ""


def cut(line: Line, width: int) -> Line:
    """Shorten a line to `width` columns."""
    kept: list[Cell] = []
    for cell in line:
        text = elided(cell.text, width)
        if text:
            kept.append(Cell(text, cell.tone))
        width -= columns(cell.text)
    return tuple(kept)


def fitted(pieces: Sequence[Piece], width: int) -> Line:
    """Join the pieces that fit, with dots between them."""
    kept = [piece for piece in pieces if piece.text]
    while kept and taken(kept) > width:
        last = max(kept, key=lambda piece: piece.keep)
        if not last.keep:
            break
        kept.remove(last)
    line: list[Cell] = []
    for piece in kept:
        line += [BETWEEN] if line else []
        line.append(Cell(piece.text, piece.tone))
    return cut(tuple(line), width)


def taken(pieces: Sequence[Piece]) -> int:
    """Return the columns of these pieces with dots between them."""
    return sum(columns(piece.text) + len(BETWEEN.text) for piece in pieces) - len(BETWEEN.text)


def wrapped(text: str, tone: Tone, width: int) -> list[Line]:
    """Wrap text to as many lines as needed. Indents all lines but the first."""
    lines = textwrap.wrap(text, max(width, _NARROWEST), subsequent_indent="  ")
    return [cut((Cell(line, tone),), width) for line in lines]


def apart(left: Line, right: Line, width: int) -> Line:
    """Put one line at the left edge and one at the right. Drops the right one if both do not fit."""
    room = width - width_of(left) - width_of(right)
    return (*left, Cell(" " * room), *right) if room > 1 else cut(left, width)
