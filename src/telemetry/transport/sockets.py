"""The options of each kind of socket, set before bind or connect: later they would have no effect."""

from __future__ import annotations

from types import TracebackType
from typing import Final, NamedTuple, Self

import zmq

from telemetry import limits
from telemetry.errors import EndpointError
from telemetry.transport.endpoints import split_key

ZmqContext = zmq.Context[zmq.Socket[bytes]]
ZmqSocket = zmq.Socket[bytes]
SocketKind = tuple[zmq.SocketType, dict[zmq.SocketOption, int]]

_GUARD: Final[dict[zmq.SocketOption, int]] = {zmq.MAXMSGSIZE: limits.FRAME_BYTES_HARD}

_DOOR: Final[dict[zmq.SocketOption, int]] = {
    zmq.BACKLOG: limits.BACKLOG,
    zmq.HANDSHAKE_IVL: round(limits.HANDSHAKE_S * 1_000),
}
"""Options of bound sockets."""

EVENTS_IN: Final[SocketKind] = (zmq.SUB, {**_GUARD, **_DOOR, zmq.RCVHWM: limits.DATA_RCVHWM})
EVENTS_OUT: Final[SocketKind] = (
    zmq.XPUB,
    {
        **_GUARD,
        zmq.SNDHWM: limits.DATA_SNDHWM,
        zmq.IMMEDIATE: 0,  # batches wait in the pipe while the aggregator restarts
        zmq.XPUB_NODROP: 1,  # a full pipe is EAGAIN, not silence
        zmq.XPUB_VERBOSER: 1,  # the frame of a second subscriber is passed up too
    },
)
CONTROL_IN: Final[SocketKind] = (
    zmq.ROUTER,
    {
        **_GUARD,
        **_DOOR,
        zmq.SNDHWM: limits.CONTROL_HWM,
        zmq.RCVHWM: limits.CONTROL_HWM,
        zmq.ROUTER_HANDOVER: 1,  # a peer that reconnects takes over the id from its dead connection
        zmq.ROUTER_MANDATORY: 1,  # a missing or full peer is an error, not silence
    },
)
CONTROL_OUT: Final[SocketKind] = (
    zmq.DEALER,
    {**_GUARD, zmq.SNDHWM: limits.CONTROL_HWM, zmq.RCVHWM: limits.CONTROL_HWM},
)
SNAPSHOTS_OUT: Final[SocketKind] = (zmq.PUB, {**_DOOR, zmq.SNDHWM: limits.SNAPSHOT_SNDHWM})
SNAPSHOTS_IN: Final[SocketKind] = (zmq.SUB, {**_GUARD, zmq.RCVHWM: limits.SNAPSHOT_RCVHWM})
NEWEST_SNAPSHOT_IN: Final[SocketKind] = (zmq.SUB, {**_GUARD, zmq.CONFLATE: 1})
RECORDS_OUT: Final[SocketKind] = (zmq.PUB, {**_DOOR, zmq.SNDHWM: limits.RECORD_SNDHWM})
FOREIGN_IN: Final[SocketKind] = (
    zmq.SUB,
    {zmq.MAXMSGSIZE: limits.FEED_FRAME_BYTES, zmq.RCVHWM: limits.FEED_RCVHWM},
)


def make_socket(context: ZmqContext, kind: SocketKind, linger_ms: int, identity: bytes | None = None) -> ZmqSocket:
    """Create a socket with its options, neither bound nor connected."""
    socket_type, options = kind
    socket = context.socket(socket_type)
    socket.setsockopt(zmq.LINGER, linger_ms)
    for option, value in options.items():
        socket.setsockopt(option, value)
    if identity is not None:
        socket.setsockopt(zmq.ROUTING_ID, identity)
    return socket


def allow_ipv6(socket: ZmqSocket, endpoint: str) -> None:
    """Enable IPv6 if the address needs it: machines without IPv6 refuse sockets with this option."""
    if "[" in endpoint:
        socket.setsockopt(zmq.IPV6, 1)


def connect(socket: ZmqSocket, endpoint: str) -> None:
    """Connect in the background. If the address has a key, read this user's keys and encrypt.

    Raises EndpointError for an invalid address, KeysError for unusable keys.
    """
    address, key = split_key(endpoint)
    allow_ipv6(socket, address)
    if key:
        _encrypt(socket, key)
    try:
        socket.connect(address)
    except (zmq.ZMQError, UnicodeEncodeError) as error:
        reason = error.strerror if isinstance(error, zmq.ZMQError) else "it is not text"
        raise EndpointError(
            f"can't connect to {address!r}: {reason}", hint="write ipc://PATH or tcp://HOST:PORT"
        ) from error


def _encrypt(socket: ZmqSocket, key: str) -> None:
    from telemetry.transport.keys import of_user

    folder = of_user()
    own = folder.own()
    socket.setsockopt(zmq.CURVE_SERVERKEY, folder.resolve(key))
    socket.setsockopt(zmq.CURVE_PUBLICKEY, own.public)
    socket.setsockopt(zmq.CURVE_SECRETKEY, own.secret)


class Closing:
    """A base of classes with a `close` method: `with` calls it at the end of the block."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release all resources. Can be called twice."""
        raise NotImplementedError


class ZmqFacts(NamedTuple):
    pyzmq: str
    libzmq: str
    ipc: bool
    curve: bool


def zmq_facts() -> ZmqFacts:
    """Return versions and capabilities, without opening a socket."""
    return ZmqFacts(zmq.pyzmq_version(), zmq.zmq_version(), bool(zmq.has("ipc")), bool(zmq.has("curve")))
