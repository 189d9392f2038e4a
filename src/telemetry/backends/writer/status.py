"""Status reports of a writer, and detection of a dead parent. Both continue while a library hangs."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from telemetry import limits
from telemetry.backends.writer.tally import Tally
from telemetry.errors import TelemetryError
from telemetry.store.backends import WriterFolder
from telemetry.supervise.parent import parent_pid
from telemetry.wire.control import TellBackend
from telemetry.wire.snapshot import BackendStat

_ANSWER_S: Final = 0.3
_PAUSES: Final = 10  # usual times between two reports to wait after an aggregator did not answer


class Client(Protocol):
    def request(self, message: TellBackend, timeout_s: float) -> object: ...

    def close(self) -> None: ...


class StatusReporter:
    """A reporting thread that runs from `start` to `stop`.

    It reports at once when the writer makes progress, at most every `limits.BACKEND_STATUS_LEAST_S`.
    """

    def __init__(
        self,
        tally: Tally,
        folder: WriterFolder,
        connect: Callable[[], Client] | None,
        *,
        on_orphaned: Callable[[], object],
        every_s: float | None = None,
        log_fd: int = -1,
    ) -> None:
        """Prepare the thread.

        `connect` opens a connection to the run's aggregator; None if there is no aggregator. `on_orphaned` is
        called when the parent process has ended. `every_s`: seconds between two reports of a writer that makes no
        progress; None for the current `limits.BACKEND_STATUS_S`. `log_fd`: log file, which is truncated when it
        gets too long.
        """
        self._tally = tally
        self._folder = folder
        self._connect = connect
        self._on_orphaned = on_orphaned
        self._every_s = every_s
        self._log_fd = log_fd
        self._parent = parent_pid()
        self._silent_until_s = 0.0
        self._client: Client | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry-status", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> BackendStat:
        """Report the last state and return it. Blocks for about a second at most."""
        self._ending.set()
        self._tally.changed.set()
        if self._thread.ident is not None:
            self._thread.join(2 * _ANSWER_S)
        stat = self._tally.stat()
        self._keep(stat)
        if not self._thread.is_alive():  # otherwise the thread still waits for an answer and owns the connection
            self._tell(stat)
            if self._client is not None:
                self._client.close()
        return stat

    def _run(self) -> None:
        while not self._ending.is_set():
            self._tally.changed.clear()
            stat = self._tally.stat()
            self._keep(stat)
            self._tell(stat)
            self._cut_log()
            if os.getppid() != self._parent:
                self._on_orphaned()
            least_s = min(limits.BACKEND_STATUS_LEAST_S, self._usual_s)
            if not self._ending.wait(least_s):
                self._tally.changed.wait(self._usual_s - least_s)

    @property
    def _usual_s(self) -> float:
        return limits.BACKEND_STATUS_S if self._every_s is None else self._every_s

    def _keep(self, stat: BackendStat) -> None:
        with suppress(TelemetryError):  # the disk may be full; the aggregator still gets the report
            self._folder.write_status(stat)

    def _tell(self, stat: BackendStat) -> None:
        if self._connect is None:
            return
        if time.monotonic() < self._silent_until_s:
            return
        try:
            self._client = self._client or self._connect()
            self._client.request(TellBackend(stat=stat), _ANSWER_S)
        except TelemetryError:
            self._silent_until_s = time.monotonic() + _PAUSES * self._usual_s
            if self._client is not None:
                self._client.close()
                self._client = None

    def _cut_log(self) -> None:
        with suppress(OSError):
            if self._log_fd >= 0 and os.fstat(self._log_fd).st_size > limits.BACKEND_LOG_BYTES:
                os.ftruncate(self._log_fd, 0)
