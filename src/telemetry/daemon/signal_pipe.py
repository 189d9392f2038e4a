"""Signals as bytes on a file descriptor, so that a flood of events can't delay them."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Final

ENDING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OF_THE_TERMINAL: Final = (signal.SIGINT, signal.SIGHUP)


class SignalPipe:
    """A pipe whose `fd` becomes readable when a signal of `ENDING` arrives. Main thread only.

    Terminal signals that the starter made the process ignore (`nohup`, a shell's `&`) stay ignored.
    """

    def __init__(self) -> None:
        self.fd, self._write_fd = os.pipe()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._write_fd, False)
        signal.set_wakeup_fd(self._write_fd, warn_on_full_buffer=False)
        for number in ENDING:
            if number not in _OF_THE_TERMINAL or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _noted)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    def take(self) -> list[signal.Signals]:
        """Return the signals that arrived since the last call."""
        try:
            data = os.read(self.fd, 256)
        except BlockingIOError:
            return []
        return [signal.Signals(number) for number in data if number in ENDING]


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Do nothing. Python writes to the wakeup descriptor only if a handler exists."""
