"""Tests that docs/DASHBOARDS.md has the dashboards there are.

It has their panels and questions, the alerts and the stored queries.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from telemetry.stack.layout import DASHBOARDS, RULES

TEXT = (Path(__file__).parents[2] / "docs" / "DASHBOARDS.md").read_text()


def rows(text: str, first_header: str) -> list[list[str]]:
    """Cells of the table whose header line begins so, without the header."""
    table = text[text.index(f"| {first_header} |") :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table[2:]]


@pytest.mark.parametrize("path", sorted(DASHBOARDS.glob("*.json")), ids=lambda path: path.stem)
def test_each_panel_has_its_question(path: Path) -> None:
    """Each panel has its question, in the order of the dashboard."""
    dashboard = json.loads(path.read_text())
    title = dashboard["title"].removeprefix("telemetry / ")
    written = rows(TEXT[TEXT.index(f"### {title}\n") :], "panel")
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    assert [[panel.strip("`"), question] for panel, question in written] == [
        [panel["title"], panel["description"]] for panel in panels
    ]


def test_alerts_and_stored_queries_are_those_there_are() -> None:
    """The page lists the alerts with their severity, and the stored queries."""
    queries, alerts = (group["rules"] for group in yaml.safe_load(RULES.read_text())["groups"])
    written = [(name.strip("`"), severity) for name, severity, _ in rows(TEXT, "alert")]
    assert written == [(alert["alert"], alert["labels"]["severity"]) for alert in alerts]
    assert [row[0].strip("`") for row in rows(TEXT, "record")] == [query["record"] for query in queries]
