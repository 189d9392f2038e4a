"""A request, from issue to outcome: the object of the caller, and what it calls often.

All rows of an outcome are put into the buffer in one call, so either all of them arrive or none does.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final, SupportsFloat

from msgspec import Struct

from telemetry import limits
from telemetry.client.native_module import RECORDER
from telemetry.client.requests.ended import HEAD, PLACES, UNKNOWN_TOKENS, Ended
from telemetry.client.requests.in_flight import UNKNOWN, Extras, InFlight, more_tokens
from telemetry.client.requests.instruments import Family
from telemetry.client.requests.judging import largest_gap
from telemetry.wire import requests as words
from telemetry.wire.request_log import Outcome

_now: Final = time.monotonic_ns

_ENDED_NS: Final = 0
_MANY: Final = 1 << 32
_ONE: Final = 1
"""Default number of tokens. An argument that is this object needs no check; any other value is checked."""
_full = HEAD + limits.CHUNKS_HELD


class PythonRequest(InFlight, Struct, eq=False, gc=False):
    """A request in flight, if nothing is compiled."""

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
        token_count = _ONE if tokens is _ONE else self._known(tokens)
        if token_count != 1:
            self._times = array("q", (token_count, UNKNOWN if token_count == UNKNOWN_TOKENS else 0, 0, 0, at))
        self._first_ns = at
        return at

    def chunk(self, tokens: int | None = 1, at_ns: int | None = None) -> int:
        """Record more output and its tokens.

        Pass None for an unknown number. Without an earlier `first`, this is the first.
        """
        at = _now() if at_ns is None else self._family.moment(at_ns)
        times = self._times
        if times is None or len(times) >= _full:
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

    # --- for this package ------------------------------------------------------------------------

    def _begin(self) -> None:
        family = self._family
        rows = (family.ids[words.ISSUED], self._issued_ns, 1.0)
        family.put(rows)
        family.open[self] = self

    def _end(self) -> None:
        self._first_ns = _ENDED_NS
        self._times = self._tokens = self._input = None

    def _ended(  # noqa: PLR0917 – as in InFlight
        self,
        number: int,
        outcome: Outcome,
        reason: str,
        at: int,
        produced: float | None,
        turn: str,
        own: dict[str, int],
        /,
    ) -> Ended:
        return (
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

    def _known(self, tokens: int | None) -> int:
        """Return a number of tokens, or UNKNOWN_TOKENS."""
        return UNKNOWN_TOKENS if tokens is None else self._family.tokens(tokens)

    def _keep(self, times: array[int], tokens: int) -> None:
        """Keep the tokens of the chunk that is appended next, unless it has one."""
        if tokens == 1:
            return
        held = self._tokens
        if held is None:
            held = self._tokens = array("q")
        held.append((len(times) - HEAD) * PLACES + tokens)
        if tokens == UNKNOWN_TOKENS:
            times[1] = UNKNOWN

    def _chunk(self, tokens: int | None, at: int) -> int:
        """Handle the cases in which `chunk` can't simply append."""
        family, times = self._family, self._times
        if self not in family.open:
            family.after_end(at)
        elif self._first_ns is None:
            self.first(tokens, at)
        else:
            token_count = 1 if tokens is _ONE else self._known(tokens)
            if times is None:
                times = self._times = array("q", (1, 0, 0, 0, self._first_ns))
            elif len(times) >= _full:
                times = self._times = self._without_chunks(times, at)
            self._keep(times, token_count)
            times.append(at)
        return at

    def _without_chunks(self, times: array[int], at: int) -> array[int]:
        """Record the gaps between the buffered chunks, and return a buffer without these."""
        chunk_tokens, gap = more_tokens(times, self._tokens), largest_gap(times)
        self._put_gaps(times, at)
        self._tokens = None
        return array("q", (times[0], chunk_tokens, times[2] + len(times) - HEAD, gap, times[-1]))


if TYPE_CHECKING or RECORDER is None:  # noqa: SIM108 – type checkers understand this form
    Request = PythonRequest
else:
    Request = RECORDER.request_type(InFlight)
Request.__doc__ = InFlight.__doc__


def hold_chunks(most: int) -> None:
    """Hold so many chunks of a request until its outcome. Gaps beyond them are recorded earlier."""
    global _full  # noqa: PLW0603 – read by each chunk
    _full = HEAD + most
    if RECORDER is not None:
        RECORDER.hold_chunks(most)


hold_chunks(limits.CHUNKS_HELD)
