"""The report as text for a terminal or a log."""

from __future__ import annotations

from typing import Final

from telemetry.report.content import Content, content
from telemetry.report.table import ReportTable, Section, layout, wrapped
from telemetry.wire.gates import worst
from telemetry.wire.report import Report

INDENT: Final = "  "
_RESET: Final = "\x1b[0m"
_BOLD: Final = "\x1b[1m"
_DIM: Final = "\x1b[2m"
_RED: Final = "\x1b[1;31m"
_YELLOW: Final = "\x1b[1;33m"
_GREEN: Final = "\x1b[1;32m"
_COLORS: Final = {
    "complete": _GREEN,
    "lossy": _YELLOW,
    "incomplete": _YELLOW,
    "interrupted": _RED,
    "live": _GREEN,
}
_OF_GATES: Final = {"pass": _GREEN, "fail": _RED, "inconclusive": _YELLOW}


def render_text(
    report: Report, width: int = 100, color: bool = False, *, steps: bool = False, full: bool = False
) -> str:
    """Return lines that end with a newline. The first is the report's headline, or what failed.

    Tables leave out columns that do not fit in `width`; cells are never cut. `full` adds what is usually left out.
    With `steps`, figures over time are a table of steps.
    """
    body = content(report, full=full, over_time="busiest" if steps else "courses" if full else "none")
    lines = list(_head(report, body, width, color))
    for section in body.sections:
        if section.title:
            lines += ["", _painted(section.title, _BOLD, color)]
        elif not section.continues:  # notes about the run, for which the figures are over
            notes = [part for line in section.lines for part in wrapped(line, width, "", INDENT)]
            lines += ["", *(_painted(line, _DIM, color) for line in notes)]
            continue
        lines += [line.rstrip() for line in render_section(section, width, color=color)]
    return "\n".join(lines) + "\n"


def render_section(section: Section, width: int, *, color: bool = False) -> list[str]:
    """Return the indented lines under a section's title."""
    lines = [part for line in (*section.lines, *section.cautions) for part in _indented(line, width)]
    if section.table and section.table.rows:
        shown = ReportTable(section.table.columns, section.table.rows[: section.rows_shown])
        lines += [INDENT + line for line in layout(shown, width - len(INDENT), _bold if color else str)]
        if hidden := len(section.table.rows) - len(shown.rows):
            lines.append(f"{INDENT}… and {hidden:,} more in the JSON form")
    return lines + [part for note in section.notes for line in note.split("\n") for part in _indented(line, width)]


def _head(report: Report, body: Content, width: int, color: bool) -> list[str]:
    lines = [_painted(line, _RED, color) for alarm in body.alarms for line in wrapped(alarm, width, "", INDENT)]
    outcome = worst(report.gates)
    is_well = not body.alarms and not body.concerns and outcome == "pass"  # complete, and still something failed
    headline = _painted(body.headline, _COLORS.get(report.verdict, _BOLD) if is_well else _BOLD, color)
    gates = [
        _painted(line, _OF_GATES[outcome], color) for line in wrapped(body.gates, width, "", INDENT) if body.gates
    ]
    lines += [headline, *gates] if outcome == "pass" else [*gates, headline]
    lines += [
        _painted(line, _YELLOW, color) for concern in body.concerns for line in wrapped(concern, width, "", INDENT)
    ]
    lines += [_painted(body.went_well, _GREEN, color)] if body.went_well else []
    for fact in body.facts:
        lines += wrapped(fact, width, "", INDENT)
    return lines


def _indented(line: str, width: int) -> list[str]:
    return wrapped(line, width, INDENT, INDENT + INDENT)


def _bold(text: str) -> str:
    return _painted(text, _BOLD, True)


def _painted(text: str, code: str, color: bool) -> str:
    return f"{code}{text}{_RESET}" if color else text
