"""The page of a list of runs: a table to sort and filter, and figures and curves of the chosen runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Final, Literal

from telemetry.common import formatting
from telemetry.common.directions import better_of_name, is_count
from telemetry.common.formatting import NOTHING, number_of, printable, quantity, scaled
from telemetry.common.headline_choice import shown_params
from telemetry.errors import RunDirectoryError
from telemetry.history import RecordedRun
from telemetry.history.curve_points import has_means
from telemetry.history.headlines import Figure, Headline, headline
from telemetry.history.headlines.training import telling
from telemetry.history.instrument_ids import series_id
from telemetry.history.interval_sums import RangeTotals
from telemetry.history.rates import Activity, Paces, RateSteps
from telemetry.history.step_curves import read
from telemetry.limits import MIB
from telemetry.report.content import headlines
from telemetry.report.html.data import Column, column, embedded, rounded
from telemetry.report.html.main_series import LINES, NameGroup, latencies, main_groups
from telemetry.report.html.page import asset, page
from telemetry.report.html.sections import table
from telemetry.report.table import DOT, ReportTable, TableColumn
from telemetry.store.records import FILE_NAME
from telemetry.wire import requests as words
from telemetry.wire.collectors import is_of_surroundings
from telemetry.wire.events import Scalar
from telemetry.wire.pictures import StepCurve
from telemetry.wire.snapshot import MetricsSnapshot

_MOST_POINTS: Final = 500
_LEAST_POINTS: Final = 80
_ALL_POINTS: Final = 10_000
"""Points of a curve of steps: at most, at least, and of one in each run together. others have about sixty."""
_CURVES: Final = 8
"""Largest number of curves of a run."""
_KEY: Final = "99"
_LIMITS: Final = f"{words.SLO}."
_LARGEST_RUN: Final = 16 * MIB
_ALL_RUNS: Final = 256 * MIB


@dataclass(slots=True)
class Room:
    """Bytes that may still be read for curves. The largest runs, and then the oldest, have figures only."""

    left: int = _ALL_RUNS
    largest: int = _LARGEST_RUN
    refused: int = 0
    """Number of runs without curves."""
    points: int = _MOST_POINTS
    """Largest number of points of a curve of steps."""

    @classmethod
    def of(cls, runs: int) -> Room:
        """Return the room for a page of `runs`: the more there are, the fewer points each curve has."""
        return cls(points=max(min(_MOST_POINTS, _ALL_POINTS // max(runs, 1)), _LEAST_POINTS))

    def take(self, size: int) -> bool:
        """Return whether a run of this size may be read."""
        if size > min(self.largest, self.left):
            return False
        self.left -= size
        return True


@dataclass(frozen=True, slots=True)
class RunCurve:
    """A value over the steps of a run, or over its time in seconds."""

    title: str
    unit: str
    by_step: bool
    x: Sequence[float]
    values: Column
    means: bool = False
    """True if points are means of several steps."""
    whole: str = ""
    """The figure of the whole run: the last value of steps, the mean of a rate, a percentile of all values."""


@dataclass(frozen=True, slots=True)
class RunDetails:
    """Figures, parameters and curves of a run in a list."""

    figures: Sequence[Figure] = ()
    params: Mapping[str, Scalar] = field(default_factory=dict)
    curves: Sequence[RunCurve] = ()
    main: int = 0
    """Place of the curve that tells most."""


def details_of(run: RecordedRun, room: Room) -> RunDetails:
    """Return the figures of the headline, the parameters and curves of a run. Blocks for the disk.

    A run with more data than `room` has no curves.
    """
    report = run.result
    may_read = room.take(_size(run))
    room.refused += not may_read
    steps = _steps(run, room.points) if may_read else []
    heads = headline(report.snapshot, recent=False, curves=steps, requests=report.requests)
    by_step = list(_by_step(steps, heads))
    over_time = list(_over_time(run)) if may_read and run.has_history else []
    is_training = bool(heads) and heads[0].flavour == "training"
    curves = [*by_step, *over_time] if is_training else [*over_time, *by_step]
    main = next((at for at, curve in enumerate(curves) if curve.title.endswith(f"p{_KEY}")), 0)
    return RunDetails(
        heads[0].figures if heads else (),
        _detailed_params(report.snapshot),
        curves[:_CURVES],
        0 if is_training else min(main, _CURVES - 1),
    )


def live_details(snapshot: MetricsSnapshot) -> RunDetails:
    """Return the newest figures of the headline, and the parameters, of a run that goes on."""
    heads = headline(snapshot, recent=True)
    return RunDetails(heads[0].figures if heads else (), _detailed_params(snapshot))


def _detailed_params(snapshot: MetricsSnapshot) -> dict[str, Scalar]:
    return {name: value for name, value in shown_params(snapshot.params).items() if not _is_limit(name)}


def _is_limit(name: str) -> bool:
    return name.startswith(_LIMITS)


def _size(run: RecordedRun) -> int:
    """Return the bytes on disk that curves are made of."""
    directory = run.directory
    if directory is None:
        return 0
    try:
        history = [path.stat().st_size for path in directory.history.iterdir()] if run.has_history else []
        records = directory.records / FILE_NAME
        return sum(history) + (records.stat().st_size if records.is_file() else 0)
    except OSError:
        return 0


def _steps(run: RecordedRun, points: int) -> list[StepCurve]:
    if run.directory is None or not run.result.snapshot.axes:
        return []
    try:
        return read(run.directory, points, started_ns=run.result.snapshot.started_ns)
    except RunDirectoryError:
        return []


def _by_step(curves: Sequence[StepCurve], heads: Sequence[Headline]) -> Iterator[RunCurve]:
    """Yield the most telling values, then others, of each axis."""
    axes = dict.fromkeys(curve.axis for curve in curves)
    for axis in axes:
        own = {curve.name: curve for curve in curves if _is_drawn(curve, axis)}
        first = telling(own)
        for name in [*first, *(name for name in own if name not in first)]:
            curve = own[name]
            title = printable(name if len(axes) == 1 else f"{name} ({axis})")
            best = {"lower": curve.min, "higher": curve.max}.get(better_of_name(name))
            whole = f"{scaled(curve.last)}, best {scaled(best)}" if best is not None else scaled(curve.last)
            steps = [float(step) for step in curve.steps]
            yield RunCurve(title, "", True, steps, curve.values, has_means(curve), whole)


def _is_drawn(curve: StepCurve, axis: str) -> bool:
    return curve.axis == axis and len(curve.steps) > 1 and not is_count(curve.name)


def _over_time(run: RecordedRun) -> Iterator[RunCurve]:
    """Yield the rate of the main series, and its 99th percentile."""
    groups = main_groups(run.result)
    if not groups:
        return
    kinds = [group for _, group in latencies(run.result, LINES)]  # their rates add up, their percentiles do not
    rated = kinds or groups[-1:]
    ids = {series_id(stat): None for group in (*groups, *rated) for _, stat in group.lines}
    try:
        step_s = run.step_for(run.end_s)
        windows = list(run.drawn_windows(step_s, [_KEY], list(ids)))
    except RunDirectoryError:
        return
    x = [(window.start_s + window.end_s) / 2 for window in windows]
    if len(x) < 2:
        return
    heads = headlines(run.result)
    title = "requests/s" if heads and heads[0].flavour in ("llm", "load") else f"{groups[-1].title} values/s"
    overall = next((figure.text for head in heads for figure in head.figures if figure.title == "requests/s"), "")
    yield RunCurve(title, "", False, x, _rates(run.result.snapshot, windows, rated), whole=overall)
    for group in reversed(groups):
        values = [_percentile(window, group) for window in windows]
        whole = quantity(group.main.percentiles.get(_KEY), group.main.unit)
        # Different programs name their requests differently: the same words lie over each other.
        name = group.main.name.rpartition(".")[2] if group.is_request else group.title
        yield RunCurve(
            f"{printable(name)} p{_KEY}", group.main.unit, False, x, values, whole="" if whole == NOTHING else whole
        )


def _rates(snapshot: MetricsSnapshot, windows: Sequence[RangeTotals], groups: Sequence[NameGroup]) -> Column:
    """Return the values per second of all label sets or tracking windows of some groups."""
    stats = [stat for group in groups for _, stat in group.lines]
    steps = RateSteps(*zip(*((window.start_s, window.end_s, window.seconds) for window in windows), strict=True))
    counts = [
        sum(window.series[id].count for stat in stats if (id := series_id(stat)) in window.series)
        for window in windows
    ]
    return steps.rates(counts, Activity.of(Paces(snapshot), stats, snapshot.started_ns))


def _percentile(window: RangeTotals, group: NameGroup) -> float | None:
    """Return the 99th percentile of the busiest of them."""
    totals = [window.series.get(series_id(stat)) for _, stat in group.lines]
    nonempty = [figures for figures in totals if figures is not None and figures.count]
    return max(nonempty, key=lambda figures: figures.count).percentiles.get(_KEY) if nonempty else None


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
