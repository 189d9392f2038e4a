"""A stream of snapshots, for loops and for `async for`, and messages from another program's PUB socket."""

from __future__ import annotations

import math
import struct
import time
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Final, Protocol

import zmq

from telemetry import limits
from telemetry.errors import EndpointError, TelemetryError, UsageError
from telemetry.transport import sockets
from telemetry.transport.client import hello
from telemetry.transport.endpoints import seen_from, split_key
from telemetry.transport.sockets import Closing
from telemetry.wire import codec
from telemetry.wire.codec import Malformed, decode_snapshot
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot


class HasEndpoint(Protocol):
    """A run, or another object that has its aggregator's control address."""

    @property
    def endpoint(self) -> str: ...


def subscribe(source: str | HasEndpoint, *, conflate: bool = True, timeout_s: float | None = None) -> Subscription:
    """Subscribe to the snapshots of a run, given by its control address or an object that has one.

    With `conflate` a slow reader skips to the newest snapshot. Without it, the reader gets every snapshot, unless
    it falls far behind. `timeout_s` bounds the handshake and each wait inside an iteration (30 s by default;
    `math.inf` waits for ever). Raises EndpointError if no aggregator answers, KeysError if it does not know this
    user's key.
    """
    endpoint = source if isinstance(source, str) else source.endpoint
    if "://" not in endpoint:
        raise UsageError(
            f"{endpoint!r} is not an address", hint="write ipc://PATH or tcp://HOST:PORT, or pass a run"
        )
    wait_s = limits.LOST_AFTER_S if timeout_s is None else timeout_s
    welcome = hello(endpoint, min(wait_s, limits.CONTROL_TIMEOUT_S))
    return Subscription(seen_from(welcome.snapshots, endpoint), conflate=conflate, timeout_s=wait_s)


class Subscription(Closing):
    """An iterator of snapshots, sync and async, which ends after a terminal one. One thread at a time.

    Iterating raises EndpointError after `timeout_s` of silence; `recv` never does.
    """

    def __init__(self, address: str, *, conflate: bool = True, timeout_s: float = limits.LOST_AFTER_S) -> None:
        self.address = address
        self.unreadable = 0
        """Number of frames that were not a snapshot of this protocol."""
        self._newest: MetricsSnapshot | None = None
        self._unread: deque[MetricsSnapshot] = deque()
        """Snapshots that `newest` has received, which are still to be returned."""
        self._timeout_s = timeout_s
        self._conflate = conflate
        self._ended = False
        self._context: sockets.ZmqContext = zmq.Context()
        kind = sockets.NEWEST_SNAPSHOT_IN if conflate else sockets.SNAPSHOTS_IN
        self._socket = sockets.make_socket(self._context, kind, 0)
        self._socket.subscribe(codec.SNAPSHOTS)
        try:
            sockets.connect(self._socket, address)
        except TelemetryError:
            self.close()
            raise

    @property
    def newest(self) -> MetricsSnapshot | None:
        """The newest snapshot that has arrived, or None before the first. It does not wait.

        `recv` and iterations return it too, if they have not yet.
        """
        while not self._socket.closed and (snapshot := self._received()) is not None:
            if self._conflate:
                self._unread.clear()
            self._unread.append(snapshot)
        return self._newest

    def recv(self, timeout_s: float) -> MetricsSnapshot | None:
        """Return the next snapshot, or None after the timeout. Continues after a terminal one."""
        deadline = time.monotonic() + timeout_s
        while True:
            if self._unread:
                return self._take()
            left_ms = max(0.0, (deadline - time.monotonic()) * 1_000)
            if not self._socket.poll(None if left_ms == math.inf else round(left_ms)):
                return None
            snapshot = self._take()
            if snapshot is not None:
                return snapshot

    def __iter__(self) -> Iterator[MetricsSnapshot]:
        return self

    def __next__(self) -> MetricsSnapshot:
        if self._ended:
            raise StopIteration
        snapshot = self.recv(self._timeout_s)
        if snapshot is None:
            raise self._silent()
        return snapshot

    def __aiter__(self) -> AsyncIterator[MetricsSnapshot]:
        return self

    async def __anext__(self) -> MetricsSnapshot:
        if self._ended:
            raise StopAsyncIteration
        deadline = time.monotonic() + self._timeout_s
        while (snapshot := self._take()) is None:
            if not await self._readable(deadline - time.monotonic()):
                raise self._silent()
        return snapshot

    def close(self) -> None:
        """End the subscription. Can be called twice."""
        self._ended = True
        self._context.destroy(0)

    async def _readable(self, timeout_s: float) -> bool:
        """Wait for ZeroMQ's descriptor. It signals changes only: the caller must have emptied the socket before."""
        import asyncio

        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        fd = self._socket.fileno()
        loop.add_reader(fd, ready.set)
        try:
            await asyncio.wait_for(ready.wait(), None if timeout_s == math.inf else timeout_s)
        except TimeoutError:
            return False
        finally:
            loop.remove_reader(fd)
        return True

    def _take(self) -> MetricsSnapshot | None:
        """Return the next snapshot that has arrived, or None. Never blocks."""
        snapshot = self._unread.popleft() if self._unread else self._received()
        if snapshot is not None:
            self._ended = snapshot.state in TERMINAL
        return snapshot

    def _received(self) -> MetricsSnapshot | None:
        """Return the next readable snapshot of the socket, or None."""
        while True:
            try:
                frame = self._socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return None
            try:
                snapshot = decode_snapshot(frame)
            except Malformed:
                self.unreadable += 1
                continue
            self._newest = snapshot
            return snapshot

    def _silent(self) -> EndpointError:
        return EndpointError(
            f"no snapshot from {self.address} for {self._timeout_s:g} s",
            hint="the aggregator may have stopped; `telemetry ls` shows the live runs",
        )


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
