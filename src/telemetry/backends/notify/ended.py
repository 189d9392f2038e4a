"""The end of a run, as one notification."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from telemetry import formatting, wording
from telemetry.backends.backend import RunFacts
from telemetry.backends.notify.message import Look, Message, external, figures, line, message
from telemetry.config.schema import EventName
from telemetry.formatting import number_of, printable
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CommandFacts, MetricsSnapshot

_INTERRUPTS = ("SIGINT", "SIGTERM", "SIGHUP")
_SHELL = 128 + 2
"""Exit code of a shell or a program that Ctrl-C ended."""
_GATES = 5
_ROOT = "runs"
"""Name of the default folder of runs, in which commands find a run by its id."""

Ending = Literal["ended", "failed", "interrupted"]


class RunEnd(Struct, frozen=True, kw_only=True):
    """The facts of a finished run that its notification needs."""

    ending: Ending
    how: str
    """How the command ended, if it failed; why the run ended, if it was interrupted."""
    figures: list[str]
    result: str
    """Completeness of the result; empty if it is complete."""
    seconds: float
    directory: str
    time_ns: int

    def events(self, gates: Sequence[GateResult], ended_by: str) -> set[EventName]:
        """Return the events that this end is: each of them may be wanted. `ended_by`: as in `message`."""
        found: set[EventName] = {"ended"}
        if not ended_by:  # otherwise the command failed only because it was stopped
            found.add(self.ending)
        if ended_by or _failed(gates):
            found.add("gate")
        return found

    def message(self, run: RunFacts, gates: Sequence[GateResult], ended_by: str) -> Message:
        """Return the notification. `ended_by`: the gate that ended the command, or an empty text."""
        failed = _failed(gates)
        name = printable(run.name)
        first = f": {', '.join(self.figures[:2])}" if self.figures else ""
        event: EventName = self.ending
        look: Look = "warning" if self.result else "success"
        if ended_by or (failed and self.ending == "ended"):
            event, look = "gate", "failure"
            title = f"{name} {'was stopped' if ended_by else 'ended'}: {_gates_in_short(failed, gates)}"
        elif self.ending == "failed":
            title, look = f"{name} failed: {self.how}", "failure"
        elif self.ending == "interrupted":
            title, look = f"{name} was interrupted{first}", "warning"
        else:
            title = f"{name} ended{first}"
        inconclusive = sum(gate.outcome == "inconclusive" for gate in gates)
        lines = [
            line(self.figures),
            *(f"gate failed: {external(gate.expression)}: {external(gate.reason)}" for gate in failed[:_GATES]),
            f"{len(failed) - _GATES} more gates failed" if len(failed) > _GATES else "",
            f"{number_of(inconclusive, 'gate is', 'gates are')} inconclusive" if inconclusive else "",
            f"{number_of(len(gates), 'gate')} passed" if gates and not failed and not inconclusive else "",
            self.how if self.how and self.how not in title and not ended_by else "",
            f"result: {self.result}" if self.result else "",
            line(
                [f"took {formatting.duration_s(self.seconds)}", f"host {printable(run.host)}" if run.host else ""]
            ),
            _report(run, self.directory),
        ]
        return message("end", event, title, lines, look=look, time_ns=self.time_ns)


def run_end(snapshot: MetricsSnapshot) -> RunEnd:
    """Return the facts of a final snapshot."""
    command = snapshot.command
    report = Report(snapshot=snapshot, source="pubsub")
    ending, how = _ending(snapshot, command)
    return RunEnd(
        ending=ending,
        how=how,
        figures=figures(snapshot, recent=False),
        result="" if report.completeness == "complete" else external(report.headline()),
        seconds=snapshot.elapsed_s,
        directory=snapshot.directory,
        time_ns=snapshot.time_ns,
    )


def _ending(snapshot: MetricsSnapshot, command: CommandFacts | None) -> tuple[Ending, str]:
    if snapshot.state == "INTERRUPTED":
        return "interrupted", external(snapshot.reason)
    if command is None or not (command.signal or command.exit_code):
        return "ended", ""
    cause = f" ({why})" if (why := wording.cause(command)) else ""
    how = f"command {wording.ending(command)}{cause}" if command.signal else f"{wording.ending(command)}{cause}"
    if command.signal in _INTERRUPTS or command.exit_code == _SHELL:
        return "interrupted", how
    return "failed", how


def _failed(gates: Sequence[GateResult]) -> list[GateResult]:
    return [gate for gate in gates if gate.outcome == "fail"]


def _gates_in_short(failed: Sequence[GateResult], gates: Sequence[GateResult]) -> str:
    if len(failed) == 1:
        return f"gate failed: {external(failed[0].expression)}"
    return f"{len(failed)} of {number_of(len(gates), 'gate')} failed" if failed else "gate failed"


def _report(run: RunFacts, directory: str) -> str:
    if not directory:
        return ""
    spec = run.run_id if directory.rstrip("/").split("/")[-2:-1] == [_ROOT] else directory
    return printable(f"telemetry report {shlex.quote(spec)}")
