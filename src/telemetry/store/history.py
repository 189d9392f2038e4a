"""The run's history on disk: one interval a second, added up to ten and sixty, each level kept for its own time.

    history/keys.jsonl                              what the indices in the columns stand for
    history/<level>s-<first roll>-<start ns>.seg    frames of `telemetry.store.framing`: one msgpack `Interval` each

Rolls are numbered from 0, one a second; a frame is stamped with the first roll it holds, so that levels fit
together whatever the wall clock did. Segments begin at multiples of sixty rolls on every level.
"""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from telemetry.errors import RunDirectoryError, UsageError
from telemetry.store.appendfile import AppendFile, describe
from telemetry.store.framing import SegmentReader, frame, segment_header
from telemetry.store.rollup import RollUp
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval
from telemetry.wire.version import SCHEMA

MAGIC: Final = b"tmhist\r\n"
INTERVAL: Final = 1
LEVELS: Final = (1, 10, 60)
RETENTION_S: Final[Mapping[int, float | None]] = {1: 7_200.0, 10: 86_400.0, 60: None}

_ALIGN: Final = LEVELS[-1]
_SEGMENTS_KEPT: Final = 8  # a level keeps at most an eighth more than its retention
_LONGEST_SEGMENT: Final = 86_400
_KEYS: Final = "keys.jsonl"
_SEGMENT_NAME: Final = re.compile(r"(\d+)s-(\d+)-(-?\d+)\.seg")
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Interval)


class HistoryWriter:
    """Appends intervals and their roll-ups. One owner thread.

    Nothing here raises but for a directory that holds a history already (RunDirectoryError): the first OSError sets
    `failed`, and from then on appends are ignored.
    """

    def __init__(self, directory: Path, retention_s: Mapping[int, float | None] = RETENTION_S) -> None:
        """`retention_s`: by level; None keeps all."""
        self.failed = ""
        self.bytes_written = 0
        self._rolls = 0
        self._levels = [_Level(directory, level, retention_s[level]) for level in LEVELS]
        self._known: set[tuple[str, int]] = set()
        self._keys: AppendFile | None = None
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if any(directory.iterdir()):
                raise RunDirectoryError(f"{directory} holds a history already")
            self._keys = AppendFile(directory / _KEYS)
            self.bytes_written += self._keys.append([b'{"schema_version":%d}\n' % SCHEMA])
        except OSError as error:
            self.failed = describe(error)

    def append(self, interval: Interval, keys: Iterable[SeriesKey] = ()) -> None:
        """The next second. `keys`: what its indices stand for; those already written are skipped.

        Blocks for copies into the page cache, never for the disk.
        """
        if self.failed:
            return
        try:
            self._add_keys(keys)
            self._cascade(interval)
        except OSError as error:
            self.failed = describe(error)

    def close(self) -> None:
        """Writes the roll-ups as far as they have come, so that every level covers the whole run."""
        try:
            for finer, coarser in zip(self._levels, self._levels[1:], strict=False):
                if not self.failed and not finer.sum.empty:
                    partial = finer.sum.take()
                    first = (self._rolls - 1) // coarser.seconds * coarser.seconds
                    self.bytes_written += coarser.write(first, partial)
                    coarser.sum.add(partial)
        except OSError as error:
            self.failed = describe(error)
        for level in self._levels:
            level.close()
        if self._keys is not None:
            self._keys.close()

    def _add_keys(self, keys: Iterable[SeriesKey]) -> None:
        new = [key for key in keys if (key.kind, key.index) not in self._known]
        if new and self._keys is not None:
            self.bytes_written += self._keys.append([msgspec.json.encode(key) + b"\n" for key in new])
            self._known.update((key.kind, key.index) for key in new)

    def _cascade(self, interval: Interval) -> None:
        first = self._rolls
        self._rolls += 1
        self.bytes_written += self._levels[0].write(first, interval)
        for finer, coarser in zip(self._levels, self._levels[1:], strict=False):
            finer.sum.add(interval)
            if self._rolls % coarser.seconds:
                return
            interval = finer.sum.take()
            self.bytes_written += coarser.write(self._rolls - coarser.seconds, interval)


class HistoryReader:
    """Reads a history, also one that is still being written, or whose writer was killed."""

    def __init__(self, directory: Path) -> None:
        self.torn_bytes = 0
        """Bytes at damaged ends of segments, in the last `intervals`."""
        self._directory = directory

    def keys(self) -> list[SeriesKey]:
        """Of all kinds, in the order they came. Raises RunDirectoryError."""
        path = self._directory / _KEYS
        try:
            lines = path.read_bytes().split(b"\n")[1:-1]  # without the header, and what follows the last line end
            return [msgspec.json.decode(line, type=SeriesKey) for line in lines]
        except OSError as error:
            raise RunDirectoryError(f"there is no history to read: {describe(error)}") from error
        except msgspec.MsgspecError as error:
            raise RunDirectoryError(f"{path} is damaged: {error}") from error

    def intervals(self, start_ns: int = 0, end_ns: int = (1 << 63) - 1, level_s: int = 0) -> Iterator[Interval]:
        """Intervals that overlap `[start_ns, end_ns)`, in order. Blocks on the disk.

        `level_s` 0 gives each moment once, from the finest level that still has it; 1, 10 or 60 that level alone.
        Raises UsageError for another level, RunDirectoryError if files can't be read.
        """
        if level_s and level_s not in LEVELS:
            raise UsageError(
                f"there is no history level of {level_s} s", hint="levels are 1, 10 and 60 s; 0 is the finest"
            )
        self.torn_bytes = 0
        return self._read(start_ns, end_ns, level_s)

    def _read(self, start_ns: int, end_ns: int, level_s: int) -> Iterator[Interval]:
        try:
            with ExitStack() as stack:
                opened = self._open(stack)
                for part in _parts(opened, LEVELS if not level_s else (level_s,), start_ns):
                    yield from self._part(part, start_ns, end_ns)
        except OSError as error:
            raise RunDirectoryError(f"the history can't be read: {describe(error)}") from error

    def _open(self, stack: ExitStack) -> list[_Opened]:
        """All segments at once: what retention deletes meanwhile stays readable."""
        opened = []
        for segment in _segments(self._directory):
            with suppress(FileNotFoundError):  # retention was faster, so a coarser level has these rolls
                opened.append(_Opened(segment, stack.enter_context(segment.path.open("rb", buffering=0))))
        return opened

    def _part(self, part: _Part, start_ns: int, end_ns: int) -> Iterator[Interval]:
        path = part.opened.segment.path
        reader = SegmentReader(part.opened.file, path, MAGIC)
        for item in reader.frames():
            if part.until is not None and item.stamp >= part.until:
                return
            if item.kind != INTERVAL:
                continue
            try:
                interval = _DECODER.decode(item.data)
            except msgspec.MsgspecError as error:
                raise RunDirectoryError(f"{path} is damaged: {error}") from error
            if interval.start_ns < end_ns and interval.end_ns > start_ns:
                yield interval
        self.torn_bytes += reader.torn_bytes


class _Segment(NamedTuple):
    level: int
    first: int
    """The first roll in it."""
    start_ns: int
    path: Path


class _Opened(NamedTuple):
    segment: _Segment
    file: io.FileIO


class _Part(NamedTuple):
    opened: _Opened
    until: int | None
    """Rolls from here on are in a finer level."""


class _Level:
    """Segments of one level, and the sum that will become an interval of the next one."""

    def __init__(self, directory: Path, seconds: int, retention_s: float | None) -> None:
        self.seconds = seconds
        self.sum = RollUp()
        self._directory = directory
        self._retention_rolls = None if retention_s is None else int(retention_s)
        span = (
            _LONGEST_SEGMENT if retention_s is None else min(_LONGEST_SEGMENT, int(retention_s) // _SEGMENTS_KEPT)
        )
        self._segment_rolls = max(_ALIGN, span // _ALIGN * _ALIGN)
        self._file: AppendFile | None = None
        self._segments: deque[tuple[int, Path]] = deque()

    def write(self, first_roll: int, interval: Interval) -> int:
        """Returns the bytes written. May raise OSError."""
        written = 0
        if self._file is None or first_roll >= self._segments[-1][0] + self._segment_rolls:
            written += self._begin(first_roll, interval.start_ns)
        assert self._file is not None
        return written + self._file.append(frame([_ENCODER.encode(interval)], first_roll, INTERVAL))

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

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


def _parts(opened: Sequence[_Opened], levels: Sequence[int], start_ns: int) -> list[_Part]:
    """What to read, in order of time: coarse segments up to where a finer level begins."""
    parts: list[_Part] = []
    until: int | None = None
    for level in levels:
        mine = [item for item in opened if item.segment.level == level]
        parts = [_Part(item, until) for item in _from(mine, start_ns)] + parts
        if mine:
            first = mine[0].segment.first
            until = first if until is None else min(until, first)
    return parts


def _from(opened: Sequence[_Opened], start_ns: int) -> Sequence[_Opened]:
    """Without the segments whose successor begins no later than `start_ns`."""
    skipped = sum(item.segment.start_ns <= start_ns for item in opened[1:])
    return opened[skipped:]


def _segments(directory: Path) -> list[_Segment]:
    """Ordered by level, then by roll."""
    found = []
    for path in directory.iterdir():
        match = _SEGMENT_NAME.fullmatch(path.name)
        if match:
            found.append(_Segment(int(match[1]), int(match[2]), int(match[3]), path))
    return sorted(found)
