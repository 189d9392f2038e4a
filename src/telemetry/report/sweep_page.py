"""A sweep as one HTML file: the conclusion first, then curves over throughput or a parameter, then all figures."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final

from telemetry.common import formatting
from telemetry.common.formatting import printable
from telemetry.judge.sweeps import model
from telemetry.judge.sweeps.build import describe
from telemetry.judge.sweeps.figures import GOODPUT, TOKENS
from telemetry.judge.sweeps.model import VERDICT_WORDS, PointRun, Sweep, SweepPoint, Verdict
from telemetry.judge.sweeps.params import told, value_text
from telemetry.judge.sweeps.points import is_number
from telemetry.judge.sweeps.verdicts import ended, has_failed
from telemetry.report import sweep as said
from telemetry.report.html.data import embedded, rounded
from telemetry.report.html.page import asset, page
from telemetry.report.html.sections import block, table
from telemetry.report.table import ReportTable, Section, TableColumn

_LOOKS: Final[dict[Verdict, tuple[str, str]]] = {
    "pass": ("good", "✓"),
    "fail": ("warn", "✕"),
    "inconclusive": ("warn", "?"),
    "failed": ("bad", "✕"),
    "incomplete": ("warn", "!"),
    "none": ("calm", "–"),
}
_PERCENTILE: Final = re.compile(r"(?P<base>.+)[_ ]p(?P<key>50|99)")
_MOST_CHARTS: Final = 12

_Line = tuple[str, list[SweepPoint]]


def sweep_html(sweep: Sweep) -> str:
    """Return a whole document, as `page` makes it: one file, nothing from elsewhere."""
    kind, mark = _LOOKS[said.verdict_of(sweep)]
    sign = f'<span aria-hidden="true">{mark}</span> ' if sweep.judged else ""
    title = f"{sweep.name or 'runs'} by {', '.join(sweep.by)}"
    head = (
        f"<h1><bdi>{escape(printable(title))}</bdi></h1>"
        f'<p class="banner {kind}" id="verdict">{sign}{escape(_sentence(said.conclusion(sweep)))}</p>'
    )
    facts = "".join(f'<p class="soft">{escape(fact)}</p>' for fact in said.facts(sweep))
    charts = list(_charts(sweep))[:_MOST_CHARTS]
    legend = f'<p class="soft">{escape(_legend(sweep))}</p>'
    drawn = f'{legend}<div class="charts">{"".join(charts)}</div>' if charts else ""
    body = "\n".join(
        (
            head,
            facts,
            block(Section("Curves"), "curves", drawn),
            block(Section("Points", notes=list(said.reasons(sweep))), "points", _points(sweep)),
            block(Section("Runs"), "runs", table(_runs(sweep))),
        )
    )
    return page(f"{title} – telemetry sweep", body, asset("sweep.js"))


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _legend(sweep: Sweep) -> str:
    parts = [f"Each point is labelled with {printable(sweep.by[0])}." if sweep.throughput else ""]
    if sweep.judged:
        parts.append("Filled points pass, hollow ones do not.")
    if sweep.knee is not None:
        parts.append("A ring marks the knee.")
    if any(len(point.runs) > 1 for point in sweep.points):
        parts.append("Bars reach from the smallest to the largest value of the runs of a point.")
    return " ".join(part for part in parts if part)


# --- curves --------------------------------------------------------------------------------------


def _charts(sweep: Sweep) -> Iterator[str]:
    """Yield curves over throughput, then figures by the parameter; without throughput only the latter."""
    columns = {column.key: column for column in sweep.columns}
    throughput = columns.get(sweep.throughput)
    if throughput is None:
        for column in sweep.columns:
            if not column.detail:
                yield _by_parameter(sweep, column)
        return
    families: dict[str, dict[str, model.SweepColumn]] = {}
    for column in sweep.columns:
        match = _PERCENTILE.fullmatch(column.key)
        if match is not None and not column.detail:
            families.setdefault(match["base"], {})[match["key"]] = column
    by_base = sorted(families.items(), key=lambda item: "latency" not in item[0])
    for index, (_, family) in enumerate(by_base):
        yield _over_throughput(sweep, throughput, [family[key] for key in ("99", "50") if key in family])
        if index == 0 and GOODPUT in columns:
            yield _over_throughput(sweep, throughput, [columns[GOODPUT]], diagonal=True)
    yield _by_parameter(sweep, throughput)
    if TOKENS in columns:
        yield _by_parameter(sweep, columns[TOKENS])


def _over_throughput(
    sweep: Sweep, throughput: model.SweepColumn, columns: Sequence[model.SweepColumn], *, diagonal: bool = False
) -> str:
    lines = _lines(sweep)
    shown = columns if len(lines) == 1 else columns[:1]
    drawn = [
        {
            "name": printable(name if len(lines) > 1 else column.title),
            "points": [
                _spot(sweep, point, throughput, column) for point in points if _has(point, throughput, column)
            ],
        }
        for name, points in lines
        for column in shown
    ]
    what = columns[0].title if len(shown) == 1 else columns[0].title.rpartition(" ")[0]
    data: dict[str, Any] = {"x": _axis(throughput), "y": _axis(columns[0]), "lines": drawn, "what": sweep.by[0]}
    if diagonal:
        data["diagonal"] = "every request is good"
    return _figure(f"{what} over throughput", data)


def _by_parameter(sweep: Sweep, column: model.SweepColumn) -> str:
    axis = sweep.by[0]
    values = list(dict.fromkeys(value_text(point.params.get(axis)) for point in sweep.points))
    numeric = all(is_number(point.params.get(axis)) for point in sweep.points)
    lines = _lines(sweep)
    drawn = []
    for name, points in lines:
        spots = []
        for point in points:
            if _has(point, column):
                own = point.params.get(axis)
                position = float(own) if numeric and is_number(own) else float(values.index(value_text(own)))
                spots.append({**_spot(sweep, point, column, column), "x": [position, None, None]})
        drawn.append({"name": printable(name if len(lines) > 1 else column.title), "points": spots})
    ticks = {value_text(point.params.get(axis)): point.params.get(axis) for point in sweep.points}
    places = [
        [float(value) if numeric and is_number(value) else float(values.index(text)), printable(text)]
        for text, value in ticks.items()
    ]
    data = {
        "x": {"title": printable(axis), "unit": "", "ticks": sorted(places), "numeric": numeric},
        "y": _axis(column),
        "lines": drawn,
        "what": axis,
        "unlabelled": True,
    }
    return _figure(f"{column.title} by {axis}", data)


def _lines(sweep: Sweep) -> list[_Line]:
    """Return the points of each line: those with the same values of all parameters but the first."""
    lines: dict[str, list[SweepPoint]] = {}
    for point in sweep.points:
        rest = {name: point.params.get(name) for name in sweep.by[1:]}
        lines.setdefault(told(rest), []).append(point)
    return list(lines.items())


def _has(point: SweepPoint, *columns: model.SweepColumn) -> bool:
    return all(point.value(column.key) is not None for column in columns)


def _spot(sweep: Sweep, point: SweepPoint, x: model.SweepColumn, y: model.SweepColumn) -> dict[str, Any]:
    spot: dict[str, Any] = {
        "label": printable(value_text(point.params.get(sweep.by[0]))),
        "name": describe(point),
        "x": _range(point, x),
        "y": _range(point, y),
    }
    if sweep.judged and point.verdict != "pass":
        spot["hollow"] = True
        spot["verdict"] = VERDICT_WORDS[point.verdict]
    if sweep.knee is not None and point.params == sweep.knee.params:
        spot["knee"] = True
    return spot


def _range(point: SweepPoint, column: model.SweepColumn) -> list[float | None]:
    reading = point.figures[column.key]
    return [rounded(reading.value), rounded(reading.low), rounded(reading.high)]


def _axis(column: model.SweepColumn) -> dict[str, str]:
    unit = "" if column.unit in ("1/s", "share") else column.unit
    return {"title": printable(column.title), "unit": printable(unit)}


def _figure(title: str, data: dict[str, Any]) -> str:
    caption = escape(printable(f"{title[:1].upper()}{title[1:]}"))
    return f'<figure class="chart scatter" hidden><figcaption>{caption}</figcaption>{embedded(data)}</figure>'


# --- tables --------------------------------------------------------------------------------------


def _points(sweep: Sweep) -> str:
    grid = said.points_table(sweep)
    titles = [column.title for column in grid.columns]
    if said.VERDICT not in titles[len(sweep.by) :]:
        return table(grid)
    index = titles.index(said.VERDICT, len(sweep.by))
    return table(grid, badges={index: [_LOOKS[point.verdict][0] for point in sweep.points]})


def _runs(sweep: Sweep) -> ReportTable:
    heads = [
        TableColumn("run"),
        *(TableColumn(printable(name)) for name in [*sweep.by[1:], *sweep.by[:1]]),
        TableColumn("started"),
        TableColumn("took"),
        TableColumn("result", right=False),
    ]
    rows = [
        [
            printable(run.run_id),
            *(printable(value_text(point.params.get(name))) for name in [*sweep.by[1:], *sweep.by[:1]]),
            formatting.timestamp(run.started_ns) if run.started_ns else formatting.NOTHING,
            formatting.duration_s(run.seconds),
            _result(run),
        ]
        for point in sweep.points
        for run in point.runs
    ]
    return ReportTable(heads, rows)


def _result(run: PointRun) -> str:
    return f"{run.completeness}, {ended(run)}" if has_failed(run) else run.completeness
