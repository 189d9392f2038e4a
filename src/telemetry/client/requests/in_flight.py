"""Requests in flight: failure, expiry, and the rows of an outcome. Their hot path is in `request` or compiled."""

from __future__ import annotations

import time
from array import array
from collections.abc import Hashable
from operator import sub
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, Self, SupportsFloat

from telemetry.client.requests.conversations import Conversation
from telemetry.client.requests.ended import HEAD, PLACES, UNKNOWN_TOKENS, EndedRequest
from telemetry.client.requests.instruments import Family
from telemetry.client.requests.judging import OwnLimits, judge
from telemetry.wire import requests as words
from telemetry.wire.request_log import Outcome

UNKNOWN: Final = -(1 << 62)
"""Marker for unknown tokens in the sum of tokens beyond one per chunk.

Tokens of other chunks, each below 1 << 32, can't raise the sum near 0.
"""
_NO_LIMITS: Final[dict[str, int]] = {}
_now: Final = time.monotonic_ns


class Extras(NamedTuple):
    """Properties that most requests don't have."""

    conversation: Conversation | None
    turn: str
    """Label of the turn; empty without one."""
    limits: OwnLimits | None


class InFlight:
    """A request in flight, without its hot path.

    Calls may be made from any threads, one after another. No call raises or, with policy `drop`, blocks. All
    arguments are checked before any change: once the request is claimed, no code of the caller runs.

    Each call returns its time in monotonic ns, which is `at_ns` if given. A call after the outcome is counted and
    has no other effect. As a context manager, the request completes at the end of the block, or fails with the name
    of the exception's type, unless it has already ended.

    The garbage collector ignores requests, however many are in flight. References to the caller's objects are
    released at the outcome, so they leave no permanent cycle.
    """

    if TYPE_CHECKING:
        _family: Family
        _issued_ns: int
        _planned_ns: int | None
        _key: Hashable
        _input: int | float | str | None
        _extras: Extras | None
        _told_ns: int
        _first_ns: int | None
        _times: array[int] | None
        _tokens: array[int] | None

        def complete(
            self,
            output_tokens: SupportsFloat | None = None,
            finish_reason: str | None = None,
            output_text: str | None = None,
            at_ns: int | None = None,
        ) -> int: ...

        def _begin(self) -> None:
            """Record that the request was issued, and add it to those in flight."""

        def _end(self) -> None:
            """Become a request that has ended, and drop the times of chunks."""

        def _ended(  # noqa: PLR0917 – the hot path passes no names
            self,
            number: int,
            outcome: Outcome,
            reason: str,
            at: int,
            produced: float | None,
            turn: str,
            own: dict[str, int],
            /,
        ) -> EndedRequest:
            """Return what goes to the request log. It may take the times of chunks along."""

    else:
        __slots__ = ()

    def fail(self, reason: str = "error", at_ns: int | None = None) -> int:
        """Fail the request. Only the failure and its `failed_latency` are recorded."""
        family = self._family
        at = _now() if at_ns is None else family.moment(at_ns)
        if type(reason) is not str:
            reason = family.said(reason)
        if family.claim(self, None) is None:
            family.after_end(at)
            return at
        failed, took = family.labelled(words.FAILED, reason or "error"), float(at - self._issued_ns)
        rows = family.in_order([failed, at, 1.0, family.ids[words.FAILED_LATENCY], at, took], at)
        if family.log.wanted:
            self._log("failed", reason or "error", at, None, family.log.number())
        family.put(rows)
        self._let_go(at)
        return at

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self in self._family.open:
            if kind is None:
                self.complete()
            else:
                self.fail(kind.__name__)

    def __repr__(self) -> str:
        state = "in flight" if self in self._family.open else "ended"
        return f"<Request of {self._family.kind!r}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a request can only be used in the process that issued it")

    # --- for this package ------------------------------------------------------------------------

    def fail_untimed(self, reason: str, at: int) -> None:
        """Fail a request of which nobody knows how long it took. Only the failure is recorded."""
        family = self._family
        if family.claim(self, None) is not None:
            if family.log.wanted:
                self._log("failed", reason, at, None, family.log.number())
            family.put((family.labelled(words.FAILED, reason), at, 1.0))
            self._let_go(at)

    def expire(self, now_ns: int, *, logged: bool) -> tuple[float, int, float] | None:
        """End a request without outcome and return its row. Return None if another thread has just ended it.

        With `logged`, it goes to the request log.
        """
        family = self._family
        if family.claim(self, None) is None:
            return None
        if logged:
            self._log("expired", "", now_ns, None, family.log.number())
        self._extras = None
        self._let_go(now_ns)
        return family.ids[words.EXPIRED], now_ns, 1.0

    def give_up(self) -> None:
        """Expire the request now: its outcome will never be reported."""
        row = self.expire(_now(), logged=self._family.log.wanted)
        if row is not None:
            self._family.put(row)

    def _let_go(self, at: int) -> None:
        """Release all references after the claim. Later calls see an ended request, and the key is free."""
        self._end()
        if self._key is not None:
            self._family.free(self._key)
            self._key = None
        extras = self._extras
        if extras is not None:
            if extras.conversation is not None:
                extras.conversation.ended(at)
            self._extras = None

    def _put_gaps(self, times: array[int], at: int) -> None:
        """Record the gaps between buffered chunks that are no longer held."""
        family = self._family
        rows = family.in_order(_gap_rows(family.ids[words.ITL], times), at)
        family.put(rows)

    def _put_completed(
        self, at: int, produced: float | None, finish_reason: str | None, output_text: str | None
    ) -> None:
        family, issued, planned = self._family, self._issued_ns, self._planned_ns
        first, times, ids = self._first_ns, self._times, self._family.ids
        ended = family.labelled(words.COMPLETED, finish_reason) if finish_reason else ids[words.COMPLETED]
        rows: list[float] = [ended, at, 1.0, ids[words.LATENCY], at, float(at - issued)]
        if planned is not None:
            due = min(planned, issued)
            rows += (ids[words.CORRECTED], at, float(at - due), ids[words.QUEUE_DELAY], issued, float(issued - due))
        begun, chunk_tokens = 1, 0
        if first is not None:
            rows += (ids[words.TTFT], first, float(first - issued))
            if times is not None:
                rows += _gap_rows(ids[words.ITL], times)
                begun = 1 if times[0] == UNKNOWN_TOKENS else times[0]
                chunk_tokens = more_tokens(times, self._tokens)
        if produced is not None:
            output_text = None
        elif first is not None and output_text is None and chunk_tokens > UNKNOWN // 2:
            produced = float(begun + chunk_tokens)
        if produced is not None:
            rows += (ids[words.OUTPUT_TOKENS], at, produced)
            if first is not None and produced > begun:
                rows += (ids[words.TPOT], at, (at - first) / (produced - begun))
        text = None if output_text is None else family.text(output_text, "`output_text`")
        number = family.log.number() if family.log.wanted else None
        later = None
        if family.limits is not None:
            later = judge(self, family.limits, rows, at, tokens=produced, counted=text is not None)
        self._add_input(rows, at, number)
        rows = family.in_order(rows, at)
        if number is not None:
            self._log("completed", finish_reason or "", at, produced, number)
        family.put(rows)
        if text is not None:
            family.count_later(words.OUTPUT_TOKENS, text, at, number, first=first, skipped=begun, later=later)

    def _log(self, outcome: Outcome, reason: str, at: int, produced: float | None, number: int) -> None:
        """Add the request to the request log."""
        extras, turn, own = self._extras, "", _NO_LIMITS
        if extras is not None:
            turn, own = extras.turn, own if extras.limits is None else extras.limits.own
        self._family.log.add(self._ended(number, outcome, reason, at, produced, turn, own))

    def _add_input(self, rows: list[float], at: int, number: int | None) -> None:
        """Add rows for the input and for the turn in a conversation."""
        family, given = self._family, self._input
        turn = "" if self._extras is None else self._extras.turn
        if isinstance(given, str):
            family.count_later(words.INPUT_TOKENS, given, at, number)
        elif given is not None and (tokens := family.amount(given, "`input_tokens`")) is not None:
            rows += (family.ids[words.INPUT_TOKENS], at, tokens)
        if turn:
            rows += (family.labelled(words.TURN_LATENCY, turn), at, float(at - self._issued_ns))
            if (first := self._first_ns) is not None:
                rows += (family.labelled(words.TURN_TTFT, turn), first, float(first - self._issued_ns))


def more_tokens(times: array[int], tokens: array[int] | None) -> int:
    """Return the tokens of all chunks but the first output, or a number below UNKNOWN / 2 if some are unknown."""
    chunks = len(times) - HEAD
    if tokens is None:
        return times[1] + chunks
    return times[1] + chunks - len(tokens) + sum(tokens) % PLACES


def _gap_rows(gap_id: float, times: array[int]) -> list[float]:
    """Return a row for each held chunk: the time since the previous chunk."""
    moments = times[HEAD - 1 :].tolist()
    arrivals = moments[1:]
    rows: list[float] = [gap_id] * (3 * len(arrivals))
    rows[1::3] = arrivals
    rows[2::3] = map(float, map(sub, arrivals, moments))
    return rows
