"""The report as text for a terminal or a log."""

from __future__ import annotations

import textwrap
from typing import Final

from telemetry.formatting import columns
from telemetry.report.content import content
from telemetry.report.table import Section, Table, layout
from telemetry.wire.report import Report

INDENT: Final = "  "
_DOT: Final = " · "
_GLUE: Final = "\N{NO-BREAK SPACE}"
_SECOND: Final = "\0"
"""Placeholder for the second column of a wide character; printable text does not contain it."""
_RESET: Final = "\x1b[0m"
_BOLD: Final = "\x1b[1m"
_COLORS: Final = {
    "complete": "\x1b[1;32m",
    "lossy": "\x1b[1;33m",
    "incomplete": "\x1b[1;33m",
    "interrupted": "\x1b[1;31m",
    "live": "\x1b[1;32m",
}


def render_text(report: Report, width: int = 100, color: bool = False, *, steps: bool = False) -> str:
    """Return lines that end with a newline. The first is the report's headline.

    Tables leave out columns that do not fit in `width`; cells are never cut. With `steps`, figures over time are a
    table of steps instead of one line per series.
    """
    said = content(report, "busiest" if steps else "courses")
    lines = [_painted(said.headline, _COLORS.get(report.verdict, _BOLD), color)]
    for fact in said.facts:
        lines += _wrapped(fact, width)
    for section in said.sections:
        lines += ["", _painted(section.title, _BOLD, color)]
        lines += [line.rstrip() for line in render_section(section, width)]
    return "\n".join(lines) + "\n"


def render_section(section: Section, width: int) -> list[str]:
    """Return the indented lines under a section's title."""
    lines = [part for line in (*section.lines, *section.cautions) for part in _wrapped(line, width, INDENT)]
    if section.table and section.table.rows:
        shown = Table(section.table.columns, section.table.rows[: section.rows_shown])
        lines += [INDENT + line for line in layout(shown, width - len(INDENT))]
        if hidden := len(section.table.rows) - len(shown.rows):
            lines.append(f"{INDENT}… and {hidden:,} more in the JSON form")
    return lines + [
        part for note in section.notes for line in note.split("\n") for part in _wrapped(line, width, INDENT)
    ]


def _wrapped(line: str, width: int, indent: str = "") -> list[str]:
    """Wrap a line to `width`, between facts or words only, so that a path or a command can still be copied."""
    facts = [fact.replace(" ", _GLUE) if len(fact) < width // 2 else fact for fact in line.split(_DOT)]
    text = _DOT.join(facts).replace(" ·", _GLUE + "·")
    wrapped = textwrap.wrap(
        text if text.isascii() else "".join(ch + _SECOND * (columns(ch) - 1) for ch in text),
        max(width, 20),
        initial_indent=indent,
        subsequent_indent=indent + INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [part.replace(_GLUE, " ").replace(_SECOND, "") for part in wrapped]


def _painted(text: str, code: str, color: bool) -> str:
    return f"{code}{text}{_RESET}" if color else text
