"""A guard that ends this process if a call into a tracker's library hangs."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager

from telemetry import limits
from telemetry.backends.writer.tally import Tally


class HangGuard:
    """A watchdog that needs no interpreter lock, so it also ends a call that holds the lock.

    The exit code is 1. The stacks of all threads are written to the log.
    """

    def __init__(self, tally: Tally, log_fd: int, seconds: float | None = None) -> None:
        """Create a guard.

        `seconds`: timeout of a call; None for `limits.BACKEND_CALL_S` at the start of the call.
        """
        self._tally = tally
        self._log_fd = log_fd
        self._seconds = seconds

    @contextmanager
    def __call__(self, seconds: float | None = None) -> Iterator[None]:
        """Guard one call. `seconds`: timeout of this one, in place of the usual one."""
        if seconds is None:
            seconds = limits.BACKEND_CALL_S if self._seconds is None else self._seconds
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._log_fd)
        self._tally.calling_since_s = self._tally.clock()
        try:
            yield
        finally:
            self._tally.calling_since_s = None
            faulthandler.cancel_dump_traceback_later()
