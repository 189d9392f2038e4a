"""The section of a report about slow ranks."""

from __future__ import annotations

from typing import Final

from telemetry.history.stragglers import sentences
from telemetry.report.table import Section
from telemetry.wire.report import Report

TITLE: Final = "Stragglers"


def stragglers(report: Report) -> Section:
    """Return a line for each cause, or the line that no rank is named; empty without steps of work and wait."""
    lines = [line for analysis in report.stragglers for line in sentences(analysis)]
    notes = (
        ["cost: how much sooner a step would end if the ranks of this cause worked like their peers"]
        if any(analysis.slow for analysis in report.stragglers)
        else []
    )
    return Section(TITLE, lines, notes=notes)
