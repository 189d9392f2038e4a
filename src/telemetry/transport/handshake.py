"""Detection of handshakes that can never succeed.

ZeroMQ itself reports no error: it retries, or gives up silently.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Final

import zmq

from telemetry.errors import EndpointError, KeysError
from telemetry.transport.endpoints import dial, is_tcp, refuses, split_key
from telemetry.transport.sockets import ZmqContext, ZmqSocket

_EVENTS: Final = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
)
_ADDRESS: Final = "inproc://handshakes"
_EVENT: Final = struct.Struct("=HI")
_FAILURES: Final = 3  # a single failure may be a server that is shutting down; a wrong key fails each time
_PROBE_S: Final = 1.0
_GREETING: Final = b"\xff\0\0\0\0\0\0\0\0\x7f\x03"  # ZMTP 3: after these bytes the other side sends the rest
_GREETING_BYTES: Final = 64
_MECHANISM: Final = slice(12, 32)
_CHECK: Final = "check the address, and that the root runs"
_UNANSWERED: Final = f"a process listens there, but does not answer; {_CHECK}"


class Handshakes:
    """A watcher of one connecting socket. Create it before the socket connects. Only tcp can be refused."""

    def __init__(self, context: ZmqContext, watched: ZmqSocket, endpoint: str) -> None:
        self._watched = watched
        self._endpoint = endpoint
        self._failures = 0
        self._refusal: KeysError | None = None
        self._events: ZmqSocket | None = None
        if is_tcp(endpoint):
            watched.monitor(_ADDRESS, _EVENTS)
            self._events = context.socket(zmq.PAIR)
            self._events.connect(_ADDRESS)

    def readable(self, timeout_s: float) -> bool:
        """Wait until the socket is readable.

        Raises KeysError when it is certain that the handshake can't succeed.
        """
        timeout_ms = max(0, round(timeout_s * 1_000))
        if self._events is None:
            return bool(self._watched.poll(timeout_ms))
        deadline = time.monotonic() + timeout_s
        while True:
            left_ms = max(0, round((deadline - time.monotonic()) * 1_000))
            ready = dict(zmq.zmq_poll([(self._watched, zmq.POLLIN), (self._events, zmq.POLLIN)], left_ms))
            if self._watched in ready:
                return True
            refusal = self.refusal()
            if refusal is not None:
                raise refusal
            if time.monotonic() >= deadline:
                return False

    def refusal(self) -> KeysError | None:
        """Return the reason why the handshake can never succeed, if known.

        Blocks for a second at most, and only after a handshake has just failed.
        """
        while self._events is not None and self._events.poll(0):
            kind, value = _EVENT.unpack(self._events.recv_multipart()[0])
            self._take(kind, value)
        return self._refusal

    def _take(self, kind: int, value: int) -> None:
        if kind == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._failures, self._refusal = 0, None
        elif kind == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self._refusal = self._not_admitted()
        else:
            self._failures += 1
            self._refusal = self._refusal or self._mismatch()

    def _not_admitted(self) -> KeysError:
        """Return the error for an untrusted key. ZeroMQ does not retry after that."""
        from telemetry.transport.keys import of_user

        own = of_user().own().public.decode()
        return KeysError(
            f"the aggregator at {split_key(self._endpoint)[0]} does not trust your key",
            hint=f"run on that machine: telemetry keys trust NAME '{own}'",
        )

    def _mismatch(self) -> KeysError | None:
        """Return the reason of the failure, according to the greeting of the other side."""
        address, key = split_key(self._endpoint)
        theirs = mechanism(address)
        if not key and theirs == "CURVE":
            return KeysError(
                f"the aggregator at {address} requires a key",
                hint=f"append its public key, or the name you trust it under, to the address: {address}#NAME",
            )
        if key and theirs == "NULL":
            return KeysError(
                f"the aggregator at {address} has no key",
                hint="remove #KEY from the address to connect without encryption",
            )
        if key and theirs == "CURVE" and self._failures >= _FAILURES:
            return KeysError(
                f"the aggregator at {address} does not have the key in the address",
                hint="`telemetry keys show` on that machine prints the correct key",
            )
        return None


def mechanism(address: str) -> str:
    """Return the security mechanism that a ZeroMQ socket demands: `NULL`, `PLAIN` or `CURVE`; empty if unknown.

    Blocks for a second at most.
    """
    deadline = time.monotonic() + _PROBE_S
    greeting = b""
    try:
        with dial(address, _PROBE_S) as probe:
            probe.sendall(_GREETING)
            while len(greeting) < _GREETING_BYTES:
                probe.settimeout(max(0.001, deadline - time.monotonic()))
                part = probe.recv(_GREETING_BYTES - len(greeting))
                if not part:
                    return ""
                greeting += part
    except (OSError, ValueError, EndpointError):
        return ""
    return greeting[_MECHANISM].rstrip(b"\0").decode("ascii", "replace")


def explain_silence(endpoint: str) -> str:
    """Return why an aggregator that was addressed does not answer, and what to do.

    Blocks for two seconds at most, and for as long as the name of the host takes to resolve.
    """
    address = split_key(endpoint)[0]
    if not is_tcp(address):
        return f"no process listens there; {_CHECK}" if refuses(address) else _UNANSWERED
    try:
        dial(address, _PROBE_S).close()
    except socket.gaierror:
        return "the name of its host can't be resolved; check the spelling, or give the IP address"
    except ConnectionRefusedError:
        return f"no process listens there; {_CHECK}"
    except (OSError, ValueError, EndpointError):
        return "its host can't be reached; check the address, the network and the firewall"
    if not mechanism(address):
        return f"a process listens there that is no aggregator, or hangs; {_CHECK}"
    return _UNANSWERED
