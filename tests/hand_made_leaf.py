"""A leaf that a test makes by hand: it counts, and sends what a leaf sends."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import numpy as np
from msgspec import Raw

from telemetry.testing import batch, frame
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.transport.producer import ProducerLink
from telemetry.wire.control import End, Ended, Hello, Request, Response, Welcome
from telemetry.wire.events import Define, EventBatch, EventRecord
from telemetry.wire.nodes import CounterSums, Member, NodeAccount, NodeInterval, NodeRecord, Relay, SeriesSums
from telemetry.wire.snapshot import Accounting, Completeness

SECOND = 1_000_000_000
COUNTER = 4
"""Id of the counter `n`."""
SERIES = 3
"""Id of the series `latency`."""
DEFINES = (Define(COUNTER, "n", "counter"), Define(SERIES, "latency", "series", "ns"))
DEADLINE_S = 60.0


def column(code: str, *values: float) -> bytes:
    """Little-endian bytes of a column."""
    return np.array(values, np.dtype(code).newbyteorder("<")).tobytes()


def counts(increments: int) -> CounterSums:
    """Return the sums of that many increments by 1 of the counter `n`."""
    return CounterSums(
        id=column("u4", COUNTER),
        events=column("u8", increments),
        whole=column("i8", increments),
        huge=column("f8", 0.0),
        fraction=column("f8", 0.0),
        fractional=column("u1", 0),
        imprecise=column("u8", 0),
    )


def values_of(number: int, value: float = 5.0) -> SeriesSums:
    """Return the sums of that many equal values of the series `latency`.

    The values are below the first 2,048 nanoseconds, where a slot is a tick.
    """
    return SeriesSums(
        id=column("u4", SERIES),
        count=column("u8", number),
        total=column("f8", number * value),
        rest=column("f8", 0.0),
        mean=column("f8", value),
        squares=column("f8", 0.0),
        min=column("f8", value),
        max=column("f8", value),
        integral=column("u1", 1),
        imprecise=column("u8", 0),
        below=column("u8", 0),
        above=column("u8", 0),
        occupied=column("u4", 1),
        slots=column("u4", value),
        counts=column("u4", number),
    )


@dataclass
class HandMadeLeaf:
    """The records of a leaf, and what is true about them."""

    run_id: str = "leaf1"
    node: str = "gpu-1"
    wall_ns: int = WALL_NS
    mono_ns: int = MONO_NS
    values: int = 0
    """Values in all intervals."""
    lost: int = 0
    """Events that a producer of the leaf dropped."""
    rolls: int = 0
    batches: int = 0
    emitted: int = 0
    sent: list[EventBatch] = field(default_factory=list)

    def interval(self, increments: int = 0, series_values: int = 0) -> NodeInterval:
        """The next second, with so many increments and values."""
        self.rolls += 1
        self.values += increments + series_values
        return NodeInterval(
            self.rolls,
            self.wall_ns + (self.rolls - 1) * SECOND,
            self.wall_ns + self.rolls * SECOND,
            series=values_of(series_values) if series_values else SeriesSums(),
            counters=counts(increments) if increments else CounterSums(),
        )

    def account(
        self,
        completeness: Completeness = "incomplete",
        *,
        final: bool = False,
        owing: Sequence[str] = ("worker",),
        **others: Any,
    ) -> NodeAccount:
        """The account at the end of the newest interval."""
        sums = Accounting(
            emitted=self.values + self.lost,
            received=self.values,
            applied=self.values,
            dropped_by_producer={"buffer_full": self.lost} if self.lost else {},
        )
        complete = completeness != "incomplete"
        return NodeAccount(
            self.rolls,
            self.values,
            sums,
            **{"producers": 2, "completeness": completeness, "final": final}
            | {"owing": [] if complete else list(owing)}
            | others,
        )

    def second(self, increments: int = 0, series_values: int = 0) -> list[EventRecord | NodeRecord]:
        """The records of a second of a run that goes on."""
        return [self.interval(increments, series_values), self.account()]

    def last(self, completeness: Completeness = "complete", **others: Any) -> list[EventRecord | NodeRecord]:
        """The records of the last second."""
        return [self.interval(), self.account(completeness, final=True, **others)]

    def batch(self, *records: EventRecord | NodeRecord) -> EventBatch:
        """The next batch. The first one has the definitions."""
        made = batch(
            self.run_id, self.batches, self.emitted, records=self._with_defines(records), anchor=self.anchor
        )
        self._number(records)
        self.sent.append(made)
        return made

    def frame(self, *records: EventRecord | NodeRecord) -> bytearray:
        """The next batch as bytes."""
        made = frame(
            self.run_id, self.batches, self.emitted, records=self._with_defines(records), anchor=self.anchor
        )
        self._number(records)
        return made

    @property
    def anchor(self) -> tuple[int, int]:
        return self.mono_ns + self.rolls * SECOND, self.wall_ns + self.rolls * SECOND

    def hello(self, pid: int = 7, host: str = "host-1", mono_ns: int = MONO_NS) -> Hello:
        return Hello(id=1, producer=self.run_id, name="job", host=host, pid=pid, mono_ns=mono_ns, node=self.node)

    def end(self) -> End:
        return End(id=9, producer=self.run_id, batches=self.batches, emitted=self.emitted)

    def _with_defines(self, records: Sequence[EventRecord | NodeRecord]) -> list[EventRecord]:
        defines = DEFINES if self.batches == 0 else ()
        return cast("list[EventRecord]", [*defines, *records])

    def _number(self, records: Sequence[EventRecord | NodeRecord]) -> None:
        self.batches += 1
        self.emitted += len(records)


def relay(record: EventRecord, wall_ns: int, producer: str = "worker") -> Relay:
    """A record of a producer of the leaf, passed on."""
    return Relay(producer, wall_ns, Raw(msgspec.msgpack.encode(record)))


def member(producer: str, **facts: Any) -> Member:
    return Member(producer, **facts)


def answer(link: ProducerLink, request: Request) -> Response:
    """Send a request and return its answer. Fail after the deadline."""
    assert link.send_control(request)
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for response in link.receive_control(0.1):
            if response.id == request.id:
                return response
    raise AssertionError(f"no answer to {request}")


class ConnectedLeaf:
    """A hand-made leaf with the sockets of a producer."""

    def __init__(self, endpoint: str, run_id: str = "leaf1", node: str = "gpu-1", pid: int | None = None) -> None:
        self.made = HandMadeLeaf(run_id, node, time.time_ns(), time.monotonic_ns())
        self._endpoint = endpoint
        self.frames: list[bytearray] = []
        self.connect(pid)

    def connect(self, pid: int | None = None) -> None:
        """Connect and say hello; after a restart of the leaf under another process id."""
        self.link = ProducerLink(self._endpoint, self.made.run_id)
        welcome = self.ask(self.made.hello(os.getpid() if pid is None else pid, mono_ns=time.monotonic_ns()))
        assert isinstance(welcome, Welcome), welcome
        self.link.connect_events(welcome.events)

    def ask(self, request: Request) -> Response:
        """The answer to a request."""
        return answer(self.link, request)

    def make(self, *records: EventRecord | NodeRecord) -> bytearray:
        """The next batch, not sent."""
        self.frames.append(self.made.frame(*records))
        return self.frames[-1]

    def send(self, *records: EventRecord | NodeRecord) -> None:
        self.send_frame(self.make(*records))

    def send_frame(self, data: bytearray) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not self.link.send_events(data):
            assert time.monotonic() < deadline, "the root has not subscribed"
            self.link.receive_control(0.05)

    def end(self) -> Ended:
        """Say that nothing follows. Everything has arrived then."""
        ended = self.ask(self.made.end())
        assert isinstance(ended, Ended), ended
        return ended

    def close(self) -> None:
        self.link.close(0.0)
