"""Sections of a report about measured values: series with their percentiles and bounds, counters, gauges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from telemetry import formatting, wording
from telemetry.formatting import NOTHING, printable
from telemetry.report.table import Column, Section, Table
from telemetry.request_model import without_requests
from telemetry.span_model import without_spans
from telemetry.wire.report import Bounds, Report
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

FEW: Final = "*"
"""Mark of a percentile that is based on too few values."""
_FIRST_PERCENTILES: Final = {"50": 1, "99": 2, "90": 5, "99.9": 6, "95": 7}
"""Priorities of percentiles in a narrow table; see Column.keep."""
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
    bounded = {key for one in report.bounds for key in one.percentiles if key in keys}
    errors = {wording.error_bound(stat) for stat in stats if stat.count}
    title = f"{title}, percentiles {next(iter(errors))}" if len(errors) == 1 else title
    heads = [Column("name"), Column("count"), Column("mean", 4), Column("min", 8)]
    for key in keys:
        keep = keep_of(key)
        heads.append(Column(f"p{printable(key)}", keep))
        heads += [Column(confidence_words(report), BOUNDS_KEEP + keep)] if key in bounded else []
    heads += [Column("max", 3), Column("stddev", 10)]
    mixed = len(errors) > 1
    if mixed:
        heads.append(Column("error", 1))
    rows = [
        [name, *_series_cells(report, stat, keys, bounded), *([wording.error_bound(stat)] if mixed else [])]
        for name, stat in zip(names, stats, strict=True)
    ]
    notes = [note for stat in stats if (note := _note(stat))]
    notes += few_notes(report, rows)
    if snapshot.exact_reason and not snapshot.exact:
        notes.append(f"not exact: {printable(snapshot.exact_reason)}")
    return Section(title, table=Table(heads, rows), notes=notes)


def few_notes(report: Report, rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the explanation of the mark if any cell except the names has it."""
    marked = any(FEW in cell[:1] for row in rows for cell in row[1:])
    said = f"{FEW} rests on too few values for {confidence(report)} confidence bounds"
    return [said] if marked else []


def percentile_keys(stats: Sequence[SeriesStat]) -> list[str]:
    """Return all percentiles that any series has, in ascending order."""
    return sorted({key for stat in stats for key in stat.percentiles}, key=wording.by_number)


def keep_of(percentile: str) -> int:
    """Return the priority of a percentile's column in a narrow table; see `Column.keep`."""
    return _FIRST_PERCENTILES.get(percentile, 9)


def bounds_of(report: Report, stat: SeriesStat) -> Mapping[str, Bounds]:
    """Return bounds by percentile; empty if the report has none for this series, or if it has no values."""
    found = report.bounds_of(stat) if stat.count else None
    return found.percentiles if found is not None else {}


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
    found = {one.confidence for one in report.bounds}
    return formatting.percent(found.pop()) if len(found) == 1 else "such"


def _series_cells(report: Report, stat: SeriesStat, keys: list[str], bounded: set[str]) -> list[str]:
    bounds = bounds_of(report, stat)
    cells = [formatting.count(stat.count)]
    cells += [formatting.quantity(value, stat.unit) for value in (stat.mean, stat.min)]
    for key in keys:
        cells.append(percentile_words(report, stat, key))
        cells += [between(bounds.get(key), stat.unit)] if key in bounded else []
    return cells + [formatting.quantity(value, stat.unit) for value in (stat.max, stat.stddev)]


def _note(stat: SeriesStat | CounterStat | GaugeStat) -> str:
    said = wording.outside(stat)
    return f"{wording.instrument(stat.name, stat.labels)}: {said}" if said else ""


def counters(snapshot: MetricsSnapshot) -> Section:
    """Return the sums and their latest rates, without counters of requests and of spans."""
    heads = [Column("name"), Column("value"), Column(_window_title(snapshot), 1)]
    rows = [
        [
            wording.instrument(stat.name, stat.labels, stat.unit),
            formatting.quantity(stat.value, stat.unit)
            if formatting.carries_unit(stat.unit)
            else formatting.count(stat.value),
            formatting.rate(stat.rate, stat.unit),
        ]
        for stat in without_spans(without_requests(snapshot.counters, snapshot))
    ]
    notes = [note for stat in snapshot.counters if (note := _note(stat))]
    return Section("Counters", table=Table(heads, rows), notes=notes)


def _window_title(snapshot: MetricsSnapshot) -> str:
    return f"last {snapshot.window_s:g} s" if snapshot.window_s else "rate"


def gauges(snapshot: MetricsSnapshot) -> Section:
    """Return last values and extremes, by name."""
    heads = [Column("name"), Column("last value"), Column("min", 1), Column("max", 1)]
    rows = [
        [
            wording.instrument(stat.name, stat.labels, stat.unit),
            *(formatting.quantity(value, stat.unit) for value in (stat.value, stat.min, stat.max)),
        ]
        for stat in sorted(snapshot.gauges, key=lambda stat: (stat.name, sorted(stat.labels.items())))
    ]
    notes = [note for stat in snapshot.gauges if (note := _note(stat))]
    return Section("Gauges", table=Table(heads, rows), notes=notes)
