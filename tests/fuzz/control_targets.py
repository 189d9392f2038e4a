"""The aggregator's side of the control channel, with everything behind it but sockets and threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

from tests.fuzz import valid
from tests.fuzz.file_targets import history_segment, key_lines, record_lines, small_buffers
from tests.fuzz.memory_files import folder
from tests.fuzz.msgpack_form import Msgpack, Pieces, join_pieces, split_pieces
from tests.fuzz.target import MIB, Target, refused

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.daemon import control as daemon_control
from telemetry.daemon import write_ahead
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.run_status import RunStatus
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.testing import FakeClock
from telemetry.transport.endpoints import Endpoints
from telemetry.wire import codec
from telemetry.wire.control import PUSHED, CannotResend, Request

ASK, ASK_AS_ANOTHER, EVENTS, SETTLE, WAIT = 1, 2, 3, 4, 5
_CONFIG: Final = AggregatorConfig(percentiles=("50",), series_cap=20)
_HISTORY: Final = folder({"keys.jsonl": key_lines(), "1s-0000000000-5.seg": history_segment()})
_RECORDS: Final = RecordLog(folder({FILE_NAME: record_lines()}))


class _Hub:
    """Takes what was asked, one message at a time, and keeps the answers."""

    endpoints = Endpoints("ipc://c", "ipc://e", "ipc://s", "ipc://r")

    def __init__(self) -> None:
        self.asked: deque[tuple[bytes, bytes]] = deque()
        self.answers = 0

    def receive_control(self, most: int) -> list[tuple[bytes, bytes]]:
        return [self.asked.popleft()] if self.asked else []

    def send_control(self, peer: bytes, data: bytes) -> bool:
        answer = codec.decode_response(data)
        self.answers += not isinstance(answer, PUSHED)
        return True


class _Worker:
    """Does everything at once."""

    def wake(self) -> None:
        """Do nothing: nobody waits."""

    def submit(self, job: Callable[[], Any], done: Callable[[Any, Exception | None], None]) -> bool:
        try:
            with small_buffers():
                result, error = job(), None
        except Exception as caught:  # noqa: BLE001 – what the worker does with it
            result, error = None, caught
            refused(caught)
        done(result, error)
        return True


class _Scene:
    """A run in its middle."""

    def __init__(self) -> None:
        self.hub = _Hub()
        self.clock = FakeClock()
        self.numbers = Numbers(Aggregator(_CONFIG), valid.run_state())
        self.run_status = RunStatus.of(self.numbers.run, "e1", "runs/n")
        self.run_status.warnings.clear()
        parts: Any = SimpleNamespace(
            hub=self.hub,
            numbers=self.numbers,
            process_watch=SimpleNamespace(watch=lambda pid: pid % 2 == 0),
            worker=_Worker(),
            directory=SimpleNamespace(history=_HISTORY),
            records=_RECORDS,
            clock=self.clock,
        )
        self.ingress = write_ahead.WriteAheadLog(self.numbers, None, self.clock)
        self.control = daemon_control.Control(
            parts, self.run_status, self.snapshot, self.ingress, catch_up=lambda: None
        )

    def snapshot(self) -> Any:
        facts = SnapshotFacts(run_id="r", name="n", state=self.run_status.lifecycle.state)
        return self.numbers.aggregator.snapshot(facts, self.clock.monotonic_ns(), self.clock.wall_ns())

    def ask(self, peer: bytes, data: bytes) -> None:
        """Each message is answered at once, or owed, or needs no answer."""
        answers, owed = self.hub.answers, self.control.owed
        self.hub.asked.append((peer, data))
        self.control.turn()
        given = self.hub.answers - answers
        silent = isinstance(_read(data), CannotResend)
        assert given == 0 if silent else given == 1 or (given == 0 and self.control.owed >= max(owed, 1))


def _read(data: bytes) -> Request | None:
    try:
        return codec.decode_request(data)
    except codec.Malformed as error:
        refused(error)
        return None


def run_control(data: bytes) -> int:
    """Check that no request fails inside, and that at the end no peer is owed an answer."""
    scene = _Scene()
    count = 0
    for kind, payload in split_pieces(data)[:64]:
        if kind in (ASK, ASK_AS_ANOTHER):
            scene.ask(bytes((kind,)), payload)
            count += payload not in _VERBATIM
        elif kind == EVENTS:
            scene.ingress.turn([payload])
            scene.control.settle()
        elif kind == SETTLE:
            scene.control.settle()
            scene.control.acknowledge()
            scene.control.ask_for_missing(scene.clock.monotonic_ns())
        elif kind == WAIT:
            scene.clock.advance(len(payload) % 5)
    scene.control.announce_state()
    scene.numbers.aggregator.close()
    scene.control.give_up()
    assert scene.control.owed == 0
    assert scene.run_status.warnings == []
    return count


def conversations() -> list[bytes]:
    said = [(ASK, codec.encode_control(request)) for request in valid.requests()]
    other = [(ASK_AS_ANOTHER, data) for _, data in said]
    frames = [(EVENTS, data) for data in valid.frames()]
    settle, wait = (SETTLE, b""), (WAIT, b"1234")
    return [
        join_pieces([*said[:2], *frames[:3], settle, *said[2:5], wait, *frames[3:], settle, *said[5:], *other]),
        join_pieces([*other[:3], frames[1], wait, settle, *other[3:], *said, frames[0], settle, *frames]),
        join_pieces([*said, *said, *other[4:8], settle, wait, *said[4:]]),
    ]


_VERBATIM: Final = frozenset(codec.encode_control(request) for request in valid.requests())

TARGETS: Final = (
    Target(
        name="control",
        arrays=True,
        run=run_control,
        form=Pieces({ASK: Msgpack(), ASK_AS_ANOTHER: Msgpack(), EVENTS: Msgpack(8)}, density=0.6),
        seeds=conversations,
        covers=(daemon_control, write_ahead),
        base_bytes=8 * MIB,
        bytes_each=2_000,
        share=0.1,
    ),
)
