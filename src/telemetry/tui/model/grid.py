"""Text with a tone, in lines and tables: all that widgets know of what they show."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

Tone = Literal["plain", "dim", "strong", "accent", "good", "warn", "bad"]
"""What a piece of text means; the theme says what that looks like, and without colour the words must do."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Printable text: all that came from outside has passed through `formatting.printable`."""

    text: str
    tone: Tone = "plain"


Line = tuple[Cell, ...]
"""Pieces beside each other, with nothing between them."""


@dataclass(frozen=True, slots=True)
class Column:
    key: str
    """What sorting and remembering call it; stable."""
    title: str
    right: bool = True
    keep: int = 0
    """Where the screen is narrow, columns go by descending `keep`; those with 0 stay."""


class Row:
    """One line of a grid. What stands beside its name is made when it is looked at, and once: of a long table few
    rows ever are."""

    __slots__ = ("_figures", "heading", "key", "name")

    def __init__(
        self, key: str, name: Cell, figures: Line | Callable[[], Line] = (), *, heading: bool = False
    ) -> None:
        self.key = key
        """Identity: the cursor stays on it while rows move."""
        self.name = name
        """The first cell."""
        self._figures = figures
        self.heading = heading
        """The head of a group: it can't be opened, and sums nothing up."""

    @property
    def made(self) -> bool:
        return not callable(self._figures)

    @property
    def cells(self) -> Line:
        """One for each column; of a heading the name alone."""
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
    """Said in place of rows where there are none."""
