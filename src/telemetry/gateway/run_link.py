"""The run as a gateway sees it: a producer for what comes in, a subscriber and an observer for what goes out."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from telemetry import limits
from telemetry.client.process import PROCESS
from telemetry.client.recording import Recording
from telemetry.client.sending.flusher import Flusher
from telemetry.config.schema import EmitConfig
from telemetry.errors import EndpointError, ProtocolError, TelemetryError
from telemetry.gateway.commits import Commits
from telemetry.gateway.endpoint import Problem
from telemetry.gateway.snapshots import Snapshots
from telemetry.transport import ControlClient
from telemetry.transport.endpoints import seen_from
from telemetry.wire.control import GetStatus, Request, Response, Status, Welcome
from telemetry.wire.snapshot import BackendStat

RETRY_AFTER_S: Final = 1
_REQUESTS_WAITING: Final = 1_000
_RECORDS_WAITING: Final = limits.RECORDS_BUFFERED // 2
_ROWS_WAITING: Final = 500_000  # half of the usual buffer
_NAME: Final = "gateway"
ENDED: Final = ("failed", "undelivered", "done")
"""States of backends whose writers have ended."""


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
        self._backends: dict[str, BackendStat] = {}
        self._observers = [_Observer(endpoint, name) for name in ("quick", "slow")]

    @classmethod
    async def open(cls, endpoint: str, config: EmitConfig) -> RunLink:
        """Join the run. Raises EndpointError, KeysError or ProtocolError."""
        flusher = PROCESS.join(endpoint, _NAME, config, ends_with_run=True)
        loop = asyncio.get_running_loop()
        welcome = await loop.run_in_executor(None, flusher.wait_for_welcome, config.start_timeout_s)
        return cls(flusher, welcome, endpoint)

    async def close(self, timeout_s: float) -> None:
        """Send what is left, say the end, and close. Blocks no other coroutine."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._close, timeout_s)

    def _close(self, timeout_s: float) -> None:
        PROCESS.finish(timeout_s)
        self._commits.close()
        self.snapshots.close()
        for observer in self._observers:
            observer.close()

    async def alone_since_ns(self) -> int | None:
        """Return the Unix time since which no other gateway can have recorded into the run: the start of the run.

        Return None if there was another gateway, or if that is unknown.
        """
        try:
            answer = await self.ask(GetStatus())
        except Problem:
            return None
        if not isinstance(answer, Status) or answer.snapshot.folded is not None:
            return None
        own = self._flusher.outbox.producer
        others = (stat for stat in answer.snapshot.producers if stat.producer != own)
        return None if any(stat.name == _NAME for stat in others) else answer.snapshot.started_ns

    # --- writing ---------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        """True if the run takes nothing any more."""
        return self._flusher.over or PROCESS.state != "live" or self.snapshots.over

    def check_room(self) -> None:
        """Raise Problem unless the run can take events now."""
        if self.over:
            raise over()
        outbox = self._flusher.outbox
        if self._flusher.silent:
            raise _unavailable("the run's aggregator does not answer")
        if self._commits.waiting >= _REQUESTS_WAITING:
            raise _unavailable("too many requests wait for the aggregator")
        if len(outbox.records) >= _RECORDS_WAITING or outbox.waiting >= _ROWS_WAITING:
            raise _unavailable("too many events wait for the aggregator")

    async def confirmed(self, timeout_s: float) -> bool:
        """Wait until all that was recorded before is in the aggregator's journal and numbers.

        Return False after the timeout: the events are kept in this process, and sent as soon as possible. Raise
        Problem if the run ended first.
        """
        with PROCESS.lock:
            in_time = PROCESS.state == "live"
        if await self._commits.committed(timeout_s) and in_time:
            return True
        if not self.over:
            return False
        if not (in_time and await self._ended_complete(timeout_s)):
            raise Problem(410, "the run ended meanwhile; a part of it may not be recorded")
        return True

    async def _ended_complete(self, timeout_s: float) -> bool:
        """Check that the run ended with all events of this gateway."""
        loop = asyncio.get_running_loop()
        ending = await loop.run_in_executor(None, self._flusher.await_end, timeout_s)
        return ending is not None and ending.account is not None and ending.account.missing == 0

    # --- reading ---------------------------------------------------------------------------------

    async def ask(
        self, request: Request, timeout_s: float = limits.CONTROL_TIMEOUT_S, *, slow: bool = False
    ) -> Response:
        """Return the aggregator's answer to a request. Raise Problem if there is none.

        Requests are asked one after the other. `slow` ones, which read files, don't delay the others.
        """
        return await self._observers[slow].ask(request, timeout_s)

    def with_silent(self, backends: list[BackendStat]) -> list[BackendStat]:
        """Return states of backends, with those that a restarted aggregator has not heard of yet."""
        snapshot = self.snapshots.newest
        told = {stat.name: stat for stat in (*(snapshot.backends if snapshot is not None else ()), *backends)}
        self._backends |= told
        names = {stat.name for stat in backends}
        silent = [stat for stat in self._backends.values() if stat.name not in names and stat.state not in ENDED]
        return [*backends, *silent]


class _Observer:
    """A thread with a control socket."""

    def __init__(self, endpoint: str, name: str) -> None:
        self._endpoint = endpoint
        self._client: ControlClient | None = None
        self._executor = ThreadPoolExecutor(1, f"telemetry-{name}")

    async def ask(self, request: Request, timeout_s: float) -> Response:
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._ask, request, timeout_s)

    def _ask(self, request: Request, timeout_s: float) -> Response:
        try:
            if self._client is None:
                self._client = ControlClient(self._endpoint)
            return self._client.request(request, timeout_s)
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


def over() -> Problem:
    return Problem(410, "the run is over; nothing is recorded any more")


def _unavailable(why: str) -> Problem:
    return Problem(503, f"{why}; nothing was recorded, try again", headers={"Retry-After": str(RETRY_AFTER_S)})
