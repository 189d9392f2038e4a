"""The delivery of a reported step: which backends have it, which not yet, and which never will."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Final, Literal, NamedTuple, TypeGuard

from msgspec import Struct

from telemetry import limits
from telemetry.common import clock
from telemetry.gateway.endpoint import Answer, Problem
from telemetry.gateway.run_link import RunLink
from telemetry.wire.control import Catchup, CaughtUp, GetStep, StepDistribution, StepState
from telemetry.wire.events import ClosedStep
from telemetry.wire.snapshot import BACKEND_ENDED, BackendStat

_FIRST_PAUSE_S: Final = 0.004
_LONGEST_PAUSE_S: Final = 0.05
_DELIVERED: Final = "success"
_PENDING: Final = "pending"
_PAGES_SEARCHED: Final = 16
_ERROR: Final = "error: "
_UNAVAILABLE: Final = 503


class StepReport(Struct, kw_only=True, frozen=True):
    """The outcome of a reported step."""

    status: Literal["success", "pending", "error"]
    """`success`: the run and all backends have it. `pending`: a backend has it not yet. `error`: one never will."""
    message: str
    results: dict[str, str]
    """Backend → `success`, `pending`, or `error:` and the reason."""


class Waits(NamedTuple):
    """Longest waits of a report, in seconds."""

    confirm_s: float
    deliver_s: float


async def report(run: RunLink, before: StepState, of: GetStep, waits: Waits) -> Answer:
    """Wait until all backends have a step that was just reported, and answer.

    `before` is the state of the step before its report. A backend that is known to fail is not waited for.
    """
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + waits.deliver_s
    message = f"Reported {len(metrics_of(before))} metrics for step {of.step}"
    if not await run.confirmed(waits.confirm_s):
        return _answer("pending", f"{message}; the run has not confirmed it yet", {})
    results: dict[str, str] = {}
    until: int | None = None
    for attempt in count(1):
        state = await _state(run, of)
        if state is not None:
            if until is None and state.state != "open":
                until = state.next_record
            results = {stat.name: _result(stat, until) for stat in state.backends}
        undecided = until is None or state is None or _PENDING in results.values()
        left_s = deadline_s - loop.time()
        if not undecided or left_s <= 0.0:
            break
        await asyncio.sleep(min(clock.backoff_s(attempt, _FIRST_PAUSE_S, _LONGEST_PAUSE_S), left_s))
    if state is None or until is None:
        return _answer("pending", f"{message}; the aggregator does not answer at the moment", results)
    # a step that was closed before may have been refused before, too
    first = 0 if before.state in ("closed", "forgotten") else before.next_record
    try:
        results |= await _refusals(run, of, range(first, until), state.backends)
    except Problem as problem:
        if problem.status != _UNAVAILABLE:
            raise
        return _answer("pending", f"{message}; the aggregator does not answer at the moment", results)
    if any(result.startswith(_ERROR) for result in results.values()):
        return _answer("error", f"{message}, but a backend will not have it", results)
    if any(result != _DELIVERED for result in results.values()):
        return _answer("pending", f"{message}; it stays until it is delivered", results)
    return _answer("success", message, results)


def metrics_of(state: StepState) -> dict[str, float | str | StepDistribution | None]:
    """Return the values of a step of all kinds."""
    return {**state.values, **state.texts, **state.distributions}


def _answer(status: Literal["success", "pending", "error"], message: str, results: dict[str, str]) -> Answer:
    code = {"success": 200, "pending": 202, "error": 502}[status]
    return Answer(code, StepReport(status=status, message=message, results=results))


def _result(stat: BackendStat, until: int | None) -> str:
    """Return what a backend has of the records below `until`. None: the step is not closed yet."""
    if until is not None and stat.next_record >= until:
        return _DELIVERED
    if stat.state in BACKEND_ENDED:
        return f"{_ERROR}{stat.last_error or f'its writer has ended: {stat.state}'}"
    if stat.failures:
        return f"{_PENDING}: {stat.last_error or 'it fails'}"
    return _PENDING


async def _refusals(run: RunLink, of: GetStep, records: range, backends: list[BackendStat]) -> dict[str, str]:
    """Return the backends that refused a record of this step for good. `records`: numbers that it may have."""
    numbers = sorted({number for stat in backends for number in stat.refused if number in records})
    own = await _own(run, of, numbers)
    results: dict[str, str] = {}
    for stat in backends:
        why = stat.last_error or ", ".join(stat.dropped)
        if not own.isdisjoint(stat.refused):
            results[stat.name] = f"{_ERROR}it refused the step: {why}"
        elif stat.next_record >= records.stop and _has_forgotten(stat, records.start):
            recent = range(min(stat.refused), records.stop)
            if not await _began_in(run, of, recent):
                message = f"it refused more than {len(stat.refused)} items; this step may be one of them"
                results[stat.name] = f"{_ERROR}{message}: {why}"
    return results


def _has_forgotten(stat: BackendStat, first: int) -> bool:
    """Return whether a writer may have forgotten a refused record from `first` on: it names only the newest."""
    full = len(stat.refused) >= limits.BACKEND_REFUSED
    return full and first < min(stat.refused) and sum(stat.dropped.values()) > len(stat.refused)


async def _own(run: RunLink, of: GetStep, numbers: list[int]) -> set[int]:
    """Return those of ascending record numbers that belong to a step."""
    own: set[int] = set()
    read_to = 0
    for number in numbers:
        if number < read_to:
            continue
        page = await _page(run, number)
        read_to = max(page.next_seq, number + 1)
        own.update(record.seq for record in page.records if _is_of(record.record, of))
    return own


async def _began_in(run: RunLink, of: GetStep, records: range) -> bool:
    """Return whether the first record of a step has one of these numbers. False if it would take long to find."""
    number = records.start
    for _ in range(_PAGES_SEARCHED):
        if number >= records.stop:
            break
        page = await _page(run, number)
        number = max(page.next_seq, number + 1)
        if any(_is_of(record.record, of) and record.record.revision == 0 for record in page.records):
            return True
    return False


async def _page(run: RunLink, number: int) -> CaughtUp:
    """Return records from a number on."""
    answer = await run.ask(Catchup(from_seq=number), slow=True)
    if not isinstance(answer, CaughtUp):
        raise Problem(503, "the aggregator answered with an unknown message")
    return answer


def _is_of(record: object, of: GetStep) -> TypeGuard[ClosedStep]:
    """Return whether a record has values of a step."""
    return isinstance(record, ClosedStep) and (record.axis, record.step) == (of.axis, of.step)


async def _state(run: RunLink, of: GetStep) -> StepState | None:
    """Return the state of a step, or None if the aggregator does not answer."""
    try:
        answer = await run.ask(of)
    except Problem as problem:
        if problem.status != _UNAVAILABLE:
            raise
        return None
    return answer if isinstance(answer, StepState) else None
