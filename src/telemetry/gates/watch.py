"""Gates while a run goes on: which fail, and which can't pass any more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from telemetry import limits
from telemetry.errors import UsageError
from telemetry.gates.check import Rules, check_one
from telemetry.gates.evidence import Evidence
from telemetry.gates.parser import every_s
from telemetry.gates.run_evidence import live_evidence
from telemetry.gates.tree import Fact, Gate, Term, nodes
from telemetry.gates.trend import cannot_recover, gone_beyond
from telemetry.history import RecordedRun
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot

_LAG_S: Final = 2.0
"""Seconds that the history may be behind."""


class GateNews(NamedTuple):
    """Something that has to be said of a gate."""

    result: GateResult
    final: bool
    """It can't pass any more; else it fails by all that is known, and may recover."""


class Watch:
    """One owner. Looks at each snapshot; says each thing once."""

    def __init__(self, gates: Sequence[Gate], rules: Rules, directory: RunDirectory | None) -> None:
        """`directory`: of the run, for the windows in its history."""
        self._gates = list(gates)
        self._rules = rules
        self._sure = replace(rules, confident=True)
        self._directory = directory
        self._since: dict[str, float] = {}
        """Expression → since when it fails, in seconds of the run."""
        self._told: set[tuple[str, bool]] = set()
        self._sound: set[Gate] = set()
        """Those of which there is nothing to say before the end."""
        self._looked_s: dict[Gate, float] = {}
        """How far the windows of a gate have been looked at."""

    def look(self, snapshot: MetricsSnapshot) -> Iterator[GateNews]:
        """What is new. Reads the history of windows that have ended, and blocks on it. A gate that makes no sense
        for the instruments that have come raises UsageError, once; after that it is left alone."""
        for gate in list(self._gates):
            try:
                found = list(self._windows(gate, snapshot) if gate.every else self._whole(gate, snapshot))
            except UsageError:
                self._gates.remove(gate)
                raise
            for news in found:
                key = news.result.expression, news.final
                if key not in self._told:
                    self._told.add(key)
                    yield news

    def _whole(self, gate: Gate, snapshot: MetricsSnapshot) -> Iterator[GateNews]:
        evidence = live_evidence(snapshot)
        lasting = cannot_recover(gate, evidence.instruments)
        if not lasting and not _estimated(gate):
            self._try(gate, evidence)
            return
        for result in check_one(gate, evidence, self._rules if lasting else self._sure):
            if result.outcome != "fail":
                self._since.pop(result.expression, None)
            elif lasting and gone_beyond(gate, result):
                yield GateNews(result, final=True)
            elif not lasting:
                since = self._since.setdefault(result.expression, snapshot.elapsed_s)
                yield GateNews(result, final=snapshot.elapsed_s - since >= limits.GATE_ABORT_AFTER_S)

    def _try(self, gate: Gate, evidence: Evidence) -> None:
        """Until it has come to something, it may make no sense; what it came to will be told at the end."""
        if gate not in self._sound and any(result.value is not None for result in check_one(gate, evidence)):
            self._sound.add(gate)

    def _windows(self, gate: Gate, snapshot: MetricsSnapshot) -> Iterator[GateNews]:
        """Those that have ended since the last look."""
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
                yield GateNews(result, final=True)


def _estimated(gate: Gate) -> bool:
    """Whether all that is measured are estimates, whose interval says when a failure is no accident."""
    measured = [node for side in (gate.left, gate.right) for node in nodes(side) if isinstance(node, Term | Fact)]
    return all(isinstance(node, Term) and (node.percentile or node.function == "mean") for node in measured)
