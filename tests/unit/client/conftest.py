"""A link without sockets, and an aggregator's side of the account to check a producer's against."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from msgspec import Raw

from telemetry.client.catalog import Catalog
from telemetry.client.native_recorders import build_recorders
from telemetry.client.recorders import Recorders, Rows
from telemetry.client.requests.kind import Requests
from telemetry.client.requests.kinds import Kinds, Tracking
from telemetry.client.sending.outbox import Outbox
from telemetry.client.signal_safe import Tally
from telemetry.testing.clock import FakeClock
from telemetry.wire import rows
from telemetry.wire.codec import decode_batch, decode_record, record_tag
from telemetry.wire.control import Request, Response
from telemetry.wire.drop_reasons import Reason
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
    """A reader of the records, definitions, values and events in a batch."""

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
        return batch.rows.events + sum(record_tag(raw) != "define" for raw in batch.records)


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


Event = tuple[str, dict[str, str], int, float]
"""Name, labels, time, value."""


class Program:
    """A process that records, without a thread that sends: what requests come to, within reach of a test."""

    def __init__(self) -> None:
        self.recorders = build_recorders()
        self.unencodable = Tally()
        self.catalog = Catalog(self.recorders, self.unencodable)
        self.state = "live"
        self.endpoint = ""
        self.records: list[EventRecord] = []
        self.puts: list[list[float]] = []
        """What each call to the buffer held."""
        self.kinds = Kinds(self)
        self.recorders.install(self._put)

    def _put(self, rows: Rows) -> None:
        self.puts.append(list(rows))
        self.recorders.buffer.extend(rows)

    def put_record(self, make: Callable[[], bytes]) -> None:
        try:
            self.records.append(decode_record(Raw(make())))
        except ValueError:
            self.unencodable.hit()

    def requests(self, name: str = "llm", **labels: object) -> Requests:
        return self.kinds.requests(name, labels)

    def tracking(self, window: str) -> Tracking:
        return Tracking(self.kinds, self, window)

    @property
    def definitions(self) -> list[Define]:
        found = [decode_record(Raw(encoded)) for encoded in self.catalog.definitions]
        return [made for made in found if isinstance(made, Define)]

    @property
    def events(self) -> list[Event]:
        known, flat = self.definitions, self.recorders.buffer
        return [
            (known[int(row)].name, known[int(row)].labels, int(at), value)
            for row, at, value in zip(flat[::3], flat[1::3], flat[2::3], strict=True)
        ]

    def take(self) -> list[Event]:
        """All events since the last call."""
        found = self.events
        self.recorders.buffer.clear()
        return found

    def values(self, name: str) -> list[float]:
        return [value for known, _, _, value in self.events if known == name]


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.fixture
def make_program() -> type[Program]:
    return Program


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
    return lambda: [record.getMessage() for record in caplog.records if record.name == "telemetry.client"]
