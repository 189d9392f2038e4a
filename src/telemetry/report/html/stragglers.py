"""Slow ranks on a page: a line for each cause, and a heat map of rank and step, or of group and step."""

from __future__ import annotations

from html import escape
from typing import Final

from telemetry.common import formatting
from telemetry.common.formatting import printable
from telemetry.history.stragglers import heat, scale
from telemetry.report.html.sections import content
from telemetry.report.stragglers import stragglers
from telemetry.report.table import Section
from telemetry.wire.report import LagFold, LagMap, Report, Stragglers

_WIDTH: Final = 1_000
_NAMES: Final = 130
"""Width of the names of the rows."""
_TALLEST: Final = 18
_ROWS_HEIGHT: Final = 640
"""Largest height of all rows."""
_FOOT: Final = 22
_NAMED_FROM: Final = 11
"""Height of a row from which each has its name; of lower ones every third."""
_CHARS: Final = 18


def stragglers_section(report: Report) -> tuple[Section, str]:
    """Return the section and its HTML; empty for a run without work and wait."""
    section = stragglers(report)
    maps = "".join(
        _maps(analysis, f"fold-{number}")
        for number, analysis in enumerate(report.stragglers)
        if analysis.map.lags and analysis.map.steps
    )
    return section, f"{content(Section(section.title, section.lines))}{maps}" if maps else ""


def _maps(analysis: Stragglers, name: str) -> str:
    """Return the map by rank, and those by group behind a choice that needs no script."""
    lags = analysis.map
    choices = [("rank", lags), *((fold.dimension, _folded(lags, fold)) for fold in lags.folds)]
    most = scale(lags)
    strongest = formatting.percent(most)
    axis = printable(analysis.axis)
    title = f"how much longer each rank works than the median rank, by {axis}; strongest colour: {strongest}"
    heading = f"<h3>{escape(title)} of a step</h3>"
    if len(choices) == 1:
        return heading + _map(axis, lags, title, most)
    parts = "".join(
        f'<input type="radio" class="fold" name="{name}" id="{name}-{at}"{"" if at else " checked"}>'
        f'<label for="{name}-{at}">{escape(printable(dimension))}</label>'
        f"{_map(axis, shown, title, most)}"
        for at, (dimension, shown) in enumerate(choices)
    )
    return f'{heading}<div class="folds">{parts}</div>'


def _folded(lags: LagMap, fold: LagFold) -> LagMap:
    return LagMap(ranks=fold.ranks, steps=lags.steps, last_step=lags.last_step, lags=fold.lags)


def _map(axis: str, lags: LagMap, title: str, most: float) -> str:
    columns, rows = len(lags.steps), len(lags.lags)
    width, height = (_WIDTH - _NAMES) / columns, min(_TALLEST, _ROWS_HEIGHT / rows)
    cells = "".join(
        _cell(lags, row, column, (_NAMES + column * width, row * height, width, height), most)
        for row in range(rows)
        for column in range(columns)
    )
    every = 1 if height >= _NAMED_FROM else 3
    names = "".join(
        f'<text x="{_NAMES - 8}" y="{(row + 0.5) * height:.1f}" class="heat-row">{escape(_short(name))}</text>'
        for row, name in enumerate(lags.ranks)
        if row % every == 0
    )
    bottom = rows * height
    ends = (
        f'<text x="{_NAMES}" y="{bottom + 16:.1f}">{escape(axis)} {lags.steps[0]:,}</text>'
        f'<text x="{_WIDTH}" y="{bottom + 16:.1f}" class="heat-row">{lags.last_step:,}</text>'
    )
    frame = f'<rect x="{_NAMES}" y="0" width="{_WIDTH - _NAMES}" height="{bottom:.1f}" class="heat-frame"/>'
    return (
        f'<div class="scroll"><svg class="heat" viewBox="0 0 {_WIDTH} {bottom + _FOOT:.1f}" role="img" '
        f'aria-label="{escape(title)}">{frame}{cells}{names}{ends}</svg></div>'
    )


def _cell(lags: LagMap, row: int, column: int, rectangle: tuple[float, float, float, float], most: float) -> str:
    lag = lags.lags[row][column]
    x, y, width, height = (f"{each:.1f}" for each in rectangle)
    box = f'x="{x}" y="{y}" width="{width}" height="{height}"'
    if lag is None:
        return f'<rect {box} class="heat-absent"/>'
    shade = heat(lag, most)
    if shade < 0.05:
        return ""
    tooltip = f"{lags.ranks[row]}, from {lags.steps[column]:,}: {formatting.percent(lag)}"
    return f'<rect {box} class="heat-late" fill-opacity="{shade:.2f}"><title>{escape(tooltip)}</title></rect>'


def _short(name: str) -> str:
    return name if len(name) <= _CHARS else f"{name[: _CHARS - 1]}…"
