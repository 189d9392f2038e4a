"""The live line on stderr: in the last row of a terminal, or now and then as a line of its own.

The command writes to the same terminal at the same time. So the last row is taken out of the rows that scroll, and
each update is one write that saves and restores the cursor. Output of the command appears in the other rows as
always.
"""

from __future__ import annotations

import os
import signal
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Protocol, TextIO

from telemetry.cli import console
from telemetry.report.live_line import LinePart, fitted, joined

FIRST_LINES_S: Final = 10.0
"""Seconds between the first lines of a file or a pipe."""
LINES_S: Final = 30.0
_FIRST_LINES: Final = 3
_LEAST_ROWS: Final = 4
_LEAST_COLUMNS: Final = 20
_COLORS: Final = {"warn": "\x1b[33m", "bad": "\x1b[31m"}
_DIM: Final = "\x1b[2m"
_RESET: Final = "\x1b[0m"
_SAVE: Final = "\x1b7"
_RESTORE: Final = "\x1b8"
_ALL_ROWS: Final = "\x1b[r"
_MAKE_ROOM: Final = "\x1bD\x1b[A"
"""Move down one row, scrolling if needed, and up again: the column stays, even in an unfinished line."""
_LOCAL_MODES: Final = 3


class LiveDisplay(Protocol):
    """A place for the live line. Main thread only."""

    def show(self, parts: Sequence[LinePart]) -> None:
        """Show the newest line. Called about once per second."""

    def end(self) -> None:
        """Remove the line, and leave the terminal as it was."""


def open_display(stream: TextIO, environ: Mapping[str, str] = os.environ) -> LiveDisplay:
    """Return the last row of the terminal if `stream` is a capable one; otherwise, lines now and then."""
    capable = stream.isatty() and environ.get("TERM", "dumb") not in ("dumb", "unknown") and not environ.get("CI")
    if not capable:
        return SpacedLines()
    return StatusRow(stream.fileno(), color=console.color(stream, environ), encoding=stream.encoding)


class SpacedLines:
    """Lines for a file or a pipe: every 10 s at first, then every 30 s."""

    def __init__(
        self, say: Callable[[str], None] = console.talk, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._say = say
        self._clock = clock
        self._lines = 0
        self._next_s = clock() + FIRST_LINES_S

    def show(self, parts: Sequence[LinePart]) -> None:
        now_s = self._clock()
        if now_s < self._next_s:
            return
        self._say(f"telemetry: {joined(parts)}\n")
        self._lines += 1
        self._next_s = now_s + (FIRST_LINES_S if self._lines < _FIRST_LINES else LINES_S)

    def end(self) -> None:
        pass


class StatusRow:
    """The last row of the terminal at `fd`.

    It is released while a program has the terminal for itself: an editor, a password prompt, another job of the
    shell. Ctrl-Z releases it too, and a new size of the terminal moves it.
    """

    def __init__(self, fd: int, *, color: bool, encoding: str = "utf-8") -> None:
        self._fd = fd
        self._color = color
        self._encoding = encoding
        self._rows = 0
        """Rows of the terminal while the last one is ours; 0: it is not."""
        self._before: dict[int, Any] = {}
        for number, handler in ((signal.SIGTSTP, self._stop), (signal.SIGWINCH, self._resize)):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, handler)

    def show(self, parts: Sequence[LinePart]) -> None:
        size = self._size()
        if size is None or not self._is_free():
            self._release()
            return
        rows, width = size
        if self._rows not in (0, rows):
            self._release()
        room = "" if self._rows else _MAKE_ROOM
        self._rows = rows
        # The rows are set each time: the command may have cleared the screen, and with it this setting.
        self._write(
            f"{room}{_SAVE}\x1b[1;{rows - 1}r\x1b[{rows};1H{_RESET}\x1b[2K{self._painted(fitted(parts, width - 1))}"
            f"{_RESTORE}"
        )

    def end(self) -> None:
        self._release()
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _release(self) -> None:
        """Erase the line, and let all rows scroll again."""
        rows, self._rows = self._rows, 0
        if rows and self._in_foreground():
            self._write(f"{_SAVE}\x1b[{rows};1H{_RESET}\x1b[2K{_ALL_ROWS}{_RESTORE}")

    def _write(self, text: str) -> None:
        """Write in one call, which output of the command can't divide. A signal handler may do it too."""
        with suppress(OSError):  # the terminal is gone
            os.write(self._fd, text.encode(self._encoding, "replace"))

    def _painted(self, parts: Sequence[LinePart]) -> str:
        if not self._color:
            return joined(parts)
        return f"{_RESET}  ".join(f"{_COLORS.get(part.health, _DIM)}{part.text}" for part in parts) + _RESET

    def _size(self) -> tuple[int, int] | None:
        """Return rows and columns; None for a terminal too small for a row of ours."""
        try:
            width, rows = os.get_terminal_size(self._fd)
        except OSError:
            return None
        return (rows, width) if rows >= _LEAST_ROWS and width >= _LEAST_COLUMNS else None

    def _is_free(self) -> bool:
        """Return whether this job has the terminal, and no program of it reads single keys or a password."""
        try:
            modes = termios.tcgetattr(self._fd)[_LOCAL_MODES]
        except (OSError, termios.error):
            return False
        usual = termios.ICANON | termios.ECHO
        return self._in_foreground() and modes & usual == usual

    def _in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:
            return False

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        """Stop as Ctrl-Z asks, with the terminal as the shell expects it."""
        self._release()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._stop)  # continued

    def _resize(self, _number: int, _frame: FrameType | None) -> None:
        """Give the old row back at once; the next line uses the new last row."""
        if self._rows:
            self._rows = 0
            self._write(f"{_SAVE}{_ALL_ROWS}{_RESTORE}")
