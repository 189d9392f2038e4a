"""Files of a run on this machine: results of its gates, and the last lines of its command's output."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from io import FileIO
from pathlib import Path
from threading import Event, Thread
from typing import Final

from telemetry.common.files import open_reader
from telemetry.errors import RunDirectoryError
from telemetry.history.backends import with_backends
from telemetry.limits import KIB
from telemetry.store.dead_run import is_dead, remains
from telemetry.store.final_snapshot import find_final
from telemetry.store.gate_results import read_gates, read_gates_so_far
from telemetry.store.members import members_on_disk
from telemetry.store.output_log import OLDER, OUTPUT
from telemetry.store.run_directory import RunDirectory
from telemetry.tui.feed.news import CommandOutput, GatesOf, Tell
from telemetry.wire.control import MemberFacts
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot


def directory_of(run_id: str, *paths: str) -> RunDirectory | None:
    """Return the first of these directories that belongs to the run.

    On this machine, the path of a run of another machine may belong to a different run. Without a run id, any run
    matches.
    """
    for path in filter(None, paths):
        with suppress(RunDirectoryError):
            directory = RunDirectory.open(Path(path))
            if directory.run_id == run_id or not run_id:
                return directory
    return None


def result_of(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> MetricsSnapshot | None:
    """Return the result of an ended run with the latest state of its backends; None if there is none.

    Raises RunDirectoryError if it can't be read.
    """
    final = find_final(run, fallback_dirs)
    snapshot = final.read() if final is not None else None
    return with_backends(snapshot, run) if snapshot is not None and snapshot.state in TERMINAL else None


def members_of(
    snapshot: MetricsSnapshot | None, leaf: str, fallback_dirs: Sequence[str] = ()
) -> list[MemberFacts] | None:
    """Return the producers of a node from the result of its leaf; None if that is not on this machine."""
    nodes = snapshot.nodes if snapshot is not None else []
    node = next((stat for stat in nodes if leaf and stat.leaf == leaf), None)
    return members_on_disk(node, fallback_dirs) if node is not None else None


def remedy_of(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> str:
    """Return the advice to recover a dead run; empty if it is not dead or can't be recovered."""
    if not is_dead(run, fallback_dirs):
        return ""
    left = remains(run)
    return f"`{left.remedy}` makes a result of what it left" if left.recoverable else ""


_PERIOD_S: Final = 0.5
_JOIN_S: Final = 2.0


class GatesWatch:
    """A watch for the files that `telemetry run` writes during and after a run. Without gates there is no news."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._closing = Event()
        self._thread: Thread | None = None

    def start(self, tell: Tell) -> None:
        """Start a thread that looks twice a second until the results at the end of the run are there."""
        self._thread = Thread(target=self._follow, args=(tell,), name="telemetry-gates", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Wait for the thread. May be called twice, and without `start`."""
        self._closing.set()
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def look(self) -> GatesOf | None:
        """Return the results, or None if there are none that can be read. Never raises."""
        with suppress(RunDirectoryError):  # the report names the problem
            if gates := read_gates(self._directory):
                return GatesOf(tuple(gates))
            if gates := read_gates_so_far(self._directory):
                return GatesOf(tuple(gates), final=False)
        return None

    def _follow(self, tell: Tell) -> None:
        previous: GatesOf | None = None
        while not self._closing.is_set():
            gates = self.look()
            if gates is not None and gates != previous:
                tell(gates)
                previous = gates
            if gates is not None and gates.final:
                return
            self._closing.wait(_PERIOD_S)


LINES: Final = 500  # a few screens to scroll through; the file has the rest
_READ_BYTES: Final = 512 * KIB  # read of a flood at each look; ten times the kept lines
_LINE_BYTES: Final = 4 * KIB  # longer lines do not fit on any terminal


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
