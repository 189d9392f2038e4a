"""The request log: what programs knew of each request, so that joint questions can be asked later."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta, Raw, Struct

from telemetry import limits
from telemetry.wire.events import BaseRecord, Labels, Name, Natural, ProducerId

Outcome = Literal["completed", "failed", "expired"]
Tokens = Natural | Annotated[float, Meta(ge=0)]
Gap = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
"""Difference of two times of a program. Below 0 if the program gave them in the wrong order."""


class RequestEntry(Struct, array_like=True, frozen=True, gc=False, omit_defaults=False):
    """One request that has ended. Times are the producer's monotonic clock in nanoseconds."""

    number: Natural
    """Number of the request in its process, from 0 up. A text that is counted later refers to it."""
    issued_ns: Natural
    ended_ns: Natural
    outcome: Outcome = "completed"
    reason: Annotated[str, Meta(max_length=limits.LABEL_VALUE_CHARS)] = ""
    """Finish reason of a completed request, reason of a failed one."""
    planned_ns: Natural | None = None
    first_ns: Natural | None = None
    """Time of the first output; null if none came."""
    first_tokens: Natural | None = 1
    """Tokens of the first output; null if unknown."""
    gaps_ns: Annotated[list[Gap], Meta(max_length=limits.CHUNKS_HELD)] = []
    """For each later chunk, the time since the output before it."""
    chunk_tokens: Annotated[list[Natural | None], Meta(max_length=limits.CHUNKS_HELD)] = []
    """Tokens of each later chunk; empty if each has one."""
    chunks_left_out: Natural = 0
    """Number of chunks before those in `gaps_ns`: of a very long answer only the last ones are kept."""
    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    turn: Annotated[str, Meta(max_length=limits.LABEL_VALUE_CHARS)] = ""
    slo: Annotated[dict[Name, Natural], Meta(max_length=limits.LABEL_COUNT)] = {}
    """Limits that this request has instead of those of its kind, by key; durations in nanoseconds."""


class EndedRequests(BaseRecord, tag="requests", frozen=True):
    """Requests of one kind and tracking window that ended since the last record of this kind."""

    kind: Name
    labels: Labels
    """Labels of the kind, with that of the tracking window."""
    entries: Annotated[list[RequestEntry], Meta(max_length=limits.REQUESTS_PER_RECORD)]
    left_out: Natural = 0
    """Number of requests that ended too and are not in the log, because there was no room."""
    time_ns: Natural = 0


class RequestTokens(BaseRecord, tag="request_tokens", frozen=True):
    """Tokens of a request, counted after its end by a worker of the aggregator."""

    producer: Annotated[str, Meta(max_length=limits.PRODUCER_ID_CHARS)]
    number: Natural
    """Number of the request in the process of that producer."""
    word: Literal["input_tokens", "output_tokens"]
    tokens: Tokens
    time_ns: Natural = 0


RequestRecord = EndedRequests | RequestTokens
REQUEST_RECORDS: Final = (EndedRequests, RequestTokens)
"""Record types that go to the request log. They are events, but not part of the record stream."""


class LoggedRecords(Struct, array_like=True, frozen=True):
    """A frame of the request log: the records of one batch, as they came.

    A time of them plus `offset_ns` is on the run's clock. That plus `step_ns` is on the wall clock.
    """

    producer: ProducerId
    offset_ns: Gap
    step_ns: Gap
    records: list[Raw]
