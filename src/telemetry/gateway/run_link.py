"""The connection of a gateway to its run: it records events, receives snapshots and sends requests."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from telemetry import limits
from telemetry.client.process import PROCESS
from telemetry.client.recording import Recording
from telemetry.client.sending.flusher import Flusher
from telemetry.common.formatting import number_of
from telemetry.config.schema import EmitConfig
from telemetry.errors import EndpointError, ProtocolError, TelemetryError
from telemetry.gateway.endpoint import Problem
from telemetry.transport import ControlClient
from telemetry.transport.endpoints import seen_from
from telemetry.transport.subscription import Subscription
from telemetry.wire.control import Barrier, BarrierReached, GetStatus, Request, Response, Status, Welcome
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_LOOK_S: Final = 0.25
_ROUND_S: Final = 1.0  # of one attempt; a restarted aggregator must be asked again
_PAUSE_S: Final = 0.2
RETRY_AFTER_S: Final = 1
_NAME: Final = "gateway"
_NEEDS: Final = (1, 4)
"""Version with axes that close by reports."""
_NO_ROOM: Final = frozenset(
    reason.value for reason in (Reason.RECORDS_FULL, Reason.STEPS_FULL, Reason.TEXTS_FULL, Reason.BUFFER_FULL)
)
"""Reasons that concern all requests, because a limit of the run or of this process is reached."""


class RunLink:
    """The connection of a gateway to one run. Coroutines of one event loop use it."""

    def __init__(self, flusher: Flusher, welcome: Welcome, endpoint: str) -> None:
        self.endpoint = endpoint
        self.welcome = welcome
        self.recording: Final = Recording(PROCESS)
        """Calls that record into the run."""
        self.snapshots = Snapshots(seen_from(welcome.snapshots, endpoint))
        self._flusher = flusher
        self._commits = Commits(flusher, endpoint)
        self._observers = [_Observer(endpoint, name) for name in ("quick", "slow")]

    @classmethod
    async def open(cls, endpoint: str, config: EmitConfig) -> RunLink:
        """Join the run. Raises EndpointError, KeysError or ProtocolError."""
        # the bounds of `check_room` need at least this buffer, and a call that blocks would stop all requests
        room = max(config.buffer_events, limits.BUFFER_EVENTS)
        flusher = PROCESS.join(
            endpoint, _NAME, replace(config, buffer_events=room, policy="drop"), ends_with_run=True
        )
        loop = asyncio.get_running_loop()
        welcome = await loop.run_in_executor(None, flusher.wait_for_welcome, config.start_timeout_s)
        if welcome.version < _NEEDS:
            raise ProtocolError(
                f"the aggregator of this run speaks protocol {welcome.version[0]}.{welcome.version[1]}, and the "
                f"gateway needs {_NEEDS[0]}.{_NEEDS[1]}",
                hint="start the run with this version of the package",
            )
        return cls(flusher, welcome, endpoint)

    async def close(self, timeout_s: float) -> None:
        """Send the remaining events, end the producer and close the connection. Blocks no other coroutine."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._close, timeout_s)

    def _close(self, timeout_s: float) -> None:
        PROCESS.finish(timeout_s)
        self._commits.close()
        self.snapshots.close()
        for observer in self._observers:
            observer.close()

    async def alone_since_ns(self) -> int | None:
        """Return the start of the run (Unix time) if no other gateway has recorded into the run.

        Return None if another gateway has, or if that is unknown.
        """
        try:
            answer = await self.ask(GetStatus())
        except Problem:
            return None
        if not isinstance(answer, Status) or answer.snapshot.folded is not None or answer.snapshot.node_count:
            return None
        own = self._flusher.outbox.producer
        others = (stat for stat in answer.snapshot.producers if stat.producer != own)
        return None if any(stat.name == _NAME for stat in others) else answer.snapshot.started_ns

    # --- writing ---------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """True if the run takes nothing any more."""
        return self._flusher.over or PROCESS.state != "live" or self.snapshots.over

    @property
    def silent(self) -> bool:
        """True if the aggregator has not answered for a while."""
        return self._flusher.silent

    def check_room(self) -> None:
        """Raise Problem unless the run can take events now."""
        if self.over:
            raise over()
        outbox = self._flusher.outbox
        if self.silent:
            raise _unavailable("the run's aggregator does not answer")
        if self._commits.waiting >= limits.GATEWAY_REQUESTS:
            raise _unavailable("too many requests wait for the aggregator")
        records_full = len(outbox.records) >= limits.GATEWAY_RECORDS or outbox.weight >= limits.GATEWAY_RECORD_BYTES
        if records_full or outbox.waiting >= limits.GATEWAY_ROWS:
            raise _unavailable("too many events wait for the aggregator")

    async def confirmed(self, timeout_s: float) -> bool:
        """Wait until all that was recorded before is in the aggregator's journal and numbers.

        Return False after the timeout: the events are kept in this process, and sent as soon as possible. Raise
        Problem if the run ended first, has no room left, or lost a part of them.
        """
        return (await self.commit(timeout_s)).confirmed

    async def commit(self, timeout_s: float) -> Commit:
        """Wait like `confirmed`. The result also counts the dropped events of all requests confirmed together."""
        with PROCESS.lock:
            in_time = PROCESS.state == "live"
        commit = await self._commits.committed(timeout_s)
        if commit.confirmed and in_time:
            _check_losses(commit)
            return commit
        if not self.over:
            return UNCONFIRMED
        if not (in_time and await self._ended_complete(timeout_s)):
            raise Problem(410, "the run ended meanwhile; a part of it may not be recorded")
        return Commit(True, {})

    async def _ended_complete(self, timeout_s: float) -> bool:
        """Check that the run ended with all events of this gateway."""
        loop = asyncio.get_running_loop()
        ending = await loop.run_in_executor(None, self._flusher.await_end, timeout_s)
        if ending is None or ending.account is None:
            return False
        return ending.account.missing == 0 and not ending.unsent

    # --- reading ---------------------------------------------------------------------------------

    async def ask(
        self, request: Request, timeout_s: float = limits.CONTROL_TIMEOUT_S, *, slow: bool = False
    ) -> Response:
        """Return the aggregator's answer to a request. Raise Problem if there is none.

        Requests are asked one after the other, and the time in the queue counts. `slow` ones, which read files,
        don't delay the others.
        """
        return await self._observers[slow].ask(request, timeout_s)


class _Observer:
    """A thread with a control socket."""

    def __init__(self, endpoint: str, name: str) -> None:
        self._endpoint = endpoint
        self._client: ControlClient | None = None
        self._executor = ThreadPoolExecutor(1, f"telemetry-{name}")

    async def ask(self, request: Request, timeout_s: float) -> Response:
        deadline_s = time.monotonic() + timeout_s
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._ask, request, deadline_s)

    def _ask(self, request: Request, deadline_s: float) -> Response:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0.0:
            raise _unavailable("the run's aggregator does not answer in time")
        try:
            if self._client is None:
                self._client = ControlClient(self._endpoint)
            return self._client.request(request, left_s)
        except ProtocolError as error:
            raise Problem(503, f"the aggregator could not answer: {error}") from error
        except TelemetryError as error:
            self._forget()
            raise _unavailable(error.message if isinstance(error, EndpointError) else str(error)) from error

    def _forget(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def close(self) -> None:
        self._executor.submit(self._forget)
        self._executor.shutdown(wait=True)


def _check_losses(commit: Commit) -> None:
    """Raise Problem if the run dropped events because it is full, or if batches were lost.

    A commit may confirm several requests together. Which of them lost events is unknown, so Problem is raised for
    each of these requests.
    """
    full = {reason: number for reason, number in commit.dropped.items() if reason in _NO_ROOM}
    if full:
        losses = ", ".join(f"{number_of(number, 'event')} as {reason}" for reason, number in full.items())
        raise Problem(507, f"the run has no room left and dropped {losses}; docs/PROTOCOL.md names the limits")
    if commit.given_up:
        raise Problem(500, "a part of what was recorded at this moment was lost on its way to the run")


def over() -> Problem:
    return Problem(410, "the run is over; nothing is recorded any more")


def _unavailable(why: str) -> Problem:
    return Problem(503, f"{why}; nothing was recorded, try again", headers={"Retry-After": str(RETRY_AFTER_S)})


class Commit(NamedTuple):
    """The outcome of a barrier for all requests that shared it."""

    confirmed: bool
    dropped: dict[str, int]
    """Events of these requests that the run dropped, by reason."""
    given_up: int = 0
    """Batches that were lost on the way."""


UNCONFIRMED: Final = Commit(False, {})


class Client(Protocol):
    def request(self, message: Request, timeout_s: float) -> Response: ...

    def close(self) -> None: ...


class Commits:
    """A thread that finds out when recorded events are in the aggregator's journal and numbers.

    Requests that arrive during one barrier share the next one. Coroutines of one event loop call `committed`.
    """

    def __init__(self, flusher: Flusher, endpoint: str) -> None:
        self._barriers = Barriers(flusher, lambda: ControlClient(endpoint))
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: list[asyncio.Future[Commit]] = []
        self._asked = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="telemetry-commits", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of requests that wait for the next barrier."""
        return len(self._waiting)

    async def committed(self, timeout_s: float) -> Commit:
        """Wait until all events recorded before this call are in the aggregator, or dropped there.

        The commit is not confirmed after the timeout, or if the run ended without these events. Events may still
        arrive after a timeout.
        """
        future: asyncio.Future[Commit] = self._loop.create_future()
        with self._lock:
            self._waiting.append(future)
        self._asked.set()
        try:
            return await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            return UNCONFIRMED

    def close(self) -> None:
        """End the thread. Blocks for a second at most."""
        self._closing = True
        self._asked.set()
        self._thread.join(2 * _ROUND_S)

    def _run(self) -> None:
        while not self._closing:
            self._asked.wait()
            self._asked.clear()
            with self._lock:
                batch, self._waiting = self._waiting, []
            if batch:
                commit = self._barriers.commit(lambda: self._closing)
                self._loop.call_soon_threadsafe(_resolve, batch, commit)
        self._barriers.close()


class Barriers:
    """Barriers of one producer, one after the other. For one thread."""

    def __init__(self, flusher: Flusher, connect: Callable[[], Client]) -> None:
        self._flusher = flusher
        self._connect = connect
        self._client: Client | None = None
        self._losses = BarrierReached(batches=0)
        """Losses at the last barrier."""

    def commit(self, is_closing: Callable[[], bool]) -> Commit:
        """Block until all events recorded before this call are in the aggregator, or dropped there.

        The commit is not confirmed if the run ended without these events, or once `is_closing` returns True.
        """
        batches: int | None = None
        while not is_closing():
            if batches is None:
                batches = self._flusher.await_packed(_ROUND_S)
                if batches is None and self._flusher.over:
                    return UNCONFIRMED
                continue
            try:
                if self._client is None:
                    self._client = self._connect()
                barrier = Barrier(producer=self._flusher.outbox.producer, batches=batches)
                reached = self._client.request(barrier, _ROUND_S)
            except EndpointError:  # silent: it may be restarting
                if self._flusher.over:
                    return UNCONFIRMED
                self.close()
                threading.Event().wait(_PAUSE_S)
            except TelemetryError:  # it refuses: the run is over
                return UNCONFIRMED
            else:
                return self._since_last(reached) if isinstance(reached, BarrierReached) else UNCONFIRMED
        return UNCONFIRMED

    def close(self) -> None:
        """Close the connection. The next barrier opens another one."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _since_last(self, reached: BarrierReached) -> Commit:
        before, self._losses = self._losses, reached
        lost = {reason: number - before.dropped.get(reason, 0) for reason, number in reached.dropped.items()}
        dropped = {reason: number for reason, number in lost.items() if number > 0}
        return Commit(True, dropped, max(0, reached.given_up - before.given_up))


def _resolve(batch: list[asyncio.Future[Commit]], commit: Commit) -> None:
    for future in batch:
        if not future.done():
            future.set_result(commit)


class Snapshots:
    """A thread that receives snapshots, and the newest one. Coroutines of one event loop read it."""

    def __init__(self, address: str) -> None:
        """Connect. Raises EndpointError."""
        self.newest: MetricsSnapshot | None = None
        self._loop = asyncio.get_running_loop()
        self._changed: asyncio.Event = asyncio.Event()
        self._encoded: tuple[int, bytes] = (-1, b"")
        self._number = 0
        self._closing = False
        self._subscription = Subscription(address)
        self._thread = threading.Thread(target=self._run, name="telemetry-snapshots", daemon=True)
        self._thread.start()

    @property
    def number(self) -> int:
        """Number of snapshots received."""
        return self._number

    @property
    def over(self) -> bool:
        """True once a terminal snapshot has arrived."""
        return self.newest is not None and self.newest.state in TERMINAL

    def as_json(self) -> bytes:
        """Return the newest snapshot as JSON. It is encoded once for all clients."""
        if self._encoded[0] != self._number:
            self._encoded = (self._number, msgspec.json.encode(self.newest))
        return self._encoded[1]

    async def wait(self, timeout_s: float) -> bool:
        """Wait for the next snapshot. Return False after the timeout."""
        event = self._changed
        try:
            await asyncio.wait_for(event.wait(), timeout_s)
        except TimeoutError:
            return False
        return True

    async def each(self, idle_s: float) -> AsyncIterator[MetricsSnapshot | None]:
        """Yield the newest snapshot whenever there is a new one, and None after each `idle_s` without one.

        Ends after a terminal snapshot.
        """
        seen = -1
        while True:
            if self._number != seen and self.newest is not None:
                seen = self._number
                yield self.newest
                if self.over:
                    return
            elif not await self.wait(idle_s):
                yield None

    def close(self) -> None:
        """End the thread. Blocks briefly."""
        self._closing = True
        self._thread.join(4 * _LOOK_S)

    def _run(self) -> None:
        with self._subscription as subscription:
            while not self._closing:
                snapshot = subscription.recv(_LOOK_S)
                if snapshot is not None:
                    with suppress(RuntimeError):  # the loop is closed
                        self._loop.call_soon_threadsafe(self._take, snapshot)

    def _take(self, snapshot: MetricsSnapshot) -> None:
        self.newest = snapshot
        self._number += 1
        self._changed.set()
        self._changed = asyncio.Event()
