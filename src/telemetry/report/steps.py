"""Sections of a report about steps: the steps of each axis, missing producers, and the newest values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from telemetry import formatting
from telemetry.formatting import number_of, printable
from telemetry.report.table import Column, Section, Table
from telemetry.wire.report import Report
from telemetry.wire.snapshot import AxisStat

TITLE: Final = "Steps"
AXES_SHOWN: Final = 8
"""Number of axes whose values are listed: those with the most steps."""
_VALUES_SHOWN: Final = 40
"""Number of listed values of an axis: the first ones."""
_NOT_FINITE: Final = "not finite"


def steps(report: Report) -> Iterator[Section]:
    """Yield the axes, then the newest values of each; empty for a run without steps."""
    yield axes(report)
    listed = sorted(report.snapshot.axes, key=lambda stat: -stat.closed)[:AXES_SHOWN]
    for stat in report.snapshot.axes:
        if any(stat is one for one in listed):
            yield values(stat)


def axes(report: Report) -> Section:
    """Return a table with one row per axis."""
    heads = [
        Column("axis"),
        Column("closed"),
        Column("newest step"),
        Column("timeouts", 1),
        Column("corrections", 2),
        Column("open", 3),
        Column("values", 4),
    ]
    rows = [
        [
            printable(stat.name),
            *(formatting.count(number) for number in (stat.closed, stat.newest, stat.timeouts, stat.corrections)),
            *(formatting.count(number) for number in (stat.open, len(stat.values))),
        ]
        for stat in report.snapshot.axes
    ]
    return Section(TITLE, table=Table(heads, rows), notes=list(_notes(report)) if rows else [])


def values(stat: AxisStat) -> Section:
    """Return the values of the newest step, and older ones of names that it lacks."""
    shown = list(stat.values.items())[:_VALUES_SHOWN]
    rows = [[printable(name), _NOT_FINITE if value is None else formatting.scaled(value)] for name, value in shown]
    hidden = len(stat.values) - len(shown)
    notes = [f"{number_of(hidden, 'more is', 'more are')} in the JSON form"] if hidden else []
    table = Table([Column("name"), Column("newest value")], rows)
    return Section(f"{TITLE}: {printable(stat.name)}", table=table, notes=notes)


def _notes(report: Report) -> Iterator[str]:
    if any(stat.timeouts for stat in report.snapshot.axes):
        yield "timeouts: steps closed without the values of all producers"
    if any(stat.corrections for stat in report.snapshot.axes):
        yield "corrections: values that arrived after their step was closed"
    if report.time_range is not None:
        yield "steps cover the whole run"
    if report.final:
        yield "the record log has all steps and the spread between producers: `telemetry tail --records`"
