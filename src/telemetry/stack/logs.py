"""The log file of a process of the stack."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Final

from telemetry import limits
from telemetry.store.append_file import AppendFile

FILE_BYTES: Final = 8 * limits.MIB
"""Size after which a log is renamed to `NAME.1.log`, whose content is lost."""


class LogFile:
    """A log of lines, at most two files of `FILE_BYTES`. Thread-safe. Never raises: a full disk ends no process."""

    def __init__(self, path: Path, file_bytes: int = FILE_BYTES) -> None:
        self._path = path
        self._file_bytes = file_bytes
        self._lock = threading.Lock()
        self._file: AppendFile | None = None

    def write(self, line: str) -> None:
        data = f"{line}\n".encode(errors="replace")
        with self._lock, suppress(OSError):
            if self._file is None:
                self._file = AppendFile(self._path)
            if self._file.size and self._file.size + len(data) > self._file_bytes:
                self._file.close()
                os.replace(self._path, self._path.with_suffix(".1.log"))
                self._file = AppendFile(self._path)
            self._file.append([data])

    def close(self) -> None:
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None
