"""Frames of a producer with many requests in flight: rows as the calls of requests make them, in order of time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import msgspec
import numpy as np

from telemetry.client.catalog import Catalog
from telemetry.client.native_recorders import build_recorders
from telemetry.client.requests.ended import EndedLog
from telemetry.client.requests.kind import Requests
from telemetry.client.requests.request import Request
from telemetry.client.requests.stopping import StatusQuery
from telemetry.client.signal_safe import Tally
from telemetry.wire.codec import encode_batch
from telemetry.wire.events import OutgoingBatch
from telemetry.wire.version import PROTOCOL

OTHER_PHASES: Final = 3
"""Of a request, besides its chunks: issue, first and complete."""
_FIRST_TIME_NS: Final = 10**15
_FIRST_WALL_NS: Final = 1_700_000_000_000_000_000
_LATE_NS: Final = 1_000_000  # so long after it was planned a request goes out
_DRAWN: Final = 10_007  # a prime: in time every request sees every gap


class Unattached:
    """A process as requests see it, whose rows nobody sends."""

    endpoint = ""
    state = "live"

    def __init__(self) -> None:
        self.recorders = build_recorders()
        self.recorders.install(self.recorders.buffer.extend)
        self.unencodable = Tally()
        self.catalog = Catalog(self.recorders, self.unencodable)

    def put_record(self, make: Callable[[], bytes]) -> None:
        raise AssertionError("these requests have no series texts")


class RequestFrames:
    """One producer's frames with ascending numbers, and with times that go on when the rows come round again."""

    def __init__(self, batch_events: int, chunks: int, in_flight: int, batches: int) -> None:
        """So many batches are different; so many requests are in flight from the first of them on."""
        self.batch_events = batch_events
        self._host = Unattached()
        self._seq = 0
        self._first = 0
        buffer = self._host.recorders.buffer
        calls = _traffic(Requests(self._host, "llm", {}, StatusQuery(str), EndedLog()), chunks, in_flight)
        for _ in range(2 * in_flight * (chunks + OTHER_PHASES)):
            next(calls)
        buffer.clear()
        begin_ns = end_ns = next(calls)
        phases = 1
        while len(buffer) < 3 * batch_events * batches:
            end_ns = next(calls)
            phases += 1
        self.events_a_phase = len(buffer) / 3 / phases
        self._span_ns = end_ns - begin_ns
        cuts = range(0, 3 * batch_events * batches, 3 * batch_events)
        self._rows = [msgspec.Raw(msgspec.msgpack.encode(buffer[at : at + 3 * batch_events])) for at in cuts]
        buffer.clear()

    def definitions(self) -> bytes:
        """The first frame: every instrument, no event."""
        defines = [msgspec.Raw(definition) for definition in self._host.catalog.definitions]
        return self._frame(defines, msgspec.Raw(msgspec.msgpack.encode([])), 0, 0)

    def frames(self, count: int) -> list[bytes]:
        return [self._next() for _ in range(count)]

    def _next(self) -> bytes:
        times, at = divmod(self._seq - 1, len(self._rows))
        return self._frame([], self._rows[at], self.batch_events, times * self._span_ns)

    def _frame(self, records: list[msgspec.Raw], rows: msgspec.Raw, events: int, later_ns: int) -> bytes:
        batch = OutgoingBatch(
            version=PROTOCOL,
            producer="bench",
            seq=self._seq,
            first=self._first,
            anchor=(_FIRST_TIME_NS, _FIRST_WALL_NS + later_ns),
            dropped={},
            records=cast(Any, records),  # encoded already, as the rows are
            rows=cast(Any, rows),
        )
        self._seq += 1
        self._first += events
        return bytes(encode_batch(batch))


def _traffic(kind: Requests, chunks: int, in_flight: int) -> Iterator[int]:
    """Makes one call of one request after the other, in order of time, and tells that time. Each request is
    followed by another; what lies between two calls is lognormal around 24 ms. The first ones begin at even
    distances within the time that one takes, so that in any second as many begin as end."""
    drawn = np.random.default_rng(1).lognormal(17, 1, _DRAWN).astype(np.int64).tolist()
    apart_ns = sum(drawn) * (chunks + OTHER_PHASES) // (_DRAWN * in_flight)
    waiting = [(_FIRST_TIME_NS + apart_ns * place, place) for place in range(in_flight)]
    requests: list[Request | None] = [None] * in_flight
    done = [0] * in_flight
    turn = 0
    while True:
        at_ns, place = waiting[0]
        request = requests[place]
        if request is None:
            requests[place], done[place] = kind.issue(planned=at_ns - _LATE_NS, at_ns=at_ns), 0
        elif done[place] == 0:
            request.first(at_ns=at_ns)
            done[place] = 1
        elif done[place] <= chunks:
            request.chunk(at_ns=at_ns)
            done[place] += 1
        else:
            request.complete(finish_reason="stop", at_ns=at_ns)
            requests[place] = None
        turn += 1
        heapq.heapreplace(waiting, (at_ns + drawn[turn % _DRAWN], place))
        yield at_ns
