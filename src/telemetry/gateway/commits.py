"""Confirmations: one barrier of the aggregator for all requests that wait."""

from __future__ import annotations

import asyncio
import threading
from typing import Final, NamedTuple

from telemetry.client.sending.flusher import Flusher
from telemetry.errors import EndpointError, TelemetryError
from telemetry.transport import ControlClient
from telemetry.wire.control import Barrier, BarrierReached

_ROUND_S: Final = 1.0  # of one attempt; a restarted aggregator must be asked again
_PAUSE_S: Final = 0.2


class Commit(NamedTuple):
    """The outcome of a barrier for all requests that shared it."""

    confirmed: bool
    dropped: dict[str, int]
    """Events of these requests that the run dropped, by reason."""
    given_up: int = 0
    """Batches that were lost on the way."""


UNCONFIRMED: Final = Commit(False, {})


class Commits:
    """A thread that finds out when recorded events are in the aggregator's journal and numbers.

    Requests that arrive during one barrier share the next one. Coroutines of one event loop call `committed`.
    """

    def __init__(self, flusher: Flusher, endpoint: str) -> None:
        self._flusher = flusher
        self._endpoint = endpoint
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: list[asyncio.Future[Commit]] = []
        self._losses = BarrierReached(batches=0)
        """Losses at the last barrier."""
        self._asked = threading.Event()
        self._closing = False
        self._client: ControlClient | None = None
        self._thread = threading.Thread(target=self._run, name="telemetry-commits", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of requests that wait for the next barrier."""
        return len(self._waiting)

    async def committed(self, timeout_s: float) -> Commit:
        """Wait until all events recorded before this call are in the aggregator, or dropped there.

        It is not confirmed after the timeout, and if the run ended without them. They may still arrive later.
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
                self._loop.call_soon_threadsafe(_resolve, batch, self._commit())
        if self._client is not None:
            self._client.close()

    def _commit(self) -> Commit:
        batches: int | None = None
        while not self._closing:
            if batches is None:
                batches = self._flusher.await_packed(_ROUND_S)
                if batches is None and self._flusher.over:
                    return UNCONFIRMED
                continue
            try:
                if self._client is None:
                    self._client = ControlClient(self._endpoint)
                barrier = Barrier(producer=self._flusher.outbox.producer, batches=batches)
                reached = self._client.request(barrier, _ROUND_S)
            except EndpointError:  # silent: it may be restarting
                if self._flusher.over:
                    return UNCONFIRMED
                self._reconnect()
            except TelemetryError:  # it refuses: the run is over
                return UNCONFIRMED
            else:
                return self._since_last(reached) if isinstance(reached, BarrierReached) else UNCONFIRMED
        return UNCONFIRMED

    def _since_last(self, reached: BarrierReached) -> Commit:
        before, self._losses = self._losses, reached
        lost = {reason: number - before.dropped.get(reason, 0) for reason, number in reached.dropped.items()}
        dropped = {reason: number for reason, number in lost.items() if number > 0}
        return Commit(True, dropped, max(0, reached.given_up - before.given_up))

    def _reconnect(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        threading.Event().wait(_PAUSE_S)


def _resolve(batch: list[asyncio.Future[Commit]], commit: Commit) -> None:
    for future in batch:
        if not future.done():
            future.set_result(commit)
