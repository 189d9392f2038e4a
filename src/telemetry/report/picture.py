"""One small picture of a run as SVG, for notebooks: the loss over steps, or percentiles over time.

It has no script, no style sheet and no ids, and its colours can be read on light and on dark ground.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import Final, NamedTuple

from telemetry.common import formatting, wording
from telemetry.common.directions import better_of_name
from telemetry.common.formatting import printable
from telemetry.report.content import headlines
from telemetry.report.html.main_series import main_groups
from telemetry.report.html.over_time import LEAST_STEPS, identity
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report

_WIDTH: Final = 560.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 548.0, 30.0, 146.0
_HEIGHT: Final = 170
_COLORS: Final = ("#3f83d1", "#d9762b", "#2f9e6e")
_PERCENTILES: Final = ("50", "90", "99")

Spot = tuple[float, float | None]


class _Line(NamedTuple):
    name: str
    spots: Sequence[Spot]


def picture(report: Report) -> str:
    """Return the picture; empty for a run without curves of steps and without series over time."""
    flavours = [head.flavour for head in headlines(report)]
    of_steps, over_time = _loss(report), _percentiles(report)
    return (of_steps or over_time) if flavours[:1] == ["training"] else (over_time or of_steps)


def _loss(report: Report) -> str:
    """Draw the first curve whose values get better downwards, or the first curve."""
    curves = [curve for curve in report.curves if len(curve.steps) >= LEAST_STEPS]
    if not curves:
        return ""
    curve: StepCurve = min(curves, key=lambda candidate: better_of_name(candidate.name) != "lower")
    line = _Line("", [(float(step), value) for step, value in zip(curve.steps, curve.values, strict=False)])
    ends = (f"step {formatting.count(curve.steps[0])}", formatting.count(curve.steps[-1]))
    return _drawn(printable(curve.name), [line], "", ends)


def _percentiles(report: Report) -> str:
    over = {identity(series): series for series in report.over_time if len(series.points) >= LEAST_STEPS}
    group = next((candidate for candidate in main_groups(report) if identity(candidate.main) in over), None)
    if group is None:
        return ""
    series = over[identity(group.main)]
    lines = [
        _Line(
            f"p{key}", [((point.start_s + point.end_s) / 2, point.percentiles.get(key)) for point in series.points]
        )
        for key in _PERCENTILES
    ]
    ends = [formatting.duration_s(at) for at in (series.points[0].start_s, series.points[-1].end_s)]
    return _drawn(wording.instrument(series.name, series.labels), lines, series.unit, (ends[0], ends[1]))


def _drawn(title: str, lines: Sequence[_Line], unit: str, ends: tuple[str, str]) -> str:
    spots = [(x, y) for line in lines for x, y in line.spots if y is not None and math.isfinite(y)]
    if not spots:
        return ""
    xs, ys = [x for x, _ in spots], [y for _, y in spots]
    low, high = min(*ys, 0.0), max(*ys, 0.0) or 1.0
    first, wide = min(xs), (max(xs) - min(xs)) or 1.0
    parts = [_text(0, 14, title, bold=True)]
    for at, value in ((_TOP, high), ((_TOP + _BOTTOM) / 2, low / 2 + high / 2), (_BOTTOM, low)):
        parts.append(
            f'<line x1="{_LEFT:.0f}" x2="{_RIGHT:.0f}" y1="{at:.0f}" y2="{at:.0f}" '
            'stroke="currentColor" stroke-opacity="0.2"/>'
        )
        parts.append(_text(_LEFT - 8, at + 4, formatting.quantity(value, unit), anchor="end"))
    parts += [_text(_LEFT, _BOTTOM + 18, ends[0]), _text(_RIGHT, _BOTTOM + 18, ends[1], anchor="end")]
    for at, line in enumerate(lines):
        color = _COLORS[at % len(_COLORS)]
        for part in _parts(line.spots):
            points = " ".join(
                f"{_LEFT + (x - first) / wide * (_RIGHT - _LEFT):.1f},"
                f"{_BOTTOM - (y / 2 - low / 2) / (high / 2 - low / 2) * (_BOTTOM - _TOP):.1f}"
                for x, y in part
            )
            parts.append(f'<polyline points="{points}" fill="none" stroke="{color}" stroke-width="1.75"/>')
        if line.name:
            parts.append(_text(_RIGHT - 40 * (len(lines) - 1 - at), 14, line.name, anchor="end", color=color))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT}" width="{_WIDTH:.0f}" '
        f'height="{_HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _parts(spots: Sequence[Spot]) -> Iterator[list[tuple[float, float]]]:
    """Yield neighbours that have values, so that gaps stay."""
    part: list[tuple[float, float]] = []
    for x, y in spots:
        if y is not None and math.isfinite(y):
            part.append((x, y))
        elif part:
            yield part
            part = []
    if part:
        yield part


def _text(x: float, y: float, text: str, *, anchor: str = "start", bold: bool = False, color: str = "") -> str:
    weight = ' font-weight="600"' if bold else ""
    return (
        f'<text x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}" font-size="12" font-family="sans-serif"{weight} '
        f'fill="{color or "currentColor"}">{escape(text)}</text>'
    )
