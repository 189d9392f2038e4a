"""Ends this process if a call into a tracker's library hangs: nothing else could."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator
from contextlib import contextmanager

from telemetry import limits
from telemetry.backends.writer.tally import Tally


class HangGuard:
    """The watchdog needs no interpreter lock: it also ends a call that holds it. Exit code 1, and every thread's
    stack in the log."""

    def __init__(self, tally: Tally, log_fd: int, seconds: float | None = None) -> None:
        """`seconds`: a call has so much time; None: `limits.BACKEND_CALL_S`, as it is when the call begins."""
        self._tally = tally
        self._log_fd = log_fd
        self._seconds = seconds

    @contextmanager
    def __call__(self) -> Iterator[None]:
        seconds = limits.BACKEND_CALL_S if self._seconds is None else self._seconds
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._log_fd)
        self._tally.calling_since_s = self._tally.clock()
        try:
            yield
        finally:
            self._tally.calling_since_s = None
            faulthandler.cancel_dump_traceback_later()
