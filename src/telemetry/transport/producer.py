"""A producer's two sockets: events out, control both ways. They belong to one thread at a time."""

from __future__ import annotations

from typing import Final

import zmq

from telemetry.errors import TelemetryError
from telemetry.transport import sockets
from telemetry.transport.handshake import Handshakes
from telemetry.wire.codec import Malformed, decode_response, encode_control
from telemetry.wire.control import Request, Response

_SUBSCRIBED: Final = 1  # first byte of a subscription frame; 0 ends the subscription


class ProducerLink:
    """The sockets of a producer. Control connects on construction, events when the aggregator has sent the address.

    Only `receive_control` blocks.
    """

    def __init__(self, control: str, producer: str) -> None:
        self._context: sockets.ZmqContext = zmq.Context()
        self._events: sockets.ZmqSocket | None = None
        self._events_address = ""
        self._heard_subscription = False
        self._poller = zmq.Poller()
        self.unreadable = 0
        """Number of control messages that are not of this protocol."""
        try:
            self._control = sockets.make_socket(self._context, sockets.CONTROL_OUT, 0, producer.encode())
            self._handshakes = Handshakes(self._context, self._control, control)
            sockets.connect(self._control, control)
            self._poller.register(self._control, zmq.POLLIN)
        except TelemetryError:
            self.close(0.0)
            raise

    def connect_events(self, address: str) -> None:
        """Connect the data socket, or move it to another address. Raises EndpointError or KeysError."""
        if address == self._events_address:
            return
        self.disconnect_events()
        self._events = sockets.make_socket(self._context, sockets.EVENTS_OUT, 0)
        self._heard_subscription = False
        sockets.connect(self._events, address)
        self._events_address = address
        self._poller.register(self._events, zmq.POLLIN)

    def disconnect_events(self) -> None:
        """Close the data socket and drop the frames that it holds."""
        if self._events is not None:
            self._poller.unregister(self._events)
            self._events.close(0)
        self._events, self._events_address = None, ""

    def send_events(self, frame: bytes | bytearray) -> bool:
        """Send a frame. Return False if the aggregator does not listen yet or the pipe is full: try again later.

        Before its first subscription frame arrives, ZeroMQ would drop every frame without an error.
        """
        if self._events is None or not (self._heard_subscription or self._hear_subscription()):
            return False
        try:
            self._events.send(frame, zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def send_control(self, message: Request) -> bool:
        """Send a message. Return False if the queue is full."""
        try:
            self._control.send(encode_control(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive_control(self, timeout_s: float = 0.0) -> list[Response]:
        """Return received messages.

        Waits at most `timeout_s` for the first message, or for the aggregator to subscribe, and a second more after
        a failed handshake. Raises KeysError when it is certain that no message can arrive, because the peers don't
        know each other's keys.
        """
        if timeout_s > 0 and self._events in dict(self._poller.poll(round(timeout_s * 1_000))):
            self._hear_subscription()
        responses: list[Response] = []
        try:
            while True:
                data = self._control.recv_multipart(zmq.NOBLOCK)[-1]
                try:
                    responses.append(decode_response(data))
                except Malformed:
                    self.unreadable += 1
        except zmq.Again:
            if not responses and (refusal := self._handshakes.refusal()) is not None:
                raise refusal from None
            return responses

    def _hear_subscription(self) -> bool:
        """Process received subscription frames. An aggregator that has subscribed once always subscribes again."""
        if self._events is not None:
            try:
                while True:
                    frame = self._events.recv(zmq.NOBLOCK)
                    self._heard_subscription |= frame[:1] == bytes((_SUBSCRIBED,))
            except zmq.Again:
                pass
        return self._heard_subscription

    def close(self, linger_s: float) -> None:
        """Send queued messages for at most `linger_s`, then close. Can be called twice."""
        self._context.destroy(round(linger_s * 1_000))
