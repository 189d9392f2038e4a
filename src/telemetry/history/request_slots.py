"""Requests of a run one by one, each in a slot that no other request uses at the same time."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry.errors import RunDirectoryError
from telemetry.history import request_log
from telemetry.history.concurrency import LOG_BYTES
from telemetry.history.request_log import LoggedRequest
from telemetry.wire.pictures import RequestSlots
from telemetry.wire.report import Report

if TYPE_CHECKING:
    from telemetry.store.run_directory import RunDirectory

Times = NDArray[np.int64]
Places = NDArray[np.intp]

DRAWN: Final = 1_500
"""Largest number of requests in a picture: more are thinner than a pixel."""
_NONE: Final = -1
_SECOND: Final = 1e9


def with_slots(report: Report, directory: RunDirectory) -> Report:
    """Return the report with the slots of its requests in its pictures. Blocks.

    A large log, or one that can't be read, leaves it as it is.
    """
    if report.pictures is None or not report.requests:
        return report
    try:
        facts = request_log.facts(directory)
        if facts is None or not facts.kept or facts.bytes > LOG_BYTES:
            return report
        slots = slots_of(request_log.read(directory), report.snapshot.started_ns)
    except (RunDirectoryError, OverflowError):  # times of a file may be as large as 64 bits allow
        return report
    return replace(report, pictures=replace(report.pictures, slots=slots))


def slots_of(requests: Iterable[LoggedRequest], started_ns: int, most: int = DRAWN) -> RequestSlots | None:
    """Return the requests in the order in which they began; None without any.

    Of more than `most`, those are kept that overlap a time range around the most requests in flight.
    """
    columns = _Columns()
    for request in requests:
        columns.add(request, started_ns)
    return columns.slots(most) if columns.begin else None


@dataclass(slots=True)
class _Columns:
    """Times of requests in nanoseconds since the start of the run."""

    begin: array[int] = field(default_factory=lambda: array("q"))
    """Planned time of a request, or of its issue."""
    issued: array[int] = field(default_factory=lambda: array("q"))
    first: array[int] = field(default_factory=lambda: array("q"))
    ended: array[int] = field(default_factory=lambda: array("q"))
    reasons: dict[int, str] = field(default_factory=dict)
    """Reason by place, of requests that did not complete."""

    def add(self, request: LoggedRequest, started_ns: int) -> None:
        entry, shift_ns = request.entry, request.shift_ns - started_ns
        if entry.outcome != "completed":
            self.reasons[len(self.begin)] = entry.reason or entry.outcome
        planned_ns = entry.issued_ns if entry.planned_ns is None else entry.planned_ns
        self.begin.append(min(planned_ns, entry.issued_ns) + shift_ns)
        self.issued.append(entry.issued_ns + shift_ns)
        self.first.append(_NONE if entry.first_ns is None else entry.first_ns + shift_ns)
        self.ended.append(max(entry.ended_ns, entry.issued_ns) + shift_ns)

    def slots(self, most: int) -> RequestSlots:
        begin, ended = np.frombuffer(self.begin, np.int64), np.frombuffer(self.ended, np.int64)
        order = np.argsort(begin, kind="stable")
        if order.size > most:
            order = _busiest(order, begin, ended, most)
        places = order.tolist()
        issued, first = self.issued, self.first
        return RequestSlots(
            total=len(self.begin),
            slots=list(_greedy((self.begin[at], self.ended[at]) for at in places)),
            begin_s=[self.begin[at] / _SECOND for at in places],
            issued_s=[issued[at] / _SECOND for at in places],
            first_s=[None if first[at] == _NONE else first[at] / _SECOND for at in places],
            end_s=[self.ended[at] / _SECOND for at in places],
            reasons=[self.reasons.get(at, "") for at in places],
        )


def _busiest(order: Places, begin: Times, ended: Times, most: int) -> Places:
    """Return the requests that overlap a time range in which at most `most` are, around the most in flight."""
    begins = begin[order]
    in_flight = np.arange(1, begins.size + 1) - np.searchsorted(np.sort(ended), begins, side="right")
    peak = int(in_flight.argmax())
    number = max(most - int(in_flight.max()), 1)  # those before the range that have not ended take the rest
    first = min(max(peak - number // 2, 0), begins.size - number)
    start, end = begins[first], begins[first + number - 1]
    kept: Places = order[(begins <= end) & ((ended[order] > start) | (begins >= start))]
    return kept[:most]


def _greedy(times: Iterable[tuple[int, int]]) -> Iterator[int]:
    """Yield the lowest free slot of each request, from 0. Requests come in the order of their beginnings."""
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for begin, end in times:
        while busy and busy[0][0] <= begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        slot = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, slot))
        yield slot
