"""Text with a tone, in lines and tables: all that widgets know of what they show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Tone = Literal["plain", "dim", "strong", "accent", "good", "warn", "bad"]
"""What a piece of text means; the theme says what that looks like, and without colour the words must do."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Printable text: all that came from outside has passed through `humane.printable`."""

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


@dataclass(frozen=True, slots=True)
class Row:
    key: str
    """Identity: the cursor stays on it while rows move."""
    cells: Line
    """One for each column."""
    heading: bool = False
    """The head of a group: it can't be opened, and sums nothing up."""


@dataclass(frozen=True, slots=True)
class Grid:
    columns: tuple[Column, ...] = ()
    rows: tuple[Row, ...] = ()
    sorted_by: str = ""
    """Key of a column."""
    descending: bool = True
    empty: str = ""
    """Said in place of rows where there are none."""
