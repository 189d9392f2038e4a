"""Messages from the PUB socket of a program that does not use this protocol, as bytes."""

from __future__ import annotations

import struct
import time
from collections.abc import Sequence
from typing import Final

import zmq

from telemetry.errors import TelemetryError
from telemetry.transport import sockets
from telemetry.transport.closing import Closing
from telemetry.transport.endpoints import split_key

_MONITORED: Final = zmq.Event.HANDSHAKE_SUCCEEDED | zmq.Event.DISCONNECTED
_EVENT: Final = struct.Struct("=HI")


class ForeignSubscription(Closing):
    """A subscription to single-frame messages, in order. One thread at a time.

    Messages published before the subscription arrived are lost. Messages that the other side drops are lost and not
    counted: a PUB socket has no memory. A broken connection is made again in the background.
    """

    def __init__(self, address: str, topics: Sequence[bytes] = (b"",)) -> None:
        """Connect in the background. `topics` are prefixes. Raises EndpointError for an invalid address."""
        self.address = address
        self.connected = False
        """True if the other side is connected, as far as `recv` has noticed."""
        self.ever_connected = False
        self._context: sockets.ZmqContext = zmq.Context()
        self._socket = sockets.make_socket(self._context, sockets.FOREIGN_IN, 0)
        self._news = self._socket.get_monitor_socket(_MONITORED)
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._news, zmq.POLLIN)
        for topic in topics:
            self._socket.subscribe(topic)
        try:
            sockets.connect(self._socket, split_key(address)[0])
        except TelemetryError:
            self.close()
            raise

    def recv(self, timeout_s: float) -> bytes | None:
        """Return the next message, or None after the timeout."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                return self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                pass
            left_ms = round((deadline - time.monotonic()) * 1_000)
            if not self._poller.poll(max(0, left_ms)) and left_ms <= 0:
                return None
            self._hear()

    def close(self) -> None:
        """Close the socket. Can be called twice."""
        self._context.destroy(0)

    def _hear(self) -> None:
        """Process libzmq's connection events."""
        while True:
            try:
                head, _ = self._news.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            event, _ = _EVENT.unpack(head)
            self.connected = event == zmq.Event.HANDSHAKE_SUCCEEDED
            self.ever_connected |= self.connected
