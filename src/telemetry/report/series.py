"""Sections of a report about measured values: series with their percentiles and bounds, counters, gauges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, printable
from telemetry.history.rates import Paces
from telemetry.history.request_model import without_requests
from telemetry.history.span_model import without_spans
from telemetry.redaction import COUNTER
from telemetry.report.sparkline import bars
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.feeds import ENDED, SESSIONS
from telemetry.wire.report import Bounds, Report, SeriesOverTime
from telemetry.wire.snapshot import (
    CounterStat,
    GaugeStat,
    MetricsSnapshot,
    NodeSpread,
    SeriesStat,
    without_single_nodes,
)

FEW: Final = "*"
"""Mark of a percentile that is based on too few values."""
_FIRST_PERCENTILES: Final = {"50": 1, "99": 2, "90": 5, "99.9": 6, "95": 7}
"""Priorities of percentiles in a narrow table; see Column.keep."""
_SUMMARY: Final = ("50", "90", "95", "99")
_KEPT: Final = {"99": 0, "50": 1, "90": 4, "95": 7}
"""Priorities of percentiles in a summary."""
TOKENS: Final = "tokens"
"""Unit of sizes, whose course over time tells little."""
_SHOWN: Final = 12
"""Rows of a summary."""
_BARS: Final = 16
_LEAST_BARS: Final = 3
BOUNDS_KEEP: Final = 10
"""Offset added to the priority of the percentile: bounds are left out before any figure."""


def series(report: Report, *, requests: bool = False) -> Section:
    """Return a table with one row per series.

    Series of requests and of spans have their own sections, so they are left out by default.
    """
    snapshot = report.snapshot
    stats = snapshot.series if requests else without_spans(without_requests(snapshot.series, snapshot))
    names = [wording.instrument(stat.name, stat.labels, stat.unit) for stat in stats]
    return series_table("Series", report, stats, names)


def series_table(title: str, report: Report, stats: Sequence[SeriesStat], names: Sequence[str]) -> Section:
    """Return a table with one row per series, with these names; percentiles have their bounds beside them."""
    snapshot = report.snapshot
    if not stats:
        return Section(title)
    keys = percentile_keys(stats)
    bounded = {key for bounds in report.bounds for key in bounds.percentiles if key in keys}
    errors = {wording.error_bound(stat) for stat in stats if stat.count}
    title = f"{title}, percentiles {next(iter(errors))}" if len(errors) == 1 else title
    heads = [TableColumn("name"), TableColumn("count"), TableColumn("mean", 4), TableColumn("min", 8)]
    for key in keys:
        keep = keep_of(key)
        heads.append(TableColumn(f"p{printable(key)}", keep))
        heads += [TableColumn(confidence_words(report), BOUNDS_KEEP + keep)] if key in bounded else []
    heads += [TableColumn("max", 3), TableColumn("stddev", 10)]
    mixed = len(errors) > 1
    if mixed:
        heads.append(TableColumn("error", 1))
    rows = [
        [name, *_series_cells(report, stat, keys, bounded), *([wording.error_bound(stat)] if mixed else [])]
        for name, stat in zip(names, stats, strict=True)
    ]
    notes = [note for stat in stats if (note := _note(stat))]
    notes += few_notes(report, rows)
    if snapshot.exact_reason and not snapshot.exact:
        notes.append(f"not exact: {printable(snapshot.exact_reason)}")
    return Section(title, table=ReportTable(heads, rows), notes=notes)


def series_summary(report: Report) -> Section:
    """Return the most important figures of each series, those with the most values if there are many."""
    snapshot = report.snapshot
    stats = [stat for stat in without_spans(without_requests(snapshot.series, snapshot)) if stat.count]
    busiest = {id(stat) for stat in sorted(stats, key=lambda stat: -stat.count)[:_SHOWN]}
    shown = [stat for stat in stats if id(stat) in busiest]
    names = [wording.instrument(stat.name, stat.labels, stat.unit) for stat in shown]
    section = summary_table("Series", report, shown, names, rates=True)
    return replace(section, notes=[*section.notes, *_left_out(len(stats) - len(shown))])


def summary_table(
    title: str, report: Report, stats: Sequence[SeriesStat], names: Sequence[str], *, rates: bool = False
) -> Section:
    """Return a table with the percentiles that most readers need, and p99 over time.

    `rates`: with the number of values, and how many there are per second.
    """
    available = percentile_keys(stats)
    keys = [key for key in _SUMMARY if key in available] if _SUMMARY[-1] in available else available
    last = keys[-1] if keys else ""
    bounded = last if any(last in bounds_of(report, stat) for stat in stats) else ""
    over_time = {(timeline.name, frozenset(timeline.labels.items())): timeline for timeline in report.over_time}
    courses = [
        _course(over_time.get((stat.name, frozenset(stat.labels.items())))) if stat.unit != TOKENS else ""
        for stat in stats
    ]
    errors = {wording.error_bound(stat) for stat in stats}
    paces = Paces(report.snapshot, part_s(report))
    heads = [TableColumn("")]
    if rates:
        heads += [TableColumn("count"), *_rate_columns(report, _overall_title(paces, stats))]
    heads.append(TableColumn("mean", 5))
    for key in keys:
        heads.append(TableColumn(f"p{printable(key)}", _KEPT.get(key, 4)))
        heads += [TableColumn(confidence_words(report), 8)] if key == bounded else []
    heads.append(TableColumn("max", 2))
    mixed = len(errors) > 1
    heads += [TableColumn("error", 2)] if mixed else []
    heads += [TableColumn("p99 over time", 9, right=False)] if any(courses) else []
    rows = []
    for stat, name, course in zip(stats, names, courses, strict=True):
        row = [name, *([formatting.count(stat.count), *_rate_cells(report, stat, paces)] if rates else [])]
        row.append(formatting.quantity(stat.mean, stat.unit))
        for key in keys:
            row.append(percentile_words(report, stat, key))
            row += [between(bounds_of(report, stat).get(key), stat.unit)] if key == bounded else []
        row += [formatting.quantity(stat.max, stat.unit), *([wording.error_bound(stat)] if mixed else [])]
        rows.append([*row, *([course] if any(courses) else [])])
    notes = [note for stat in stats if (note := _note(stat))] + few_notes(report, rows)
    if len(errors) == 1 and title:
        title = f"{title}, percentiles {errors.pop()}"
    return Section(title, table=ReportTable(heads, rows), notes=notes)


def _course(timeline: SeriesOverTime | None) -> str:
    """Return p99 over time as bars; empty if there are too few to show a course."""
    values = [point.percentiles.get("99") for point in timeline.points] if timeline is not None else []
    count = sum(value is not None for value in values)
    return bars(values, _BARS) if count >= _LEAST_BARS else ""


def _rate_columns(report: Report, overall: str) -> list[TableColumn]:
    """Return columns for the rate over the whole run, and over its last seconds if the run was longer."""
    last = TableColumn(_window_title(report.snapshot), 6)
    whole = report.time_range is None and _has_window(report.snapshot)
    return [TableColumn(overall, 3), *([last] if whole else [])]


def _rate_cells(report: Report, stat: SeriesStat, paces: Paces) -> list[str]:
    whole = report.time_range is None and _has_window(report.snapshot)
    rates = [paces.of(stat).per_s, *([stat.window.rate] if whole else [])]
    return [formatting.rate(rate) for rate in rates]


def _has_window(snapshot: MetricsSnapshot) -> bool:
    """Return whether the last seconds are not about the whole run."""
    return snapshot.elapsed_s > 1.2 * snapshot.window_s > 0.0


def part_s(report: Report) -> float | None:
    """Return the length of the time range of the figures; None for the whole run."""
    part = report.time_range
    return None if part is None else part.end_s - part.start_s


def few_notes(report: Report, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the explanation of the mark if any cell except the names has it."""
    marked = any(FEW in cell[:1] for row in rows for cell in row[1:])
    note = f"{FEW} rests on too few values for {confidence(report)} confidence bounds"
    return [note] if marked else []


def percentile_keys(stats: Sequence[SeriesStat]) -> list[str]:
    """Return all percentiles that any series has, in ascending order."""
    return sorted({key for stat in stats for key in stat.percentiles}, key=wording.by_number)


def keep_of(percentile: str) -> int:
    """Return the priority of a percentile's column in a narrow table; see `TableColumn.keep`."""
    return _FIRST_PERCENTILES.get(percentile, 9)


def bounds_of(report: Report, stat: SeriesStat) -> Mapping[str, Bounds]:
    """Return bounds by percentile; empty if the report has none for this series, or if it has no values."""
    bounds = report.bounds_of(stat) if stat.count else None
    return bounds.percentiles if bounds is not None else {}


def confidence_words(report: Report) -> str:
    """Return the title of a column of bounds: `95 % bounds`; without a number if series differ in it."""
    return f"{confidence(report)} bounds"


def percentile_words(report: Report, stat: SeriesStat, key: str) -> str:
    """Return the value, marked if it is based on too few values."""
    value = formatting.quantity(stat.percentiles.get(key), stat.unit)
    return value if value == NOTHING or not stat.count or report.trusted(stat, key) else f"{FEW}{value}"


def between(bounds: Bounds | None, unit: str) -> str:
    """Return bounds as text: `1.80–1.97 ms`; `≥ 1.80 ms` if only one side is known."""
    if bounds is None or (bounds.low is None and bounds.high is None):
        return NOTHING
    low, high = formatting.quantity(bounds.low, unit), formatting.quantity(bounds.high, unit)
    if bounds.high is None:
        return f"≥ {low}"
    if bounds.low is None:
        return f"≤ {high}"
    number, space, ending = low.rpartition(" ")
    same = space and high.rpartition(" ")[2] == ending and " " not in number
    return f"{number if same else low}–{high}"


def confidence(report: Report) -> str:
    """Return the confidence of all bounds, such as `95 %`."""
    levels = {bounds.confidence for bounds in report.bounds}
    return formatting.percent(levels.pop()) if len(levels) == 1 else "such"


def _series_cells(report: Report, stat: SeriesStat, keys: list[str], bounded: set[str]) -> list[str]:
    bounds = bounds_of(report, stat)
    cells = [formatting.count(stat.count)]
    cells += [formatting.quantity(value, stat.unit) for value in (stat.mean, stat.min)]
    for key in keys:
        cells.append(percentile_words(report, stat, key))
        cells += [between(bounds.get(key), stat.unit)] if key in bounded else []
    return cells + [formatting.quantity(value, stat.unit) for value in (stat.max, stat.stddev)]


def _extremes(spread: NodeSpread | None, unit: str) -> tuple[str, str]:
    """Return the least and the greatest value over the nodes, each with its node."""
    if spread is None:
        return formatting.NOTHING, formatting.NOTHING
    values = ((spread.least, spread.least_node), (spread.greatest, spread.greatest_node))
    least, greatest = (f"{formatting.quantity(value, unit)} {formatting.printable(node)}" for value, node in values)
    return least, greatest


def _note(stat: SeriesStat | CounterStat | GaugeStat) -> str:
    text = wording.outside(stat)
    return f"{wording.instrument(stat.name, stat.labels)}: {text}" if text else ""


def counters(snapshot: MetricsSnapshot, part_s: float | None = None, *, most: int | None = None) -> Section:
    """Return the sums and their rates, without counters of requests and of spans.

    `part_s` is the length of the time range if the numbers are not those of the whole run.
    """
    has_window = part_s is None and _has_window(snapshot)
    stats = without_spans(without_requests(snapshot.counters, snapshot))
    left_out = {COUNTER} if most is None else {COUNTER, SESSIONS, ENDED}
    stats = [stat for stat in stats if stat.name not in left_out]
    paces = Paces(snapshot, part_s)
    heads = [TableColumn("name"), TableColumn("value"), TableColumn(_overall_title(paces, stats[:most]), 1)]
    heads += [TableColumn(_window_title(snapshot), 2)] if has_window else []
    rows = []
    for stat in stats[:most]:
        is_named = formatting.carries_unit(stat.unit)
        value = formatting.quantity(stat.value, stat.unit) if is_named else formatting.count(stat.value)
        rates = [paces.of(stat).per_s, *([stat.rate] if has_window else [])]
        name = wording.instrument(stat.name, stat.labels, stat.unit)
        rows.append([name, value, *(formatting.rate(rate, stat.unit) for rate in rates)])
    notes = [note for stat in stats[:most] if (note := _note(stat))]
    return Section("Counters", table=ReportTable(heads, rows), notes=notes + _left_out(len(stats) - len(rows)))


def _overall_title(paces: Paces, stats: Sequence[SeriesStat | CounterStat]) -> str:
    """Return the title of overall rates. Those of a result that lacks the times of its events are over the run."""
    return "over the run" if any(paces.of(stat).is_of_run for stat in stats) else "overall"


def _left_out(number: int) -> list[str]:
    return [f"{number:,} more in the full report"] if number else []


def _window_title(snapshot: MetricsSnapshot) -> str:
    return f"last {snapshot.window_s:g} s" if snapshot.window_s else "rate"


def gauges(snapshot: MetricsSnapshot, *, most: int | None = None) -> Section:
    """Return last values and extremes of the job's own gauges, by name."""
    return _gauges("Gauges", [stat for stat in snapshot.gauges if not is_of_machine(stat.name)], most)


def machine(snapshot: MetricsSnapshot) -> Section:
    """Return last values and extremes of the gauges of machine, GPUs and processes, by name."""
    return _gauges("Machine", [stat for stat in snapshot.gauges if is_of_machine(stat.name)], None)


def _gauges(title: str, of: Sequence[GaugeStat], most: int | None) -> Section:
    stats = sorted(without_single_nodes(of), key=lambda stat: (stat.name, sorted(stat.labels.items())))
    spreads = [stat.over_nodes for stat in stats[:most]]
    has_nodes = any(spread is not None for spread in spreads)
    last = "last value, median of nodes" if has_nodes else "last value"
    heads = [TableColumn("name"), TableColumn(last), TableColumn("min", 1), TableColumn("max", 1)]
    heads += [TableColumn("least now", 2), TableColumn("greatest now", 2)] if has_nodes else []
    rows = [
        [
            wording.instrument(stat.name, stat.labels, stat.unit),
            *(formatting.quantity(value, stat.unit) for value in (stat.value, stat.min, stat.max)),
            *(_extremes(spread, stat.unit) if has_nodes else ()),
        ]
        for stat, spread in zip(stats, spreads, strict=False)
    ]
    notes = [note for stat in stats[:most] if (note := _note(stat))]
    return Section(title, table=ReportTable(heads, rows), notes=notes + _left_out(len(stats) - len(rows)))
