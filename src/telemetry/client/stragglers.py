"""Work and wait of this process in each step, for the detection of slow ranks.

A process declares which of its spans are waits, such as a collective call. At the end of a step it logs the time in
these spans, and the rest of the step as work. Work and wait are durations on its own clock.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from telemetry import limits
from telemetry.client import records, user_warnings
from telemetry.client.catalog import check_text
from telemetry.client.identity import host_name, process_rank
from telemetry.client.redaction import REDACTION
from telemetry.errors import InstrumentError
from telemetry.wire import stragglers as words
from telemetry.wire.events import DEFAULT_AXIS, Params, Scalars

if TYPE_CHECKING:
    from telemetry.client.process import Process
    from telemetry.client.sending.outbox import Outbox
    from telemetry.config.schema import EmitConfig

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_now: Final = time.monotonic_ns
GROUPS_VARIABLE: Final = "TELEMETRY_GROUPS"
_NUMBER: Final = re.compile(r"\d{1,18}", re.ASCII)
_NAMES: Final = 10_000
"""Number of span names whose answer is remembered."""
_SPANS: Final = 10_000
"""Number of spans of a step from which overlapping ones are put together."""


class Declaration(Protocol):
    """A declaration of work and wait on an axis. It is repeated for each run that the process attaches to."""

    axis: str

    def records(self) -> list[bytes]: ...


class DeclaredPair:
    """Two names of an axis that the program logs itself."""

    def __init__(self, axis: str, work: str, wait: str) -> None:
        self.axis = axis
        self._names = work, wait

    def records(self) -> list[bytes]:
        params = Params(dict(words.params(self.axis, *self._names)), _now())
        return [_axis(self.axis, self._names), _ENCODE(params)]


class StepWaits:
    """A clock of the steps on one axis: it divides each step into work and wait. Any thread may call it."""

    def __init__(self, axis: str, patterns: Sequence[str]) -> None:
        self.axis = axis
        self._matches = re.compile("|".join(".*".join(map(re.escape, each.split("*"))) for each in patterns), re.S)
        self._known: dict[str, bool] = {}
        self._spans: list[tuple[int, int]] = []
        self._begun_ns: int | None = None
        """Begin of the current step; None before the end of the first one, whose begin is not known."""
        self._step: int | None = None
        """Highest step that this process has logged values of, or ended."""
        self._ended = False
        """True if this step has its work and wait."""

    def records(self) -> list[bytes]:
        return [_axis(self.axis, (words.WORK, words.WAIT))]

    def span(self, name: str, start_ns: int, end_ns: int) -> None:
        """Add a span that is over, if it is a wait."""
        is_wait = self._known.get(name)
        if is_wait is None:
            is_wait = self._matches.fullmatch(name) is not None
            if len(self._known) < _NAMES:
                self._known[name] = is_wait
        if is_wait:
            self._spans.append((start_ns, end_ns))
            if len(self._spans) >= _SPANS:
                self._spans = _united(self._spans)

    def log(self, step: int) -> bytes | None:
        """Register values of a step. Return the record of the step before, if this one ends it."""
        if step == self._step:
            return None
        before, ended = self._step, self._ended
        if before is not None and step < before:
            return None
        self._step, self._ended = step, False
        return None if before is None or ended else self._record(before)

    def end(self, step: int) -> bytes | None:
        """Return the record of a step that ends now. Return None if it has ended already, or is the first one."""
        if self._step is not None and (step < self._step or (step == self._step and self._ended)):
            return None
        self._step, self._ended = step, True
        return self._record(step)

    def _record(self, step: int) -> bytes | None:
        """Return work and wait since the last record. Return None if there was no wait: then nothing is known."""
        now_ns, begun_ns = _now(), self._begun_ns
        spans, self._spans, self._begun_ns = self._spans, [], now_ns
        if begun_ns is None or not spans:
            return None
        waits = ((max(start, begun_ns), min(end, now_ns)) for start, end in spans)
        wait_ns = sum(end - start for start, end in _united(wait for wait in waits if wait[0] < wait[1]))
        work_s = (now_ns - begun_ns - wait_ns) / 1e9
        values: dict[str, float | None] = {words.WORK: work_s, words.WAIT: wait_ns / 1e9}
        axis = REDACTION.redactor.name(self.axis)[: limits.NAME_CHARS]
        return _ENCODE(Scalars(axis, step, values, now_ns))


def declared(axis: object, work: str | None, wait: str | Iterable[str]) -> StepWaits | DeclaredPair:
    """Return a declaration. Raise InstrumentError for a wrong one."""
    check_text("an axis", axis, limits.NAME_CHARS)
    name = str(axis)
    patterns = [wait] if isinstance(wait, str) else list(wait)
    for each in patterns:
        check_text("a wait", each, limits.NAME_CHARS)
    if work is None:
        if not patterns:
            raise InstrumentError("stragglers need the name of a wait", hint='give wait="all_reduce"')
        return StepWaits(name, patterns)
    check_text("the work", work, limits.NAME_CHARS)
    if len(patterns) != 1:
        raise InstrumentError(
            f"stragglers with work={work!r} need one name for the wait, not {len(patterns)}",
            hint='give both names that you log: work="time/compute", wait="time/all_reduce"',
        )
    return DeclaredPair(name, work, patterns[0])


def declare(process: Process, declaration: StepWaits | DeclaredPair) -> None:
    """Make a declaration of this process, in place of an earlier one for the axis. Attach it like an instrument."""
    process.stragglers = {**process.stragglers, declaration.axis: declaration}
    process.step_waits = tuple(each for each in process.stragglers.values() if isinstance(each, StepWaits))
    if process.state == "idle":
        process.attach_by_itself()  # it sends all declarations
    elif process.state == "live":
        process.put_records(declaration.records)


def declare_all(process: Process, outbox: Outbox, config: EmitConfig) -> None:
    """Queue all declarations of a process for a new producer. The settings may add one to those of the program."""
    if config.stragglers and DEFAULT_AXIS not in process.stragglers:
        waits = StepWaits(DEFAULT_AXIS, config.stragglers)
        process.stragglers[DEFAULT_AXIS] = waits
        process.step_waits = (*process.step_waits, waits)
    for declaration in process.stragglers.values():
        outbox.records.extend(declaration.records())


def _axis(axis: str, ranked: Sequence[str]) -> bytes:
    groups = {"node": host_name(), **groups_of_environment()}
    return records.axis(axis, "mean", {}, _now(), ranked=ranked, groups=groups, rank=process_rank())


def groups_of_environment() -> dict[str, int | str]:
    """Return the groups of this process in `TELEMETRY_GROUPS`, such as `pp=3,dp=5,node=n3`.

    A part that is no group is left out, with a warning.
    """
    groups: dict[str, int | str] = {}
    for pair in filter(str.strip, os.environ.get(GROUPS_VARIABLE, "").split(",")):
        dimension, equals, value = (part.strip() for part in pair.partition("="))
        if not (equals and 0 < len(dimension) <= limits.LABEL_KEY_CHARS and value):
            user_warnings.warn(f"{GROUPS_VARIABLE}: {pair.strip()!r} is ignored; write it as `pp=3,dp=5`")
            continue
        groups[dimension] = int(value) if _NUMBER.fullmatch(value) else value
    return groups


def _united(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the times that the spans cover: spans inside others, or beside them, count once."""
    intervals: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if intervals and start <= intervals[-1][1]:
            intervals[-1] = intervals[-1][0], max(intervals[-1][1], end)
        else:
            intervals.append((start, end))
    return intervals
