"""A request, from issue to outcome: the object of the caller, and the rows of its result.

All rows of an outcome are put into the buffer in one call, so either all of them arrive or none does.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Hashable
from operator import sub
from types import TracebackType
from typing import Final, NamedTuple, NoReturn, Self, SupportsFloat

from msgspec import Struct

from telemetry import limits
from telemetry.client.requests.conversations import Conversation
from telemetry.client.requests.ended import HEAD, PLACES, UNKNOWN_TOKENS
from telemetry.client.requests.instruments import Family
from telemetry.client.requests.judging import OwnLimits, judge, largest_gap
from telemetry.wire import requests as words
from telemetry.wire.request_log import Outcome

_now: Final = time.monotonic_ns

_FULL: Final = HEAD + limits.CHUNKS_HELD
_UNKNOWN: Final = -(1 << 62)
"""Marker for unknown tokens in the sum of tokens beyond one per chunk.

Tokens of other chunks, each below 1 << 32, can't raise the sum near 0.
"""
_ENDED_NS: Final = 0
_MANY: Final = 1 << 32
_NO_LIMITS: Final[dict[str, int]] = {}
_ONE: Final = 1
"""Default number of tokens. An argument that is this object needs no check; any other value is checked."""


class Extras(NamedTuple):
    """Properties that most requests don't have."""

    conversation: Conversation | None
    turn: str
    """Label of the turn; empty without one."""
    limits: OwnLimits | None


class Request(Struct, eq=False, gc=False):
    """A request in flight.

    Calls may be made from any threads, one after another. No call raises or, with policy `drop`, blocks. All
    arguments are checked before any change: once the request is claimed, no code of the caller runs.

    Each call returns its time in monotonic ns, which is `at_ns` if given. A call after the outcome is counted and
    has no other effect. As a context manager, the request completes at the end of the block, or fails with the name
    of the exception's type, unless it has already ended.

    The garbage collector ignores requests, however many are in flight. References to the caller's objects are
    released at the outcome, so they leave no permanent cycle.
    """

    _family: Family
    _issued_ns: int
    _planned_ns: int | None
    _key: Hashable
    _input: int | float | str | None
    """Number of input tokens, or the input text."""
    _extras: Extras | None
    _told_ns: int
    """Time of the `issue` call. May be long after `_issued_ns`. The age for expiry counts from here."""
    _first_ns: int | None = None
    _times: array[int] | None = None
    """Buffered times of chunks, after a head. None after a first output of one token, until the next chunk."""
    _tokens: array[int] | None = None
    """For each buffered chunk that has not one token: its index times PLACES, plus its tokens."""

    def first(self, tokens: int | None = 1, at_ns: int | None = None) -> int:
        """Record the first output and its tokens.

        Pass None for an unknown number. A second call counts as a chunk.
        """
        at = _now() if at_ns is None else self._family.moment(at_ns)
        if self._first_ns is not None:
            return self._chunk(tokens, at)
        if tokens is not _ONE:
            self._times = array("q", (self._known(tokens), _UNKNOWN if tokens is None else 0, 0, 0, at))
        self._first_ns = at
        return at

    def chunk(self, tokens: int | None = 1, at_ns: int | None = None) -> int:
        """Record more output and its tokens.

        Pass None for an unknown number. Without an earlier `first`, this is the first.
        """
        at = _now() if at_ns is None else self._family.moment(at_ns)
        times = self._times
        if times is None or len(times) >= _FULL:
            return self._chunk(tokens, at)
        if tokens is not _ONE:
            self._keep(times, tokens if type(tokens) is int and 0 <= tokens < _MANY else self._known(tokens))
        times.append(at)
        return at

    def complete(
        self,
        output_tokens: SupportsFloat | None = None,
        finish_reason: str | None = None,
        output_text: str | None = None,
        at_ns: int | None = None,
    ) -> int:
        """Complete the request successfully.

        Without `output_tokens`, workers of the aggregator count the tokens of `output_text`. Without both, the
        tokens are the sum of those given to `first` and `chunk`, if all are known.
        """
        family = self._family
        at = _now() if at_ns is None else family.moment(at_ns)
        produced = None if output_tokens is None else family.amount(output_tokens, "`output_tokens`")
        if finish_reason is not None and type(finish_reason) is not str:
            finish_reason = family.said(finish_reason)
        if family.claim(self, None) is None:
            family.after_end(at)
            return at
        self._put_completed(at, produced, finish_reason, output_text)
        self._let_go(at)
        return at

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
        self._first_ns = _ENDED_NS
        self._times = self._tokens = None
        if self._key is not None:
            self._family.free(self._key)
            self._key = None
        extras = self._extras
        if extras is not None:
            if extras.conversation is not None:
                extras.conversation.ended(at)
            self._extras = None

    def _known(self, tokens: int | None) -> int:
        """Return a number of tokens, or UNKNOWN_TOKENS."""
        return UNKNOWN_TOKENS if tokens is None else self._family.tokens(tokens)

    def _keep(self, times: array[int], tokens: int) -> None:
        """Keep the tokens of the chunk that is appended next."""
        held = self._tokens
        if held is None:
            held = self._tokens = array("q")
        held.append((len(times) - HEAD) * PLACES + tokens)
        if tokens == UNKNOWN_TOKENS:
            times[1] = _UNKNOWN

    def _chunk(self, tokens: int | None, at: int) -> int:
        """Handle the cases in which `chunk` can't simply append."""
        family, times = self._family, self._times
        if self not in family.open:
            family.after_end(at)
        elif self._first_ns is None:
            self.first(tokens, at)
        else:
            known = 1 if tokens is _ONE else self._known(tokens)
            if times is None:
                times = self._times = array("q", (1, 0, 0, 0, self._first_ns))
            elif len(times) >= _FULL:
                times = self._times = self._put_gaps(times, at)
            if known != 1:
                self._keep(times, known)
            times.append(at)
        return at

    def _put_gaps(self, times: array[int], at: int) -> array[int]:
        """Record the gaps between the buffered chunks, and return a buffer without these."""
        family, told, gap = self._family, _told(times, self._tokens), largest_gap(times)
        rows = family.in_order(_gap_rows(family.ids[words.ITL], times), at)
        family.put(rows)
        self._tokens = None
        return array("q", (times[0], told, times[2] + len(times) - HEAD, gap, times[-1]))

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
        begun, told = 1, 0
        if first is not None:
            rows += (ids[words.TTFT], first, float(first - issued))
            if times is not None:
                rows += _gap_rows(ids[words.ITL], times)
                begun = 1 if times[0] == UNKNOWN_TOKENS else times[0]
                told = _told(times, self._tokens)
        if produced is not None:
            output_text = None
        elif first is not None and output_text is None and told > _UNKNOWN // 2:
            produced = float(begun + told)
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
        self._family.log.add(
            (
                self._family,
                number,
                outcome,
                reason,
                self._issued_ns,
                at,
                self._planned_ns,
                self._first_ns,
                self._times,
                self._tokens,
                self._input,
                produced,
                turn,
                own,
            )
        )

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


def _told(times: array[int], tokens: array[int] | None) -> int:
    """Return the tokens of all chunks but the first output, or a number below _UNKNOWN / 2 if some are unknown."""
    chunks = len(times) - HEAD
    if tokens is None:
        return times[1] + chunks
    return times[1] + chunks - len(tokens) + sum(tokens) % PLACES


def _gap_rows(gap_id: float, times: array[int]) -> list[float]:
    """Return a row for each held chunk: the time since the previous chunk."""
    moments = times[HEAD - 1 :].tolist()
    came = moments[1:]
    rows: list[float] = [gap_id] * (3 * len(came))
    rows[1::3] = came
    rows[2::3] = map(float, map(sub, came, moments))
    return rows
