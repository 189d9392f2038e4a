"""Requests to the control address of an aggregator."""

from __future__ import annotations

import time
from collections import deque
from typing import Final

import zmq
from msgspec.structs import replace

from telemetry import limits
from telemetry.errors import EndpointError, ProtocolError, TelemetryError
from telemetry.transport import sockets
from telemetry.transport.handshake import Handshakes
from telemetry.transport.sockets import Closing
from telemetry.wire.codec import Malformed, control_head, decode_response, encode_control
from telemetry.wire.control import (
    PUSHED,
    Error,
    GetMembers,
    Hello,
    MemberFacts,
    Members,
    Request,
    Response,
    Welcome,
)
from telemetry.wire.version import PROTOCOL, may_talk

_LINGER_MS: Final = 200
_PUSHED_KEPT: Final = 1_000


class ControlClient(Closing):
    """A DEALER socket for one thread and one request at a time.

    Connecting never blocks; a request blocks up to a timeout.
    """

    def __init__(self, endpoint: str, identity: bytes | None = None) -> None:
        self.endpoint = endpoint
        self._pushed: deque[Response] = deque(maxlen=_PUSHED_KEPT)
        self._last_id = 0
        try:
            self._context: sockets.ZmqContext = zmq.Context()
            self._connect(identity)
        except zmq.ZMQError as error:
            raise EndpointError(f"can't open a socket for {endpoint}: {error.strerror}") from error

    def request(self, message: Request, timeout_s: float = limits.CONTROL_TIMEOUT_S) -> Response:
        """Send `message` with a new id and return its response.

        Raises EndpointError after the timeout, KeysError if the peers don't know each other's keys, ProtocolError
        if the response is an error or not a message of this protocol.
        """
        deadline = time.monotonic() + timeout_s
        self._last_id += 1
        try:
            self._socket.send(encode_control(replace(message, id=self._last_id)), zmq.NOBLOCK)
        except zmq.Again:
            raise self._handshakes.refusal() or self._silent(timeout_s) from None
        while (left_s := deadline - time.monotonic()) > 0:
            response = self._receive(left_s)
            if response is None:
                continue
            if response.id == self._last_id:
                return _checked(response)
            if isinstance(response, PUSHED):
                self._pushed.append(response)
        raise self._silent(timeout_s)

    def poll_pushed(self, timeout_s: float = 0.0) -> list[Response]:
        """Return messages that the aggregator pushed."""
        response = self._receive(timeout_s)
        while response is not None:
            if isinstance(response, PUSHED):
                self._pushed.append(response)
            response = self._receive(0.0)
        responses = list(self._pushed)
        self._pushed.clear()
        return responses

    def close(self) -> None:
        """Close the socket. A queued message gets a moment to be sent. Can be called twice."""
        self._context.destroy(_LINGER_MS)

    def _connect(self, identity: bytes | None) -> None:
        try:
            self._socket = sockets.make_socket(self._context, sockets.CONTROL_OUT, _LINGER_MS, identity)
            self._handshakes = Handshakes(self._context, self._socket, self.endpoint)
            sockets.connect(self._socket, self.endpoint)
        except (TelemetryError, zmq.ZMQError):
            self.close()
            raise

    def _receive(self, timeout_s: float) -> Response | None:
        if not self._handshakes.readable(timeout_s):
            return None
        data = self._socket.recv_multipart(zmq.NOBLOCK)[-1]
        try:
            return decode_response(data)
        except Malformed as error:
            if control_head(data).id != self._last_id:
                return None  # a message of a newer version, not for this client
            raise ProtocolError(
                f"{self.endpoint} answered with an unknown message: {error}",
                hint="check that this is the control address of an aggregator",
            ) from None

    def _silent(self, timeout_s: float) -> EndpointError:
        return EndpointError(
            f"no aggregator answered at {self.endpoint} within {timeout_s:g} s",
            hint="`telemetry ls` shows the live runs; TELEMETRY_ENDPOINT may be left over from a run that ended",
        )


def hello(endpoint: str, timeout_s: float = limits.CONTROL_TIMEOUT_S) -> Welcome:
    """Perform the handshake of an observer. Raises EndpointError, KeysError or ProtocolError."""
    with ControlClient(endpoint) as client:
        return check_welcome(client.request(Hello(mono_ns=time.monotonic_ns()), timeout_s), endpoint)


def check_welcome(response: Response, endpoint: str) -> Welcome:
    """Return the response to a hello. Raises ProtocolError unless it is a welcome of a compatible version."""
    if not isinstance(response, Welcome):
        raise ProtocolError(f"{endpoint} answered hello with {type(response).__name__}")
    if not may_talk(response.version):
        raise ProtocolError(
            f"{endpoint} speaks protocol {response.version[0]}.{response.version[1]}, "
            f"this package {PROTOCOL[0]}.{PROTOCOL[1]}",
            hint="install the same major version of telemetry on both sides",
        )
    return response


def _checked(response: Response) -> Response:
    if isinstance(response, Error):
        raise ProtocolError(response.message, hint=response.code.replace("_", " "))
    return response


def ask_members(endpoint: str, node: str, timeout_s: float = limits.CONTROL_TIMEOUT_S) -> list[MemberFacts]:
    """Return the producers of a node, as its leaf knows them.

    `node` is the name of the node or the run id of its leaf. Raises EndpointError if the aggregator does not
    answer, ProtocolError if it does not know the node or the request.
    """
    with ControlClient(endpoint) as client:
        answer = client.request(GetMembers(node=node), timeout_s)
    if not isinstance(answer, Members):
        raise ProtocolError(f"{endpoint} answered members with {type(answer).__name__}")
    return answer.members
