"""A file that grows by complete pieces only."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from telemetry.common.files import open_file

Buffer = bytes | bytearray | memoryview

OWNER_ONLY: Final = 0o600
AS_UMASK: Final = 0o666
_IOV_MAX: Final = 1024  # POSIX guarantees 16; Linux and macOS have 1024


class AppendFile:
    """A file opened for appending at `path`, created if missing, for this user alone unless `mode` is given.

    `depth`: as in `telemetry.common.files`, if it is a file of a run directory.

    It has one owner. Every method may raise OSError.
    """

    __slots__ = ("fd", "path", "size")

    def __init__(self, path: Path, mode: int = OWNER_ONLY, *, depth: int = 0) -> None:
        self.path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self.fd = open_file(path, flags, mode, depth=depth) if depth else os.open(path, flags, mode)
        self.size = os.fstat(self.fd).st_size

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers (bytes-like, item size 1) or none. Return the number of bytes.

        Uses one `writev` for up to 1,024 buffers. If the disk is full, the incomplete piece is cut off again, so
        that the file ends at a boundary.
        """
        total = sum(map(len, buffers))
        try:
            self._write(buffers, total)
        except OSError:
            self.cut(self.size)
            raise
        self.size += total
        return total

    def cut(self, size: int) -> None:
        """Drop the bytes after `size`. If the disk can't do even that, a torn tail remains."""
        with suppress(OSError):
            os.ftruncate(self.fd, size)
            self.size = size

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _write(self, buffers: Sequence[Buffer], total: int) -> None:
        if len(buffers) <= _IOV_MAX and os.writev(self.fd, buffers) == total:
            return
        written = os.fstat(self.fd).st_size - self.size
        pending = _beyond(buffers, written)
        while pending:
            pending = _beyond(pending, os.writev(self.fd, pending[:_IOV_MAX]))


def _beyond(buffers: Sequence[Buffer], count: int) -> list[Buffer]:
    """Return the buffers without their first `count` bytes."""
    for at, buffer in enumerate(buffers):
        if count < len(buffer):
            return [memoryview(buffer)[count:], *buffers[at + 1 :]]
        count -= len(buffer)
    return []


def describe(error: OSError) -> str:
    """Return the error as one line, for `failed` attributes and error messages."""
    what = error.strerror or str(error)
    return f"{what}: {error.filename}" if error.filename else what
