"""The structure of a report before it becomes text or Markdown: sections of lines and tables."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

from telemetry.formatting import columns

GAP = "  "
NAME_COLUMNS = 20
"""Longest name that hides columns of important numbers if space is short."""
LONG_NAME_COLUMNS = 36
"""Longest name that hides less important columns if space is short."""
NICE_TO_HAVE = 7
"""Value of `keep` from which a column is less important."""


@dataclass(frozen=True)
class Column:
    """A column of a table. Columns with the highest `keep` are left out first if space is short; 0 always stays."""

    title: str
    keep: int = 0
    right: bool = True


@dataclass(frozen=True)
class Table:
    """A table of finished text. The first column names the row."""

    columns: list[Column]
    rows: list[list[str]]


@dataclass(frozen=True)
class Section:
    """A titled part of the report. It is shown only if it has lines, cautions, notes or rows."""

    title: str
    lines: list[str] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list, kw_only=True)
    """Warnings about the figures, shown between the lines and the table."""
    table: Table | None = None
    notes: list[str] = field(default_factory=list)
    """Notes below the table. A line break in a note begins a new line in text."""
    rows_shown: int = 200
    """Largest number of rows shown in text; JSON has all."""

    def __bool__(self) -> bool:
        return bool(self.lines or self.cautions or self.notes or (self.table and self.table.rows))


def cut(text: str, most: int) -> str:
    """Shorten printable text to this many columns, with `…` at its end."""
    if columns(text) <= most:
        return text
    reached = accumulate(columns(character) for character in text)
    kept = sum(so_far < most for so_far in reached)
    return f"{text[:kept]}…"


def fit(table: Table, width: int) -> Table:
    """Return the table without the columns that do not fit in `width`."""
    kept = list(range(len(table.columns)))
    taken = [0, *(len(GAP) + _cell_width(table, index) for index in kept[1:])]
    for name_columns, least in ((LONG_NAME_COLUMNS, NICE_TO_HAVE), (NAME_COLUMNS, 1)):
        name_width = _name_width(table, name_columns)
        while name_width + sum(taken[index] for index in kept) > width:
            most = max(kept[1:], key=lambda index: table.columns[index].keep, default=0)
            if table.columns[most].keep < least:
                break
            kept.remove(most)
    return Table([table.columns[index] for index in kept], [[row[index] for index in kept] for row in table.rows])


def layout(table: Table, width: int) -> list[str]:
    """Return aligned lines, header first. A name too long for its column gets a line of its own."""
    table = fit(table, width)
    others = [_cell_width(table, index) for index in range(1, len(table.columns))]
    name_width = _name_width(table, max(NAME_COLUMNS, width - sum(others) - len(GAP) * len(others)))
    widths = [name_width, *others]
    titles = [column.title for column in table.columns]
    lines = [_line(titles, table.columns, widths)]
    for row in table.rows:
        if columns(row[0]) > name_width:
            lines.append(row[0])
            row = ["", *row[1:]]  # noqa: PLW2901 – the name has been written
        lines.append(_line(row, table.columns, widths))
    return lines


def _line(cells: list[str], heads: list[Column], widths: list[int]) -> str:
    padded = []
    for index, (cell, head, width) in enumerate(zip(cells, heads, widths, strict=True)):
        space = " " * (width - columns(cell))
        padded.append(space + cell if head.right and index else cell + space)
    return GAP.join(padded).rstrip()


def _name_width(table: Table, limit: int) -> int:
    """Return the widest name within `limit`: wider names get a line of their own."""
    widths = [columns(row[0]) for row in table.rows]
    return max([columns(table.columns[0].title), *(width for width in widths if width <= limit)])


def _cell_width(table: Table, index: int) -> int:
    return max([columns(table.columns[index].title), *(columns(row[index]) for row in table.rows)])
