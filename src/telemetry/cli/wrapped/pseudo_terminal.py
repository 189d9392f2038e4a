"""A pseudo-terminal for the wrapped command, and the start of the command in it."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress

from telemetry.cli.wrapped.terminal import GONE, Modes


class JobTerminal:
    """A pseudo-terminal. Its `master` side does not block.

    The other side stays open in this process too. A command may thus close its streams and open them again without
    an end of file in between.
    """

    def __init__(self, modes: Modes, size: tuple[int, int] | None) -> None:
        """Open a pseudo-terminal with these modes and this size. Raises OSError."""
        self.master, self._near = os.openpty()
        try:
            self._path = os.ttyname(self._near)
            os.set_blocking(self.master, False)
            with suppress(*GONE):  # a terminal that is being closed has no modes to copy
                termios.tcsetattr(self._near, termios.TCSANOW, modes)
            self.resize(size)
        except BaseException:
            self.close()
            raise

    def resize(self, size: tuple[int, int] | None) -> None:
        """Set the size; SIGWINCH tells the command.

        Has no effect without a size, or once the terminal is closed.
        """
        if size is not None and self.master >= 0:
            with suppress(*GONE):
                termios.tcsetwinsize(self.master, size)

    def launch(self, command: Sequence[str], environment: Mapping[str, str], streams: Sequence[int]) -> int:
        """Start a command in a session of its own and return its process id. Raises OSError.

        `streams` are the standard streams to connect to this terminal; the others are inherited. Opening the
        terminal makes it the controlling terminal of the session, so that keys typed here can interrupt the
        command.
        """
        actions = [(os.POSIX_SPAWN_OPEN, stream, self._path, os.O_RDWR, 0) for stream in streams]
        ignored_by_python = (signal.SIGPIPE, signal.SIGXFSZ)
        return os.posix_spawnp(
            command[0], list(command), environment, file_actions=actions, setsid=True, setsigdef=ignored_by_python
        )

    def close(self) -> None:
        """Close both sides. Processes still in the terminal lose it. May be called twice."""
        for fd in (self.master, self._near):
            if fd >= 0:
                os.close(fd)
        self.master = self._near = -1
