"""Requests as other benchmark tools see them, in columns: what came when, and how many tokens. Pure."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from telemetry.history.goodput import verdicts
from telemetry.wire.request_log import RequestEntry

Integers = NDArray[np.int64]
Numbers = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(slots=True)
class Lacks:
    """Numbers of completed requests of which the log lacks something, and of requests that are special."""

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
class Answers:
    """Requests that have ended. Times are in nanoseconds on the run's clock, right also between processes."""

    completed: Booleans
    expired: Booleans
    good: Booleans
    """True for requests within all limits, by the rules of `telemetry.slo`."""
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
    offsets: Integers
    """Place of the first chunk of each request, and after the last request the number of all chunks."""
    times_ns: Integers
    """Time of each chunk of each request."""
    chunk_tokens: Numbers
    """Tokens of each chunk; 1 if unknown."""

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
    def first_ns(self) -> Integers:
        """Time of the first chunk; that of the end for requests without output."""
        return self._chunk_time(self.offsets[:-1])

    @property
    def last_ns(self) -> Integers:
        """Time of the last chunk; that of the end for requests without output."""
        return self._chunk_time(self.offsets[1:] - 1)

    @property
    def first_tokens(self) -> Numbers:
        """Tokens of the first chunk; 0 for requests without output."""
        found, has_output = np.zeros(len(self)), self.has_output
        found[has_output] = self.chunk_tokens[self.offsets[:-1][has_output]]
        return found

    @property
    def span_ns(self) -> int:
        """Time from the first issue to the last end; 0 without requests."""
        return int(self.ended_ns.max() - self.issued_ns.min()) if len(self) else 0

    @property
    def gaps(self) -> tuple[Integers, Integers]:
        """Time between each two chunks of a request, and the place of the later one."""
        owner = np.repeat(np.arange(len(self)), self.chunks)
        places = np.arange(owner.size)
        later = places > self.offsets[owner]
        later &= ~(self.is_cut[owner] & (places == self.offsets[owner] + 1))
        chosen = places[later]
        return self.times_ns[chosen] - self.times_ns[chosen - 1], chosen

    def chosen(self, which: Booleans) -> Answers:
        """Return some of the requests."""
        chunks = self.chunks
        inside = np.repeat(which, chunks)
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
            offsets=np.concatenate([[0], np.cumsum(chunks[which])]).astype(np.int64),
            times_ns=self.times_ns[inside],
            chunk_tokens=self.chunk_tokens[inside],
        )

    def _chunk_time(self, places: Integers) -> Integers:
        found = self.ended_ns.copy()
        has_output = self.has_output
        found[has_output] = self.times_ns[places[has_output]]
        return found


@dataclass(slots=True)
class Collector:
    """Logged requests on their way into columns: some 16 bytes for each chunk, and 50 for each request."""

    limits: Mapping[str, int] = field(default_factory=dict)
    lacks: Lacks = field(default_factory=Lacks)
    _flags: array[int] = field(default_factory=lambda: array("b"))
    _issued: array[int] = field(default_factory=lambda: array("q"))
    _ended: array[int] = field(default_factory=lambda: array("q"))
    _input: array[float] = field(default_factory=lambda: array("d"))
    _output: array[float] = field(default_factory=lambda: array("d"))
    _chunks: array[int] = field(default_factory=lambda: array("q"))
    _times: array[int] = field(default_factory=lambda: array("q"))
    _tokens: array[float] = field(default_factory=lambda: array("d"))

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
        self._input.append(entry.input_tokens or 0)
        known = entry.output_tokens
        self._output.append(len(times) + entry.chunks_left_out if known is None else known)
        self._chunks.append(len(times))
        self._times.extend(time + offset_ns for time in times)
        self._tokens.extend(1 if one is None else one for one in tokens)
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
            offsets=np.concatenate([[0], np.cumsum(chunks)]).astype(np.int64),
            times_ns=np.frombuffer(self._times, np.int64),
            chunk_tokens=np.frombuffer(self._tokens, np.float64),
        )

    def _count(self, entry: RequestEntry, completed: bool, has_output: bool, unknown_chunk: bool) -> None:
        lacks = self.lacks
        lacks.own_limits += bool(entry.slo)
        lacks.expired += entry.outcome == "expired"
        if completed:
            lacks.input_tokens += entry.input_tokens is None
            lacks.left_out += entry.chunks_left_out > 0
            lacks.no_output += not has_output
            lacks.not_streamed += has_output and entry.first_ns is None
            lacks.output_tokens += has_output and entry.output_tokens is None
            lacks.chunk_tokens += unknown_chunk


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
