"""A pseudo-terminal for the wrapped command, and the command in it."""

from __future__ import annotations

import os
import signal
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress

from telemetry.cli.wrapped.terminal import GONE, Modes


class JobTerminal:
    """Its far side, `master`, does not block.

    The near side stays open here as well: a command that closes its streams may open them again, and no end of file
    comes in between.
    """

    def __init__(self, modes: Modes, size: tuple[int, int] | None) -> None:
        """Raises OSError."""
        self.master, self._near = os.openpty()
        try:
            self._path = os.ttyname(self._near)
            os.set_blocking(self.master, False)
            with suppress(*GONE):  # a terminal that is just being closed has no modes to be copied
                termios.tcsetattr(self._near, termios.TCSANOW, modes)
            self.resize(size)
        except BaseException:
            self.close()
            raise

    def resize(self, size: tuple[int, int] | None) -> None:
        """The command is told by SIGWINCH. No size, and a terminal that has been closed, change nothing."""
        if size is not None and self.master >= 0:
            with suppress(*GONE):
                termios.tcsetwinsize(self.master, size)

    def launch(self, command: Sequence[str], environment: Mapping[str, str], streams: Sequence[int]) -> int:
        """Starts a command in a session of its own and returns its process id. Raises OSError.

        `streams` are the standard streams that are this terminal; the others are ours. Opening it makes it the
        session's terminal, so that what is typed here can interrupt the command.
        """
        actions = [(os.POSIX_SPAWN_OPEN, stream, self._path, os.O_RDWR, 0) for stream in streams]
        ignored_by_python = (signal.SIGPIPE, signal.SIGXFSZ)
        return os.posix_spawnp(
            command[0], list(command), environment, file_actions=actions, setsid=True, setsigdef=ignored_by_python
        )

    def close(self) -> None:
        """Whoever is still in the terminal loses it. May be called twice."""
        for fd in (self.master, self._near):
            if fd >= 0:
                os.close(fd)
        self.master = self._near = -1
