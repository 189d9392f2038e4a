"""The last lines of the wrapped command's output, from the file in its run directory."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from io import FileIO
from pathlib import Path
from threading import Event, Thread
from typing import Final

from telemetry.common.files import open_reader
from telemetry.limits import KIB
from telemetry.store.output_log import OLDER, OUTPUT
from telemetry.tui.feed.news import CommandOutput, Tell

LINES: Final = 500  # a few screens to scroll through; the file has the rest
_READ_BYTES: Final = 512 * KIB  # read of a flood at each look; ten times the kept lines
_LINE_BYTES: Final = 4 * KIB  # longer lines do not fit on any terminal
_PERIOD_S: Final = 0.5
_JOIN_S: Final = 2.0


class OutputTail:
    """A follower of `output.log` in a run directory, even across its rotation. Without a file there is no news."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / OUTPUT
        self._file: FileIO | None = None
        self._seen: tuple[int, int] = (0, 0)
        """Inode and size at the last look."""
        self._lines: deque[str] = deque(maxlen=LINES)
        self._rest = b""
        """Bytes after the last line end."""
        self._closing = Event()
        self._thread: Thread | None = None

    def start(self, tell: Tell) -> None:
        """Start a thread that looks twice a second, and reports the lines if there are more."""
        self._thread = Thread(target=self._follow, args=(tell,), name="telemetry-output", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for the thread. May be called twice, and without `start`."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)
        if self._file is not None and not (self._thread and self._thread.is_alive()):
            self._file.close()

    def look(self) -> CommandOutput | None:
        """Return the last lines if the file grew since the last look, else None. Single-threaded; never raises."""
        with suppress(OSError):
            facts = self._path.stat()
            if (facts.st_ino, facts.st_size) == self._seen:
                return None
            self._seen = facts.st_ino, facts.st_size
            self._read(facts)
            return CommandOutput((*self._lines, _shown(self._rest)) if self._rest else tuple(self._lines))
        return None

    def _follow(self, tell: Tell) -> None:
        while not self._closing.is_set():
            output = self.look()
            if output is not None:
                tell(output)
            self._closing.wait(_PERIOD_S)

    def _read(self, facts: os.stat_result) -> None:
        """Read new output. A file that was replaced is read to its end first."""
        if self._file is not None:
            here = os.fstat(self._file.fileno())
            if here.st_size < self._file.tell():  # truncated: its content is new
                self._start_over()
                self._file.seek(0)
            self._take(self._file)
            if here.st_ino == facts.st_ino:
                return
        else:
            with suppress(FileNotFoundError), open_reader(self._path.with_name(OLDER), depth=1) as older:
                self._take(older)
        following = open_reader(self._path, depth=1)
        if self._file is not None:
            self._file.close()
        self._file = following
        self._take(following)

    def _take(self, file: FileIO) -> None:
        """Read a file to its end, or only the last `_READ_BYTES`."""
        size = os.fstat(file.fileno()).st_size
        more = size - file.tell()
        skipped = more > _READ_BYTES
        if skipped:
            more = _READ_BYTES
            file.seek(size - more)
            self._start_over()
        *lines, rest = (self._rest + (file.read(max(0, more)) or b"")).split(b"\n")
        if skipped and lines:
            lines.pop(0)  # its beginning was not read
        self._lines.extend(map(_shown, lines[-LINES:]))
        self._rest = rest[-_LINE_BYTES:]

    def _start_over(self) -> None:
        self._lines.clear()
        self._rest = b""


def _shown(line: bytes) -> str:
    """Return the visible text of a line: carriage returns overwrite earlier text."""
    segments = line[-_LINE_BYTES:].rstrip(b"\r").rsplit(b"\r", 1)
    return segments[-1].decode("utf-8", "replace")
