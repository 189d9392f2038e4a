"""Verdicts on points, and the knee among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telemetry.common.formatting import percent, printable
from telemetry.history.headlines.loads import ATTAINED
from telemetry.judge.sweeps.figures import ATTAINMENT
from telemetry.judge.sweeps.model import Judged, Knee, PointRun, SweepPoint, Verdict
from telemetry.judge.sweeps.points import is_number
from telemetry.wire.gates import worst

_REASON_CHARS: Final = 120


def judged_by(points: Sequence[SweepPoint]) -> Judged:
    """Return the rule behind the verdicts of these points."""
    if any(run.gates for point in points for run in point.runs):
        return "gates"
    return "attainment" if any(point.value(ATTAINMENT) is not None for point in points) else ""


def verdict(point: SweepPoint, judged: Judged) -> tuple[Verdict, str]:
    """Return the verdict on a point, and why it does not pass.

    A failed gate comes before a failed command: `--abort-on-fail` ends the command.
    """
    outcome = worst([gate for run in point.runs for gate in run.gates])
    failed = [ended(run) for run in point.runs if has_failed(run)]
    unfit = [run.completeness for run in point.runs if run.completeness != "complete"]
    if outcome == "fail":
        return "fail", _gate(point, "fail")
    if failed or unfit:
        return ("failed", failed[0]) if failed else ("incomplete", unfit[0])
    return _by_gates(point) if judged == "gates" else _by_attainment(point)


def knee(points: Sequence[SweepPoint], by: Sequence[str], throughput: str) -> Knee | None:
    """Return the point with the highest throughput among those that pass; None if there is none."""
    readings = [(point.value(throughput), point) for point in points if point.verdict == "pass"]
    pairs = [(value, point) for value, point in readings if value is not None]
    if not pairs or not by:
        return None
    value, best = max(pairs, key=lambda pair: pair[0])
    return Knee(params=best.params, throughput=value, is_last=not any(_beyond(point, best, by) for point in points))


def has_failed(run: PointRun) -> bool:
    """Return whether the command of a run failed."""
    return run.signal is not None or run.exit_code not in (0, None)


def ended(run: PointRun) -> str:
    """Describe how the command of a run ended: `exit code 3`, `SIGKILL`."""
    return printable(run.signal) if run.signal else f"exit code {run.exit_code}"


def _beyond(point: SweepPoint, best: SweepPoint, by: Sequence[str]) -> bool:
    """Return whether a point lies further along the axis than the best one, on the same line."""
    axis, *others = by
    here, there = best.params.get(axis), point.params.get(axis)
    if any(point.params.get(name) != best.params.get(name) for name in others):
        return False
    if not (is_number(here) and is_number(there)):
        return point is not best
    return there > here


def _by_gates(point: SweepPoint) -> tuple[Verdict, str]:
    gates = [gate for run in point.runs for gate in run.gates]
    outcome = worst(gates)
    if outcome == "pass":
        return ("pass", "") if gates else ("none", "no gates")
    return outcome, _gate(point, outcome)


def _by_attainment(point: SweepPoint) -> tuple[Verdict, str]:
    share = point.value(ATTAINMENT)
    if share is None:
        return "none", ""
    return ("pass", "") if share >= ATTAINED else ("fail", f"attainment below {percent(ATTAINED)}")


def _gate(point: SweepPoint, outcome: str) -> str:
    first_gate = next(gate for run in point.runs for gate in run.gates if gate.outcome == outcome)
    text = printable(f"{first_gate.expression}: {first_gate.reason}")
    return text if len(text) <= _REASON_CHARS else f"{text[: _REASON_CHARS - 1]}…"
