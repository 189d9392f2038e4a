"""The files of one level of the history.

    <level>s-<first roll>-<start ns>.seg    frames of `telemetry.store.framing`: one interval each

An interval is packed (`telemetry.store.packed`); or one msgpack array, if it is short, and wherever an earlier
version wrote it.

A frame is stamped with the first roll of its interval, on the coarser levels a multiple of their seconds.
Segments begin at multiples of sixty rolls on every level.
"""

from __future__ import annotations

import os
import re
import struct
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from telemetry.errors import RunDirectoryError
from telemetry.store.appendfile import AppendFile, Buffer
from telemetry.store.framing import Frame, SegmentReader, frame, segment_header
from telemetry.store.packed import pack, unpack, unpacked_bytes
from telemetry.store.rollup import RollUp, SeriesArrays
from telemetry.wire.codec import Malformed, decode_interval, encode_interval
from telemetry.wire.history import Interval

MAGIC: Final = b"tmhist\r\n"
INTERVAL: Final = 1
PACKED: Final = 2
KINDS: Final = (INTERVAL, PACKED)
LEVELS: Final = (1, 10, 60)

_TIMES: Final = struct.Struct("<qq")
_ALIGN: Final = LEVELS[-1]
_SEGMENTS_KEPT: Final = 8  # a level keeps at most an eighth more than its retention
_WORTH_IT_BYTES: Final = 1_024  # a run of a few series: packing takes 0.1 ms or more, and would save 2 MB an hour
_LONGEST_SEGMENT: Final = 86_400
_SEGMENT_NAME: Final = re.compile(r"(\d+)s-(\d+)-(-?\d+)\.seg")


class Segment(NamedTuple):
    level: int
    first: int
    """The roll it begins with, or the multiple of sixty before."""
    start_ns: int
    path: Path


class Level:
    """Appends to the segments of one level. Every method may raise OSError."""

    def __init__(self, directory: Path, seconds: int, retention_s: float | None) -> None:
        self.seconds = seconds
        self.end = 0
        """All rolls of this level lie before it."""
        self.sum = RollUp()
        """What will be the next interval of the coarser level."""
        self.sum_begin = 0
        """The roll which that one begins with."""
        self._directory = directory
        self._retention_rolls = None if retention_s is None else int(retention_s)
        span = (
            _LONGEST_SEGMENT if retention_s is None else min(_LONGEST_SEGMENT, int(retention_s) // _SEGMENTS_KEPT)
        )
        self._segment_rolls = max(_ALIGN, span // _ALIGN * _ALIGN)
        self._file: AppendFile | None = None
        self._segments: deque[tuple[int, Path]] = deque()

    def write(self, first_roll: int, interval: Interval) -> int:
        """Returns the bytes written."""
        written = 0
        if self._file is None or first_roll >= self._segments[-1][0] + self._segment_rolls:
            written += self._begin(first_roll, interval.start_ns)
        assert self._file is not None
        self.end = first_roll + self.seconds
        return written + self._file.append(_frame(interval, first_roll))

    def take_over(self, before: int | None = None) -> int:
        """Goes on with what is in the directory; returns the bytes of torn tails, which are cut.

        So are intervals that don't end before roll `before`. Raises RunDirectoryError for files of a newer version.
        """
        torn_bytes = 0
        found = [segment for segment in segments(self._directory) if segment.level == self.seconds]
        while found:
            path = found[-1].path
            kept_bytes, torn = self._scan(path, before)
            torn_bytes += torn
            if kept_bytes:
                self._file = AppendFile(path)
                if kept_bytes < self._file.size:
                    os.ftruncate(self._file.fd, kept_bytes)
                    self._file.size = kept_bytes
                break
            path.unlink()
            found.pop()
        self._segments.extend((segment.first, segment.path) for segment in found)
        return torn_bytes

    def stored(self, from_roll: int) -> Iterator[tuple[int, Interval]]:
        """(first roll, interval) of what is on disk from a roll on. Raises RunDirectoryError."""
        for at, (_, path) in enumerate(self._segments):
            if at + 1 < len(self._segments) and self._segments[at + 1][0] <= from_roll:
                continue
            with path.open("rb", buffering=0) as file:
                for item in SegmentReader(file, path, MAGIC).frames():
                    if item.kind in KINDS and item.stamp >= from_roll:
                        yield item.stamp, decoded(item, path)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _scan(self, path: Path, before: int | None) -> tuple[int, int]:
        """(bytes up to the end of the last interval that is kept, torn bytes); takes over where that one ends."""
        kept_bytes = 0
        with path.open("rb", buffering=0) as file:
            reader = SegmentReader(file, path, MAGIC)
            for item in reader.frames():
                if item.kind in KINDS and (before is None or item.stamp + self.seconds <= before):
                    kept_bytes, self.end = reader.good_bytes, item.stamp + self.seconds
        return kept_bytes, reader.torn_bytes

    def _begin(self, first_roll: int, start_ns: int) -> int:
        self.close()
        aligned = first_roll // _ALIGN * _ALIGN
        path = self._directory / f"{self.seconds}s-{aligned:010d}-{start_ns}.seg"
        self._file = AppendFile(path)
        self._segments.append((aligned, path))
        self._forget(first_roll)
        return self._file.append([segment_header(MAGIC)])

    def _forget(self, now_roll: int) -> None:
        """Deletes segments that lie before the retention as a whole."""
        if self._retention_rolls is None:
            return
        while len(self._segments) > 1 and self._segments[1][0] <= now_roll - self._retention_rolls:
            self._segments.popleft()[1].unlink(missing_ok=True)


def _frame(interval: Interval, first_roll: int) -> list[Buffer]:
    packed = pack(interval, first_roll, PACKED) if unpacked_bytes(interval) >= _WORTH_IT_BYTES else None
    if packed is None:
        return frame([encode_interval(interval)], first_roll, INTERVAL)
    return frame([packed], first_roll, PACKED)


def segments(directory: Path) -> list[Segment]:
    """Ordered by level, then by roll."""
    found = []
    for path in directory.iterdir():
        match = _SEGMENT_NAME.fullmatch(path.name)
        if match:
            found.append(Segment(int(match[1]), int(match[2]), int(match[3]), path))
    return sorted(found)


def damaged_bytes(directory: Path) -> dict[Path, int]:
    """Bytes that can't be read of each segment, if there are any. Reads all of the history. May raise OSError,
    RunDirectoryError."""
    damaged = {}
    for segment in segments(directory):
        with segment.path.open("rb", buffering=0) as file:
            reader = SegmentReader(file, segment.path, MAGIC)
            for _ in reader.frames():
                pass
        if reader.torn_bytes:
            damaged[segment.path] = reader.torn_bytes
    return damaged


def decoded(item: Frame, path: Path) -> Interval:
    """The interval in a frame of `KINDS`, one that can be added up. Raises RunDirectoryError for anything else."""
    try:
        if item.kind == PACKED:
            return unpack(item.data, item.stamp, item.kind)
        interval = decode_interval(item.data)
        SeriesArrays.of(interval.series)
    except Malformed as error:
        raise damage(path, error) from error
    return interval


def within(item: Frame, path: Path, start_ns: int, end_ns: int) -> tuple[int, Interval | None]:
    """When the interval in a frame of `KINDS` ends; and itself, if it overlaps `[start_ns, end_ns)`. Raises as
    `decoded`, but for what need not be unpacked."""
    if item.kind == PACKED and len(item.data) >= _TIMES.size:
        starts_ns, ends_ns = _TIMES.unpack_from(item.data)
        overlaps = starts_ns < end_ns and ends_ns > start_ns
        return ends_ns, decoded(item, path) if overlaps else None
    interval = decoded(item, path)
    overlaps = interval.start_ns < end_ns and interval.end_ns > start_ns
    return interval.end_ns, interval if overlaps else None


def damage(path: Path, error: Malformed) -> RunDirectoryError:
    """For what can't be read although its checksums are right."""
    return RunDirectoryError(f"{path} is damaged: {error}")
