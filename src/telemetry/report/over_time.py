"""Sections of a report about series over time: the busiest side by side, or each in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_uppercase
from typing import Final

from telemetry.common import formatting, wording
from telemetry.common.formatting import NOTHING, number_of, printable
from telemetry.report.sparkline import bars
from telemetry.report.table import ReportTable, Section, TableColumn
from telemetry.wire.report import Report, SeriesOverTime, SeriesPoint

_BUSIEST: Final = 3
_COURSES: Final = 10
_COURSE_CHARS: Final = 30
_STEPS_SHOWN: Final = 60
_PERCENTILES: Final = ("50", "99")


def courses(report: Report) -> Section:
    """Return p99 over time of the series with the most values, one line each.

    Steps that share a character show the highest.
    """
    heads = [
        TableColumn("name"),
        TableColumn("p99", right=False),
        TableColumn("lowest", 1),
        TableColumn("highest", 1),
    ]
    rows = []
    for series in sorted(report.over_time, key=_values, reverse=True)[:_COURSES]:
        values = [point.percentiles.get("99") for point in series.points]
        numbers = [value for value in values if value is not None]
        if numbers:
            extremes = [formatting.quantity(value, series.unit) for value in (min(numbers), max(numbers))]
            rows.append(
                [
                    wording.instrument(series.name, series.labels, series.unit),
                    bars(values, _COURSE_CHARS),
                    *extremes,
                ]
            )
    hidden = len(report.over_time) - len(rows)
    notes = [_hidden(hidden)] if hidden and rows else []
    return Section(_title(report), table=ReportTable(heads, rows), notes=notes)


def busiest(report: Report) -> Section:
    """Return p50 and p99 of the series with the most values, step by step.

    If the report has a single series, return all figures of that series.
    """
    chosen = sorted(report.over_time, key=_values, reverse=True)[:_BUSIEST]
    available = {key for series in chosen for point in series.points for key in point.percentiles}
    keys = [key for key in _PERCENTILES if key in available]
    if len(report.over_time) == 1:
        return _alone(_title(report), chosen[0], keys)
    if not keys:
        return Section("")
    heads = [TableColumn("from")]
    for index, letter in enumerate(ascii_uppercase[: len(chosen)]):
        heads += [TableColumn(f"{letter} p{key}", index and 2 * index + (key == "50")) for key in keys]
    columns = [{(point.start_s, point.end_s): point for point in series.points} for series in chosen]
    rows = [
        [formatting.duration_s(step[0]), *_beside(chosen, [column.get(step) for column in columns], keys)]
        for step in sorted({step for column in columns for step in column})
    ]
    lines = [
        f"{letter}: {wording.instrument(series.name, series.labels)}"
        for letter, series in zip(ascii_uppercase, chosen, strict=False)
    ]
    if hidden := len(report.over_time) - len(chosen):
        lines.append(_hidden(hidden))
    return Section(_title(report), lines, ReportTable(heads, rows), rows_shown=_STEPS_SHOWN)


def each_over_time(report: Report) -> Iterator[Section]:
    """Yield a section for each series with values."""
    keys = sorted(
        {key for series in report.over_time for point in series.points for key in point.percentiles},
        key=wording.by_number,
    )
    for series in report.over_time:
        yield _alone(f"{_title(report)}: {wording.instrument(series.name, series.labels)}", series, keys)


def _alone(title: str, series: SeriesOverTime, keys: Sequence[str]) -> Section:
    heads = [
        TableColumn("from"),
        TableColumn("count"),
        TableColumn("rate", 4),
        TableColumn("min", 5),
        *(TableColumn(f"p{printable(key)}", 1 if key in _PERCENTILES else 6) for key in keys),
        TableColumn("max", 3),
    ]
    rows = [_row(point, series.unit, keys) for point in series.points]
    return Section(title, table=ReportTable(heads, rows), rows_shown=_STEPS_SHOWN)


def _row(point: SeriesPoint, unit: str, keys: Sequence[str]) -> list[str]:
    values = [point.min, *(point.percentiles.get(key) for key in keys), point.max]
    head = [formatting.duration_s(point.start_s), formatting.count(point.count), formatting.rate(point.rate)]
    return [*head, *(formatting.quantity(value, unit) for value in values)]


def _beside(
    chosen: Sequence[SeriesOverTime], points: Sequence[SeriesPoint | None], keys: Sequence[str]
) -> Iterator[str]:
    for series, point in zip(chosen, points, strict=True):
        for key in keys:
            yield formatting.quantity(point.percentiles.get(key), series.unit) if point is not None else NOTHING


def _hidden(number: int) -> str:
    return f"{number_of(number, 'more series over time is', 'more series over time are')} in the JSON form"


def _title(report: Report) -> str:
    return f"Over time, in steps of {formatting.duration_s(report.step_s)}"


def _values(series: SeriesOverTime) -> int:
    return sum(point.count for point in series.points)
