"""The last lines of the wrapped command's output, from the file in its run directory."""

from __future__ import annotations

import os
from collections import deque
from contextlib import suppress
from io import FileIO
from pathlib import Path
from threading import Event, Thread
from typing import Final

from telemetry.limits import KIB
from telemetry.store.output_log import OLDER, OUTPUT
from telemetry.tui.feed.news import Output, Tell

LINES: Final = 500  # some screens to scroll through; the rest is in the file
_READ_BYTES: Final = 512 * KIB  # what is read of a flood between two looks; ten times the lines kept
_LINE_BYTES: Final = 4 * KIB  # what no terminal shows of one line anyway
_PERIOD_S: Final = 0.5
_JOIN_S: Final = 2.0


class OutputTail:
    """Follows `output.log` in a run directory, also while it is replaced by a new one. No file, no news."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / OUTPUT
        self._file: FileIO | None = None
        self._seen: tuple[int, int] = (0, 0)
        """Inode and size at the last look."""
        self._lines: deque[str] = deque(maxlen=LINES)
        self._rest = b""
        """After the last line end."""
        self._closing = Event()
        self._thread: Thread | None = None

    def start(self, tell: Tell) -> None:
        """From now on tells the lines whenever there are more, looking twice a second."""
        self._thread = Thread(target=self._follow, args=(tell,), name="telemetry-output", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Waits for the thread. May be called twice, and without a start."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)
        if self._file is not None and not (self._thread and self._thread.is_alive()):
            self._file.close()

    def look(self) -> Output | None:
        """The last lines if there is more than at the last look. For one thread; never raises."""
        with suppress(OSError):
            facts = self._path.stat()
            if (facts.st_ino, facts.st_size) == self._seen:
                return None
            self._seen = facts.st_ino, facts.st_size
            self._read(facts)
            return Output((*self._lines, _shown(self._rest)) if self._rest else tuple(self._lines))
        return None

    def _follow(self, tell: Tell) -> None:
        while not self._closing.is_set():
            output = self.look()
            if output is not None:
                tell(output)
            self._closing.wait(_PERIOD_S)

    def _read(self, facts: os.stat_result) -> None:
        """What has been written since. A file that was replaced is read to its end first."""
        if self._file is not None:
            here = os.fstat(self._file.fileno())
            if here.st_size < self._file.tell():  # cut short: it is another one now
                self._start_over()
                self._file.seek(0)
            self._take(self._file)
            if here.st_ino == facts.st_ino:
                return
        else:
            with suppress(FileNotFoundError), self._path.with_name(OLDER).open("rb", buffering=0) as older:
                self._take(older)
        following = self._path.open("rb", buffering=0)
        if self._file is not None:
            self._file.close()
        self._file = following
        self._take(following)

    def _take(self, file: FileIO) -> None:
        """Up to its end, or the last part of what is too much."""
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
    """What a terminal shows of a line that may have been written over by carriage returns."""
    segments = line[-_LINE_BYTES:].rstrip(b"\r").rsplit(b"\r", 1)
    return segments[-1].decode("utf-8", "replace")
