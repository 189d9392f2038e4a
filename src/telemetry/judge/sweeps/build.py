"""The result of a sweep from the results of its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median

from msgspec.structs import replace

from telemetry.common.formatting import listed, number_of, printable
from telemetry.errors import UsageError
from telemetry.judge.sweeps.figures import ATTAINMENT, SweepFigures, kinds_of, other_figures, request_figures
from telemetry.judge.sweeps.model import PointFigure, PointRun, Sweep, SweepColumn, SweepPoint, Verdict
from telemetry.judge.sweeps.params import told
from telemetry.judge.sweeps.points import grouped, parameters_of, together
from telemetry.judge.sweeps.verdicts import judged_by, knee, verdict
from telemetry.statistics.confidence import wilson
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL

_SHOWN = 3


def sweep_of(reports: Sequence[Report], by: Sequence[str] = (), kind: str = "") -> Sweep:
    """Return the points of runs, in order of their parameters.

    `by` names the parameters, the one for the axis of charts first; without it, those that differ. `kind` names the
    kind of request that the figures are about; without it, the one with the most requests. Raises UsageError if no
    parameter differs, or for an unknown parameter or kind.
    """
    notes: list[str] = []
    ended = _ended(reports, notes)
    names = parameters_of([report.snapshot.params for report in ended], by)
    used = _having(ended, names, notes)
    params = [report.snapshot.params for report in used]
    figures = _figures(used, kind, notes)
    points = []
    for places in grouped(params, names):
        points.append(
            SweepPoint(
                params={name: params[places[0]].get(name) for name in names},
                runs=[run_of(used[index]) for index in places],
                figures=_readings([figures[index] for index in places]),
            )
        )
    judged = judged_by(points)
    points = [_judged(point, *verdict(point, judged)) for point in points]
    best = next((run for run in figures if run.columns), SweepFigures("metrics", ""))
    limits = {run.slo for run in figures if run.columns}
    if len(limits) > 1:
        notes.append("the runs have different limits for requests: their goodput can't be compared")
    if others := together(params, names):
        notes.append(f"{listed([printable(name) for name in others], _SHOWN)}: changes together with {names[0]}")
    return Sweep(
        name=printable(", ".join(dict.fromkeys(report.snapshot.name for report in used))),
        by=names,
        flavour=best.flavour,
        subject=best.subject,
        slo=limits.pop() if len(limits) == 1 else "",
        judged=judged,
        throughput=best.throughput,
        columns=_columns(figures),
        points=points,
        knee=knee(points, names, best.throughput) if judged and best.throughput else None,
        notes=notes,
    )


def run_of(report: Report) -> PointRun:
    """Return the facts about a run."""
    snapshot, command = report.snapshot, report.snapshot.command
    return PointRun(
        run_id=snapshot.run_id,
        name=snapshot.name,
        directory=report.directory,
        started_ns=snapshot.started_ns,
        seconds=command.wall_s if command is not None else snapshot.elapsed_s,
        completeness=report.completeness,
        exit_code=command.exit_code if command is not None else None,
        signal=command.signal if command is not None else None,
        gates=report.gates,
    )


def _ended(reports: Sequence[Report], notes: list[str]) -> list[Report]:
    """Return the runs that have ended, the oldest first."""
    ended = [report for report in reports if report.snapshot.state in TERMINAL]
    if live := len(reports) - len(ended):
        notes.append(f"{number_of(live, 'run is', 'runs are')} still going and left out")
    return sorted(ended, key=lambda report: report.snapshot.started_ns)


def _having(reports: Sequence[Report], names: Sequence[str], notes: list[str]) -> list[Report]:
    """Return the runs that have all parameters."""
    matching = [report for report in reports if all(name in report.snapshot.params for name in names)]
    if missing := len(reports) - len(matching):
        lacking = ", ".join(map(printable, names))
        notes.append(f"{number_of(missing, 'run has', 'runs have')} no parameter {lacking} and left out")
    return matching


def _figures(reports: Sequence[Report], kind: str, notes: list[str]) -> list[SweepFigures]:
    issued: Counter[str] = Counter()
    for report in reports:
        issued.update({name: int(number) for name, number in kinds_of(report).items()})
    if kind and kind not in issued:
        kinds = listed([printable(name) for name in issued], _SHOWN) if issued else "none"
        raise UsageError(f"the runs have no requests of kind {kind!r}", hint=f"kinds: {kinds}")
    trained = [report for report in reports if any(axis.values for axis in report.snapshot.axes)]
    if issued and (kind or 2 * len(trained) <= len(reports)):
        chosen = kind or issued.most_common(1)[0][0]
        if len(issued) > 1 and not kind:
            rest = listed([printable(name) for name in issued if name != chosen], _SHOWN)
            notes.append(f"figures of {printable(chosen)}; --kind shows others: {rest}")
        return [request_figures(report, chosen) for report in reports]
    return [other_figures(report, report.curves) for report in reports]


def _columns(figures: Sequence[SweepFigures]) -> list[SweepColumn]:
    """Return all columns, in the order of the run with the most of them."""
    most = sorted(figures, key=lambda run: -len(run.columns))
    columns: dict[str, SweepColumn] = {}
    for run in most:
        for key, column in run.columns.items():
            columns.setdefault(key, column)
    having = {key for run in figures for key in run.values}
    return [column for key, column in columns.items() if key in having]


def _readings(runs: Sequence[SweepFigures]) -> dict[str, PointFigure]:
    readings = {}
    for key in dict.fromkeys(key for run in runs for key in run.values):
        values = [run.values[key] for run in runs if key in run.values]
        low, high = (min(values), max(values)) if len(values) > 1 else (None, None)
        readings[key] = PointFigure(value=median(values), low=low, high=high)
    good, total = sum(run.good for run in runs), sum(run.ended for run in runs)
    if total > 0:
        low, high = wilson(good, total)
        readings[ATTAINMENT] = PointFigure(value=good / total, low=low, high=high)
    return readings


def _judged(point: SweepPoint, outcome: Verdict, reason: str) -> SweepPoint:
    return replace(point, verdict=outcome, reason=reason)


def describe(point: SweepPoint) -> str:
    """Describe the values of a point: `concurrency = 4`."""
    return told(point.params)
