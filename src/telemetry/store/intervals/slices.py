"""The slices of a history: its first minute with events in intervals of a tenth of a second, in one file.

    slices.seg    frames of `telemetry.store.framing`, in the form of the levels

The stamp of a frame is 256 times the number of its second, plus the number of slices before it in this second.
Slices only add detail: a second has all their values too, and is written after them. They stand for a second if it
exists and none of them is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from telemetry.common.files import cut_file, open_reader
from telemetry.errors import RunDirectoryError
from telemetry.limits import SLICE_LAG_NS, SLICES
from telemetry.store.append_file import AppendFile
from telemetry.store.framing import Frame, SegmentReader, segment_header
from telemetry.store.intervals.levels import KINDS, MAGIC, decoded, framed
from telemetry.wire.history import Interval, Slice

FILE_NAME: Final = "slices.seg"
_A_SECOND: Final = 256
_MOST: Final = SLICES + _A_SECOND
SLICE_TOLERANCE_NS: Final = SLICE_LAG_NS
"""Largest distance between the edges of a second and those of its slices, which may begin before it."""


class SliceFile:
    """A writer of slices. Every method may raise OSError."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._file: AppendFile | None = None
        self._next = self._count = 0
        """Least stamp of the next slice, and number of slices."""

    @property
    def bytes(self) -> int:
        return self._file.size if self._file is not None else 0

    def write(self, item: Slice) -> int:
        """Append a slice, unless it exists or there are too many. Return the number of bytes written."""
        stamp = item.roll * _A_SECOND + item.place
        if stamp < self._next or item.place >= _A_SECOND or self._count == _MOST:
            return 0
        header = []
        if self._file is None:
            self._file = AppendFile(self._path, depth=2)
            header = [segment_header(MAGIC)]
        self._next, self._count = stamp + 1, self._count + 1
        return self._file.append([*header, *framed(item.interval, stamp)])

    def take_over(self) -> int:
        """Continue the file. Return the size of its torn tail, which is cut."""
        if not self._path.exists():
            return 0
        kept_bytes = 0
        with open_reader(self._path) as file:
            reader = SegmentReader(file, self._path, MAGIC)
            for item in reader.frames():
                kept_bytes, self._next, self._count = reader.good_bytes, item.stamp + 1, self._count + 1
        if kept_bytes:
            cut_file(self._path, kept_bytes)
            self._file = AppendFile(self._path, depth=2)
        else:
            self._path.unlink()
        return reader.torn_bytes

    def drop(self) -> bool:
        """Delete the slices for good. Return whether there were any."""
        had_any = self._file is not None
        self.close()
        self._path.unlink(missing_ok=True)
        return had_any

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class SliceReader:
    """The slices of seconds, which must be asked for in their order."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE_NAME
        self._frames = self._read()
        self._next = next(self._frames, None)

    def of(self, roll: int, start_ns: int, end_ns: int) -> list[Interval]:
        """Return the slices of a second; an empty list if one is missing, or if this is a longer interval."""
        slices: list[Interval] = []
        is_whole = True
        while self._next is not None and self._next.stamp < (roll + 1) * _A_SECOND:
            if self._next.stamp >= roll * _A_SECOND:
                is_whole = is_whole and self._next.stamp % _A_SECOND == len(slices)
                try:
                    slices.append(decoded(self._next, self._path))
                except RunDirectoryError:
                    is_whole = False
            self._next = next(self._frames, None)
        if not slices or not is_whole:
            return []
        edges = (slices[0].start_ns - start_ns, slices[-1].end_ns - end_ns)
        return slices if all(abs(edge) <= SLICE_TOLERANCE_NS for edge in edges) else []

    def _read(self) -> Iterator[Frame]:
        with suppress(OSError, RunDirectoryError), open_reader(self._path) as file:
            # what can't be read is in the seconds too
            yield from (item for item in SegmentReader(file, self._path, MAGIC).frames() if item.kind in KINDS)
