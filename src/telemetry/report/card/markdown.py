"""A card as GitHub-flavoured Markdown, with its seal in a comment."""

from __future__ import annotations

from typing import Final

from telemetry.report.card.card import Card
from telemetry.report.markdown import escape, render_section
from telemetry.report.table import ReportTable, Section, TableColumn, cut, without_empty_columns

_COLUMNS: Final = 400
"""Largest length of a fact."""


def render_markdown(card: Card, seal: str) -> str:
    """Return the card. `seal` has the lines of its seal."""
    rows = [[figure.title, figure.text, figure.bounds, figure.note] for figure in card.figures]
    heads = [
        TableColumn(card.subject),
        TableColumn("value"),
        TableColumn(f"{card.confidence} bounds"),
        TableColumn("", right=False),
    ]
    facts = [[label, cut(text, _COLUMNS)] for label, text in card.rows()]
    columns = [TableColumn(""), TableColumn("", right=False)]
    blocks = [
        f"### {escape(card.name)}",
        *(f"**{escape(cut(alarm, _COLUMNS))}**" for alarm in card.alarms),
        f"**{escape(card.headline)}**",
        *render_section(Section("", list(card.cautions))),
        *render_section(Section("", table=without_empty_columns(ReportTable(heads, rows)))),
        *render_section(Section("", table=ReportTable(columns, facts))),
        f"`sha256 {card.digest()}`",
        f"<!-- {seal}\n-->",
    ]
    return "\n\n".join(blocks) + "\n"
