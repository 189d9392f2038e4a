"""Text with a tone, in lines and tables: the only input of widgets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

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
