"""Files of the kernel below a root, and increases of the totals in them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

_BYTES: Final = 1 << 16
"""Size of one reading. The kernel gives lists in pieces of a page."""
_LIST_BYTES: Final = 1 << 20
"""Largest size of a list: `/proc/diskstats` of ten thousand disks."""


class Files:
    """Files below a root, which are `/proc` and `/sys` of this machine unless a test says otherwise.

    Descriptors stay open, because opening a file takes longer than reading it.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root
        self._open: dict[str, int] = {}

    def read(self, path: str) -> bytes:
        """Return the content of a file that stays. Raises OSError."""
        fd = self._open.get(path)
        if fd is None:
            fd = self._open[path] = os.open(self.root / path, os.O_RDONLY | os.O_CLOEXEC)
        return os.pread(fd, _BYTES, 0)

    def lines(self, path: str) -> list[bytes]:
        """Return the lines of a list, such as one of disks; none if it can't be read."""
        content = piece = self.read_if_there(path)
        try:
            while piece and len(content) < _LIST_BYTES:
                piece = os.pread(self._open[path], _BYTES, len(content))
                content += piece
        except OSError:
            return []
        return content.splitlines()

    def read_if_there(self, path: str) -> bytes:
        """Return the content of a file; empty if it can't be read."""
        try:
            return self.read(path)
        except OSError:
            return b""

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def close(self) -> None:
        for fd in self._open.values():
            with suppress(OSError):
                os.close(fd)
        self._open.clear()


class Increases:
    """Increases of totals between two readings, by name."""

    def __init__(self) -> None:
        self._before: dict[str, float] = {}

    def of(self, name: str, total: float) -> float | None:
        """Return the increase since the last call for this name.

        None for the first call, and after a total went back, as that of a network card which was reset.
        """
        before = self._before.get(name)
        self._before[name] = total
        return None if before is None or total < before else total - before
