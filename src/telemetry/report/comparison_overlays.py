"""Both sides of a comparison over time and over steps, for its page."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from statistics import median
from typing import Any, Final, NamedTuple

from telemetry.common import formatting, wording
from telemetry.common.formatting import printable
from telemetry.judge.compare import Comparison, MetricResult, Overlay, OverlayLine
from telemetry.report.html.data import embedded
from telemetry.report.html.help import question
from telemetry.report.html.numbers import column
from telemetry.report.html.page import asset
from telemetry.report.html.sections import table
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.wire.requests import LATENCY

SCRIPTS: Final = ("grid.js", "comparison.js")
_SIDES: Final = ("before", "after")
_Key = tuple[str, str]
"""Name and axis of a value of steps."""


class _Merged(NamedTuple):
    """The runs of one side as one line: medians over the runs, and extremes if there are several."""

    starts: list[float]
    ends: list[float]
    values: list[float | None]
    low: list[float | None]
    high: list[float | None]


def script() -> str:
    """Return the code that the sections need."""
    return "\n".join(map(asset, SCRIPTS))


def overlay_sections(comparison: Comparison) -> Iterator[tuple[Section, str, str]]:
    """Yield sections with their name on the page and their HTML; none without overlays."""
    steps = [overlay for overlay in comparison.overlays if overlay.of == "steps"]
    times = [overlay for overlay in comparison.overlays if overlay.of != "steps"]
    note = _about(comparison)
    if steps:
        axes = dict.fromkeys(overlay.labels.get("axis", "") for overlay in steps)
        last = {
            _key(metric): metric
            for metric in comparison.metrics
            if metric.of == "steps" and metric.statistic == "last"
        }
        grids = [
            _grid(axis, [overlay for overlay in steps if overlay.labels.get("axis", "") == axis], last)
            for axis in axes
        ]
        yield Section("Steps", [note] if note else []), "steps", "".join(grids)
    if times:
        charts = f'<div class="charts">{"".join(map(_chart, times))}</div>'
        yield Section("Over time", [note] if note else []), "over-time", charts


def _about(comparison: Comparison) -> str:
    sizes = [len(lines) for overlay in comparison.overlays for _, lines in _by_side(overlay)]
    most = max(sizes, default=0)
    if most < 2:
        return ""
    several = f"Each line is the median of the runs of a side, of at most {most} of them."
    all_shown = most >= max(len(comparison.before), len(comparison.after))
    return several if all_shown else f"{several} They are the newest."


def _chart(overlay: Overlay) -> str:
    rate = overlay.statistic == "rate"
    unit = "" if rate else overlay.unit
    title = (
        _rate_title(overlay) if rate else f"{wording.instrument(overlay.name, overlay.labels)} {overlay.statistic}"
    )
    merged = {side: _merged(lines) for side, lines in _by_side(overlay) if lines}
    lines = [
        {"name": side, "start": _edges(of.starts), "end": _edges(of.ends), "values": column(of.values)}
        for side, of in merged.items()
    ]
    first = next(iter(merged.values()))
    log = {"log": False} if rate else {}
    data = {"unit": printable(unit), "start": first.starts, "end": first.ends, "lines": lines, **log}
    return (
        f'<figure class="chart over-time"><figcaption>{escape(printable(title))}{question(title)}</figcaption>'
        f"{embedded(data)}"
        f"<details open><summary>Figures</summary>{_table(merged, unit, rate=rate)}</details></figure>"
    )


def _rate_title(overlay: Overlay) -> str:
    kind, _, word = overlay.name.rpartition(".")
    if kind and word == LATENCY:
        return f"{wording.instrument(kind, overlay.labels)} requests per second"
    return f"{wording.instrument(overlay.name, overlay.labels)} per second"


def _edges(values: Sequence[float]) -> list[float]:
    """Return edges of time steps, short enough for a page."""
    return [round(value, 3) for value in values]


def _table(merged: dict[str, _Merged], unit: str, *, rate: bool) -> str:
    heads = [TableColumn("side", right=False), TableColumn("lowest"), TableColumn("median"), TableColumn("highest")]
    rows = []
    for side, of in merged.items():
        values = [value for value in of.values if value is not None]
        ends = (min(values), median(values), max(values)) if values else (None, None, None)
        shown = [formatting.rate(end) if rate else formatting.quantity(end, unit) for end in ends]
        rows.append([side, *shown])
    return table(ReportTable(heads, rows))


def _grid(axis: str, overlays: Sequence[Overlay], last: Mapping[_Key, MetricResult]) -> str:
    items = [_item(overlay, last.get(_key(overlay))) for overlay in overlays]
    data = {"items": items, "axis": "step", "smoothing": True, "what": "values", "band": "run"}
    title = f"<h3><bdi>{escape(printable(axis))}</bdi></h3>"
    return f'{title}<div class="overlay-grid step-grid"></div>{embedded(data)}'


def _item(overlay: Overlay, last: MetricResult | None) -> dict[str, Any]:
    merged = {side: _merged(lines) for side, lines in _by_side(overlay) if lines}
    steps = sorted({end for of in merged.values() for end in of.ends})
    lines = []
    for side, of in merged.items():
        line: dict[str, Any] = {"name": side, "values": column(_at(of.ends, of.values, steps))}
        if of.low != of.high:
            line |= {"low": column(_at(of.ends, of.low, steps)), "high": column(_at(of.ends, of.high, steps))}
        lines.append(line)
    facts = []
    if last is not None and last.before is not None and last.after is not None:
        facts = [("last", f"{formatting.scaled(last.before)} → {formatting.scaled(last.after)}\u2002")]
    item: dict[str, Any] = {"name": printable(overlay.name), "unit": "", "x": steps, "lines": lines, "facts": facts}
    ranges = [_range_at(step, merged.values()) for step in steps]
    return item | {"means": True, "ranges": ranges} if any(start < end for start, end in ranges) else item


def _range_at(step: float, sides: Iterable[_Merged]) -> tuple[int, int]:
    """Return the first and the last step of the points of all sides that hold a step."""
    pairs = [(of, bisect_left(of.ends, step)) for of in sides]
    held = [(of.starts[index], of.ends[index]) for of, index in pairs if index < len(of.ends)]
    return int(min(start for start, _ in held)), int(max(end for _, end in held))


def _key(item: Overlay | MetricResult) -> _Key:
    return item.name, item.labels.get("axis", "")


def _by_side(overlay: Overlay) -> Iterator[tuple[str, list[OverlayLine]]]:
    for after, side in enumerate(_SIDES):
        yield side, [line for line in overlay.lines if line.after == bool(after) and line.ends]


def _merged(lines: Sequence[OverlayLine]) -> _Merged:
    """Merge the runs of a side at the points of the longest one."""
    longest = max(lines, key=lambda line: len(line.ends))
    columns = [line.values if line is longest else _at(line.ends, line.values, longest.ends) for line in lines]
    rows = [[value for value in row if value is not None] for row in zip(*columns, strict=True)]
    return _Merged(
        longest.starts,
        longest.ends,
        [median(row) if row else None for row in rows],
        [min(row, default=None) for row in rows],
        [max(row, default=None) for row in rows],
    )


def _at(ends: Sequence[float], values: Sequence[float | None], wanted: Sequence[float]) -> list[float | None]:
    """Return the value of the point that holds each wanted place; None beyond the last point."""
    places = [bisect_left(ends, position) for position in wanted]
    return [values[index] if index < len(ends) else None for index in places]
