"""The journal: every admitted batch as it came, before it is applied. SIGKILL loses none of it, power loss at most
what was not synced.

    journal/00000000.seg, 00000001.seg, …     frames of `telemetry.store.framing`, stamped with the monotonic time

A frame's kind is `BATCH`: the payload is one whole `ev/1` frame. Kind 2 is reserved for checkpoints; readers pass
on kinds they don't know.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from telemetry import limits
from telemetry.errors import RunDirectoryError
from telemetry.store.appendfile import AppendFile, Buffer, describe
from telemetry.store.atomic import sync_directory
from telemetry.store.framing import SEGMENT_HEADER_BYTES, SegmentReader, frame, segment_header

MAGIC: Final = b"tmjrnl\r\n"
BATCH: Final = 1

_SEGMENT_NAME: Final = re.compile(r"(\d{8,})\.seg")
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class JournalFrame(NamedTuple):
    time_ns: int
    kind: int
    data: memoryview
    """Valid until the next frame is asked for."""


class JournalWriter:
    """Appends frames to segments; past `cap_bytes` the oldest segments go and are counted.

    Nothing here raises: the first OSError, also one in construction, sets `failed`, and from then on appends are
    ignored. `append` and `close` belong to one thread; `sync` may run on another at the same time. A journal that
    exists already is continued in a new segment.
    """

    def __init__(
        self,
        directory: Path,
        segment_bytes: int = limits.JOURNAL_SEGMENT_BYTES,
        cap_bytes: int = limits.JOURNAL_CAP_BYTES,
    ) -> None:
        self.failed = ""
        """Why nothing more is written; empty while all is well."""
        self.bytes_written = 0
        self.dropped_segments = 0
        self._directory = directory
        self._segment_bytes = min(segment_bytes, cap_bytes // 2)  # half of the cap at least is always there
        self._cap_bytes = cap_bytes
        self._kept: deque[tuple[Path, int]] = deque()
        self._kept_bytes = 0
        self._number = 0
        self._file: AppendFile | None = None
        self._lock = threading.Lock()
        self._full: list[int] = []
        """Descriptors of full segments that are not synced yet."""
        self._unlinked: list[int] = []
        """Descriptors of deleted segments: closing the last one frees the blocks, which takes long."""
        self._names_changed = False
        try:
            self._open()
        except OSError as error:
            self._fail(error)

    def append(self, frames: Sequence[Buffer], now_ns: int) -> None:
        """One `writev`. Blocks for a copy into the page cache, never for the disk."""
        if self.failed or self._file is None:
            return
        buffers = frame(frames, now_ns, BATCH)
        total = sum(map(len, buffers))
        try:
            if self._file.size + total > self._segment_bytes and self._file.size > SEGMENT_HEADER_BYTES:
                self._roll()
            self._make_room(total)
            self.bytes_written += self._file.append(buffers)
        except OSError as error:
            self._fail(error)

    def sync(self) -> None:
        """Blocks until all that was appended before the call is on the disk. Any thread."""
        with self._lock:
            full, self._full = self._full, []
            unlinked, self._unlinked = self._unlinked, []
            names_changed, self._names_changed = self._names_changed, False
            current = self._file.fd if self._file is not None else -1
            try:
                if current >= 0:
                    full.append(os.dup(current))
            except OSError as error:
                self._fail(error)
        try:
            for fd in full:
                _sync_data(fd)
            if names_changed:
                sync_directory(self._directory)
        except OSError as error:
            self._fail(error)
        finally:
            for fd in (*full, *unlinked):
                os.close(fd)

    def close(self) -> None:
        """Closes the files without waiting for the disk. Appends after it are ignored."""
        with self._lock:
            for fd in (*self._full, *self._unlinked):
                os.close(fd)
            self._full, self._unlinked = [], []
            if self._file is not None:
                self._file.close()
                self._file = None

    def _open(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        for number, path in _segments(self._directory):
            self._keep(path, path.stat().st_size)
            self._number = number + 1
        self._roll()

    def _roll(self) -> None:
        full, file = self._file, AppendFile(self._directory / f"{self._number:08d}.seg")
        self._number += 1
        with self._lock:
            if full is not None:
                self._full.append(full.fd)
            self._file = file
            self._names_changed = True
        if full is not None:
            self._keep(full.path, full.size)
        self.bytes_written += file.append([segment_header(MAGIC)])

    def _keep(self, path: Path, size: int) -> None:
        self._kept.append((path, size))
        self._kept_bytes += size

    def _make_room(self, needed: int) -> None:
        assert self._file is not None
        while self._kept and self._kept_bytes + self._file.size + needed > self._cap_bytes:
            path, size = self._kept.popleft()
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            with self._lock:
                self._unlinked.append(fd)
                self._names_changed = True
            path.unlink()
            self._kept_bytes -= size
            self.dropped_segments += 1

    def _fail(self, error: OSError) -> None:
        self.failed = self.failed or describe(error)


class JournalReader:
    """Streams all frames of a journal in order, through one buffer of a few MiB.

    A segment ends at its first torn or rotten frame; the next one goes on. After `frames()` has ended, `torn_bytes`
    and `complete` say whether anything was left out.
    """

    def __init__(self, directory: Path) -> None:
        self.torn_bytes = 0
        self.missing_segments = 0
        """Segments that were deleted: the oldest ones past the cap."""
        self._directory = directory
        self._ended = False

    @property
    def complete(self) -> bool:
        """All that was ever appended has been read."""
        return self._ended and not self.torn_bytes and not self.missing_segments

    def frames(self) -> Iterator[JournalFrame]:
        """From the beginning, each call. Blocks on the disk.

        Raises RunDirectoryError if there is no journal or it can't be read.
        """
        self.torn_bytes = self.missing_segments = 0
        self._ended = False
        try:
            found = list(_segments(self._directory))
            if not found:
                raise RunDirectoryError(f"there is no journal in {self._directory}")
            self.missing_segments = found[-1][0] + 1 - len(found)
            for _, path in found:
                with path.open("rb", buffering=0) as file:
                    reader = SegmentReader(file, path, MAGIC)
                    for item in reader.frames():
                        yield JournalFrame(*item)
                    self.torn_bytes += reader.torn_bytes
        except OSError as error:
            raise RunDirectoryError(f"the journal can't be read: {describe(error)}") from error
        self._ended = True


def _segments(directory: Path) -> Iterator[tuple[int, Path]]:
    """(number, path), ascending."""
    names = [(match, path) for path in directory.iterdir() if (match := _SEGMENT_NAME.fullmatch(path.name))]
    yield from sorted((int(match[1]), path) for match, path in names)
