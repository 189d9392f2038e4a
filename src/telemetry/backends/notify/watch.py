"""The watch over a run: it turns items into notifications. Pure: its only clock is the time of the items."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from telemetry import limits
from telemetry.backends.backend import RunFacts
from telemetry.backends.items import Item, Live, Mark, Step
from telemetry.backends.notify.message import Look, Message, external, figures, line, message
from telemetry.common import formatting, wording
from telemetry.common.formatting import number_of, printable
from telemetry.common.headline_choice import shown_params
from telemetry.config.schema import EventName, NotifyConfig
from telemetry.history.headlines.concerns import NOT_FINITE, at_step
from telemetry.wire.gates import GateResult
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL, CommandFacts, MetricsSnapshot

_INTERRUPTS = ("SIGINT", "SIGTERM", "SIGHUP")
_SHELL = 128 + 2
"""Exit code of a shell or a program that Ctrl-C ended."""
_GATES = 5
_ROOT = "runs"
"""Name of the default folder of runs, in which commands find a run by its id."""
Ending = Literal["ended", "failed", "interrupted"]
_ERRORS: Final = frozenset({"error", "critical", "fatal"})
_SEVERITY: Final = ("severity", "level")
"""Labels of a mark that name its severity."""
_QUIET: Final = frozenset((*_SEVERITY, "source", "flight"))
"""Labels that a notification leaves out."""
_MINUTE_NS: Final = 60_000_000_000
_LABELS: Final = 4
_NAMES: Final = 5
_PARAMS: Final = 6


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
        names: set[EventName] = {"ended"}
        if not ended_by:  # otherwise the command failed only because it was stopped
            names.add(self.ending)
        if ended_by or _failed(gates):
            names.add("gate")
        return names

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


class Minute(Struct):
    """Notifications of one event in the current minute."""

    began_ns: int = 0
    told: int = 0
    held: int = 0
    newest: str = ""
    """Text of the newest one that was held back."""


class Seen(Struct, kw_only=True):
    """The state of a watch, which the next process goes on with."""

    begun: bool = False
    names: list[str] = []
    """Names of values that were not finite."""
    minutes: dict[str, Minute] = {}
    events: int = 0
    """Events of the run in the newest snapshot."""
    moved_s: float | None = None
    """Time since the run's start at which `events` grew; None while no stall can begin."""
    stalled: bool = False
    gate: str = ""
    """Gate that ended the command."""
    end: RunEnd | None = None
    """The end of the run; None while it goes on."""


class NotifyWatch:
    """A watch over one run. All methods return or yield new notifications, in order."""

    def __init__(self, run: RunFacts, config: NotifyConfig, seen: Seen) -> None:
        """Continue from `seen`, which this object changes."""
        self.seen = seen
        self._run = run
        self._name = printable(run.name)
        self._events = frozenset(config.events)
        self._stalled_s = config.stalled_s
        self._snapshot: MetricsSnapshot | None = None

    def begin(self) -> Iterator[Message]:
        """Yield the notification about the start, once."""
        if self.seen.begun:
            return
        self.seen.begun = True
        params = shown_params(self._run.params)
        parts = [f"{external(name)} {external(str(value), 40)}" for name, value in list(params.items())[:_PARAMS]]
        title, lines = f"{self._name} started", [line(parts), self._place()]
        yield from self._wanted(message("start", "start", title, lines, look="info", time_ns=self._run.started_ns))

    def take(self, item: Item) -> Iterator[Message]:
        """Yield the notifications about an item."""
        yield from self._sums(item.time_ns)
        if isinstance(item, Step):
            yield from self._step(item)
        elif isinstance(item, Mark):
            yield from self._mark(item)
        elif isinstance(item, Live):
            yield from self._live(item.snapshot)

    def gate_ended(self, gate: GateResult, now_ns: int) -> Iterator[Message]:
        """Yield the notification about the gate that ends the command, once."""
        if self.seen.gate:
            return
        self.seen.gate = gate.expression
        title = f"{self._name}: gate failed, the command is stopped"
        lines = [external(gate.expression), external(gate.reason), self._figures(), self._place()]
        yield from self._wanted(message("gate", "gate", title, lines, look="failure", time_ns=now_ns))

    def conclude(self, gates: Sequence[GateResult], now_ns: int) -> Iterator[Message]:
        """Yield what was held back, and the notification about the end. Called once the run has its result."""
        yield from self._sums(now_ns, last=True)
        end = self.seen.end
        if end is not None and end.events(gates, self.seen.gate) & self._events:
            yield end.message(self._run, gates, self.seen.gate)

    # --- items -----------------------------------------------------------------------------------

    def _step(self, step: Step) -> Iterator[Message]:
        old_names = self.seen.names
        new = [name for name, value in step.values.items() if not math.isfinite(value) and name not in old_names]
        new = new[: limits.NOTIFY_NAMES - len(old_names)]
        if not new:
            return
        self.seen.names = [*old_names, *new]
        where = at_step(external(step.axis), step.step)
        what = external(new[0]) if len(new) == 1 else number_of(len(new), "value")
        title = f"{self._name}: {what} {'is' if len(new) == 1 else 'are'} {NOT_FINITE} at {where}"
        names = formatting.listed([external(name) for name in new], _NAMES) if len(new) > 1 else ""
        finite = [
            f"{external(name)} {formatting.scaled(value)}"
            for name, value in step.values.items()
            if math.isfinite(value)
        ]
        lines = [names, line(finite[:_NAMES]), self._place()]
        yield from self._limited(
            message(f"n{step.key}", "not_finite", title, lines, look="failure", time_ns=step.time_ns)
        )

    def _mark(self, mark: Mark) -> Iterator[Message]:
        if not _is_error(mark.labels):
            return
        text = external(mark.text)
        title = f"{self._name}: error: {text}"
        labels = [
            f"{external(key)}: {external(value)}" for key, value in mark.labels.items() if key.lower() not in _QUIET
        ]
        lines = [text if len(title) > 80 else "", *labels[:_LABELS], self._figures(), self._place()]
        yield from self._limited(
            message(f"m{mark.key}", "error", title, lines, look="failure", time_ns=mark.time_ns)
        )

    def _live(self, snapshot: MetricsSnapshot) -> Iterator[Message]:
        self._snapshot = snapshot
        if snapshot.state in TERMINAL:
            self.seen.end = run_end(snapshot)
            return
        yield from self._stall(snapshot)

    def _stall(self, snapshot: MetricsSnapshot) -> Iterator[Message]:
        seen, now_s = self.seen, snapshot.elapsed_s
        events = snapshot.accounting.received
        if events != seen.events:
            still_s = now_s - seen.moved_s if seen.moved_s is not None else 0.0
            was_stalled, seen.stalled = seen.stalled, False
            seen.events, seen.moved_s = events, now_s
            if was_stalled:
                title = f"{self._name} goes on after {_time(still_s)}"
                yield from self._news(f"g{events}", title, "success", snapshot)
        elif not events or not _may_record(snapshot):
            seen.moved_s, seen.stalled = None, False
        elif seen.moved_s is None or now_s < seen.moved_s:
            seen.moved_s = now_s
        elif not seen.stalled and now_s - seen.moved_s >= self._stalled_s:
            seen.stalled = True
            title = f"{self._name} stalled: nothing new for {_time(now_s - seen.moved_s)}"
            yield from self._news(f"s{events}", title, "warning", snapshot)

    def _news(self, key: str, title: str, look: Look, snapshot: MetricsSnapshot) -> Iterator[Message]:
        lines = [line(figures(snapshot, recent=False)), self._place()]
        yield from self._wanted(message(key, "stalled", title, lines, look=look, time_ns=snapshot.time_ns))

    # --- limits ----------------------------------------------------------------------------------

    def _wanted(self, notification: Message) -> Iterator[Message]:
        if notification.event in self._events:
            yield notification

    def _limited(self, notification: Message) -> Iterator[Message]:
        """Yield a notification if there are few of its kind in this minute. Others are counted for a sum."""
        if notification.event not in self._events:
            return
        minute = self.seen.minutes.get(notification.event)
        if minute is None or notification.time_ns - minute.began_ns >= _MINUTE_NS:
            minute = Minute(began_ns=notification.time_ns)
            self.seen.minutes = {**self.seen.minutes, notification.event: minute}
        if minute.told < limits.NOTIFY_PER_MINUTE:
            minute.told += 1
            yield notification
        else:
            minute.held += 1
            minute.newest = notification.title

    def _sums(self, now_ns: int, *, last: bool = False) -> Iterator[Message]:
        """Yield sums of notifications that were held back in minutes that are over."""
        for event, minute in list(self.seen.minutes.items()):
            if minute.held and (last or now_ns - minute.began_ns >= _MINUTE_NS):
                what = "error" if event == "error" else "message about values that are not finite"
                more = "errors" if event == "error" else "messages about values that are not finite"
                title = f"{self._name}: {number_of(minute.held, f'more {what}', f'more {more}')} within a minute"
                newest = f"the newest: {minute.newest.removeprefix(f'{self._name}: ')}"
                kind: EventName = "error" if event == "error" else "not_finite"
                key = f"sum {event} {minute.began_ns}"
                minute.held, minute.newest = 0, ""
                yield message(
                    key, kind, title, [newest, self._figures(), self._place()], look="failure", time_ns=now_ns
                )

    # --- text ------------------------------------------------------------------------------------

    def _figures(self) -> str:
        return line(figures(self._snapshot, recent=True))

    def _place(self) -> str:
        return f"host {printable(self._run.host)}" if self._run.host else ""


def _is_error(labels: Mapping[str, str]) -> bool:
    severity = next((labels[name] for name in _SEVERITY if name in labels), "")
    return severity.lower() in _ERRORS


def _may_record(snapshot: MetricsSnapshot) -> bool:
    """Return whether a producer of the user or a node has not ended."""
    statuses = {stat.status for stat in snapshot.own_producers} | {stat.status for stat in snapshot.nodes}
    return snapshot.state == "LIVE" and bool(statuses - {"ended"})


def _time(seconds: float) -> str:
    """Format a time that nobody needs to the millisecond: `45 s`, `5 min`, `2 h 10 min`."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
