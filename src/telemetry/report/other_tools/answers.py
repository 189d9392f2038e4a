"""Requests as other benchmark tools see them, in columns: what came when, and how many tokens. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from operator import sub
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from telemetry.history.goodput import verdicts
from telemetry.history.second_sums import AT_ONCE, SmallNumbers
from telemetry.wire.request_log import RequestEntry

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
Booleans = NDArray[np.bool_]
NS_PER_MS: Final = 1e6


@dataclass(slots=True)
class Lacks:
    """Numbers of completed requests that lack a fact in the log, have limits of their own or expired."""

    no_output: int = 0
    """Requests without any output."""
    not_streamed: int = 0
    """Requests with output tokens but without a first output."""
    output_tokens: int = 0
    """Requests with output but an unknown number of tokens."""
    input_tokens: int = 0
    """Requests with an unknown number of input tokens."""
    chunk_tokens: int = 0
    """Requests with an unknown number of tokens in a chunk."""
    left_out: int = 0
    """Requests of so many chunks that the log has only the last ones."""
    own_limits: int = 0
    """Requests with limits of their own, whatever became of them."""
    expired: int = 0


@dataclass(frozen=True, slots=True)
class RequestSlice:
    """Some neighbouring requests, with all their chunks."""

    requests: slice
    chunks: slice
    owner: Integers
    """For each chunk the place of its request among all."""
    times_ns: Integers
    """Time of each chunk."""
    tokens: Numbers
    """Tokens of each chunk; 1 if unknown."""
    is_first: Booleans
    """True for the first chunk of each request."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Requests that have ended. Times are in nanoseconds on the run's clock, right also between processes.

    Chunks take 5 bytes each, because there are millions. `pieces` has their times.
    """

    completed: Booleans
    expired: Booleans
    good: Booleans
    """True for requests within all limits, by the rules of `telemetry.common.slo`."""
    issued_ns: Integers
    ended_ns: Integers
    input_tokens: Numbers
    """Number of input tokens; 0 if unknown."""
    output_tokens: Numbers
    """Number of output tokens; if unknown, the number of chunks."""
    streamed: Booleans
    """True for requests with a first output; others have one chunk, at their end, or none."""
    is_cut: Booleans
    """True for requests without their early chunks."""
    first_ns: Integers
    """Time of the first chunk; that of the end for requests without output."""
    last_ns: Integers
    """Time of the last chunk; that of the end for requests without output."""
    offsets: Integers
    """Place of the first chunk of each request, and after the last request the number of all chunks."""
    steps_ns: NDArray[Any]
    """For each chunk the time since the one before; 0 for the first chunk of a request."""
    chunk_tokens: NDArray[Any]
    """Tokens of each chunk; 1 if unknown."""
    measured_ns: int | None = None
    """Duration that the tool measured itself. None: from the first issue to the last end."""

    def __len__(self) -> int:
        return int(self.completed.size)

    @property
    def chunks(self) -> Integers:
        """Number of chunks of each request."""
        return np.diff(self.offsets)

    @property
    def has_output(self) -> Booleans:
        return self.chunks > 0

    @property
    def first_tokens(self) -> Numbers:
        """Tokens of the first chunk; 0 for requests without output."""
        tokens, has_output = np.zeros(len(self)), self.has_output
        tokens[has_output] = self.chunk_tokens[self.offsets[:-1][has_output]]
        return tokens

    @property
    def span_ns(self) -> int:
        """Time that the tool measured, else from the first issue to the last end; 0 without requests."""
        if self.measured_ns is not None:
            return self.measured_ns
        return int(self.ended_ns.max() - self.issued_ns.min()) if len(self) else 0

    @property
    def has_gap(self) -> Booleans:
        """True for requests whose second chunk has a time since the first one."""
        return (self.chunks > 1) & ~self.is_cut

    def gaps_ms(self) -> Numbers:
        """Return the time between each two chunks of a request in milliseconds, request by request."""
        buffer, end = np.empty(self.steps_ns.size), 0
        for piece in self.pieces():
            is_later = ~piece.is_first
            after_cut = self.offsets[:-1][piece.requests][
                self.is_cut[piece.requests] & (self.chunks[piece.requests] > 1)
            ]
            is_later[after_cut + 1 - piece.chunks.start] = False
            gaps = self.steps_ns[piece.chunks][is_later].astype(np.float64)
            gaps /= NS_PER_MS
            buffer[end : end + gaps.size] = gaps
            end += gaps.size
        return buffer[:end]

    def pieces(self) -> Iterator[RequestSlice]:
        """Yield all requests in order, with about `AT_ONCE` chunks at a time."""
        begin = 0
        while begin < len(self):
            wanted = self.offsets[begin] + AT_ONCE
            end = max(int(np.searchsorted(self.offsets, wanted, side="right")) - 1, begin + 1)
            yield self._piece(slice(begin, min(end, len(self))))
            begin = end

    def chosen(self, which: Booleans) -> Answers:
        """Return some of the requests. Chunks are copied only if some of them are left out."""
        chunks, steps, tokens = self.chunks, self.steps_ns, self.chunk_tokens
        if chunks[~which].any():
            inside = np.repeat(which, chunks)
            steps, tokens = steps[inside], tokens[inside]
        return Answers(
            completed=self.completed[which],
            expired=self.expired[which],
            good=self.good[which],
            issued_ns=self.issued_ns[which],
            ended_ns=self.ended_ns[which],
            input_tokens=self.input_tokens[which],
            output_tokens=self.output_tokens[which],
            streamed=self.streamed[which],
            is_cut=self.is_cut[which],
            first_ns=self.first_ns[which],
            last_ns=self.last_ns[which],
            offsets=np.concatenate([[0], np.cumsum(chunks[which])]).astype(np.int64),
            steps_ns=steps,
            chunk_tokens=tokens,
        )

    def _piece(self, requests: slice) -> RequestSlice:
        offsets = self.offsets[requests.start : requests.stop + 1]
        chunks = slice(int(offsets[0]), int(offsets[-1]))
        counts = np.diff(offsets)
        owner = np.repeat(np.arange(requests.start, requests.stop), counts)
        begins = (offsets[:-1] - offsets[0])[counts > 0]
        is_first = np.zeros(owner.size, bool)
        is_first[begins] = True
        reached = np.cumsum(self.steps_ns[chunks], dtype=np.int64)
        reached -= np.repeat(reached[begins], counts[counts > 0])  # the first step of a request is 0
        tokens = self.chunk_tokens[chunks].astype(np.float64)
        return RequestSlice(requests, chunks, owner, self.first_ns[owner] + reached, tokens, is_first)


@dataclass(slots=True)
class AnswerCollector:
    """Logged requests on their way into columns: some 5 bytes for each chunk, and 70 for each request."""

    limits: Mapping[str, int] = field(default_factory=dict)
    lacks: Lacks = field(default_factory=Lacks)
    _flags: array[int] = field(default_factory=lambda: array("b"))
    _issued: array[int] = field(default_factory=lambda: array("q"))
    _ended: array[int] = field(default_factory=lambda: array("q"))
    _first: array[int] = field(default_factory=lambda: array("q"))
    _last: array[int] = field(default_factory=lambda: array("q"))
    _input: array[float] = field(default_factory=lambda: array("d"))
    _output: array[float] = field(default_factory=lambda: array("d"))
    _chunks: array[int] = field(default_factory=lambda: array("q"))
    _steps: SmallNumbers = field(default_factory=lambda: SmallNumbers("I", "q"))
    _tokens: SmallNumbers = field(default_factory=lambda: SmallNumbers("B", "d"))

    def add(self, entry: RequestEntry, offset_ns: int = 0) -> None:
        """Add a request. `offset_ns` takes its times to the run's clock. Raises OverflowError beyond 64 bits."""
        completed = entry.outcome == "completed"
        times, tokens = _chunks(entry) if completed else (_NO_TIMES, _NO_TOKENS)
        good = completed and all(verdicts(entry, self.limits).values())
        expired = entry.outcome == "expired"
        streamed, cut = completed and entry.first_ns is not None, entry.chunks_left_out > 0
        self._flags.append(
            _COMPLETED * completed | _STREAMED * streamed | _CUT * cut | _GOOD * good | _EXPIRED * expired
        )
        self._issued.append(entry.issued_ns + offset_ns)
        self._ended.append(entry.ended_ns + offset_ns)
        self._first.append((times[0] if times else entry.ended_ns) + offset_ns)
        self._last.append((times[-1] if times else entry.ended_ns) + offset_ns)
        self._input.append(entry.input_tokens or 0)
        output_tokens = entry.output_tokens
        self._output.append(len(times) + entry.chunks_left_out if output_tokens is None else output_tokens)
        self._chunks.append(len(times))
        if times:
            array("q", (min(times) + offset_ns, max(times) + offset_ns))  # raises for times beyond 64 bits
            self._steps.extend([0, *map(sub, times[1:], times)])
            self._tokens.extend([1 if count is None else count for count in tokens])
        self._count(entry, completed, bool(times), None in tokens)

    def answers(self) -> Answers:
        """Return all requests, in the order in which they were added."""
        flags = np.frombuffer(self._flags, np.int8)
        chunks = np.frombuffer(self._chunks, np.int64)
        return Answers(
            completed=(flags & _COMPLETED).astype(bool),
            expired=(flags & _EXPIRED).astype(bool),
            good=(flags & _GOOD).astype(bool),
            issued_ns=np.frombuffer(self._issued, np.int64),
            ended_ns=np.frombuffer(self._ended, np.int64),
            input_tokens=np.frombuffer(self._input, np.float64),
            output_tokens=np.frombuffer(self._output, np.float64),
            streamed=(flags & _STREAMED).astype(bool),
            is_cut=(flags & _CUT).astype(bool),
            first_ns=np.frombuffer(self._first, np.int64),
            last_ns=np.frombuffer(self._last, np.int64),
            offsets=np.concatenate([[0], np.cumsum(chunks)]).astype(np.int64),
            steps_ns=self._steps.view(),
            chunk_tokens=self._tokens.view(),
        )

    def _count(self, entry: RequestEntry, completed: bool, has_output: bool, unknown_chunk: bool) -> None:
        missing = self.lacks
        missing.own_limits += bool(entry.slo)
        missing.expired += entry.outcome == "expired"
        if completed:
            missing.input_tokens += entry.input_tokens is None
            missing.left_out += entry.chunks_left_out > 0
            missing.no_output += not has_output
            missing.not_streamed += has_output and entry.first_ns is None
            missing.output_tokens += has_output and entry.output_tokens is None
            missing.chunk_tokens += unknown_chunk


_COMPLETED: Final = 1
_CUT: Final = 2
_GOOD: Final = 4
_EXPIRED: Final = 8
_STREAMED: Final = 16
_NO_TIMES: Final[list[int]] = []
_NO_TOKENS: Final[list[Any]] = []


def _chunks(entry: RequestEntry) -> tuple[list[int], list[Any]]:
    """Return time and tokens of each chunk of a completed request. None stands for unknown tokens.

    A request without a first output that has tokens came as a whole at its end. If chunks were left out, the last
    chunk is taken to have come at the end: the log has the last gaps, but not where they begin.
    """
    if entry.first_ns is None:
        whole = entry.output_tokens
        return ([entry.ended_ns], [whole]) if whole else (_NO_TIMES, _NO_TOKENS)
    gaps = entry.gaps_ns
    tokens = [entry.first_tokens, *(entry.chunk_tokens or [1] * len(gaps))]
    if entry.chunks_left_out and gaps:
        backward = accumulate(reversed(gaps[1:]), lambda time, gap: time - gap, initial=entry.ended_ns)
        return [entry.first_ns, *reversed(list(backward))], tokens
    return list(accumulate(gaps, initial=entry.first_ns)), tokens
