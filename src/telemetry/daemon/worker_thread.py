"""One thread for what may take long on a disk or a core, so that the loop that ingests never waits for it."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import Any, Final

_LOG = logging.getLogger("telemetry.daemon")
_QUEUED_JOBS: Final = 256  # seconds of backlog on a stuck disk; beyond it jobs are refused and counted

Job = Callable[[], Any]
Done = Callable[[Any, Exception | None], None]


class Worker:
    """Runs jobs in order on one thread; their `done` callbacks run on the thread that calls `deliver`.

    `submit` never blocks. Wake the owner's poll on `fd`.
    """

    def __init__(self, name: str) -> None:
        self._jobs: Queue[tuple[Job, Done | None] | None] = Queue(_QUEUED_JOBS)
        self._finished: deque[tuple[Done, Any, Exception | None]] = deque()
        self.fd, self._wake_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._wake_fd, False)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, done: Done | None = None) -> bool:
        """Whether the job was taken; False when the thread is far behind."""
        try:
            self._jobs.put_nowait((job, done))
        except Full:
            return False
        return True

    def deliver(self) -> None:
        """Runs the callbacks of finished jobs on the calling thread."""
        try:
            while os.read(self.fd, 4096):
                pass
        except BlockingIOError:
            pass
        while self._finished:
            done, result, error = self._finished.popleft()
            done(result, error)

    def close(self, timeout_s: float) -> bool:
        """Finishes queued jobs; False if that took longer than allowed."""
        try:
            self._jobs.put(None, timeout=timeout_s)
        except Full:
            return False
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (item := self._next()) is not None:
            job, done = item
            result, error = None, None
            try:
                result = job()
            except Exception as caught:  # noqa: BLE001 – task root: one failed job must not end the thread
                _LOG.warning("background job failed: %s", caught)
                error = caught
            if done is not None:
                self._finished.append((done, result, error))
                self.wake()

    def _next(self) -> tuple[Job, Done | None] | None:
        while True:
            try:
                return self._jobs.get(timeout=60.0)
            except Empty:
                continue

    def wake(self) -> None:
        """Makes `fd` readable. Any thread."""
        with suppress(BlockingIOError):  # the pipe is full of wake-ups already
            os.write(self._wake_fd, b"\0")
