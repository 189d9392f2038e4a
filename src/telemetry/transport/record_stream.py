"""The record stream without gaps: published records (`rec/1`), and catch-up over control for lost ones."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

import zmq

from telemetry import limits
from telemetry.errors import EndpointError, ProtocolError, TelemetryError
from telemetry.transport import sockets
from telemetry.transport.client import ControlClient, check_welcome
from telemetry.transport.endpoints import refuses, seen_from
from telemetry.transport.sockets import Closing
from telemetry.wire import codec
from telemetry.wire.codec import Malformed, decode_stream_record
from telemetry.wire.control import Catchup, CaughtUp, Hello, Ping, Pong
from telemetry.wire.events import StreamRecord
from telemetry.wire.snapshot import TERMINAL

_CHECK_EVERY_S: Final = 1.0


class RecordStream(Closing):
    """A stream of all records from `from_seq` on, in order and once. One thread.

    A gap in the published records, or a late join, is filled from the aggregator's record log. That happens page by
    page as records are taken: during the run at most one page waits here. Records that the log does not have either
    are skipped and counted in `missed`.
    """

    def __init__(self, endpoint: str, from_seq: int = 0, timeout_s: float = limits.CONTROL_TIMEOUT_S) -> None:
        """Connect. Blocks for the handshake and the first page of a catch-up.

        Raises EndpointError, KeysError or ProtocolError.
        """
        self.next_seq = from_seq
        """One above the last record received."""
        self.known = from_seq
        """One above the newest known record."""
        self.missed = 0
        self.ended = False
        """True if the run is over and all its records were returned, or its aggregator is gone."""
        self.gone = False
        """True if the stream ends or has ended because no process listens at the address any more."""
        self._timeout_s = timeout_s
        self._ready: deque[StreamRecord] = deque()
        self._over = False
        self._behind = True
        """True if the log may have records that were not received.

        Records published meanwhile wait, or are lost and then read from the log.
        """
        self._early: StreamRecord | None = None
        """Record that revealed a gap; it follows when the log has filled the gap."""
        self._context: sockets.ZmqContext = zmq.Context()
        self._control = ControlClient(endpoint)
        try:
            welcome = check_welcome(self._control.request(Hello(mono_ns=time.monotonic_ns()), timeout_s), endpoint)
            kind = (zmq.SUB, {zmq.MAXMSGSIZE: limits.FRAME_BYTES_HARD, zmq.RCVHWM: limits.RECORD_SNDHWM})
            self._socket = sockets.make_socket(self._context, kind, 0)
            self._socket.subscribe(codec.RECORDS)
            sockets.connect(self._socket, seen_from(welcome.records, endpoint))
            self._catch_up()
            self._over = welcome.state in TERMINAL
        except TelemetryError:
            self.close()
            raise
        self._check_at = time.monotonic() + _CHECK_EVERY_S

    def recv(self, timeout_s: float) -> StreamRecord | None:
        """Return the next record, or None after the timeout or the end of the stream.

        Once a second the aggregator is asked for its state and for lost records, so a call may take `timeout_s`
        plus the time of a request. Raises ProtocolError, KeysError if this user is no longer trusted, and
        EndpointError if a gap can't be filled because the aggregator does not answer; the next call tries again.
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
        """Skip records below `seq`: the caller has them from elsewhere."""
        self.next_seq = max(self.next_seq, seq)
        while self._ready and self._ready[0].seq < seq:
            self._ready.popleft()

    def hurry(self) -> None:
        """Make the next `recv` ask the aggregator for its state first."""
        self._check_at = 0.0

    def close(self) -> None:
        """Close the sockets. Can be called twice."""
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
        """Ask for the state, then for lost records: after a terminal state the log is complete.

        A silent aggregator may only be stopped for a while. If its address refuses connections, it is gone.
        """
        try:
            pong = self._control.request(Ping(), self._timeout_s)
            over = isinstance(pong, Pong) and pong.state in TERMINAL
            self._catch_up()
            while over and self._behind:  # soon the aggregator will be gone
                self._catch_up()
            self._over = over
        except EndpointError:
            self._over = self.gone = refuses(self._control.endpoint)
        self._check_at = time.monotonic() + _CHECK_EVERY_S

    def _go_on(self) -> None:
        """Read the next page. Raises EndpointError if the aggregator does not answer but may do so later."""
        try:
            self._catch_up()
        except EndpointError:
            if not refuses(self._control.endpoint):
                raise
            self._over, self.gone, self._behind = True, True, False

    def _catch_up(self) -> None:
        """Read one page of the log, from `next_seq` on. Blocks. Raises EndpointError or ProtocolError."""
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
