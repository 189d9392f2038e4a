"""`output.log` of the run directory: the terminal output of a wrapped command, for live and later viewers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from telemetry import limits
from telemetry.redaction import LineMasker, Redactor
from telemetry.store.append_file import AppendFile, describe

OUTPUT: Final = "output.log"
OLDER: Final = "output.1.log"
"""File that gets the content of `output.log` when that has grown too large."""


class OutputLog:
    """A log of output bytes, escape sequences included. One thread at a time. Blocks on the disk; never raises.

    The file is created with the first byte. Each piece is written completely or counted in `lost_bytes`. After a
    failure, the next piece is tried again. Secrets are masked line by line, so an unfinished line waits for its end
    or for `settle`.
    """

    def __init__(
        self, directory: Path, file_bytes: int = limits.OUTPUT_LOG_BYTES, *, redactor: Redactor | None = None
    ) -> None:
        self.path = directory / OUTPUT
        self.lost_bytes = 0
        self.failure = ""
        """Reason of the latest loss."""
        self._older = directory / OLDER
        self._file_bytes = file_bytes
        self._file: AppendFile | None = None
        self._masker = LineMasker(redactor or Redactor())

    def append(self, data: bytes) -> None:
        self._write(self._masker.feed(data))

    @property
    def holds_line(self) -> bool:
        """True if an unfinished line waits for its end."""
        return self._masker.holds_line

    def settle(self) -> None:
        """Write an unfinished line too."""
        self._write(self._masker.rest())

    def _write(self, data: bytes) -> None:
        if not data:
            return
        try:
            self._room_for(len(data)).append([data])
        except OSError as error:
            self.lost_bytes += len(data)
            self.failure = describe(error)

    def close(self) -> None:
        """Write the rest and close the file. Can be called twice."""
        self.settle()
        self._close_file()

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _room_for(self, size: int) -> AppendFile:
        if self._file is not None and self._file.size and self._file.size + size > self._file_bytes:
            os.replace(self.path, self._older)
            self._close_file()
        if self._file is None:
            self._file = AppendFile(self.path, depth=1)
        return self._file
