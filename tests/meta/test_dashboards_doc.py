"""docs/DASHBOARDS.md = the dashboards with their panels and questions, the alerts and the stored queries."""

from __future__ import annotations

from pathlib import Path

import pytest

from telemetry.stack import rules
from telemetry.stack.dashboards import DASHBOARDS
from telemetry.stack.dashboards.model import Dashboard

TEXT = (Path(__file__).parents[2] / "docs" / "DASHBOARDS.md").read_text()


def rows(text: str, first_header: str) -> list[list[str]]:
    """Cells of the table whose header line begins so, without the header."""
    table = text[text.index(f"| {first_header} |") :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda one: one.name)
def test_each_panel_has_its_question(dashboard: Dashboard) -> None:
    """In the order of the dashboard."""
    title = dashboard.title.removeprefix("telemetry / ")
    found = rows(TEXT[TEXT.index(f"### {title}\n") :], "panel")
    found = [[panel.strip("`"), question] for panel, question in found]
    assert found == [[panel.title, panel.question] for panel in dashboard.panels]


def test_alerts_and_stored_queries_are_those_there_are() -> None:
    """With their severity."""
    alerts = [(name.strip("`"), severity) for name, severity, _ in rows(TEXT, "alert")]
    assert alerts == [(one.name, one.severity) for one in rules.ALERTS]
    assert [row[0].strip("`") for row in rows(TEXT, "record")] == [one.record for one in rules.RECORDINGS]
