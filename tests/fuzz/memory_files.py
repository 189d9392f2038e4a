"""A directory in memory, as far as the readers of `telemetry.store` ask for one."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from typing import Any

from telemetry.common import files


class MemoryPath:
    """Stands for a `pathlib.Path`."""

    def __init__(
        self,
        name: str,
        data: bytes | None = None,
        entries: Mapping[str, bytes] | None = None,
        parent: MemoryPath | None = None,
    ) -> None:
        self.name = name
        self.stem = name.rpartition(".")[0] or name
        self.parent = parent or self
        self._data = data
        self._entries = entries or {}

    def __truediv__(self, name: str) -> MemoryPath:
        return MemoryPath(name, self._entries.get(name), parent=self)

    def __str__(self) -> str:
        return self.name

    def iterdir(self) -> Iterator[MemoryPath]:
        return iter([MemoryPath(name, data) for name, data in self._entries.items()])

    def glob(self, pattern: str) -> Iterator[MemoryPath]:
        """All entries, whatever the pattern."""
        return self.iterdir()

    def exists(self) -> bool:
        return self._data is not None

    is_file = exists

    def open(self, mode: str = "rb", buffering: int = -1) -> io.BytesIO:
        return io.BytesIO(self.read_bytes())

    def read_bytes(self) -> bytes:
        if self._data is None:
            raise FileNotFoundError(2, "No such file or directory", self.name)
        return self._data

    def __fspath__(self) -> str:
        return self.name

    def stat(self) -> Any:
        raise NotImplementedError(self.name)


_OPEN_ON_DISK = files.open_file


def open_file(path: Any, *arguments: Any, **keywords: Any) -> int:
    """Open a file in memory for reading, or another one on the disk."""
    if not isinstance(path, MemoryPath):
        return _OPEN_ON_DISK(path, *arguments, **keywords)
    data = path.read_bytes()
    fd = os.memfd_create(path.name)
    os.pwrite(fd, data, 0)
    return fd


files.open_file = open_file


def folder(entries: Mapping[str, bytes], name: str = "r") -> Any:
    """Typed as anything, because it takes the place of a Path."""
    return MemoryPath(name, entries=entries)
