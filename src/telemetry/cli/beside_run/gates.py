"""Gates from the command line or the settings: parsed before a run, watched during it, evaluated after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from telemetry.cli.beside_run.participants import BegunRun, Participant
from telemetry.config.schema import Config
from telemetry.errors import RunDirectoryError, TelemetryError, UsageError
from telemetry.history import RecordedRun, TimeRangeChoice, open_run
from telemetry.judge.gates.check import Rules, check_one
from telemetry.judge.gates.evidence import Evidence
from telemetry.judge.gates.functions import SHARE
from telemetry.judge.gates.noise import floors
from telemetry.judge.gates.parser import parse_all
from telemetry.judge.gates.run_evidence import RunEvidence, evidence_of
from telemetry.judge.gates.tree import Gate
from telemetry.judge.gates.watch import FailureWatch
from telemetry.store.calibrations import Calibration, Command, find_calibration, read_calibration
from telemetry.store.gate_results import write_ending_gate, write_gates, write_gates_so_far
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.exit_codes import Exit
from telemetry.wire.gates import RUN_EXIT_CODES, GateResult, worst
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot

if TYPE_CHECKING:
    from telemetry.cli.wrapped.command import Job

_SETTLES_S: Final = 2.0
"""Longest delay in seconds between the result and the last interval of a history."""
_LOOK_AGAIN_S: Final = 0.05
_SHOWN_CHARS: Final = 1_000  # of a gate with all its labels: the reason a run ended is one line


def exit_code(results: Sequence[GateResult]) -> Exit:
    """Return the exit code: a failed gate (99) takes precedence over an inconclusive one (3)."""
    return RUN_EXIT_CODES[worst(list(results))]


@dataclass(frozen=True)
class GateConditions:
    """The gates of a run and the rules to check them by."""

    gates: list[Gate]
    rules: Rules


def demands(
    texts: Sequence[str],
    config: Config,
    root: Path,
    *,
    command: Command | None = None,
    baseline: str | None = None,
    confident: bool = False,
    calibration: str | None = None,
    choice: TimeRangeChoice | None = None,
) -> GateConditions:
    """Parse gates, and load the baseline and the calibration they need. Blocks on files.

    The calibration of the run's `command` is used unless one is given by name. Raises UsageError for an invalid
    gate and RunNotFoundError for a given calibration that is missing. Without a readable baseline, the
    gates that need it are inconclusive.
    """
    gates = parse_all(texts)
    evidence, why = None, Rules().no_baseline
    wanted = config.gates.baseline if baseline is None else baseline
    if wanted and any(gate.uses_baseline for gate in gates):
        evidence, why = _baseline(wanted, root, config, choice)
    used_calibration = (
        _calibration(root, command, calibration) if evidence is not None or calibration is not None else None
    )
    rules = Rules(
        confident=confident or config.gates.confident,
        baseline=evidence,
        no_baseline=why,
        noise=floors(used_calibration),
    )
    return GateConditions(gates, rules)


def _baseline(spec: str, root: Path, config: Config, choice: TimeRangeChoice | None) -> tuple[Evidence | None, str]:
    try:
        return evidence_of(open_run(spec, root, config.run.fallback_dirs), choice), ""
    except TelemetryError as error:
        return None, f"can't read the baseline: {error}"


def _calibration(root: Path, command: Command | None, given: str | None) -> Calibration | None:
    if given is not None:
        return read_calibration(root, given)
    return find_calibration(root, command) if command is not None else None


class RunGates(Participant):
    """The gates of one `telemetry run`. Main thread only."""

    def __init__(self, asked: GateConditions, say: Callable[[str], object], *, abort: bool, quiet: bool) -> None:
        """Store the gates. With `abort`, a gate that can't pass any more ends the command.

        `say` prints one message line.
        """
        self._asked = asked
        self._abort = abort
        self._quiet = quiet
        self._watch: FailureWatch | None = None
        self._say = say
        self._end: Callable[[], None] = lambda: None
        self._directory = ""
        self._so_far: list[GateResult] = []
        """The results that were written last."""
        self.ended_by: GateResult | None = None
        """The gate that ended the command."""
        self.failing: list[GateResult] = []
        """Gates that were found to fail while the command ran."""

    def begin(self, run: BegunRun) -> dict[str, str]:
        self._directory = run.directory
        return {}

    def accompany(self, job: Job) -> None:
        """Start watching."""
        self._end = job.end
        rules = self._asked.rules
        if not self._quiet and rules.baseline is None and any(gate.uses_baseline for gate in self._asked.gates):
            self._say(rules.no_baseline)
        self._watch = FailureWatch(self._asked.gates, self._asked.rules, _opened(self._directory))

    def look(self, snapshot: MetricsSnapshot | None) -> None:
        """Check the gates against a snapshot. Reports each failure once, and ends the command with `abort`."""
        if snapshot is None or self._watch is None or self.ended_by is not None:
            return
        try:
            for news in self._watch.look(snapshot):
                self.failing.append(news.result)
                ends = news.final and self._abort
                if ends or not self._quiet:
                    what = "gate failed, stopping the command" if ends else "gate is failing"
                    self._say(f"{what}: {news.result.expression}: {news.result.reason}")
                if ends:
                    self.ended_by = news.result
                    self._end()
                    self._write_ending_gate(news.result)
                    self._write_so_far(self._watch.so_far(snapshot))
                    return
        except UsageError as error:
            self._say(str(error))
        self._write_so_far(self._watch.so_far(snapshot))

    def ending(self, why: str) -> str:
        """Return the reason why the run ends, in words. `why` is the command's own reason."""
        if self.ended_by is None:
            return why
        return f"stopped because the gate {self.ended_by.expression[:_SHOWN_CHARS]} failed; {why}"

    def conclude(self, report: Report) -> Report:
        """Return the report with the results of the gates, and write them beside the result. Blocks on the disk."""
        results = self._results(report)
        directory = report.directory or self._directory
        try:
            if directory:
                write_gates(Path(directory), results)
        except RunDirectoryError as error:
            self._say(str(error))
        return replace(report, gates=results)

    def _write_so_far(self, results: list[GateResult]) -> None:
        """Write the present results for viewers of the run, if they have changed."""
        if self._directory and results != self._so_far:
            self._so_far = results
            with suppress(RunDirectoryError):  # the results at the end are what counts
                write_gates_so_far(Path(self._directory), results)

    def _write_ending_gate(self, result: GateResult) -> None:
        """Write the gate for notifications: the command may take a while to end."""
        with suppress(RunDirectoryError):  # the results at the end name the gate, too
            if self._directory:
                write_ending_gate(Path(self._directory), result)

    def _results(self, report: Report) -> list[GateResult]:
        run = RecordedRun(report, _opened(report.directory or self._directory))
        evidence = _settled(run) if any(map(_by_history, self._asked.gates)) else RunEvidence(run)
        results = [result for gate in self._asked.gates for result in _answer(gate, evidence, self._asked.rules)]
        ended = self.ended_by
        if ended is None:
            return results
        failure = replace(ended, outcome="fail", reason=f"{ended.reason}; the command was stopped")
        if not any(result.expression == ended.expression for result in results):
            return [failure, *results]
        return [failure if result.expression == ended.expression else result for result in results]


def _by_history(gate: Gate) -> bool:
    """Return whether a gate needs the history. The result alone answers all other gates."""
    return gate.every is not None or any(term.percentile or term.function == SHARE for term in gate.terms)


def _answer(gate: Gate, evidence: Evidence, rules: Rules) -> list[GateResult]:
    """Check one gate.

    A gate that does not fit the recorded metrics becomes inconclusive, so that the others still count.
    """
    try:
        return check_one(gate, evidence, rules)
    except UsageError as error:
        reason = error.message.partition("\n")[0]
        return [GateResult(expression=gate.text or str(gate), outcome="inconclusive", reason=reason)]


def _opened(directory: str) -> RunDirectory | None:
    try:
        return RunDirectory.open(Path(directory)) if directory else None
    except TelemetryError:
        return None


def _settled(run: RecordedRun) -> RunEvidence:
    """Return evidence once the history matches the result, or after `_SETTLES_S`."""
    deadline = monotonic() + _SETTLES_S
    while True:
        evidence = RunEvidence(run)
        if evidence.settled or monotonic() > deadline:
            return evidence
        sleep(_LOOK_AGAIN_S)
        run = RecordedRun(run.result, run.directory)
