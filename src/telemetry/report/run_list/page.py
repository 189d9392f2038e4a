"""The page of a list of runs: a table to sort, filter and choose from, and charts of the chosen runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final, Literal

from telemetry.common import formatting
from telemetry.common.formatting import number_of, printable
from telemetry.history.headlines import Figure
from telemetry.report.html.data import embedded
from telemetry.report.html.numbers import column, rounded
from telemetry.report.html.page import asset, page
from telemetry.report.html.sections import table
from telemetry.report.run_list.details import RunCurve, RunDetails
from telemetry.report.table import DOT, ReportTable, TableColumn
from telemetry.wire.collectors import is_of_surroundings
from telemetry.wire.events import Scalar

SCRIPTS: Final = ("grid.js", "run_list.js")
_TEXT: Final = 60
"""Largest number of characters of a parameter."""
_STEP_DIGITS: Final = 9
_FIGURES: Final = 8
"""Largest number of figures of a run."""

Health = Literal["good", "calm", "warn", "bad"]


@dataclass(frozen=True, kw_only=True)
class ListedRun:
    """A row of the list."""

    name: str
    run_id: str
    result: str
    """Outcome in words: complete, failed, a gate that failed, live."""
    health: Health
    exit: str = ""
    """Exit code or signal of the command; empty without a command."""
    started_ns: int = 0
    duration_s: float | None = None
    events: int | None = None
    link: str = ""
    """Address of the run's report, relative to the page; empty without one."""
    details: RunDetails = field(default_factory=RunDetails)


def run_list_page(title: str, runs: Sequence[ListedRun], notes: Sequence[str] = ()) -> str:
    """Return a whole document, as `page` makes it: one file that needs no other. The newest run comes first."""
    curves = sum(bool(run.details.curves) for run in runs)
    charts = '<section id="charts" hidden data-scripted><h2>Curves</h2><div id="run-charts"></div></section>'
    body = "\n".join(
        (
            f"<h1><bdi>{escape(printable(title))}</bdi></h1>",
            _banner(runs),
            *(f'<p class="soft">{escape(printable(note))}</p>' for note in notes),
            f'<section id="runs"><div id="run-table"></div><noscript>{table(_plain(runs))}</noscript></section>',
            charts if curves else "",
            embedded({"runs": [_row(run) for run in runs]}, "runs-data"),
        )
    )
    return page(f"{title} – telemetry", body, "\n".join(map(asset, SCRIPTS)))


def _banner(runs: Sequence[ListedRun]) -> str:
    """Return the number of runs by result, in the colour of the worst."""
    order: tuple[Health, ...] = ("bad", "warn", "calm", "good")
    worst = next((health for health in order if any(run.health == health for run in runs)), "calm")
    counts = Counter(run.result for run in runs)
    parts = [f"{formatting.count(number)} {printable(result)}" for result, number in counts.most_common()]
    text = DOT.join([number_of(len(runs), "run"), *parts])
    return f'<p class="banner {worst}" id="verdict">{escape(text)}</p>'


def _plain(runs: Sequence[ListedRun]) -> ReportTable:
    """Return the table for browsers without scripts."""
    heads = [
        TableColumn("name"),
        TableColumn("run", right=False),
        TableColumn("result", right=False),
        TableColumn("started", right=False),
        TableColumn("took"),
        TableColumn("figures", right=False),
    ]
    rows = [
        [
            printable(run.name),
            printable(run.run_id),
            _result(run),
            _started(run),
            formatting.duration_s(run.duration_s),
            DOT.join(f"{printable(figure.title)} {figure.text}" for figure in run.details.figures[:_FIGURES]),
        ]
        for run in runs
    ]
    return ReportTable(heads, rows)


def _result(run: ListedRun) -> str:
    return printable(f"{run.result}, exit {run.exit}" if run.exit not in ("", "0") else run.result)


def _started(run: ListedRun) -> str:
    return formatting.timestamp(run.started_ns) if run.started_ns else formatting.NOTHING


def _row(run: ListedRun) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": printable(run.name),
        "id": printable(run.run_id),
        "result": _result(run),
        "health": run.health,
        "started": _started(run),
        "start": run.started_ns // 1_000_000_000,
        "took": [formatting.duration_s(run.duration_s), rounded(run.duration_s)],
        "figures": {printable(figure.title): _figure(figure) for figure in run.details.figures[:_FIGURES]},
        "params": _params(run, of_surroundings=False),
        "environment": _params(run, of_surroundings=True),
        **_curves(run.details.curves),
        "main": run.details.main,
    }
    return row | ({"link": run.link} if run.link else {})


def _figure(figure: Figure) -> list[Any]:
    """Return text, number, and style of a figure."""
    return [figure.text, rounded(figure.value), *([figure.health] if figure.health in ("warn", "bad") else [])]


def _params(run: ListedRun, *, of_surroundings: bool) -> dict[str, Any]:
    """Return the parameters of the user, or those of code and machine."""
    return {
        printable(name): _param(value)
        for name, value in run.details.params.items()
        if is_of_surroundings(name) == of_surroundings
    }


def _param(value: Scalar) -> list[Any]:
    """Return text and number of a parameter."""
    if isinstance(value, bool) or value is None:
        return [{None: "none", True: "true", False: "false"}[value], None]
    text = printable(str(value))
    shown = text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
    return [shown, rounded(float(value)) if isinstance(value, int | float) else None]


def _curves(curves: Sequence[RunCurve]) -> dict[str, Any]:
    """Return the curves of a run. Those with the same steps or times share them."""
    xs: list[Sequence[float | None]] = []
    entries = []
    for curve in curves:
        x = column(curve.x, _STEP_DIGITS)
        if x not in xs:
            xs.append(x)
        entry: dict[str, Any] = {"title": curve.title, "x": xs.index(x), "values": column(curve.values)}
        texts = {"unit": printable(curve.unit), "whole": curve.whole}
        flags = {"step": curve.by_step, "means": curve.means}
        entries.append(entry | {key: value for key, value in (texts | flags).items() if value})
    return {"xs": xs, "curves": entries}
