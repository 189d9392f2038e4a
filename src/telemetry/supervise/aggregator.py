"""Keeper of a run's aggregator: it restarts an aggregator that dies before the run has a result.

The new aggregator reads the journal, listens at the same addresses and continues in the same run directory.
Producers and subscribers reconnect automatically.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from telemetry import limits
from telemetry.common import clock
from telemetry.errors import ConfigError, EndpointError, RunDirectoryError, TelemetryError, UsageError
from telemetry.supervise.run_files import RunFiles
from telemetry.supervise.spawn import SpawnedAggregator, respawn
from telemetry.transport.client import ControlClient
from telemetry.transport.endpoints import ipc_path, refuses
from telemetry.transport.keeper_lock import KeeperLock
from telemetry.wire.control import Request, Stop

_ASK_AGAIN_S: Final = 1.0
_HOPELESS: Final = (RunDirectoryError, ConfigError, UsageError)
"""Errors of an aggregator that can't start. Another attempt would fail in the same way."""


class AggregatorKeeper:
    """Supervisor of the aggregator and its successors. Any thread of the process that made it may use it.

    Its own thread waits for the process and costs no CPU time meanwhile. A forked child lacks this thread, so it
    restarts no aggregator. `say` gets one line for each restart, and one when restarts end.
    """

    def __init__(self, aggregator: SpawnedAggregator, files: RunFiles, say: Callable[[str], object]) -> None:
        self.aggregator = aggregator
        self.files = files
        self.restarts = 0
        self.lost = ""
        """Reason why the aggregator is gone for good without a result."""
        self._say = say
        self._standing: list[Request] = []
        self._released = threading.Event()
        self._gone = threading.Event()
        self._short_lives = 0
        self._keeping = KeeperLock(files.run_id)
        self._thread = threading.Thread(target=self._run, name="telemetry-keeper", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            self._keeping.end()
            raise EndpointError(f"can't watch the aggregator: {error}") from error

    @property
    def gone(self) -> bool:
        """True if no aggregator runs and none will be started."""
        return self._gone.is_set()

    @property
    def deserted(self) -> bool:
        """True if the aggregator is gone and no other process has resumed the run. Blocks briefly."""
        return self.gone and refuses(self.aggregator.endpoint)

    def await_end(self, timeout_s: float) -> bool:
        """Wait until no aggregator runs and none will be started. Return False after `timeout_s`."""
        return self._gone.wait(timeout_s)

    def release(self) -> None:
        """Stop restarting: the result is known, or no process waits for it."""
        self._released.set()
        self._keeping.end()

    def ask(self, request: Request, timeout_s: float) -> None:
        """Send a request to the aggregator, and to each of its successors.

        Blocks until one of them has answered or all are gone. Another process may have resumed the run. Raises
        EndpointError if the aggregator is silent for `timeout_s`, ProtocolError if it refuses.
        """
        self._standing.append(request)
        deadline = time.monotonic() + timeout_s
        with ControlClient(self.aggregator.endpoint) as client:
            while not self.deserted:
                left_s = max(0.1, deadline - time.monotonic())
                try:
                    client.request(request, min(left_s, _ASK_AGAIN_S))
                    return
                except EndpointError:
                    if left_s <= _ASK_AGAIN_S:
                        raise

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self._succeeded():
                pass
        except Exception as error:  # noqa: BLE001 – thread root: waiters for `gone` must not wait forever
            self._give_up(f"can't restart it: {error!r}")
        self._keeping.end()
        self._gone.set()

    def _succeeded(self) -> bool:
        """Wait for the aggregator's end and start a successor. Return False if none can be or need be started."""
        dead, began = self.aggregator, time.monotonic()
        dead.process.wait()
        if time.monotonic() - began >= limits.RESTART_LASTS_S and not self._ending:
            self._short_lives = 0
        reason = self._obstacle()
        while not (reason or self._over()):
            reason = self._start_another()
            if self.aggregator is not dead:
                return True
        if not self._over():
            self._give_up(reason)
        elif dead.process.returncode < 0 and not (self._ending or self._released.is_set()):
            self._say(f"{death_of(dead)}; the run already has its result, so later events are not in it")
        return False

    @property
    def _ending(self) -> bool:
        """True if the run was asked to end. Aggregators may then die of the end itself, however late."""
        return self.aggregator.ending or any(isinstance(request, Stop) for request in self._standing)

    def _obstacle(self) -> str:
        """Return why a successor would not succeed either; empty if it may."""
        if (
            self.aggregator.process.returncode >= 0
        ):  # after any failure that leaves it running, it still writes a result
            return "it had finished, but left no result"
        return "" if self.files.has_journal else "the run has no journal"

    def _start_another(self) -> str:
        """Try once to start a successor. Return the reason if a further attempt is useless."""
        if self._short_lives >= limits.RESTARTS:
            return f"{limits.RESTARTS} restarts in a row failed"
        if self._short_lives and self._released.wait(clock.backoff_s(self._short_lives, limits.RESTART_PAUSE_S)):
            return ""
        self._short_lives += 1
        try:
            follower = respawn(self.aggregator, limits.RESTART_TIMEOUT_S)
        except _HOPELESS as error:
            return error.message
        except TelemetryError as error:
            return error.message if self._short_lives >= limits.RESTARTS else ""
        self._take_over(follower)
        return ""

    def _over(self) -> bool:
        return self._released.is_set() or self.files.has_result()

    def _take_over(self, follower: SpawnedAggregator) -> None:
        if not self._released.is_set():
            self._say(f"{death_of(self.aggregator)}; restarted, the run continues")
        self.aggregator = follower
        for request in list(self._standing):
            # senders of these requests still run and send again, or can't do better
            with suppress(TelemetryError), ControlClient(follower.endpoint) as client:
                client.request(request)
        self.restarts += 1

    def _give_up(self, reason: str) -> None:
        self.lost = f"{death_of(self.aggregator)} and can't be restarted: {reason}"
        self._say(f"{self.lost}. Events recorded from now on are lost")
        path = ipc_path(self.aggregator.endpoint)
        if path is not None and refuses(self.aggregator.endpoint):
            with suppress(OSError):
                path.unlink()  # its absence tells producers to stop waiting


def death_of(aggregator: SpawnedAggregator) -> str:
    """Describe how a dead aggregator ended."""
    code = aggregator.process.returncode
    if code is None or code >= 0:
        return f"the aggregator (pid {aggregator.pid}) exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the aggregator (pid {aggregator.pid}) was killed by {name}"
