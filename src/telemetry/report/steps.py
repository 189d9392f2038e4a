"""Sections of a report about steps: how many, how fast, and how each value went over the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from telemetry.common import formatting
from telemetry.common.directions import better_of_name, is_count
from telemetry.common.formatting import NOTHING, number_of, printable
from telemetry.common.headline_choice import chosen
from telemetry.history.headlines.training import telling
from telemetry.history.rates import Paces
from telemetry.report.sparkline import curve as drawn
from telemetry.report.table import DOT, ReportTable, Section, TableColumn
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report
from telemetry.wire.snapshot import AxisStat

TITLE: Final = "Steps"
AXES_SHOWN: Final = 8
"""Number of axes whose values are listed: those with the most steps."""
_VALUES_SHOWN: Final = 40
"""Number of listed values of an axis."""
_BRIEF: Final = 8
"""The same in a short report."""
_BARS: Final = 24
_NAMED: Final = 3
"""Number of values that a sentence names."""
_MOST_CHANGES: Final = 10
"""With more changes in the number of producers, the ranks just log at different steps."""
_NOT_FINITE: Final = "not finite"


def steps(report: Report, *, full: bool = True) -> Iterator[Section]:
    """Yield the axes, then the values of each; empty for a run without steps."""
    if full:
        yield axes(report)
    listed = sorted(report.snapshot.axes, key=lambda stat: -stat.closed)[:AXES_SHOWN]
    for stat in report.snapshot.axes:
        if any(stat is axis for axis in listed):
            yield values(report, stat, full=full)


def axes(report: Report) -> Section:
    """Return a table with one row per axis."""
    heads = [
        TableColumn("axis"),
        TableColumn("closed"),
        TableColumn("newest step"),
        TableColumn("timeouts", 1),
        TableColumn("corrections", 2),
        TableColumn("open", 3),
        TableColumn("values", 4),
    ]
    rows = [
        [
            printable(stat.name),
            *(formatting.count(number) for number in (stat.closed, stat.newest, stat.timeouts, stat.corrections)),
            *(formatting.count(number) for number in (stat.open, len(stat.values))),
        ]
        for stat in report.snapshot.axes
    ]
    return Section(TITLE, table=ReportTable(heads, rows), notes=list(_notes(report)) if rows else [])


def values(report: Report, stat: AxisStat, *, full: bool = True) -> Section:
    """Return the values of an axis, the most telling first, with their course over the whole run."""
    curves = {curve.name: curve for curve in report.curves if curve.axis == stat.name}
    names = [name for name in _ordered(report, stat) if full or not is_count(name)]
    shown = names[: _VALUES_SHOWN if full else _BRIEF]
    available = [curves[name] for name in shown if name in curves]
    heads = [TableColumn("")]
    if available:
        heads += [TableColumn("first", 3), TableColumn("best or range", 2), TableColumn("at step", 5)]
    heads.append(TableColumn("last"))
    spread = any(_spread(curve) for curve in available)
    heads += [TableColumn("last, by rank", 6)] if spread else []
    heads += [TableColumn("over the run", 4, right=False)] if available else []
    rows = [_row(name, stat, curves.get(name), with_curves=bool(available), spread=spread) for name in shown]
    hidden = len(names) - len(shown)
    notes = [f"{hidden:,} more in the {'JSON form' if full else 'full report'}"] if hidden else []
    notes += _producers_note(available)
    return Section(
        f"{TITLE}: {printable(stat.name)}", [_speed(report, stat)], table=ReportTable(heads, rows), notes=notes
    )


def _ordered(report: Report, stat: AxisStat) -> list[str]:
    """Return the names of values: those that the user chose, then the most telling, then the others."""
    wanted = {choice.name: at for at, choice in enumerate(chosen(report.snapshot.params))}
    first = {name: at for at, name in enumerate(telling(stat.values))}

    def rank(name: str) -> tuple[int, int]:
        return wanted.get(name, len(wanted)), first.get(name, len(first))

    return sorted(stat.values, key=rank)


def _row(name: str, stat: AxisStat, curve: StepCurve | None, *, with_curves: bool, spread: bool) -> list[str]:
    last = stat.values[name]
    row = [printable(name)]
    if with_curves:
        row += [NOTHING] * 3 if curve is None else [formatting.scaled(curve.first), *_best(name, curve)]
    row.append(_NOT_FINITE if last is None else formatting.scaled(last))
    row += [(_spread(curve) if curve is not None else "") or NOTHING] if spread else []
    if with_curves:
        row.append(drawn(curve.values, _BARS) if curve is not None and curve.count > 1 else "")
    return row


def _best(name: str, curve: StepCurve) -> tuple[str, str]:
    """Return the best value and its step. A value that is neither better high nor low has its range."""
    better = better_of_name(name)
    if better == "neither":
        return _range(curve.min, curve.max), ""
    value, step = (curve.min, curve.min_step) if better == "lower" else (curve.max, curve.max_step)
    return formatting.scaled(value), formatting.count(step)


def _spread(curve: StepCurve) -> str:
    """Return the lowest and the highest value among the producers in the last step; empty with one producer."""
    return _range(curve.last_low, curve.last_high) if curve.producers > 1 else ""


def _range(low: float | None, high: float | None) -> str:
    ends = [formatting.scaled(value) for value in (low, high)]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _producers_note(curves: Sequence[StepCurve]) -> list[str]:
    """Return a sentence about the last change in the number of producers that most values share, if any."""
    changes = Counter(curve.producers_change for curve in curves if curve.producers_change is not None)
    if not changes:
        return []
    [(change, sharing)] = changes.most_common(1)
    if change.changes > _MOST_CHANGES:
        return []
    names = [printable(curve.name) for curve in curves if curve.producers_change == change]
    subject = "all values" if sharing == len(curves) else formatting.listed(names, _NAMED)
    amount = "fewer" if change.after < change.before else "more"
    several = f" (the last of {change.changes} changes)" if change.changes > 1 else ""
    before = f"{number_of(change.before, 'producer')} up to step {formatting.count(change.last)}"
    after = f"{change.after:,} from step {formatting.count(change.first)} on"
    return [f"{subject}: {before}, {after}{several}; sums add up {amount} values since"]


def _speed(report: Report, stat: AxisStat) -> str:
    """Return the number of steps, their rate, and what is unusual about them."""
    rate = Paces(report.snapshot).steps_per_s(stat.name)
    facts = [f"{number_of(stat.closed, 'step')} recorded"]
    facts += [f"last step {formatting.count(stat.newest)}"] if stat.newest is not None else []
    facts += [
        f"{printable(name)} {formatting.scaled(last)}" for name, last in stat.values.items() if is_count(name)
    ]
    facts += [f"{formatting.scaled(rate)} steps/s"] if rate is not None else []
    facts += [f"{formatting.count(stat.open)} open"] if stat.open else []
    facts += [f"{formatting.count(stat.timeouts)} closed without all producers"] if stat.timeouts else []
    facts += [f"{number_of(stat.corrections, 'late correction')}"] if stat.corrections else []
    return DOT.join(facts)


def _notes(report: Report) -> Iterator[str]:
    if any(stat.timeouts for stat in report.snapshot.axes):
        yield "timeouts: steps closed without the values of all producers"
    if any(stat.corrections for stat in report.snapshot.axes):
        yield "corrections: values that arrived after their step was closed"
    if report.final:
        yield "the record log has all steps and the spread between producers: `telemetry tail --records`"
