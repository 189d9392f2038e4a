"""A fake aggregator in a thread that keeps what it receives, for tests of programs that record."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from telemetry import limits
from telemetry.transport.endpoints import plan
from telemetry.transport.hub import Hub
from telemetry.wire import control as msg
from telemetry.wire import rows
from telemetry.wire.codec import (
    decode_batch,
    decode_record,
    decode_request,
    encode_control,
    encode_snapshot,
    record_tag,
)
from telemetry.wire.events import Define, EventBatch
from telemetry.wire.nodes import BatchRecord
from telemetry.wire.sequence import SequenceTracker
from telemetry.wire.snapshot import Accounting, MetricsSnapshot, State

_TURN_S: Final = 0.01
_ASK_AGAIN_S: Final = 0.1
_JOIN_S: Final = 30.0


class Heard:
    """The data from one producer, in the order of admission."""

    def __init__(self) -> None:
        self.hello: msg.Hello | None = None
        self.tracker = SequenceTracker()
        self.batches: list[EventBatch] = []
        self.end: msg.End | None = None

    @property
    def records(self) -> list[BatchRecord]:
        """The records of all batches, without definitions."""
        records = [decode_record(raw) for batch in self.batches for raw in batch.records]
        return [record for record in records if not isinstance(record, Define)]

    @property
    def names(self) -> dict[int, str]:
        """Row id → name of the instrument."""
        records = [decode_record(raw) for batch in self.batches for raw in batch.records]
        return {record.id: record.name for record in records if isinstance(record, Define)}

    @property
    def received(self) -> int:
        """Number of events."""
        return sum(
            batch.rows.events + sum(record_tag(raw) != "define" for raw in batch.records) for batch in self.batches
        )

    def rows(self) -> Iterator[tuple[str, int, float]]:
        """Yield (name of the instrument, time, value). The name is empty if the definition has not arrived."""
        names = self.names
        for batch in self.batches:
            flat = rows.loose(batch.rows)
            for row_id, time_ns, value in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
                yield names.get(int(row_id), ""), int(time_ns), value


class FakeAggregator:
    """A fake aggregator at `ipc://FOLDER/c`, used as a context manager.

    It admits each batch once, acknowledges batches, requests missing batches until the producer gives up on them,
    and answers control requests. Attributes may be read while it runs; `reading` and `acknowledging` may be set.
    """

    def __init__(self, folder: Path, epoch: str = "e1") -> None:
        self.epoch = epoch
        self.state: State = "LIVE"
        self.reading = True
        """Switch for reading events. If False, events stay in the socket, as with a stopped or slow aggregator."""
        self.acknowledging = True
        self.heard: dict[str, Heard] = {}
        self.requests: list[msg.Request] = []
        self._peers: dict[str, bytes] = {}
        self._owed: list[tuple[bytes, msg.End]] = []
        self._stopping = threading.Event()
        self._seq = 0
        self._hub = Hub(plan(f"ipc://{folder}/c", "fake"))
        self.endpoint = self._hub.endpoints.control
        self._thread = threading.Thread(target=self._serve, name="fake-aggregator")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop the thread and close the sockets. May be called twice."""
        self._stopping.set()
        self._thread.join(_JOIN_S)
        self._hub.close()

    @property
    def received(self) -> int:
        """Number of events of all producers."""
        return sum(heard.received for heard in list(self.heard.values()))

    def values(self, name: str) -> list[float]:
        """Return all values recorded under a name, grouped by producer."""
        return [value for heard in list(self.heard.values()) for known, _, value in heard.rows() if known == name]

    # --- thread ----------------------------------------------------------------------------------

    def _serve(self) -> None:
        tick_at = 0.0
        while not self._stopping.is_set():
            self._hub.wait(_TURN_S, events=self.reading)
            for peer, data in self._hub.receive_control(100):
                self._answer(peer, decode_request(data))
            if self.reading:
                for frame in self._hub.receive_events(limits.TURN_FRAMES, limits.TURN_BYTES):
                    self._admit(decode_batch(frame))
            self._settle()
            if time.monotonic() >= tick_at:
                tick_at = time.monotonic() + _ASK_AGAIN_S
                self._tick()

    def _admit(self, batch: EventBatch) -> None:
        heard = self.heard.setdefault(batch.producer, Heard())
        if heard.tracker.admit(batch.seq):
            heard.batches.append(batch)

    def _answer(self, peer: bytes, request: msg.Request) -> None:
        self.requests.append(request)
        if isinstance(request, msg.End):
            self._owed.append((peer, request))
            return
        if isinstance(request, msg.CannotResend):
            self.heard.setdefault(request.producer, Heard()).tracker.give_up(request.first, request.last)
            return
        where = self._hub.endpoints
        answer: msg.Response
        if isinstance(request, msg.Hello):
            if request.producer:
                self.heard.setdefault(request.producer, Heard()).hello = request
                self._peers[request.producer] = peer
            answer = msg.Welcome(
                id=request.id,
                run_id="fake",
                name="fake",
                epoch=self.epoch,
                state=self.state,
                events=where.events,
                snapshots=where.snapshots,
                records=where.records,
            )
        elif isinstance(request, msg.Ping):
            answer = msg.Pong(id=request.id, epoch=self.epoch, state=self.state)
        elif isinstance(request, msg.GetStatus):
            answer = msg.Status(id=request.id, snapshot=self._snapshot())
        elif isinstance(request, msg.Stop):
            self.state = "INTERRUPTED" if request.interrupted else "COMPLETE"
            answer = msg.Stopping(id=request.id, state=self.state)
        elif isinstance(request, msg.Watch):
            answer = msg.Watching(id=request.id, pid=request.pid)
        else:
            answer = msg.Error(id=request.id, code="unknown_message", message=type(request).__name__)
        self._hub.send_control(peer, encode_control(answer))

    def _settle(self) -> None:
        for peer, end in list(self._owed):
            heard = self.heard.setdefault(end.producer, Heard())
            heard.tracker.expect(end.batches)
            if heard.tracker.contiguous < end.batches:
                continue
            heard.end = end
            self._owed.remove((peer, end))
            missing = end.emitted - heard.received - sum(end.dropped.values())
            ended = msg.Ended(id=end.id, emitted=end.emitted, received=heard.received, missing=missing)
            self._hub.send_control(peer, encode_control(ended))

    def _tick(self) -> None:
        for producer, peer in self._peers.items():
            tracker = self.heard[producer].tracker
            if self.acknowledging and tracker.contiguous:
                self._push(peer, msg.Ack(epoch=self.epoch, batches=tracker.contiguous))
            if self.reading:
                for first, last in tracker.gaps:
                    self._push(peer, msg.Resend(first=first, last=last))
        self._seq += 1
        self._hub.publish_snapshot(encode_snapshot(self._snapshot()))

    def _push(self, peer: bytes, message: msg.Response) -> None:
        self._hub.send_control(peer, encode_control(message))

    def _snapshot(self) -> MetricsSnapshot:
        received = self.received
        return MetricsSnapshot(
            run_id="fake",
            name="fake",
            epoch=self.epoch,
            seq=self._seq,
            state=self.state,
            accounting=Accounting(emitted=received, received=received, applied=received),
        )
