"""The result of `telemetry ab` as one HTML file: the verdict, the interval of each figure, and all pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final

from telemetry.common import formatting
from telemetry.common.formatting import printable
from telemetry.judge.ab.model import SIDES, AbFigure, AbResult, FigureVerdict, Verdict
from telemetry.report import ab
from telemetry.report.html.data import embedded, rounded
from telemetry.report.html.page import asset, page
from telemetry.report.html.sections import block, table
from telemetry.report.table import ReportTable, Section, TableColumn, cut

_LOOKS: Final[dict[Verdict, tuple[str, str]]] = {
    "worse": ("bad", "✕"),
    "better": ("good", "✓"),
    "changed": ("warn", "!"),
    "same": ("calm", "="),
    "cannot_tell": ("warn", "?"),
}
_FOREST: Final = "Interval of the difference of each figure; the dotted lines bound differences that don't matter"
_MOST_CHARTS: Final = 12
_WIDTH: Final = 720
_LEFT: Final = 190
_RIGHT: Final = 200
_TICKS_APART: Final = 0.15
"""Share of the width from which the tick of an end does not cover that of 0."""
_ROW: Final = 26
_NAME_COLUMNS: Final = 26


def ab_html(result: AbResult) -> str:
    """Return a whole document, as `page` makes it: one file, nothing from elsewhere."""
    kind, mark = _LOOKS["same" if result.settings.same and result.verdict == "cannot_tell" else result.verdict]
    title = " and ".join(dict.fromkeys(result.settings.labels))
    head = (
        f"<h1><bdi>{escape(printable(title))}</bdi></h1>"
        f'<p class="banner {kind}" id="verdict"><span aria-hidden="true">{mark}</span> '
        f"{escape(printable(ab.conclusion(result)))}.</p>"
    )
    facts = "".join(f'<p class="soft">{escape(printable(fact))}</p>' for fact in ab.facts(result))
    figures = f"{_forest(result)}{_figures(result)}" if result.figures else ""
    notes = [printable(note) for note in ab.notes(result)]
    charts = "".join(list(_charts(result))[:_MOST_CHARTS])
    body = "\n".join(
        (
            head,
            facts,
            block(Section("Figures", notes=notes), "figures", figures),
            block(Section("Pairs"), "pairs", f'<div class="charts">{charts}</div>' if charts else ""),
            block(Section("Void pairs"), "void", table(_void(result))),
        )
    )
    return page(f"{title} – telemetry ab", body, asset("sweep.js"))


def _figures(result: AbResult) -> str:
    grid = ab.figures_table(result)
    verdicts = {state.figure: state.verdict for state in result.verdicts}
    looks = [_LOOKS[verdicts[figure.name]][0] for figure in ab.ordered(result)]
    return table(grid, badges={len(grid.columns) - 1: looks})


def _forest(result: AbResult) -> str:
    return f'<div class="plot" id="forest">{forest(result)}</div><p class="soft">{escape(_FOREST)}.</p>'


def forest(result: AbResult) -> str:
    """Return an SVG element with the interval of each figure as a bar."""
    states = {state.figure: state for state in result.verdicts}
    rows = [states[figure.name] for figure in ab.ordered(result)]
    least = result.settings.min_effect
    ends = [value for row in rows for value in (row.low, row.high, row.difference) if value is not None]
    low, high = min([-least, *ends]), max([least, *ends, 0.001])
    length = _WIDTH - _LEFT - _RIGHT

    def at(value: float) -> str:
        return f"{_LEFT + (value - low) / (high - low) * length:.1f}"

    bottom = _ROW * len(rows) + 8
    parts = [f'<line class="axis" x1="{at(0)}" x2="{at(0)}" y1="0" y2="{bottom}"/>']
    parts += [f'<path class="mark" d="M{at(end)} 0V{bottom}"/>' for end in (-least, least) if least]
    for number, row in enumerate(rows):
        left, right = low if row.low is None else row.low, high if row.high is None else row.high
        parts += _bar(row, number * _ROW + _ROW // 2, [at(left), at(right), at(row.difference or 0)])
    parts += [
        f'<text class="tick" text-anchor="middle" x="{at(value)}" y="{bottom + 14}">'
        f"{escape(formatting.signed_percent(float(f'{value:.2g}')))}</text>"
        for value in (low, 0.0, high)
        if value == 0.0 or abs(value) >= _TICKS_APART * (high - low)
    ]
    return (
        f'<svg viewBox="0 0 {_WIDTH} {bottom + 20}" width="{_WIDTH}" role="img" '
        f'aria-label="{escape(_FOREST)}">{"".join(parts)}</svg>'
    )


def _bar(row: FigureVerdict, y: int, ends: Sequence[str]) -> Iterator[str]:
    low, high, middle = ends
    tone = f"{_LOOKS[row.verdict][0]}-key"
    name = escape(cut(printable(row.figure), _NAME_COLUMNS))
    yield f'<text class="tick" x="0" y="{y + 4}">{name}</text>'
    if row.difference is None:
        return
    yield f'<line class="error-bar {tone}" x1="{low}" x2="{high}" y1="{y}" y2="{y}"/>'
    yield f'<circle class="spot {tone}" cx="{middle}" cy="{y}" r="4.5"/>'
    numbers = f"{formatting.signed_percent(row.difference)} ({ab.interval(row)})"
    yield f'<text class="tick" text-anchor="end" x="{_WIDTH}" y="{y + 4}">{escape(numbers)}</text>'


def _charts(result: AbResult) -> Iterator[str]:
    """Yield a chart of both sides over the pairs for each figure."""
    for figure in ab.ordered(result):
        lines = [{"name": side, "points": list(_points(result, figure, side))} for side in SIDES]
        if any(line["points"] for line in lines):
            name = printable(figure.name)
            unit = printable(figure.unit)
            data: dict[str, Any] = {
                "x": {"title": "pair", "unit": ""},
                "y": {"title": name, "unit": "" if unit == "1" else unit},
                "lines": lines,
                "what": "pair",
                "unlabelled": True,
            }
            caption = f"<figcaption>{escape(name)} over the pairs</figcaption>"
            yield f'<figure class="chart scatter" hidden>{caption}{embedded(data)}</figure>'


def _points(result: AbResult, figure: AbFigure, side: str) -> Iterator[dict[str, Any]]:
    for number, pair in enumerate(result.pairs, 1):
        value = (pair.before if side == "before" else pair.after).values.get(figure.name)
        if value is not None and not pair.void:
            point = [rounded(value), None, None]
            yield {"label": str(number), "name": f"pair {number}", "x": [number, None, None], "y": point}


def _void(result: AbResult) -> ReportTable:
    rows = [[str(number), printable(pair.void)] for number, pair in enumerate(result.pairs, 1) if pair.void]
    return ReportTable([TableColumn("pair"), TableColumn("reason", right=False)], rows)
