"""A card as SVG, 600 pixels wide, in light and dark colours. It has no script, no link and no font of its own."""

from __future__ import annotations

from html import escape
from typing import Final

from telemetry.common.formatting import without_middle
from telemetry.report.card.card import Card, CardFigure
from telemetry.report.table import cut, wrapped

_WIDTH: Final = 600
_MARGIN: Final = 28
_VALUE_X: Final = 124
_NAME_COLUMNS: Final = 46
_VERDICT_COLUMNS: Final = 64
_FACT_COLUMNS: Final = 64
_CELL_COLUMNS: Final = 30
_WIDE_CELL_COLUMNS: Final = 42
_LARGE_COLUMNS: Final = 13
"""Length of a figure from which it is set smaller."""
_CAUTIONS: Final = 4
_SANS: Final = (
    "ui-sans-serif,-apple-system,'Segoe UI',Roboto,'Helvetica Neue','Noto Sans','Liberation Sans',Arial,sans-serif"
)
_MONO: Final = "ui-monospace,'SF Mono',Menlo,Consolas,'Liberation Mono',monospace"
_COLORS: Final = {
    "ground": ("#ffffff", "#12161c"),
    "line": ("#dfe3e8", "#303947"),
    "text": ("#1c2430", "#e4e9f0"),
    "soft": ("#56606f", "#a9b4c2"),
    "good": ("#14713a", "#6fd08f"),
    "warn": ("#8a4b00", "#f0b95a"),
    "bad": ("#b3261e", "#ff8f86"),
    "good-ground": ("#e6f5ea", "#14291c"),
    "warn-ground": ("#fdf1dc", "#2d2412"),
    "bad-ground": ("#fdeae8", "#351a19"),
}
"""Class of an element → its colour in light and in dark mode: those of the report page."""


def _style() -> str:
    light, dark = ("".join(f".{name}{{fill:{pair[at]}}}" for name, pair in _COLORS.items()) for at in (0, 1))
    edges = [f".edge{{stroke:{color}}}" for color in _COLORS["line"]]
    return (
        f"text{{font-family:{_SANS};font-size:12px;font-variant-numeric:tabular-nums;white-space:pre}}"
        f".name{{font-size:21px;font-weight:650}}.verdict{{font-size:13.5px;font-weight:600}}"
        f".title{{font-size:12px}}.value{{font-size:24px;font-weight:650}}.long{{font-size:17px}}"
        f".small{{font-size:11px}}.digest{{font-family:{_MONO};font-size:10.5px}}"
        f"{light}{edges[0]}@media (prefers-color-scheme:dark){{{dark}{edges[1]}}}"
    )


class _Page:
    """The elements of a card from top to bottom, one to a line. `y` is the end of the last one."""

    def __init__(self) -> None:
        self.elements: list[str] = []
        self.y = 0

    def text(self, x: int, y: int, text: str, classes: str) -> None:
        self.elements.append(f'<text x="{x}" y="{y}" class="{classes}">{escape(text)}</text>')

    def rule(self) -> None:
        y = self.y + 8
        self.elements.append(
            f'<rect x="{_MARGIN}" y="{y}" width="{_WIDTH - 2 * _MARGIN}" height="1" class="line"/>'
        )
        self.y = y + 8


def render_svg(card: Card, seal: str) -> str:
    """Return the card. `seal` has the lines of its seal."""
    page = _Page()
    page.text(_MARGIN, 46, cut(card.name, _NAME_COLUMNS), "name text")
    page.y = 60
    _verdict(page, card)
    _figures(page, card)
    page.rule()
    for label, text in card.rows():
        for number, line in enumerate(_lines(text, _FACT_COLUMNS, 2)):
            if not number:
                page.text(_MARGIN, page.y + 14, label, "soft")
            page.text(_VALUE_X, page.y + 14, line, "digest text" if label.endswith("sha256") else "text")
            page.y += 17
        page.y += 3
    page.rule()
    page.text(_MARGIN, page.y + 12, f"sha256 {card.digest()}", "digest soft")
    height = page.y + 30
    described = [f"{figure.title} {figure.text}" for figure in card.figures]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
            f'height="{height}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{escape(cut(card.name, _NAME_COLUMNS))}: {escape(card.completeness)}</title>',
            f'<desc id="desc">{escape("; ".join([card.headline, *described]))}</desc>',
            f"<style>{_style()}</style>",
            f'<rect x="0.5" y="0.5" width="{_WIDTH - 1}" height="{height - 1}" rx="10" class="ground edge"/>',
            *page.elements,
            f"<metadata>{seal}",
            "</metadata>",
            "</svg>",
            "",
        ]
    )


def _verdict(page: _Page, card: Card) -> None:
    """Draw alarms and the first line of the report on a coloured ground, and below it what did not go well."""
    lines = [cut(alarm, _VERDICT_COLUMNS) for alarm in card.alarms[:_CAUTIONS]]
    lines += _lines(card.headline, _VERDICT_COLUMNS, 3)
    height = 18 * len(lines) + 14
    page.elements.append(
        f'<rect x="{_MARGIN}" y="{page.y}" width="{_WIDTH - 2 * _MARGIN}" height="{height}" rx="6" '
        f'class="{card.tone}-ground"/>'
    )
    page.elements.append(
        f'<rect x="{_MARGIN}" y="{page.y}" width="4" height="{height}" rx="2" class="{card.tone}"/>'
    )
    for number, line in enumerate(lines):
        page.text(_MARGIN + 16, page.y + 21 + 18 * number, line, f"verdict {card.tone}")
    page.y += height + 6
    shown = card.cautions[:_CAUTIONS]
    if len(shown) < len(card.cautions):
        shown = [*shown[:-1], f"{len(card.cautions) - _CAUTIONS + 1:,} more: see the report"]
    for caution in shown:
        page.text(_MARGIN + 16, page.y + 13, cut(caution, _VERDICT_COLUMNS), "warn")
        page.y += 18
    page.y += 8


def _figures(page: _Page, card: Card) -> None:
    """Draw the figures as a grid: each with its bounds and its note below."""
    if card.figures and card.subject not in ("", card.name, card.figures[0].title):
        page.text(_MARGIN, page.y + 14, cut(card.subject, _FACT_COLUMNS), "soft")
        page.y += 26
    columns = 2 if len(card.figures) in (2, 4) else 3
    width = (_WIDTH - 2 * _MARGIN) // columns
    for first in range(0, len(card.figures), columns):
        row = card.figures[first : first + columns]
        below = [_below(figure, card, _WIDE_CELL_COLUMNS if columns == 2 else _CELL_COLUMNS) for figure in row]
        for number, (figure, lines) in enumerate(zip(row, below, strict=True)):
            x = _MARGIN + number * width
            title = figure.title.removeprefix(f"{card.subject} ")
            tone = figure.health if figure.health in _COLORS else "text"
            size = "value long" if len(figure.text) > _LARGE_COLUMNS else "value"
            page.text(x, page.y + 12, without_middle(title, _CELL_COLUMNS - 4), "title soft")
            page.text(x, page.y + 38, cut(figure.text, _CELL_COLUMNS - 9), f"{size} {tone}")
            for at, line in enumerate(lines):
                page.text(x, page.y + 55 + 15 * at, line, "small soft")
        page.y += 44 + 15 * max(map(len, below)) + 18


def _below(figure: CardFigure, card: Card, columns: int) -> list[str]:
    bounds = [cut(f"{card.confidence} bounds {figure.bounds}", columns)] if figure.bounds else []
    return [*bounds, *(_lines(figure.note, columns, 2) if figure.note else [])]


def _lines(text: str, columns: int, most: int) -> list[str]:
    """Wrap text to at most `most` lines. Longer text, and a longer word, end with `…`."""
    lines = wrapped(text, columns)
    if len(lines) > most:
        lines = [*lines[: most - 1], " ".join(lines[most - 1 :])]
    return [cut(line, columns) for line in lines]
