"""The files of one level of the history.

    <level>s-<first roll>-<start ns>.seg    frames of `telemetry.store.framing`: one interval each

An interval is packed (see `packed.py`). A short interval is one msgpack array, as are those of earlier versions.

A frame is stamped with the first roll of its interval; on the coarser levels that is a multiple of their seconds.
Segments begin at multiples of sixty rolls on every level.

Segments of the coarsest level may be thinned: their intervals are summed in steps of 120 s, 240 s and so on. They
are older than all data of finer levels:

    <step>s-<first roll>-<start ns>-<roll behind the last>.seg
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

from telemetry.common.files import cut_file, open_reader
from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import AppendFile, Buffer
from telemetry.store.atomic import replacing
from telemetry.store.framing import Frame, SegmentReader, frame, segment_header
from telemetry.store.intervals.packed import pack, unpack, unpacked_bytes
from telemetry.store.intervals.rollup import RollUp, WideColumns, merge
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
_WORTH_IT_BYTES: Final = 1_024  # a run with few series: packing takes 0.1 ms or more, and would save 2 MB an hour
_LONGEST_SEGMENT: Final = 86_400
_SEGMENT_NAME: Final = re.compile(r"(\d+)s-(\d+)-(-?\d+)(?:-(\d+))?\.seg")


class Segment(NamedTuple):
    level: int
    first: int
    """First roll, or the multiple of sixty before it."""
    start_ns: int
    path: Path
    step: int
    """Seconds per interval; more than `level` in a thinned segment."""
    end: int
    """Roll after the last one of a thinned segment; 0 for others."""


@dataclass(slots=True)
class _Kept:
    """A segment of a writer."""

    first: int
    start_ns: int
    path: Path
    step: int
    size: int = 0
    """Size, set when writing to it has ended."""
    is_damaged: bool = False
    """True if it, or the segment after it, can't be read: then they are not thinned together."""


class Level:
    """A writer of the segments of one level. Every method may raise OSError."""

    def __init__(
        self, directory: Path, seconds: int, retention_s: float | None, segment_bytes: int | None = None
    ) -> None:
        """Prepare a level without touching files.

        `segment_bytes`: a larger segment ends at the next multiple of sixty rolls.
        """
        self.seconds = seconds
        self._segment_bytes = segment_bytes
        self.end = 0
        """Roll after the last one of this level."""
        self.sum = RollUp()
        """Sum for the next interval of the coarser level."""
        self.sum_begin = self.sum_end = 0
        """First roll of that sum, and the roll after its last one so far."""
        self._directory = directory
        self._retention_rolls = None if retention_s is None else int(retention_s)
        span = (
            _LONGEST_SEGMENT if retention_s is None else min(_LONGEST_SEGMENT, int(retention_s) // _SEGMENTS_KEPT)
        )
        self._segment_rolls = max(_ALIGN, span // _ALIGN * _ALIGN)
        self._file: AppendFile | None = None
        self._segments: deque[_Kept] = deque()

    @property
    def bytes(self) -> int:
        """Size of all segments in bytes."""
        return sum(kept.size for kept in self._segments) + (self._file.size if self._file is not None else 0)

    @property
    def first(self) -> int | None:
        """First roll of the oldest segment, or the multiple of sixty before it."""
        return self._segments[0].first if self._segments else None

    def write(self, first_roll: int, interval: Interval) -> int:
        """Append an interval. Return the number of bytes written."""
        written = 0
        if self._file is None or self._is_full(self._file.size, first_roll - self._segments[-1].first):
            written += self._begin(first_roll, interval.start_ns)
        assert self._file is not None
        self.end = first_roll + self.seconds
        return written + self._file.append(framed(interval, first_roll))

    def take_over(self, before: int | None = None) -> int:
        """Continue the files in the directory. Return the size of torn tails, which are cut.

        Intervals that don't end before roll `before` are cut too. Raises RunDirectoryError for files of a newer
        version.
        """
        torn_bytes = 0
        level_segments = [segment for segment in segments(self._directory) if segment.level == self.seconds]
        while level_segments:
            path = level_segments[-1].path
            kept_bytes, torn = self._scan(path, level_segments[-1].step, before)
            torn_bytes += torn
            if kept_bytes:
                cut_file(path, kept_bytes)
                break
            path.unlink()
            level_segments.pop()
        for segment in level_segments:
            size = segment.path.stat().st_size
            self._segments.append(_Kept(segment.first, segment.start_ns, segment.path, segment.step, size))
        if level_segments and level_segments[-1].step == self.seconds:
            self._file = AppendFile(level_segments[-1].path, depth=2)
            self._segments[-1].size = 0
        return torn_bytes

    def stored(self, from_roll: int) -> Iterator[tuple[int, Interval]]:
        """Yield (first roll, interval) of the intervals on disk from a roll on. Raises RunDirectoryError."""
        for at, kept in enumerate(self._segments):
            if at + 1 < len(self._segments) and self._segments[at + 1].first <= from_roll:
                continue
            with open_reader(kept.path) as file:
                for item in SegmentReader(file, kept.path, MAGIC).frames():
                    if item.kind in KINDS and item.stamp >= from_roll:
                        yield item.stamp, decoded(item, kept.path)

    def drop_oldest(self) -> bool:
        """Delete the oldest segment, but never the newest one. Return whether a segment was deleted."""
        if len(self._segments) <= 1:
            return False
        self._segments.popleft().path.unlink(missing_ok=True)
        return True

    def thin(self, before: int) -> bool:
        """Sum pairs of intervals in the oldest of the segments with the shortest intervals.

        These segments become one segment. All of them end before roll `before`. Return whether there were such
        segments.
        """
        group = self._thinnable(before)
        if not group:
            return False
        oldest, step = group[0], 2 * group[0].step
        try:
            frames, end = _thinned([kept.path for kept in group], step)
        except RunDirectoryError:  # unreadable files stay as they are, for manual repair
            oldest.is_damaged = True
            return True
        if len(frames) < 2 and oldest is self._segments[0] and len(group) == len(self._segments) - 1:
            return False
        path = oldest.path.with_name(_name(step, oldest.first, oldest.start_ns, end))
        with replacing(path) as file:
            file.write(segment_header(MAGIC))
            for buffers in frames:
                file.writelines(buffers)
        for kept in group:
            kept.path.unlink(missing_ok=True)
        at = self._segments.index(oldest)
        for _ in group:
            del self._segments[at]
        self._segments.insert(at, _Kept(oldest.first, oldest.start_ns, path, step, path.stat().st_size))
        return True

    def _thinnable(self, before: int) -> list[_Kept]:
        """Return two neighbouring segments, or more if they still fit into one.

        Return one segment if no neighbour has the same step.
        """
        old = [kept for kept, following in pairwise(self._segments) if following.first <= before]
        step = min((kept.step for kept in old if not kept.is_damaged), default=0)
        group: list[_Kept] = []
        for kept in old:
            alike = kept.step == step and not kept.is_damaged
            fits = len(group) < 2 or sum(segment.size for segment in group) + kept.size <= (
                self._segment_bytes or 0
            )
            if alike and fits:
                group.append(kept)
            elif group:
                break
        return group

    def close(self) -> None:
        if self._file is not None:
            self._segments[-1].size = self._file.size
            self._file.close()
            self._file = None

    def _is_full(self, size: int, rolls: int) -> bool:
        """Return whether a segment of this size must end before the roll that is `rolls` after its first."""
        too_large = self._segment_bytes is not None and size >= self._segment_bytes
        return rolls >= (_ALIGN if too_large else self._segment_rolls)

    def _scan(self, path: Path, step: int, before: int | None) -> tuple[int, int]:
        """Return (bytes up to the end of the last interval that is kept, torn bytes).

        Set `end` to the end of that interval.
        """
        kept_bytes = 0
        with open_reader(path) as file:
            reader = SegmentReader(file, path, MAGIC)
            for item in reader.frames():
                if item.kind in KINDS and (before is None or item.stamp + step <= before):
                    kept_bytes, self.end = reader.good_bytes, item.stamp + step
        return kept_bytes, reader.torn_bytes

    def _begin(self, first_roll: int, start_ns: int) -> int:
        self.close()
        aligned = first_roll // _ALIGN * _ALIGN
        path = self._directory / _name(self.seconds, aligned, start_ns)
        self._file = AppendFile(path, depth=2)
        self._segments.append(_Kept(aligned, start_ns, path, self.seconds))
        self._forget(first_roll)
        return self._file.append([segment_header(MAGIC)])

    def _forget(self, now_roll: int) -> None:
        """Delete segments that lie completely before the retention."""
        if self._retention_rolls is None:
            return
        while len(self._segments) > 1 and self._segments[1].first <= now_roll - self._retention_rolls:
            self.drop_oldest()


def _name(step: int, first: int, start_ns: int, end: int | None = None) -> str:
    return f"{step}s-{first:010d}-{start_ns}{'' if end is None else f'-{end:010d}'}.seg"


def _thinned(paths: Sequence[Path], step: int) -> tuple[list[list[Buffer]], int]:
    """Return the frames of consecutive segments, with intervals summed in steps, and the roll after them.

    Raises RunDirectoryError if they are damaged.
    """
    frames: list[list[Buffer]] = []
    group: list[Interval] = []
    first = end = 0
    for path in paths:
        with open_reader(path) as file:
            reader = SegmentReader(file, path, MAGIC)
            for item in reader.frames():
                if item.kind not in KINDS:
                    continue
                if group and item.stamp // step != first // step:
                    frames.append(framed(merge(group, end - first), first))
                    group = []
                if not group:
                    first = item.stamp
                group.append(decoded(item, path))
                end = item.stamp + step // 2
            if reader.torn_bytes:
                raise RunDirectoryError(f"{path} is damaged")
    if group:
        frames.append(framed(merge(group, end - first), first))
    return frames, end


def framed(interval: Interval, first_roll: int) -> list[Buffer]:
    """Return the frame of an interval, stamped with its first roll."""
    packed = pack(interval, first_roll, PACKED) if unpacked_bytes(interval) >= _WORTH_IT_BYTES else None
    if packed is None:
        return frame([encode_interval(interval)], first_roll, INTERVAL)
    return frame([packed], first_roll, PACKED)


def segments(directory: Path) -> list[Segment]:
    """Return the segments by level, then by roll. A thinned segment replaces its source segments."""
    candidates = []
    for path in directory.iterdir():
        match = _SEGMENT_NAME.fullmatch(path.name)
        if match:
            step, first, start_ns, end = (int(number or 0) for number in match.groups())
            candidates.append(Segment(min(step, LEVELS[-1]), first, start_ns, path, step, end))
    kept: list[Segment] = []
    level = end = 0
    for segment in sorted(
        candidates, key=lambda segment: (segment.level, segment.first, -segment.step, segment.start_ns)
    ):
        if segment.level != level or segment.first >= end:
            level, end = segment.level, segment.end
            kept.append(segment)
    return kept


def remove_replaced(directory: Path) -> None:
    """Delete source segments of a thinning whose writer was killed before it deleted them. May raise OSError."""
    kept = {segment.path for segment in segments(directory)}
    for path in list(directory.iterdir()):
        if _SEGMENT_NAME.fullmatch(path.name) and path not in kept:
            path.unlink()


def damaged_bytes(directory: Path) -> dict[Path, int]:
    """Return the unreadable bytes of each damaged segment.

    Reads the whole history. May raise OSError, RunDirectoryError.
    """
    damaged = {}
    for segment in segments(directory):
        with open_reader(segment.path) as file:
            reader = SegmentReader(file, segment.path, MAGIC)
            for _ in reader.frames():
                pass
        if reader.torn_bytes:
            damaged[segment.path] = reader.torn_bytes
    return damaged


def decoded(item: Frame, path: Path) -> Interval:
    """Return the interval in a frame of `KINDS`, checked for summing.

    Raises RunDirectoryError for any other content.
    """
    try:
        if item.kind == PACKED:
            return unpack(item.data, item.stamp, item.kind)
        interval = decode_interval(item.data)
        WideColumns.of(interval.series)
    except Malformed as error:
        raise damage(path, error) from error
    return interval


def within(item: Frame, path: Path, start_ns: int, end_ns: int) -> tuple[int, Interval | None]:
    """Return the end of the interval in a frame of `KINDS`; and the interval, if it overlaps `[start_ns, end_ns)`.

    Raises as `decoded`, but only if the interval must be unpacked.
    """
    if item.kind == PACKED and len(item.data) >= _TIMES.size:
        starts_ns, ends_ns = _TIMES.unpack_from(item.data)
        overlaps = starts_ns < end_ns and ends_ns > start_ns
        return ends_ns, decoded(item, path) if overlaps else None
    interval = decoded(item, path)
    overlaps = interval.start_ns < end_ns and interval.end_ns > start_ns
    return interval.end_ns, interval if overlaps else None


def damage(path: Path, error: Malformed) -> RunDirectoryError:
    """Return the error for data that has right checksums but can't be read."""
    return RunDirectoryError(f"{path} is damaged: {error}")
