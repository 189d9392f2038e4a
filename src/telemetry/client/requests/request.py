"""One request, from its issue to its outcome: what the caller holds, and the rows it comes to.

All rows of an outcome go to the buffer in one call, so they are there together or not at all.
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
from telemetry.client.requests.instruments import Family
from telemetry.wire import requests as words

_now: Final = time.monotonic_ns

_HEAD: Final = 3
"""`times` begins with the tokens of the first output, those beyond one for each chunk held, and the moment before
the first of these."""
_FULL: Final = _HEAD + limits.CHUNKS_HELD
_UNKNOWN: Final = -(1 << 62)
"""In place of the tokens beyond one for each chunk, where a piece came whose tokens are not known. Tokens of other
pieces, each fewer than 1 << 32, leave it far below 0."""
_ENDED_NS: Final = 0
_ONE: Final = 1
"""What is this object needs no look at it; another one is looked at, whatever its type."""


class Turn(NamedTuple):
    """Of a request in a conversation, or with the number of a turn."""

    conversation: Conversation | None
    label: str


class Request(Struct, eq=False, gc=False):
    """A request in flight. Its calls come one after another, from whatever threads; none of them raises or, with
    policy `drop`, blocks. What they are given is looked at before anything changes: nothing of the caller's is
    called once the request is claimed.

    Each returns the moment it took, in monotonic ns: `at_ns` if that was given. A call after the outcome changes
    nothing and is counted. As a context manager it completes at the end of the block, or fails with the name of the
    exception's type, unless the block has ended it.

    The garbage collector does not look at requests, however many are in flight: what they hold of the caller's is
    let go with the outcome, so that no cycle is there for ever.
    """

    _family: Family
    _issued_ns: int
    _planned_ns: int | None
    _key: Hashable
    _input: int | float | str | None
    """How many tokens, or the text they are in."""
    _turn: Turn | None
    _told_ns: int
    """When `issue` was called, which may be long after `_issued_ns`: age counts from here."""
    _first_ns: int | None = None
    _times: array[int] | None = None
    """None also after a first output of one token, until there is another."""

    def first(self, tokens: int | None = 1, at_ns: int | None = None) -> int:
        """The first output has come, with so many tokens; None: nobody knows how many. Again, it is a chunk."""
        at = _now() if at_ns is None else self._family.moment(at_ns)
        if self._first_ns is not None:
            return self._chunk(tokens, at)
        if tokens is not _ONE:
            known = (1, _UNKNOWN) if tokens is None else (self._family.tokens(tokens), 0)
            self._times = array("q", (*known, at))
        self._first_ns = at
        return at

    def chunk(self, tokens: int | None = 1, at_ns: int | None = None) -> int:
        """More output has come, with so many tokens; None: nobody knows how many. Without a `first` before it, it
        is the first."""
        at = _now() if at_ns is None else self._family.moment(at_ns)
        times = self._times
        if times is None or len(times) >= _FULL:
            return self._chunk(tokens, at)
        if tokens is not _ONE:
            times[1] = self._beyond_one(times[1], tokens)
        times.append(at)
        return at

    def complete(
        self,
        output_tokens: SupportsFloat | None = None,
        finish_reason: str | None = None,
        output_text: str | None = None,
        at_ns: int | None = None,
    ) -> int:
        """It has come to a good end. Without `output_tokens`, workers of the aggregator count those of
        `output_text`; without both, they are the sum of what `first` and `chunk` were told, if all were."""
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
        """It has come to a bad end: nothing of it but its failure and `failed_latency` is recorded."""
        family = self._family
        at = _now() if at_ns is None else family.moment(at_ns)
        if type(reason) is not str:
            reason = family.said(reason)
        if family.claim(self, None) is None:
            family.after_end(at)
            return at
        failed, took = family.labelled(words.FAILED, reason or "error"), float(at - self._issued_ns)
        rows = family.in_order([failed, at, 1.0, family.ids[words.FAILED_LATENCY], at, took], at)
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
        raise TypeError("a request belongs to the process that issued it")

    # --- for this package ------------------------------------------------------------------------

    def expire(self, now_ns: int) -> tuple[float, int, float] | None:
        """The row of a request that nobody ended; None if somebody just did."""
        family = self._family
        if family.claim(self, None) is None:
            return None
        self._turn = None
        self._let_go(now_ns)
        return family.ids[words.EXPIRED], now_ns, 1.0

    def give_up(self) -> None:
        """It ends as if it had been too old: whoever knew about it will not say."""
        row = self.expire(_now())
        if row is not None:
            self._family.put(row)

    def _let_go(self, at: int) -> None:
        """After the claim: later calls find a request that has ended, and the key is free."""
        self._first_ns = _ENDED_NS
        self._times = None
        if self._key is not None:
            self._family.free(self._key)
            self._key = None
        turn = self._turn
        if turn is not None:
            if turn.conversation is not None:
                turn.conversation.ended(at)
            self._turn = None

    def _beyond_one(self, so_far: int, tokens: int | None) -> int:
        """Tokens beyond one for each chunk, with those of another chunk."""
        return _UNKNOWN if tokens is None else so_far + self._family.tokens(tokens) - 1

    def _chunk(self, tokens: int | None, at: int) -> int:
        """Where `chunk` does more than to append."""
        family, times = self._family, self._times
        if self not in family.open:
            family.after_end(at)
        elif self._first_ns is None:
            self.first(tokens, at)
        elif times is None:
            self._times = array("q", (1, self._beyond_one(0, tokens), self._first_ns, at))
        elif len(times) < _FULL:
            times[1] = self._beyond_one(times[1], tokens)
            times.append(at)
        else:
            told = self._beyond_one(times[1] + len(times) - _HEAD, tokens)
            rows = family.in_order(_gap_rows(family.ids[words.CHUNK_GAP], times), at)
            family.put(rows)
            self._times = array("q", (times[0], told, times[-1], at))
        return at

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
                rows += _gap_rows(ids[words.CHUNK_GAP], times)
                begun, told = times[0], times[1] + len(times) - _HEAD
        if produced is not None:
            output_text = None
        elif first is not None and output_text is None and told > _UNKNOWN // 2:
            produced = float(begun + told)
        if produced is not None:
            rows += (ids[words.OUTPUT_TOKENS], at, produced)
            if first is not None and produced > begun:
                rows += (ids[words.TPOT], at, (at - first) / (produced - begun))
        self._add_input(rows, at)
        rows = family.in_order(rows, at)
        family.put(rows)
        if output_text is not None and (text := family.text(output_text, "`output_text`")) is not None:
            family.count_later(words.OUTPUT_TOKENS, text, at, first, begun)

    def _add_input(self, rows: list[float], at: int) -> None:
        """And its place in a conversation."""
        family, given, turn = self._family, self._input, self._turn
        if isinstance(given, str):
            family.count_later(words.INPUT_TOKENS, given, at)
        elif given is not None and (tokens := family.amount(given, "`input_tokens`")) is not None:
            rows += (family.ids[words.INPUT_TOKENS], at, tokens)
        if turn is not None and turn.label:
            rows += (family.labelled(words.TURN_LATENCY, turn.label), at, float(at - self._issued_ns))
            if (first := self._first_ns) is not None:
                rows += (family.labelled(words.TURN_TTFT, turn.label), first, float(first - self._issued_ns))


def _gap_rows(gap_id: float, times: array[int]) -> list[float]:
    """A row for each chunk held: how long after the one before it came."""
    moments = times[_HEAD - 1 :].tolist()
    came = moments[1:]
    rows: list[float] = [gap_id] * (3 * len(came))
    rows[1::3] = came
    rows[2::3] = map(float, map(sub, came, moments))
    return rows
