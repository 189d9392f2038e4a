"""Sections of a report as HTML. All text is escaped here, the only place that makes elements of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from telemetry.report.html.help import question
from telemetry.report.series import BOUNDS_KEEP
from telemetry.report.sparkline import Bars, svg
from telemetry.report.table import ReportTable, Section

_ENDS_OF_WORDS: Final = re.compile(r"(?<=[_{,=/])(?=.)")


def block(
    section: Section,
    name: str = "",
    body: str = "",
    rows: int | None = None,
    *,
    scripted: bool = False,
    alone: bool = False,
) -> str:
    """Return a titled part of the page, or nothing if the section is empty; `name` is the target of links.

    `body` is HTML that replaces the section's own lines and table. A table gets at most `rows` rows.
    `alone`: for a place without the style sheet of the page.
    A `scripted` part has no content without scripts, so it is hidden until a script shows it.
    """
    if not section and not body:
        return ""
    named = f' id="{escape(name)}"' if name else ""
    named += " hidden data-scripted" if scripted else ""
    return f"<section{named}><h2>{escape(section.title)}</h2>{content(section, body, rows, alone=alone)}</section>"


def content(
    section: Section, body: str = "", rows: int | None = None, *, explained: bool = False, alone: bool = False
) -> str:
    """Return the HTML below the title. `explained` and `alone` are those of `table`."""
    cautions = "".join(f'<p class="banner warn">{escape(caution)}</p>' for caution in section.cautions)
    inner = body or _lines(section.lines) + cautions + (
        table(section.table, rows, explained=explained, alone=alone) if section.table else ""
    )
    return inner + _lines(section.notes, "soft")


def table(
    of: ReportTable,
    most: int | None = None,
    badges: Mapping[int, Sequence[str]] | None = None,
    *,
    first: int | None = None,
    explained: bool = False,
    alone: bool = False,
) -> str:
    """Return a table with a head, and cells aligned like their columns. Empty without rows.

    `badges` maps a column to the style of each of its cells: `good`, `calm`, `warn` or `bad`. Scripts show the
    `first` rows, and the others on request. An `explained` table has explanations of the terms in its first column.
    A table that stands `alone`, without the style sheet of the page, has its alignment in each cell, and lines for
    rows of bars.
    """
    if not of.rows:
        return ""
    left = [not column.right and index > 0 for index, column in enumerate(of.columns)]
    classes = [
        " ".join(["left"] * is_left + ["spare"] * column.spare)
        for is_left, column in zip(left, of.columns, strict=True)
    ]
    kinds = [f' class="{names}"' if names else "" for names in classes]
    if alone:
        sides = ["left" if is_left or not index else "right" for index, is_left in enumerate(left)]
        kinds = [f' style="text-align: {side}; white-space: nowrap; padding: 2px 8px"' for side in sides]
    heads = "".join(
        f'<th scope="col"{kind}>{escape(column.title)}</th>' for kind, column in zip(kinds, of.columns, strict=True)
    )
    lines = []
    for at, row in enumerate(of.rows[:most]):
        cells = [svg(cell) if alone and isinstance(cell, Bars) else escape(cell) for cell in row]
        cells[0] = breakable(cells[0]) + (question(row[0]) if explained else "")
        for index, looks in (badges or {}).items():
            cells[index] = f'<span class="badge {escape(looks[at])}">{cells[index]}</span>'
        lines.append(
            "<tr>" + "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, cells, strict=True)) + "</tr>"
        )
    head = f"<thead><tr>{heads}</tr></thead>" if any(column.title for column in of.columns) else ""
    shown = f' data-first="{first}"' if first else ""
    return f'<div class="scroll"><table{shown}>{head}<tbody>{"".join(lines)}</tbody></table></div>'


def without_bounds(of: ReportTable) -> ReportTable:
    """Return the table without columns of confidence bounds."""
    kept = [index for index, column in enumerate(of.columns) if column.keep <= BOUNDS_KEEP]
    return ReportTable([of.columns[index] for index in kept], [[row[index] for index in kept] for row in of.rows])


def breakable(name: str) -> str:
    """Return the HTML of a name that may be broken between its words and labels, which stay whole."""
    return _ENDS_OF_WORDS.sub("<wbr>", name)


def _lines(lines: list[str], kind: str = "") -> str:
    if not lines:
        return ""
    kinds = f' class="{kind}"' if kind else ""
    if len(lines) == 1:
        return f"<p{kinds}>{escape(lines[0])}</p>"
    return f"<ul{kinds}>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
