"""The report as GitHub-flavoured Markdown, for a pull request or a notebook."""

from __future__ import annotations

from typing import Final

from telemetry.report.content import content
from telemetry.report.table import ReportTable, Section
from telemetry.wire.gates import worst
from telemetry.wire.report import Report

_SPECIAL: Final = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>|~#"})


def render_markdown(report: Report, *, steps: bool = False, full: bool = False) -> str:
    """Return Markdown that ends with a newline. Tables have all columns and rows.

    `full` adds what is usually left out, such as each series over time; `steps` adds only that.
    """
    body = content(report, full=full, over_time="each" if full or steps else "none")
    head = [body.headline, body.gates] if worst(report.gates) == "pass" else [body.gates, body.headline]
    blocks = [f"**{escape(line)}**" for line in (*body.alarms, *filter(None, head), *body.concerns)]
    blocks += [escape(body.went_well)] if body.went_well else []
    blocks += [escape(fact) for fact in body.facts]
    for section in body.sections:
        if section.title:
            blocks.append(f"### {escape(section.title)}")
        elif not section.continues:  # no list: it would continue the one above
            blocks.append("  \n".join(map(escape, section.lines)))
            continue
        blocks += render_section(section)
    return "\n\n".join(blocks) + "\n"


def escape(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return text.translate(_SPECIAL)


def render_section(section: Section) -> list[str]:
    """Return the blocks under a section's title."""
    lines = [*section.lines, *section.cautions]
    blocks = [_bullets(lines)] if lines else []
    if section.table and section.table.rows:
        blocks.append(_table(section.table))
    return blocks + ([_bullets(section.notes)] if section.notes else [])


def _bullets(lines: list[str]) -> str:
    return "\n".join("- " + "\n  ".join(map(escape, line.split("\n"))) for line in lines)


def _table(table: ReportTable) -> str:
    rules = ["---:" if column.right and index else "---" for index, column in enumerate(table.columns)]
    rows = [[column.title for column in table.columns], *table.rows]
    head, *body = ["| " + " | ".join(escape(cell) for cell in row) + " |" for row in rows]
    return "\n".join([head, "| " + " | ".join(rules) + " |", *body])
