"""The structure of a report before it becomes text or Markdown: sections of lines and tables."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final

from telemetry.common.formatting import NOTHING, columns

GAP = "  "
NAME_COLUMNS = 20
"""Longest name that hides columns of important numbers if space is short."""
LONG_NAME_COLUMNS = 36
"""Longest name that hides less important columns if space is short."""
NICE_TO_HAVE = 7
"""Value of `keep` from which a column is less important."""
LEAST_WRAPPED: Final = 24
"""Smallest width of a column of wrapped text."""
DOT: Final = " · "
"""Separator of facts in a line, where it is wrapped."""
_GLUED: Final = 36
"""Length below which a fact is not broken, even if it is longer than half a line."""
_GLUE: Final = "\N{NO-BREAK SPACE}"
_SECOND: Final = "\0"
"""Placeholder for the second column of a wide character; printable text does not contain it."""


@dataclass(frozen=True)
class TableColumn:
    """A column of a table. Columns with the highest `keep` are left out first if space is short; 0 always stays."""

    title: str
    keep: int = 0
    right: bool = True
    wraps: bool = False
    """True for a last column of text, which gets the rest of the line and is wrapped."""
    strong: bool = False
    """True for the figures that a reader looks for."""
    spare: bool = False
    """True for a column that pages leave out on a narrow screen."""


@dataclass(frozen=True)
class ReportTable:
    """A table of finished text. The first column names the row. Without titles it has no header."""

    columns: list[TableColumn]
    rows: list[list[str]]


def without_empty_columns(table: ReportTable) -> ReportTable:
    """Return a table without the columns in which no row says anything."""
    filled = [at for at in range(len(table.columns)) if any(row[at] not in ("", NOTHING) for row in table.rows)]
    return ReportTable([table.columns[at] for at in filled], [[row[at] for at in filled] for row in table.rows])


@dataclass(frozen=True)
class Section:
    """A titled part of the report. It is shown only if it has lines, cautions, notes or rows."""

    title: str
    """Title; empty for a part that continues the one before."""
    lines: list[str] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list, kw_only=True)
    """Warnings about the figures, shown between the lines and the table."""
    table: ReportTable | None = None
    notes: list[str] = field(default_factory=list)
    """Notes below the table. A line break in a note begins a new line in text."""
    rows_shown: int = 200
    """Largest number of rows shown in text; JSON has all."""
    continues: bool = False
    """True for a part without a title that belongs to the one above."""

    def __bool__(self) -> bool:
        return bool(self.lines or self.cautions or self.notes or (self.table and self.table.rows))


def cut(text: str, most: int) -> str:
    """Shorten printable text to this many columns, with `…` at its end."""
    if columns(text) <= most:
        return text
    reached = accumulate(columns(character) for character in text)
    kept = sum(so_far < most for so_far in reached)
    return f"{text[:kept]}…"


def fit(table: ReportTable, width: int) -> ReportTable:
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
    return ReportTable(
        [table.columns[index] for index in kept], [[row[index] for index in kept] for row in table.rows]
    )


def layout(table: ReportTable, width: int, strong: Callable[[str], str] = str) -> list[str]:
    """Return aligned lines, header first. A name too long for its column gets a line of its own.

    `strong` marks the cells of strong columns, without changing their width on the screen.
    """
    table = fit(table, width)
    others = [_cell_width(table, index) for index in range(1, len(table.columns))]
    name_width = _name_width(table, max(NAME_COLUMNS, width - sum(others) - len(GAP) * len(others)))
    widths = [name_width, *others]
    if others and table.columns[-1].wraps:
        widths[-1] = max(LEAST_WRAPPED, width - sum(widths[:-1]) - len(GAP) * len(others))
    titles = [column.title for column in table.columns]
    lines = [_line(titles, table.columns, widths, str)] if any(titles) else []
    for row in table.rows:
        if columns(row[0]) > name_width:
            lines.append(row[0])
            row = ["", *row[1:]]  # noqa: PLW2901 – the name has been written
        first, *rest = wrapped(row[-1], widths[-1]) if table.columns[-1].wraps else [row[-1]]
        lines.append(_line([*row[:-1], first], table.columns, widths, strong))
        lines += [_line([*([""] * (len(row) - 1)), part], table.columns, widths, str) for part in rest]
    return lines


def wrapped(line: str, width: int, indent: str = "", further: str = "") -> list[str]:
    """Wrap a line to `width`, between facts or words only, so that a path or a command can still be copied.

    `indent` begins the first line, `further` all others. Returns at least one line.
    """
    glued = max(width // 2, min(width - 4, _GLUED))
    facts = [fact.replace(" ", _GLUE) if len(fact) < glued else fact for fact in line.split(DOT)]
    text = DOT.join(facts).replace(" ·", _GLUE + "·")
    parts = textwrap.wrap(
        text if text.isascii() else "".join(ch + _SECOND * (columns(ch) - 1) for ch in text),
        max(width, 20),
        initial_indent=indent,
        subsequent_indent=further,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_GLUE, " ").replace(_SECOND, "") for part in parts] or [""]


def _line(cells: list[str], heads: list[TableColumn], widths: list[int], strong: Callable[[str], str]) -> str:
    padded = []
    for index, (cell, head, width) in enumerate(zip(cells, heads, widths, strict=True)):
        space = " " * (width - columns(cell))
        shown = strong(cell) if head.strong and cell else cell
        padded.append(space + shown if head.right and index else shown + space)
    return GAP.join(padded).rstrip()


def _name_width(table: ReportTable, limit: int) -> int:
    """Return the widest name within `limit`: wider names get a line of their own."""
    widths = [columns(row[0]) for row in table.rows]
    return max([columns(table.columns[0].title), *(width for width in widths if width <= limit)])


def _cell_width(table: ReportTable, index: int) -> int:
    if table.columns[index].wraps:
        return LEAST_WRAPPED
    return max([columns(table.columns[index].title), *(columns(row[index]) for row in table.rows)])
