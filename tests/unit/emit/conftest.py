"""A link without sockets, and an aggregator's side of the account to check a producer's against."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from telemetry.emit.outbox import Outbox
from telemetry.emit.recorders import Recorders, build_recorders
from telemetry.emit.tally import Tally
from telemetry.ledger import Reason
from telemetry.testing.clock import FakeClock
from telemetry.wire import rows
from telemetry.wire.codec import decode_batch, decode_record, record_tag
from telemetry.wire.control import Request, Response
from telemetry.wire.events import Define, EventBatch, EventRecord


class FakeLink:
    """Keeps what is sent; hands out what the test says the aggregator said."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []
        self.asked: list[Request] = []
        self.inbox: list[Response] = []
        self.events_address = ""
        self.room = 1 << 30
        """Event frames that still fit into the pipe."""
        self.closed_with: float | None = None
        self.answer: Callable[[Request], list[Response]] = lambda request: []

    def connect_events(self, address: str) -> None:
        self.events_address = address

    def send_events(self, frame: bytes | bytearray) -> bool:
        if self.room <= 0 or not self.events_address:
            return False
        self.room -= 1
        self.frames.append(bytes(frame))
        return True

    def send_control(self, message: Request) -> bool:
        self.asked.append(message)
        self.inbox += self.answer(message)
        return True

    def receive_control(self, timeout_s: float = 0.0) -> list[Response]:
        if not self.inbox and timeout_s:
            time.sleep(min(timeout_s, 0.001))  # a link waits: one that does not makes whoever listens spin
        found, self.inbox = self.inbox, []
        return found

    def close(self, linger_s: float) -> None:
        self.closed_with = linger_s

    @property
    def batches(self) -> list[EventBatch]:
        return [decode_batch(frame) for frame in self.frames]


class Reader:
    """What batches hold."""

    @staticmethod
    def records(batch: EventBatch) -> list[EventRecord]:
        return [decode_record(raw) for raw in batch.records]

    @classmethod
    def definitions(cls, batch: EventBatch) -> list[Define]:
        return [record for record in cls.records(batch) if isinstance(record, Define)]

    @staticmethod
    def values(batch: EventBatch) -> list[float]:
        return rows.loose(batch.rows)[2::3]

    @staticmethod
    def events(batch: EventBatch) -> int:
        return rows.row_count(batch.rows) + sum(record_tag(raw) != "define" for raw in batch.records)


class Desk:
    """Everything an outbox needs, within reach of a test."""

    def __init__(self, row_bound: int | None = 1_000) -> None:
        self.recorders: Recorders = build_recorders()
        self.recorders.install(self.recorders.buffer.extend)
        self.definitions: list[bytes] = []
        self.timed_out = Tally()
        self.clock = FakeClock()
        self.outbox = Outbox(
            "p1",
            self.recorders.buffer,
            self.definitions,
            tallies={Reason.NOT_A_NUMBER: self.recorders.refused, Reason.BLOCK_TIMEOUT: self.timed_out},
            row_bound=row_bound,
            clock=self.clock,
        )

    def fill(self, count: int, first: int = 0) -> None:
        """Rows with the values `first … first + count - 1`."""
        record = self.recorders.record(0.0)
        for value in range(first, first + count):
            record(value, at_ns=1 << 40)

    def pack(self) -> EventBatch | None:
        self.outbox.settle()
        packed = self.outbox.pack()
        return None if packed is None else decode_batch(packed.frame)


@pytest.fixture
def link() -> FakeLink:
    return FakeLink()


@pytest.fixture
def read() -> type[Reader]:
    return Reader


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
def make_desk() -> type[Desk]:
    return Desk


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    """The lines said to the person so far."""
    return lambda: [record.getMessage() for record in caplog.records if record.name == "telemetry.emit"]
