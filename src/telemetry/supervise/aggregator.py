"""Keeps the aggregator of a run alive: one that dies before the run has a result is started again.

The one that follows reads the journal, listens at the same addresses and goes on in the same run directory.
Producers and subscribers come back by themselves.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from telemetry import limits
from telemetry.errors import ConfigError, EndpointError, RunDirectoryError, TelemetryError, UsageError
from telemetry.supervise.run_files import RunFiles
from telemetry.supervise.spawn import Aggregator, respawn
from telemetry.transport.client import ControlClient
from telemetry.transport.endpoints import ipc_path, refuses
from telemetry.transport.keeper_lock import KeeperLock
from telemetry.wire.control import Request, Stop

_ASK_AGAIN_S: Final = 1.0
_HOPELESS: Final = (RunDirectoryError, ConfigError, UsageError)
"""What an aggregator that can't begin reports, and would report again."""


class AggregatorKeeper:
    """Holds the aggregator, and those that follow it. Any thread of the process that made it may use it.

    A thread of its own waits for the process, and costs nothing meanwhile; a forked child has none, and keeps
    nothing. `say` is given one line for each restart, and one when there will be no other.
    """

    def __init__(self, aggregator: Aggregator, files: RunFiles, say: Callable[[str], object]) -> None:
        self.aggregator = aggregator
        self.files = files
        self.restarts = 0
        self.lost = ""
        """Why the aggregator is gone for good, without a result."""
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
            raise EndpointError(f"the aggregator can't be watched: {error}") from error

    @property
    def gone(self) -> bool:
        """No aggregator runs, and none will be started."""
        return self._gone.is_set()

    @property
    def deserted(self) -> bool:
        """Gone, and nobody else has started one that goes on with the run. Blocks for a moment."""
        return self.gone and refuses(self.aggregator.endpoint)

    def release(self) -> None:
        """From here on nothing is started any more: the result is known, or nobody waits for it."""
        self._released.set()
        self._keeping.end()

    def ask(self, request: Request, timeout_s: float) -> None:
        """Asks the aggregator, and each one that follows it the same.

        Blocks until it was heard, or there is nobody to hear it any more: somebody else may have started one that
        goes on with the run. Raises EndpointError if the aggregator is silent for `timeout_s`, ProtocolError if it
        refuses.
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
        except Exception as error:  # noqa: BLE001 – thread root: whoever waits for `gone` must not wait for ever
            self._give_up(f"restarting it failed: {error!r}")
        self._keeping.end()
        self._gone.set()

    def _succeeded(self) -> bool:
        """Waits for the aggregator's end, and sees to another. False if there is none, or need not be."""
        dead, began = self.aggregator, time.monotonic()
        dead.process.wait()
        if time.monotonic() - began >= limits.RESTART_LASTS_S and not self._ending:
            self._short_lives = 0
        obstacle = self._obstacle()
        while not (obstacle or self._over()):
            obstacle = self._start_another()
            if self.aggregator is not dead:
                return True
        if not self._over():
            self._give_up(obstacle)
        elif dead.process.returncode < 0 and not (self._ending or self._released.is_set()):
            self._say(f"{death_of(dead)}, and the run has its result. What is recorded now is in no result")
        return False

    @property
    def _ending(self) -> bool:
        """Whether the run was asked to end. The end itself may be what aggregators die of, as late as it takes."""
        return self.aggregator.ending or any(isinstance(request, Stop) for request in self._standing)

    def _obstacle(self) -> str:
        """Why no other would come to more than the one that is gone; empty if it may."""
        if self.aggregator.process.returncode >= 0:  # whatever fails in it, it still concludes the run and writes
            return "it was through, and left no result"
        return "" if self.files.has_journal else "the run keeps no journal"

    def _start_another(self) -> str:
        """One attempt. Returns why the next would be in vain."""
        if self._short_lives >= limits.RESTARTS:
            return f"{limits.RESTARTS} restarts in a row came to nothing"
        if self._short_lives and self._released.wait(limits.RESTART_PAUSE_S * 2 ** (self._short_lives - 1)):
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

    def _take_over(self, follower: Aggregator) -> None:
        if not self._released.is_set():
            self._say(f"{death_of(self.aggregator)}; restarted, the run goes on")
        self.aggregator = follower
        for request in list(self._standing):
            # who asked it is still there and asks again, or knows no better
            with suppress(TelemetryError), ControlClient(follower.endpoint) as client:
                client.request(request)
        self.restarts += 1

    def _give_up(self, obstacle: str) -> None:
        self.lost = f"{death_of(self.aggregator)} and is not restarted: {obstacle}"
        self._say(f"{self.lost}. What is recorded now is lost")
        path = ipc_path(self.aggregator.endpoint)
        if path is not None and refuses(self.aggregator.endpoint):
            with suppress(OSError):
                path.unlink()  # its absence tells producers not to wait for another


def death_of(aggregator: Aggregator) -> str:
    """How an aggregator that is gone came to its end, in words."""
    code = aggregator.process.returncode
    if code is None or code >= 0:
        return f"the aggregator (pid {aggregator.pid}) ended with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    return f"the aggregator (pid {aggregator.pid}) died by {name}"
