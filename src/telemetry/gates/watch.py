"""Gates during a run: which ones fail, and which ones can't pass any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, NamedTuple

from telemetry import limits
from telemetry.errors import UsageError
from telemetry.gates.check import Rules, check_one
from telemetry.gates.evidence import Evidence
from telemetry.gates.functions import ATTAINMENT, BEST, SHARE
from telemetry.gates.live_steps import LiveSteps
from telemetry.gates.parser import every_s
from telemetry.gates.run_evidence import live_evidence
from telemetry.gates.tree import Fact, Gate, Term, nodes
from telemetry.gates.trend import cannot_recover, gone_beyond
from telemetry.history import RecordedRun
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot

_ESTIMATES: Final = frozenset({"mean", SHARE, ATTAINMENT})
"""Functions with a confidence interval, besides percentiles."""
_LAG_S: Final = 2.0
"""Seconds that the history may lag behind."""


class GateNews(NamedTuple):
    """A gate result that should be reported."""

    result: GateResult
    final: bool
    """True if the gate can't pass any more. False if it fails now and may recover."""


class Watch:
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
                found = list(self._windows(gate, snapshot) if gate.every else self._whole(gate, evidence))
            except UsageError:
                self._gates.remove(gate)
                raise
            for news in found:
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
    return all(isinstance(node, Term) and (node.percentile or node.function in _ESTIMATES) for node in measured)


def _of_steps(gate: Gate) -> bool:
    """Check whether a gate may need earlier values of steps."""
    return any(term.function in ("min", "max", BEST) for term in gate.terms)
