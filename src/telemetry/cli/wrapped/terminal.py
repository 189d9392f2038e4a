"""The user's terminal: how it was found, lent to somebody else, and taken back."""

from __future__ import annotations

import os
import termios
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

Modes = list[int | list[bytes | int]]

GONE: Final = (termios.error, OSError)
"""What a terminal raises once it has been closed."""
_LEAVE: Final = (
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # the mouse
    b"\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?2026l"  # focus, paste, resizes in band, frames held back
    b"\x1b[<u"  # the keyboard protocol of the alternate screen, which has one of its own
    b"\x1b7\x1b[?1049l"  # the screen itself; one that has been left already stays as it is, cursor and all
    b"\x1b[?25h\x1b[?7h\x1b[0m"  # cursor, line wrap, colours
)
"""Undoes what a full-screen program has switched on; programs of one kind or another may have left all of it."""
_IFLAG, _LFLAG, _CC = 0, 3, 6


class Terminal:
    """`keyboard` and `screen` are descriptors of one terminal, which stay the caller's.

    Any thread may use it if only one does at a time; one that may be in the terminal's background has to block
    SIGTTOU. No method waits for a terminal that takes nothing, and none raises if it is gone.
    """

    def __init__(self, keyboard: int, screen: int) -> None:
        """Raises `termios.error` if `keyboard` is no terminal."""
        self.keyboard = keyboard
        self.screen = screen
        self.found: Modes = termios.tcgetattr(keyboard)
        self.outlet = _opened_anew(screen)
        """Another descriptor of the screen, on which writing does not block. Those that others have still do."""

    def restore(self) -> None:
        """The modes are again as they were found."""
        self._set(self.found)

    def pass_keys(self) -> None:
        """Each key is input as soon as it is typed, and interrupts nobody: another terminal gives it a meaning.

        Output is treated as before, so that lines written here still begin at the left.
        """
        modes: Modes = [*self.found[:_CC], list(_controls(self.found))]
        modes[_IFLAG] = _flags(modes[_IFLAG]) & ~(
            termios.BRKINT | termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP | termios.IXON
        )
        modes[_LFLAG] = _flags(modes[_LFLAG]) & ~(termios.ECHO | termios.ICANON | termios.IEXTEN | termios.ISIG)
        controls = _controls(modes)
        controls[termios.VMIN], controls[termios.VTIME] = 1, 0
        self._set(modes)

    def leave_full_screen(self) -> None:
        """After a full-screen program that could not tidy up; what was typed for it is thrown away."""
        with suppress(*GONE):
            os.write(self.outlet, _LEAVE)
        with suppress(*GONE):
            termios.tcflush(self.keyboard, termios.TCIFLUSH)

    def size(self) -> tuple[int, int] | None:
        """Rows and columns; None if it has none to tell."""
        try:
            return termios.tcgetwinsize(self.screen)
        except GONE:
            return None

    def close(self) -> None:
        """May be called twice."""
        if self.outlet >= 0:
            os.close(self.outlet)
            self.outlet = -1

    def _set(self, modes: Modes) -> None:
        with suppress(*GONE):
            termios.tcsetattr(self.keyboard, termios.TCSANOW, modes)


def ask_the_terminal(screen: int, environ: MutableMapping[str, str] = os.environ) -> None:
    """Takes COLUMNS and LINES out of `environ` as far as the terminal `screen` has a size of its own.

    Textual believes the environment first, and a size from there never changes: whoever imports readline, as does
    every interactive Python, leaves one to all its children. Where there is no terminal, nothing changes.
    """
    try:
        sizes = termios.tcgetwinsize(screen)
    except GONE:
        return
    for name, size in zip(("LINES", "COLUMNS"), sizes, strict=True):
        if size:
            environ.pop(name, None)


def _opened_anew(screen: int) -> int:
    """A name that can't be opened is that of another user's terminal, or of one outside of a container."""
    flags = os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    with suppress(OSError):
        return os.open(os.ttyname(screen), flags)
    with suppress(OSError):
        return os.open("/dev/tty", flags)
    return os.dup(screen)


def _flags(value: int | list[bytes | int]) -> int:
    assert isinstance(value, int)
    return value


def _controls(modes: Modes) -> list[bytes | int]:
    value = modes[_CC]
    assert isinstance(value, list)
    return value
