"""Gates during a run: which ones fail, and which ones can't pass any more."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from telemetry import limits
from telemetry.common.directions import better_of_name
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.history import RecordedRun
from telemetry.history.step_curves import StepCurves
from telemetry.judge.gates.check import Rules, check_one
from telemetry.judge.gates.evidence import Evidence, GateInstrument
from telemetry.judge.gates.functions import BEST, SUM, function_of
from telemetry.judge.gates.parser import every_s
from telemetry.judge.gates.run_evidence import live_evidence
from telemetry.judge.gates.tree import BaselineTerm, Fact, Gate, Negated, Node, Number, Operation, Term, nodes
from telemetry.judge.gates.units import literal
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.gates import GateResult
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot

_GROWING_FACTS: Final = frozenset(
    {"lost", "emitted", "applied", "repaired", "salvaged", "producers", "nodes", "elapsed"}
)
"""Facts that only grow. `lost` is one: a live run counts only events that can't arrive any more."""
_AT_ONCE: Final = 1_024
_MOST_READS: Final = 64
"""Reads in one call: 65,000 records, less than a second of work."""
_POINTS: Final = 2
"""Points of a curve: gates need its extremes and its ends only."""
_LAG_S: Final = 2.0
"""Seconds that the history may lag behind."""


class GateNews(NamedTuple):
    """A gate result that should be reported."""

    result: GateResult
    final: bool
    """True if the gate can't pass any more. False if it fails now and may recover."""


class FailureWatch:
    """A watcher over the snapshots of a live run that reports each failure once. Not thread-safe: use one owner."""

    def __init__(self, gates: Sequence[Gate], rules: Rules, directory: RunDirectory | None) -> None:
        """Watch these gates. `directory`: the run directory, for the windows in its history."""
        self._gates = list(gates)
        self._rules = rules
        self._sure = replace(rules, confident=True)
        self._directory = directory
        self._since: dict[str, float] = {}
        """Expression → time since which it fails, in seconds of the run."""
        self._told: set[tuple[str, bool]] = set()
        self._sound: set[Gate] = set()
        """Gates that have been evaluated once and need no report before the end."""
        self._steps = LiveSteps(directory) if directory is not None and any(map(_of_steps, gates)) else None
        self._looked_s: dict[Gate, float] = {}
        """Gate → time up to which its windows have been checked."""
        self._failed_windows: dict[Gate, GateResult] = {}
        """Newest failure of a gate on windows."""

    def look(self, snapshot: MetricsSnapshot) -> Iterator[GateNews]:
        """Yield new failures. Blocks on reading the history of windows that have ended.

        Raises UsageError once for a gate that does not fit the instruments seen so far, and then ignores that gate.
        """
        curves = self._steps.curves() if self._steps is not None and snapshot.axes else None
        evidence = live_evidence(snapshot, curves=curves)
        for gate in list(self._gates):
            try:
                failures = list(self._windows(gate, snapshot) if gate.every else self._whole(gate, evidence))
            except UsageError:
                self._gates.remove(gate)
                raise
            for news in failures:
                key = news.result.expression, news.final
                if key not in self._told:
                    self._told.add(key)
                    yield news

    def so_far(self, snapshot: MetricsSnapshot) -> list[GateResult]:
        """Return the present results of all gates, by the snapshot alone.

        A gate on windows passes as long as no window has failed. Call it after `look`.
        """
        curves = self._steps.curves() if self._steps is not None and snapshot.axes else None
        evidence = live_evidence(snapshot, curves=curves)
        return [result for gate in self._gates for result in self._present(gate, evidence)]

    def _present(self, gate: Gate, evidence: Evidence) -> list[GateResult]:
        if gate.every is None:
            with suppress(UsageError):  # `look` reports it
                return check_one(gate, evidence, self._rules)
            return []
        failed = self._failed_windows.get(gate)
        expression = gate.text or str(gate)
        return [failed or GateResult(expression=expression, outcome="pass", reason="no window has failed so far")]

    def _whole(self, gate: Gate, evidence: Evidence) -> Iterator[GateNews]:
        lasting = cannot_recover(gate, evidence.instruments)
        newest = any(term.function == "last" for term in gate.terms)
        if not lasting and not newest and not _estimated(gate):
            self._try(gate, evidence)
            return
        for result in check_one(gate, evidence, self._rules if lasting else self._sure):
            if result.outcome != "fail" or (newest and result.value is not None):
                self._since.pop(result.expression, None)  # the newest value may get better, unless it is not finite
            elif lasting and gone_beyond(gate, result):
                yield GateNews(result, final=True)
            elif not lasting:
                since = self._since.setdefault(result.expression, evidence.end_s)
                yield GateNews(result, final=evidence.end_s - since >= limits.GATE_ABORT_AFTER_S)

    def _try(self, gate: Gate, evidence: Evidence) -> None:
        """Evaluate a gate until it has a value, to find usage errors early. Its outcome is reported at the end."""
        if gate not in self._sound and any(result.value is not None for result in check_one(gate, evidence)):
            self._sound.add(gate)

    def _windows(self, gate: Gate, snapshot: MetricsSnapshot) -> Iterator[GateNews]:
        """Check the windows that have ended since the last look."""
        assert gate.every is not None
        step_s = every_s(gate.every)
        seen_s = self._looked_s.get(gate, 0.0)
        if self._directory is None or (snapshot.elapsed_s - _LAG_S) // step_s <= (seen_s - _LAG_S) // step_s:
            return
        run = RecordedRun(Report(snapshot=snapshot, source="status"), self._directory)
        if not run.has_history:
            return
        self._looked_s[gate] = snapshot.elapsed_s
        begin_s = max(seen_s - 2 * _LAG_S, 0.0) // step_s * step_s
        evidence: Evidence = live_evidence(snapshot, run, begin_s)
        for result in check_one(gate, evidence, self._rules):
            if result.outcome == "fail":
                self._failed_windows[gate] = result
                yield GateNews(result, final=True)


def _estimated(gate: Gate) -> bool:
    """Check whether all measured values are estimates: their interval shows when a failure is no accident."""
    measured = [node for side in (gate.left, gate.right) for node in nodes(side) if isinstance(node, Term | Fact)]
    return all(isinstance(node, Term) and function_of(node.function).estimates for node in measured)


def _of_steps(gate: Gate) -> bool:
    """Check whether a gate may need earlier values of steps."""
    return any(term.function in ("min", "max", BEST) for term in gate.terms)


class LiveSteps:
    """A reader that goes on where it stopped. Not thread-safe."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._log: RecordLog | None = None
        self._next = 0
        self._curves = StepCurves(points=_POINTS, names=limits.STEP_NAMES_KNOWN)

    def curves(self) -> Sequence[StepCurve] | None:
        """Return the curves so far, or None if the record log can't be read. Blocks on the disk."""
        try:
            self._log = self._log or RecordLog(self._directory.records)
            for _ in range(_MOST_READS):
                records = self._log.read(self._next, _AT_ONCE)
                self._curves.feed(records)
                self._next += len(records)
                if len(records) < _AT_ONCE:
                    break
        except RunDirectoryError:
            return None
        return self._curves.curves()


def cannot_recover(gate: Gate, instruments: Sequence[GateInstrument]) -> bool:
    """Check whether a left side beyond its limit can only move further away, while the limit is constant."""
    if not all(isinstance(node, Number | Operation | Negated | BaselineTerm) for node in nodes(gate.right)):
        return False
    if len({term.function == SUM for term in gate.terms}) > 1:  # the counters of a sum depend on the other terms
        return False
    way = trend(gate.left, instruments)
    return (way > 0 and gate.relation in ("<", "<=", "==")) or (way < 0 and gate.relation in (">", ">="))


def gone_beyond(gate: Gate, result: GateResult) -> bool:
    """Check whether a failed gate that can't recover is beyond its limit.

    With `==` it may still approach the limit.
    """
    if gate.relation != "==":
        return True
    return result.value is not None and result.limit is not None and result.value > result.limit


def trend(node: Node, instruments: Sequence[GateInstrument]) -> float:
    """Return a positive number if a node only grows, a negative one if it only falls, 0 if unknown."""
    if isinstance(node, Operation):
        return _of_operation(node, instruments)
    if isinstance(node, Negated):
        return -trend(node.inner, instruments)
    if isinstance(node, Term):
        return _of_term(node, instruments)
    return float(isinstance(node, Fact) and node.name in _GROWING_FACTS)


def _of_operation(node: Operation, instruments: Sequence[GateInstrument]) -> float:
    """Combine two trends. Two growing sides grow together; a constant shifts, scales or inverts the other side."""
    left, right = trend(node.left, instruments), trend(node.right, instruments)
    before, after = _constant(node.left), _constant(node.right)
    if node.sign in ("+", "-"):
        right = right if node.sign == "+" else -right
        return left if after is not None or left == right else right if before is not None else 0.0
    if after:
        return left * math.copysign(1.0, after)
    return right * math.copysign(1.0, before) if before and node.sign == "*" else 0.0


def _of_term(term: Term, instruments: Sequence[GateInstrument]) -> float:
    if term.function == "value":
        return float({item.kind for item in instruments if item.name == term.metric.name} == {"counter"})
    if term.function == BEST:
        return -1.0 if better_of_name(term.metric.name) == "lower" else 1.0
    if term.function == "min":
        return -1.0
    return float(function_of(term.function).grows or term.function == "p100")


def _constant(node: Node) -> float | None:
    """Return the value of a number or a negated number, or None for any other node."""
    if isinstance(node, Number):
        return node.value * literal(node.unit)[1]
    inner = _constant(node.inner) if isinstance(node, Negated) else None
    return None if inner is None else -inner
