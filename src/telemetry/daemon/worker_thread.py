"""A thread for slow work on a disk or CPU, so that the ingest loop does not wait for it."""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import Any

from telemetry import limits

_LOG = logging.getLogger("telemetry.daemon")

Job = Callable[[], Any]
Done = Callable[[Any, Exception | None], None]


class Worker:
    """Executor that runs jobs in order on one thread.

    Their `done` callbacks run on the thread that calls `deliver`.

    `submit` never blocks. The owner polls `fd`, which wakes it.
    """

    def __init__(self, name: str) -> None:
        self._jobs: Queue[tuple[Job, Done | None] | None] = Queue(limits.DISK_JOBS)
        self._finished: deque[tuple[Done, Any, Exception | None]] = deque()
        self.fd, self._wake_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._wake_fd, False)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, done: Done | None = None) -> bool:
        """Queue a job. Return False if the queue is full."""
        try:
            self._jobs.put_nowait((job, done))
        except Full:
            return False
        return True

    def deliver(self) -> None:
        """Run the callbacks of finished jobs on the calling thread."""
        try:
            while os.read(self.fd, 4096):
                pass
        except BlockingIOError:
            pass
        while self._finished:
            done, result, error = self._finished.popleft()
            done(result, error)

    def close(self, timeout_s: float) -> bool:
        """Finish queued jobs. Return False if that takes longer than `timeout_s`."""
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
        """Make `fd` readable. Any thread may call it."""
        with suppress(BlockingIOError):  # the pipe is full of wake-ups already
            os.write(self._wake_fd, b"\0")
