"""The user's terminal: its modes, their changes, and their restoration."""

from __future__ import annotations

import os
import termios
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

Modes = list[int | list[bytes | int]]

GONE: Final = (termios.error, OSError)
"""Exceptions that a closed terminal raises."""
_LEAVE: Final = (
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # the mouse
    b"\x1b[?1004l\x1b[?2004l\x1b[?2048l\x1b[?2026l"  # focus, paste, in-band resizes, held-back frames
    b"\x1b[<u"  # the keyboard protocol of the alternate screen, which is separate from the main screen's
    b"\x1b7\x1b[?1049l"  # the screen itself; the cursor stays where it is if the alternate screen was left already
    b"\x1b[?25h\x1b[?7h\x1b[0m"  # cursor, line wrap, colours
)
"""Escape sequences that undo the modes of a full-screen program. Different programs may leave any of them on."""
_IFLAG, _LFLAG, _CC = 0, 3, 6


class Terminal:
    """A terminal. `keyboard` and `screen` are descriptors of it, which the caller owns.

    Any thread may use it, one at a time. A thread that may be in the terminal's background must block SIGTTOU. No
    method waits for a terminal that accepts no output, and no method raises if the terminal is gone.
    """

    def __init__(self, keyboard: int, screen: int) -> None:
        """Store the current modes. Raises `termios.error` if `keyboard` is not a terminal."""
        self.keyboard = keyboard
        self.screen = screen
        self.found: Modes = termios.tcgetattr(keyboard)
        self.outlet = _opened_anew(screen)
        """A second descriptor of the screen, on which writing does not block.

        Other descriptors of it still block.
        """

    def restore(self) -> None:
        """Set the modes that were found at first."""
        self._set(self.found)

    def pass_keys(self) -> None:
        """Deliver each key as soon as it is typed, without signals: the command's terminal interprets the keys.

        Output modes stay the same, so that lines written here still begin at the left.
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
        """Leave the full-screen mode of a program that could not clean up. Discards input that was typed for it."""
        with suppress(*GONE):
            os.write(self.outlet, _LEAVE)
        with suppress(*GONE):
            termios.tcflush(self.keyboard, termios.TCIFLUSH)

    def size(self) -> tuple[int, int] | None:
        """Return rows and columns, or None if the terminal has no size."""
        try:
            return termios.tcgetwinsize(self.screen)
        except GONE:
            return None

    def close(self) -> None:
        """Close the own descriptor. May be called twice."""
        if self.outlet >= 0:
            os.close(self.outlet)
            self.outlet = -1

    def _set(self, modes: Modes) -> None:
        with suppress(*GONE):
            termios.tcsetattr(self.keyboard, termios.TCSANOW, modes)


def ask_the_terminal(screen: int, environ: MutableMapping[str, str] = os.environ) -> None:
    """Remove COLUMNS and LINES from `environ` if the terminal `screen` has a size of its own.

    Textual prefers the environment, and a size from there never changes. A parent that imports readline, as every
    interactive Python does, passes such a size to all its children. Changes nothing without a terminal.
    """
    try:
        sizes = termios.tcgetwinsize(screen)
    except GONE:
        return
    for name, size in zip(("LINES", "COLUMNS"), sizes, strict=True):
        if size:
            environ.pop(name, None)


def _opened_anew(screen: int) -> int:
    """Open the terminal of `screen` again, in non-blocking mode; duplicate `screen` if that fails.

    A terminal of another user, or one outside of a container, can't be opened by its name.
    """
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
