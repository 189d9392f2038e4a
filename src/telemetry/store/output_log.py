"""What a wrapped command writes to its terminal: `output.log` of the run directory, for viewers now and later."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from telemetry import limits
from telemetry.store.append_file import AppendFile, describe

OUTPUT: Final = "output.log"
OLDER: Final = "output.1.log"
"""What `output.log` was before it grew too large."""
OUTPUT_BYTES: Final = (
    8 * limits.MIB
)  # of each of the two: the last hundred thousand lines of 80 characters at least


class OutputLog:
    """Bytes as they come, escape sequences and all. One thread at a time. Blocks on the disk; never raises.

    There is no file before the first byte. Each piece is written whole or counted in `lost_bytes`; a disk that took
    none is asked again with the next one.
    """

    def __init__(self, directory: Path, file_bytes: int = OUTPUT_BYTES) -> None:
        self.path = directory / OUTPUT
        self.lost_bytes = 0
        self.failure = ""
        """Why bytes were lost, the last time."""
        self._older = directory / OLDER
        self._file_bytes = file_bytes
        self._file: AppendFile | None = None

    def append(self, data: bytes) -> None:
        try:
            self._room_for(len(data)).append([data])
        except OSError as error:
            self.lost_bytes += len(data)
            self.failure = describe(error)

    def close(self) -> None:
        """May be called twice."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _room_for(self, size: int) -> AppendFile:
        if self._file is not None and self._file.size and self._file.size + size > self._file_bytes:
            os.replace(self.path, self._older)
            self.close()
        if self._file is None:
            self._file = AppendFile(self.path)
        return self._file
