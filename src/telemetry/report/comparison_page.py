"""A comparison as one HTML file: the verdict, all figures, percentile curves, and both sides over time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from statistics import median
from typing import Any, Final, NamedTuple

from telemetry.common import formatting, wording
from telemetry.common.formatting import number_of, printable
from telemetry.judge.compare import (
    VERDICT_WORDS,
    Comparison,
    Curve,
    MetricResult,
    Overlay,
    OverlayLine,
    SideRun,
    Verdict,
    largest,
)
from telemetry.report import comparison as compared
from telemetry.report.html import curves, page
from telemetry.report.html.data import column, embedded
from telemetry.report.html.help import question
from telemetry.report.html.page import asset
from telemetry.report.html.sections import block, breakable, content, table
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.wire.requests import LATENCY

_MARKS: Final[dict[Verdict, tuple[str, str]]] = {
    "worse": ("bad", "✕"),
    "better": ("good", "✓"),
    "changed": ("warn", "≠"),
    "differs": ("warn", "≠"),
    "cannot_tell": ("warn", "?"),
    "not_shown": ("calm", "≈"),
    "same": ("calm", "="),
    "left_out": ("calm", "–"),
}
_TILES: Final[dict[Verdict, str]] = {"worse": "bad-tile", "better": "good-tile"}
_FIRST: Final = 12
"""Rows of a table above the charts: those with the largest differences. The others follow on request."""
_CURVES_SHOWN: Final = 100
"""Charts on the page: those of figures that differ come first."""


def comparison_html(comparison: Comparison) -> str:
    """A whole document, as `page` makes it: one file, nothing from elsewhere."""
    kind, mark = _MARKS[comparison.verdict]
    word, headline = VERDICT_WORDS[comparison.verdict], compared.headline(comparison)
    counted = comparison.headline().removeprefix(f"{word}: ")
    lead = "" if headline == comparison.headline() else f"<strong>{escape(printable(headline))}</strong><br>"
    text = (
        f"<small>{escape(comparison.headline())}</small>"
        if lead
        else f"<strong>{escape(word)}</strong> · {escape(counted)}"
    )
    head = (
        f"<h1>{escape(compared.title(comparison))}</h1>"
        f'<p class="banner {kind}" id="verdict"><span aria-hidden="true">{mark}</span> {lead}{text}</p>'
        f"{_concerns(comparison)}{_largest(comparison)}"
    )
    lines = [*compared.outside_line(comparison), *compared.settings_line(comparison)]
    differ = "".join(f"<p>{escape(line)}</p>" for line in lines)
    facts = "".join(f'<p class="soft">{escape(fact)}</p>' for fact in compared.comparison_facts(comparison))
    notes = block(Section("Notes", [printable(note) for note in comparison.notes]), "notes")
    body = "\n".join((head, differ, facts, notes, *_sections(comparison)))
    code = script() if comparison.overlays else ""
    return page(f"{compared.title(comparison)} – telemetry comparison", body, code)


def _sections(comparison: Comparison) -> Iterator[str]:
    judged = [metric for metric in comparison.metrics if metric.verdict not in ("cannot_tell", "left_out")]
    figures = [metric for metric in judged if metric.before_within is None]
    yield block(Section("Figures", notes=list(compared.reasons(figures))), "figures", _figures(figures))
    for number, (heading, metrics) in enumerate(compared.two_runs(comparison), 1):
        name = f"information-{number}" if number > 1 else "information"
        yield block(Section(heading), name, table(compared.information(metrics), first=_FIRST))
    for section, name, body in overlay_sections(comparison):
        yield block(section, name, body)
    yield _folded(comparison)
    yield block(compared.left_out(comparison), "left-out")
    yield block(Section("Percentiles"), "curves", _charts(comparison))
    yield block(Section("Runs"), "runs", _runs(comparison))


def _folded(comparison: Comparison) -> str:
    """Return the figures that can't be told, behind a line that names the largest differences."""
    untold = [metric for metric in comparison.metrics if metric.verdict == "cannot_tell"]
    parts = [content(section, explained=True) for section in compared.obstacles_of(untold) if section]
    if not parts:
        return ""
    summary = "; ".join(
        [f"{number_of(len(untold), 'figure')} that can't be told", *compared.largest_untold(comparison)]
    )
    body = f"<details><summary>{escape(summary)}</summary>{''.join(parts)}</details>"
    return block(Section("Cannot tell", ["…"]), "untold", body)


def _concerns(comparison: Comparison) -> str:
    """Return the banner of values that were not finite."""
    lines = "<br>".join(escape(printable(line)) for line in comparison.concerns)
    mark = '<span aria-hidden="true">!</span>'
    return f'<p class="banner warn" id="concerns">{mark} {lines}</p>' if lines else ""


def _largest(comparison: Comparison) -> str:
    """Return tiles with the largest differences, coloured by the verdict on each."""
    tiles = []
    for metric in largest(comparison):
        name = compared.figure_name(metric)
        kind = f" {_TILES[metric.verdict]}" if metric.verdict in _TILES else ""
        tiles.append(
            f'<div class="tile{kind}"><dt><bdi>{escape(name)}</bdi>{question(name)}</dt>'
            f'<dd class="figure">{escape(compared.change(metric))}</dd>'
            f'<dd class="note">{escape(compared.amount(metric, metric.before))} → '
            f"{escape(compared.amount(metric, metric.after))}</dd></div>"
        )
    if not tiles:
        return ""
    return f'<p class="subject">Largest differences</p><dl class="tiles">{"".join(tiles)}</dl>'


def _figures(metrics: Sequence[MetricResult]) -> str:
    """Table of all figures with an interval; figures that differ come first."""
    if not metrics:
        return ""
    noisy = any(metric.noise for metric in metrics)
    titles = [
        ("figure", ""),
        ("verdict", ' class="left"'),
        ("before", ""),
        ("after", ""),
        ("difference", ""),
        ("interval", ""),
        *([("noise", "")] if noisy else []),
    ]
    heads = "".join(f'<th scope="col"{kind}>{title}</th>' for title, kind in titles)
    rows = "".join(_row(metric, noisy=noisy) for metric in metrics)
    head = f"<thead><tr>{heads}</tr></thead>"
    return f'<div class="scroll"><table data-first="{_FIRST}">{head}<tbody>{rows}</tbody></table></div>'


def _row(metric: MetricResult, *, noisy: bool) -> str:
    kind, mark = _MARKS[metric.verdict]
    cells = [
        compared.amount(metric, metric.before),
        compared.amount(metric, metric.after),
        compared.change(metric),
        compared.interval(metric),
    ]
    if noisy:
        cells.append(str(metric.noise or ""))
    badge = f'<span class="badge {kind}">{mark}&nbsp;{escape(VERDICT_WORDS[metric.verdict])}</span>'
    numbers = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    name = breakable(escape(compared.figure_name(metric)))
    return f'<tr><th scope="row">{name}</th><td class="left">{badge}</td>{numbers}</tr>'


def _charts(comparison: Comparison) -> str:
    differ = {
        (metric.name, tuple(sorted(metric.labels.items())))
        for metric in comparison.metrics
        if metric.of == "series" and metric.verdict in ("worse", "better", "changed", "differs")
    }
    ordered = sorted(
        comparison.curves, key=lambda curve: (curve.name, tuple(sorted(curve.labels.items()))) not in differ
    )
    charts = [_chart(curve, comparison) for curve in ordered[:_CURVES_SHOWN]]
    hidden = len(ordered) - len(charts)
    left = number_of(hidden, "more series is", "more series are")
    more = f'<p class="soft">{left} in the JSON form.</p>' if hidden else ""
    return "".join(charts) + more


def _chart(curve: Curve, comparison: Comparison) -> str:
    lines = [
        (_side("before", comparison.before), curve.before),
        (_side("after", comparison.after), curve.after),
    ]
    return curves(wording.instrument(curve.name, curve.labels), lines, curve.unit)


def _side(side: str, runs: Sequence[SideRun]) -> str:
    return side if len(runs) == 1 else f"{side}, median of {len(runs):,} runs"


def _runs(comparison: Comparison) -> str:
    heads = [
        TableColumn("run"),
        TableColumn("side", right=False),
        TableColumn("name", right=False),
        TableColumn("started", right=False),
        TableColumn("took"),
        TableColumn("result", right=False),
    ]
    rows = [
        [
            printable(run.run_id),
            side,
            printable(run.name),
            formatting.timestamp(run.started_ns) if run.started_ns else formatting.NOTHING,
            formatting.duration_s(run.seconds),
            _result(run),
        ]
        for side, runs in (("before", comparison.before), ("after", comparison.after))
        for run in runs
    ]
    return table(ReportTable(heads, rows))


def _result(run: SideRun) -> str:
    if run.signal:
        return printable(f"{run.completeness}, ended by {run.signal}")
    return run.completeness if run.exit_code in (0, None) else f"{run.completeness}, exit code {run.exit_code}"


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
        charts = f'<div class="charts">{"".join(map(_overlay_chart, times))}</div>'
        yield Section("Over time", [note] if note else []), "over-time", charts


def _about(comparison: Comparison) -> str:
    sizes = [len(lines) for overlay in comparison.overlays for _, lines in _by_side(overlay)]
    most = max(sizes, default=0)
    if most < 2:
        return ""
    several = f"Each line is the median of the runs of a side, of at most {most} of them."
    all_shown = most >= max(len(comparison.before), len(comparison.after))
    return several if all_shown else f"{several} They are the newest."


def _overlay_chart(overlay: Overlay) -> str:
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
