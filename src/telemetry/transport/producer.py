"""A producer's two sockets: events out, control both ways. They belong to one thread at a time."""

from __future__ import annotations

from typing import Final

import zmq

from telemetry.errors import TelemetryError
from telemetry.transport import sockets
from telemetry.transport.handshake import Handshakes
from telemetry.wire.codec import Malformed, decode_response, encode_control
from telemetry.wire.control import Request, Response

_SUBSCRIBED: Final = 1  # first byte of a subscription frame; 0 takes the subscription back


class ProducerLink:
    """Control is connected on construction, events once the aggregator has said where.

    Nothing here blocks but `receive_control`.
    """

    def __init__(self, control: str, producer: str) -> None:
        self._context: sockets.ZmqContext = zmq.Context()
        self._events: sockets.ZmqSocket | None = None
        self._events_address = ""
        self._heard_subscription = False
        self._poller = zmq.Poller()
        self.unreadable = 0
        """Control messages that were none of ours."""
        try:
            self._control = sockets.make_socket(self._context, sockets.CONTROL_OUT, 0, producer.encode())
            self._handshakes = Handshakes(self._context, self._control, control)
            sockets.connect(self._control, control)
            self._poller.register(self._control, zmq.POLLIN)
        except TelemetryError:
            self.close(0.0)
            raise

    def connect_events(self, address: str) -> None:
        """Connects, or moves, the data socket. Raises EndpointError or KeysError."""
        if address == self._events_address:
            return
        if self._events is not None:
            self._poller.unregister(self._events)
            self._events.close(0)
        self._events = sockets.make_socket(self._context, sockets.EVENTS_OUT, 0)
        self._heard_subscription = False
        sockets.connect(self._events, address)
        self._events_address = address
        self._poller.register(self._events, zmq.POLLIN)

    def send_events(self, frame: bytes | bytearray) -> bool:
        """False if the aggregator does not listen yet or the pipe is full: try again later.

        Until its first subscription frame has come, whatever is sent vanishes without an error.
        """
        if self._events is None or not (self._heard_subscription or self._hear_subscription()):
            return False
        try:
            self._events.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def send_control(self, message: Request) -> bool:
        """False if the queue is full."""
        try:
            self._control.send(encode_control(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive_control(self, timeout_s: float = 0.0) -> list[Response]:
        """Messages that are here. Waits at most `timeout_s` for the first, or for the aggregator to subscribe, and
        a second more when a handshake has just failed. Raises KeysError once it is certain that there never will
        be one, because the two don't know each other's keys."""
        if timeout_s > 0 and self._events in dict(self._poller.poll(round(timeout_s * 1_000))):
            self._hear_subscription()
        found: list[Response] = []
        try:
            while True:
                data = self._control.recv_multipart(zmq.NOBLOCK)[-1]
                try:
                    found.append(decode_response(data))
                except Malformed:
                    self.unreadable += 1
        except zmq.Again:
            if not found and (refusal := self._handshakes.refusal()) is not None:
                raise refusal from None
            return found

    def _hear_subscription(self) -> bool:
        """Takes subscription frames that are here. Once it has listened, the aggregator always will again."""
        if self._events is not None:
            try:
                while True:
                    frame = self._events.recv(zmq.NOBLOCK)
                    self._heard_subscription |= frame[:1] == bytes((_SUBSCRIBED,))
            except zmq.Again:
                pass
        return self._heard_subscription

    def close(self, linger_s: float) -> None:
        """Sends what is queued for at most `linger_s`. May be called twice."""
        self._context.destroy(round(linger_s * 1_000))
