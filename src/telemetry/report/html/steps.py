"""Steps on a page: the axes, and below them the newest values of each."""

from __future__ import annotations

from html import escape

from telemetry.report.html.sections import content
from telemetry.report.steps import TITLE, steps
from telemetry.report.table import Section
from telemetry.wire.report import Report


def steps_section(report: Report) -> tuple[Section, str]:
    """Return all steps as one section of the page, and its HTML; empty for a run without steps."""
    axes, *values = (section for section in steps(report) if section) if report.snapshot.axes else (Section(TITLE),)
    blocks = [content(axes)] if axes else []
    for section in values:
        blocks.append(f"<h3>{escape(section.title.removeprefix(f'{TITLE}: '))}</h3>{content(section)}")
    return Section(TITLE, ["…"] if blocks else []), "".join(blocks)
