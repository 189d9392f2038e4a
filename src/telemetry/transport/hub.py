"""The aggregator's four sockets. All of them belong to the thread that made the hub."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import zmq

from telemetry.common.file_lock import lock_path
from telemetry.errors import EndpointError, TelemetryError
from telemetry.transport import sockets
from telemetry.transport.admission import ASIDE, Admission, Listener
from telemetry.transport.endpoints import (
    Endpoints,
    check_bindable,
    ipc_path,
    is_tcp,
    runtime_directory,
    with_key,
)
from telemetry.transport.sockets import SocketKind, ZmqSocket
from telemetry.wire import codec

if TYPE_CHECKING:
    from telemetry.transport.keys import KeyFolder
    from telemetry.transport.zap import Authenticator

_LINGER_MS: Final = 500  # for the last snapshot and the last responses
_REBIND_S: Final = 1.0  # ZeroMQ releases a port within a millisecond


class Wakeup(NamedTuple):
    """The result of `Hub.wait`."""

    events: bool
    control: bool
    fds: list[int]


class Hub:
    """The bound sockets of an aggregator. Construction raises EndpointError or KeysError and then cleans up."""

    def __init__(self, endpoints: Endpoints, *, insecure: bool = False, keys: KeyFolder | None = None) -> None:
        """Bind all sockets. With `keys`, tcp is encrypted, and only this user and trusted keys are accepted."""
        for address in (endpoints.control, endpoints.events, endpoints.snapshots, endpoints.records):
            check_bindable(address, insecure=insecure, keyed=keys is not None)
        self._context: sockets.ZmqContext = zmq.Context()
        self._locks: list[_PathLock] = []
        self._watched: set[int] = set()
        self._bound: list[tuple[ZmqSocket, str]] = []
        self._listeners: list[Listener] = []
        self._admission = Admission()
        self._gate: Authenticator | None = None
        try:
            if keys is not None:
                from telemetry.transport.zap import Authenticator

                self._gate = Authenticator(self._context, keys)
            self._control, control = self._bind(sockets.CONTROL_IN, endpoints.control)
            self._events, events = self._bind(sockets.EVENTS_IN, endpoints.events)
            self._snapshots, snapshots = self._bind(sockets.SNAPSHOTS_OUT, endpoints.snapshots)
            self._records, records = self._bind(sockets.RECORDS_OUT, endpoints.records)
            self._admission.start(self._listeners)
        except TelemetryError:
            self.close()
            raise
        self.endpoints = Endpoints(control, events, snapshots, records)
        """Bound addresses."""
        self.address = with_key(control, self._gate.own.public.decode()) if self._gate else control
        """Address to publish: the control address, with the key that peers must require."""
        self._poller = zmq.Poller()
        if self._gate is not None:
            self._poller.register(self._gate.socket, zmq.POLLIN)
        self._poller.register(self._control, zmq.POLLIN)
        self._poller.register(self._events, zmq.POLLIN)
        self._reading = True

    def watch(self, fd: int) -> None:
        """Watch a file descriptor, which ends `wait` when it becomes readable."""
        self._watched.add(fd)
        self._poller.register(fd, zmq.POLLIN)

    def unwatch(self, fd: int) -> None:
        self._watched.discard(fd)
        self._poller.unregister(fd)

    def wait(self, timeout_s: float, *, events: bool = True) -> Wakeup:
        """Block until something can be read, at most `timeout_s`. With `events` off, events stay queued."""
        if events is not self._reading:
            self._reading = events
            self._poller.modify(self._events, zmq.POLLIN if events else 0)
        ready = self._ready(timeout_s) if self._gate is None else self._ready_at_the_gate(timeout_s, self._gate)
        return Wakeup(
            events=bool(ready.get(self._events)),
            control=bool(ready.get(self._control)),
            fds=[fd for fd in self._watched if fd in ready],
        )

    def _ready(self, timeout_s: float) -> dict[Any, int]:
        return dict(self._poller.poll(max(0, round(timeout_s * 1_000))))

    def _ready_at_the_gate(self, timeout_s: float, gate: Authenticator) -> dict[Any, int]:
        """Return the ready sockets, and accept or refuse new peers meanwhile."""
        deadline = time.monotonic() + timeout_s
        while True:
            if gate.must_cut():
                self._cut()
            ready = self._ready(deadline - time.monotonic())
            if gate.socket in ready:
                gate.answer()
                del ready[gate.socket]
            if ready or time.monotonic() >= deadline:
                return ready

    @property
    def trusted(self) -> int | None:
        """Number of accepted keys besides this user's own; None if all peers are accepted."""
        return self._gate.trusted if self._gate is not None else None

    @property
    def refused(self) -> int:
        """Number of connections refused because their key is not trusted."""
        return self._gate.refused if self._gate is not None else 0

    @property
    def crowded(self) -> str:
        """Warning if peers were refused because file descriptors ran out; else empty."""
        return self._admission.report()

    def _cut(self) -> None:
        """End all tcp connections.

        Trusted peers reconnect at once, and frames lost on the way are sent again. Raises EndpointError if another
        process takes a port meanwhile.
        """
        self._admission.stop()
        for socket, endpoint in self._bound:
            if is_tcp(endpoint):
                socket.unbind(endpoint)
        self._listeners = [
            Listener(socket, endpoint, last=socket is self._control) for socket, endpoint in self._bound
        ]
        for socket, endpoint in self._bound:
            if is_tcp(endpoint):
                _bind_again(socket, endpoint)
        self._admission.start(self._listeners)

    def receive_events(self, max_frames: int, max_bytes: int) -> list[bytes]:
        """Return the received frames, up to the first bound that is reached. Never blocks."""
        events: list[bytes] = []
        size = 0
        with suppress(zmq.Again):
            while len(events) < max_frames and size < max_bytes:
                frame = self._events.recv(zmq.NOBLOCK)
                events.append(frame)
                size += len(frame)
        return events

    def receive_control(self, max_messages: int) -> list[tuple[bytes, bytes]]:
        """Return (peer, data) of the received messages. Never blocks.

        Data is empty for a message that is not exactly one frame. No valid message is empty.
        """
        messages: list[tuple[bytes, bytes]] = []
        with suppress(zmq.Again):
            while len(messages) < max_messages:
                peer, *parts = self._control.recv_multipart(zmq.NOBLOCK)
                messages.append((peer, parts[0] if len(parts) == 1 else b""))
        return messages

    def send_control(self, peer: bytes, data: bytes) -> bool:
        """Send data to a peer. Return False if the peer is gone or its queue is full. Never blocks."""
        try:
            self._control.send_multipart((peer, data), zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                return False
            raise
        return True

    def publish_snapshot(self, frame: bytes) -> None:
        """Publish a snapshot to all subscribers. A subscriber with a full queue misses it."""
        self._snapshots.send(frame, zmq.NOBLOCK)

    def publish_record(self, frame: bytes) -> None:
        """Publish a record to all subscribers. A subscriber with a full queue sees a gap in the numbers."""
        self._records.send(frame, zmq.NOBLOCK)

    def close(self) -> None:
        """Send queued messages for at most half a second, then remove the ipc files. Can be called twice."""
        self._admission.stop()
        self._context.destroy(_LINGER_MS)
        for lock in self._locks:
            lock.release()
        self._locks.clear()

    def _bind(self, kind: SocketKind, endpoint: str) -> tuple[ZmqSocket, str]:
        """Return the bound socket and its address with the real port."""
        path = ipc_path(endpoint)
        if path is not None:
            self._locks.append(_PathLock(path, endpoint))
        socket = sockets.make_socket(self._context, kind, _LINGER_MS)
        if kind is sockets.EVENTS_IN:
            socket.subscribe(codec.EVENTS)
        sockets.allow_ipv6(socket, endpoint)
        if self._gate is not None and is_tcp(endpoint):
            self._gate.protect(socket)
        self._listeners.append(Listener(socket, endpoint, last=kind is sockets.CONTROL_IN))
        try:
            socket.bind(endpoint)
        except zmq.ZMQError as error:
            raise _bind_error(endpoint, error) from error
        bound = endpoint if path is not None else socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._bound.append((socket, bound))
        return socket, bound


def _bind_again(socket: ZmqSocket, endpoint: str) -> None:
    """Bind again, after ZeroMQ's own thread has closed the port. Raises EndpointError."""
    deadline = time.monotonic() + _REBIND_S
    while True:
        try:
            socket.bind(endpoint)
            return
        except zmq.ZMQError as error:
            if error.errno != zmq.EADDRINUSE or time.monotonic() >= deadline:
                raise _bind_error(endpoint, error) from error
            time.sleep(0.001)


def _bind_error(endpoint: str, error: zmq.ZMQError) -> EndpointError:
    if error.errno == zmq.EADDRINUSE:
        return EndpointError(f"{endpoint} is in use", hint="stop the other process or choose another port")
    if error.errno == zmq.EADDRNOTAVAIL:
        return EndpointError(
            f"{endpoint} is not an address of this machine", hint="use an address of this machine or 127.0.0.1"
        )
    return EndpointError(f"can't bind {endpoint}: {error.strerror}", hint="write ipc://PATH or tcp://HOST:PORT")


class _PathLock:
    """The lock of an ipc path. ZeroMQ itself lets a second bind steal the path from the first.

    The lock file is removed together with the socket.
    """

    def __init__(self, path: Path, endpoint: str) -> None:
        if path.exists() and not path.is_socket():
            raise EndpointError(f"{path} is a file, and binding would replace it", hint="choose another path")
        self._path = path
        self._lock_path = Path(f"{path}.lock")
        try:
            lock = lock_path(self._lock_path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise EndpointError(
                f"can't create {self._lock_path}: {error.strerror}", hint="choose a directory that you can write to"
            ) from error
        if lock is None:
            raise EndpointError(
                f"{endpoint} is in use by another aggregator",
                hint="`telemetry ls` shows it; use another address",
            )
        self._lock = lock

    def release(self) -> None:
        """Remove socket and lock, and the run's runtime directory if it is empty."""
        for leftover in (self._path, Path(f"{self._path}{ASIDE}"), self._lock_path):
            with suppress(OSError):
                leftover.unlink()
        self._lock.release()
        with suppress(OSError, EndpointError):
            if self._path.parent.parent == runtime_directory():
                self._path.parent.rmdir()
