"""The record stream without holes: `rec/1` as it comes, and catch-up through control for what did not."""

from __future__ import annotations

import time
from collections import deque
from types import TracebackType
from typing import Final, Self

import zmq

from telemetry import limits
from telemetry.errors import EndpointError, ProtocolError, TelemetryError
from telemetry.transport import sockets
from telemetry.transport.client import ControlClient, check_welcome
from telemetry.transport.endpoints import refuses, seen_from
from telemetry.wire import frames
from telemetry.wire.codec import Malformed, decode_stream_record
from telemetry.wire.control import Catchup, CaughtUp, Hello, Ping, Pong
from telemetry.wire.events import StreamRecord
from telemetry.wire.snapshot import TERMINAL

_CHECK_EVERY_S: Final = 1.0


class RecordStream:
    """Every record from `from_seq` on, in order and once. One thread.

    A gap in what is published, or a late join, is filled from the aggregator's record log, page by page as records
    are taken: while the run goes on, no more than a page waits here. What that log does not have either is skipped
    and counted in `missed`.
    """

    def __init__(self, endpoint: str, from_seq: int = 0, timeout_s: float = limits.CONTROL_TIMEOUT_S) -> None:
        """Blocks for the handshake and the first page of a catch-up. Raises EndpointError, KeysError or
        ProtocolError."""
        self.next_seq = from_seq
        """One above the last record that was taken in."""
        self.known = from_seq
        """One above the newest record that is known of."""
        self.missed = 0
        self.ended = False
        """The run is over and all its records were handed out, or its aggregator is gone."""
        self.gone = False
        """It ends, or has ended, because nobody listens at the address any more."""
        self._timeout_s = timeout_s
        self._ready: deque[StreamRecord] = deque()
        self._over = False
        self._behind = True
        """The log may have records that were not taken in; what is published meanwhile waits, or is lost and found
        there."""
        self._early: StreamRecord | None = None
        """What showed a gap, for when the log has said all it has."""
        self._context: sockets.ZmqContext = zmq.Context()
        self._control = ControlClient(endpoint)
        try:
            welcome = check_welcome(self._control.request(Hello(mono_ns=time.monotonic_ns()), timeout_s), endpoint)
            kind = (zmq.SUB, {zmq.MAXMSGSIZE: limits.FRAME_BYTES_HARD, zmq.RCVHWM: limits.RECORD_SNDHWM})
            self._socket = sockets.make_socket(self._context, kind, 0)
            self._socket.subscribe(frames.RECORDS)
            sockets.connect(self._socket, seen_from(welcome.records, endpoint))
            self._catch_up()
            self._over = welcome.state in TERMINAL
        except TelemetryError:
            self.close()
            raise
        self._check_at = time.monotonic() + _CHECK_EVERY_S

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def recv(self, timeout_s: float) -> StreamRecord | None:
        """The next record, or None if there is none in time or the stream has ended.

        Once a second the aggregator is asked for its state and for records whose publication was lost, so a call
        may take `timeout_s` plus the time of a request. Raises ProtocolError, KeysError if this user is trusted no
        longer, and EndpointError if a gap can't be filled because nobody answers; the next call tries again.
        """
        deadline = time.monotonic() + timeout_s
        while not self._ready:
            if self._behind:
                self._go_on()
                continue
            if self._over:
                self.ended = True
                return None
            now = time.monotonic()
            if now >= self._check_at:
                self._check()
            elif self._socket.poll(max(0, round((min(deadline, self._check_at) - now) * 1_000))):
                self._take(self._socket.recv(zmq.NOBLOCK))
            elif now >= deadline:
                return None
        return self._ready.popleft()

    def skip_to(self, seq: int) -> None:
        """Records below `seq` are not wanted any more: who asks has them from elsewhere."""
        self.next_seq = max(self.next_seq, seq)
        while self._ready and self._ready[0].seq < seq:
            self._ready.popleft()

    def hurry(self) -> None:
        """The next `recv` asks the aggregator for its state first."""
        self._check_at = 0.0

    def close(self) -> None:
        """May be called twice."""
        self._control.close()
        self._context.destroy(0)

    def _take(self, frame: bytes) -> None:
        try:
            record = decode_stream_record(frame)
        except Malformed:
            return
        self.known = max(self.known, record.seq + 1)
        if record.seq > self.next_seq:
            self._early, self._behind = record, True
        elif record.seq == self.next_seq:
            self._admit(record)

    def _admit(self, record: StreamRecord) -> None:
        self.missed += record.seq - self.next_seq
        self._ready.append(record)
        self.next_seq = record.seq + 1
        self.known = max(self.known, self.next_seq)

    def _check(self) -> None:
        """The state is asked first: once it is terminal, the log behind it is whole. One that is silent may only be
        stopped for a while; one whose address refuses is gone."""
        try:
            pong = self._control.request(Ping(), self._timeout_s)
            over = isinstance(pong, Pong) and pong.state in TERMINAL
            self._catch_up()
            while over and self._behind:  # soon there will be nobody to ask
                self._catch_up()
            self._over = over
        except EndpointError:
            self._over = self.gone = refuses(self._control.endpoint)
        self._check_at = time.monotonic() + _CHECK_EVERY_S

    def _go_on(self) -> None:
        """The next page. Raises EndpointError if nobody answers, unless nobody will."""
        try:
            self._catch_up()
        except EndpointError:
            if not refuses(self._control.endpoint):
                raise
            self._over, self.gone, self._behind = True, True, False

    def _catch_up(self) -> None:
        """Takes in one page of the log, from `next_seq` on. Blocks. Raises EndpointError or ProtocolError."""
        answer = self._control.request(Catchup(from_seq=self.next_seq), self._timeout_s)
        if not isinstance(answer, CaughtUp):
            raise ProtocolError(f"{self._control.endpoint} answered catchup with {type(answer).__name__}")
        self.known = max(self.known, answer.last_seq + 1)
        for record in answer.records:
            if record.seq >= self.next_seq:
                self._admit(record)
        self._behind = bool(answer.records) and self.next_seq <= answer.last_seq
        early = self._early
        if early is not None and not self._behind:
            self._early = None
            if early.seq >= self.next_seq:
                self._admit(early)
