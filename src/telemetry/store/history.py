"""The run's history on disk: one interval per second, summed to ten and sixty seconds.

Each level has its own retention.

    history/keys.jsonl                              names of the indices in the columns
    history/<level>s-<first roll>-<start ns>.seg    the intervals of `telemetry.store.intervals.levels`
    history/slices.seg                              tenths of a second, see `telemetry.store.intervals.slices`
    history/cap.txt                                 notices about data that the size cap removed

Rolls are numbered from 0, one per second. A frame is stamped with the number of its first roll, so that levels fit
together even if the wall clock was changed. A missing number is a second without data.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import msgspec

from telemetry import limits
from telemetry.common import formatting
from telemetry.common.files import make_folder, open_reader, read_file
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.limits import KIB
from telemetry.store.append_file import AppendFile, describe
from telemetry.store.atomic import write_atomic
from telemetry.store.framing import SegmentReader
from telemetry.store.intervals.levels import KINDS, LEVELS, MAGIC, Level, remove_replaced, segments, within
from telemetry.store.intervals.slices import FILE_NAME, SLICE_TOLERANCE_NS, SliceFile, SliceReader
from telemetry.store.intervals.time_range import FoundInterval, OpenSegment, Picked, RangeReader, skipped
from telemetry.wire.codec import BAD_INPUT, Malformed
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, Slice
from telemetry.wire.seal import check_seal, lost_its_end, sealed
from telemetry.wire.version import SCHEMA

__all__ = ["LEVELS", "RETENTION_S", "HistoryReader", "HistoryWriter", "Picked"]

RETENTION_S: Final[Mapping[int, float | None]] = {1: 7_200.0, 10: 86_400.0, 60: None}

_T = TypeVar("_T")
_KEYS: Final = "keys.jsonl"
_CAP: Final = "cap.txt"
_SEGMENTS: Final = 256  # segments that fit below the cap; two of 4 MiB are thinned in 2.5 s
_COARSER: Final = "older time ranges are stored in coarser steps than configured"
_DELETED: Final = "the oldest time range was deleted"
_NOTICES: Final = 2
_NOTICE_BYTES: Final = 512  # of both together
_CAP_BYTES: Final = 4 * KIB
_LISTINGS: Final = 5  # attempts before a missing segment counts as deleted
_MARK_BYTES: Final = 256 * KIB  # re-read at most, in a tenth of a millisecond; 4,000 marks for a gigabyte


class _KeysHeader(msgspec.Struct):
    schema_version: int


class HistoryWriter:
    """A writer of intervals and their roll-ups. One owner thread.

    Nothing raises, with one exception: RunDirectoryError for a directory that already holds a history, without
    `resume`. The first failure sets `failed`; later appends are ignored.
    """

    def __init__(
        self,
        directory: Path,
        retention_s: Mapping[int, float | None] = RETENTION_S,
        *,
        cap_bytes: int | None = None,
        resume: bool = False,
    ) -> None:
        """Open the history for writing.

        `retention_s`: seconds by level; None keeps everything. `cap_bytes`: size of all files; None: no cap. Beyond
        the cap the oldest segments of the finest level are deleted, then those of the next level, then the coarsest
        level is thinned. If it can't be thinned further, its oldest segments are deleted. The newest segment of
        each level is always kept.

        `resume` continues an existing history, with the same result as if its writer had never stopped.
        """
        self.failed = ""
        self.bytes_written = 0
        self.cut_bytes = 0
        """Bytes cut from torn tails."""
        self.notices: tuple[str, ...] = ()
        """Notices about data that the cap removed, for the result."""
        self._cap_bytes = cap_bytes
        self._directory = directory
        segment_bytes = cap_bytes // _SEGMENTS if cap_bytes is not None else None
        self._levels = [Level(directory, level, retention_s[level], segment_bytes) for level in LEVELS]
        self._slices = SliceFile(directory)
        self._known: set[tuple[str, int]] = set()
        self._keys: AppendFile | None = None
        try:
            make_folder(directory)
            if not resume and any(directory.iterdir()):
                raise RunDirectoryError(f"{directory} already contains a history")
            self._open_keys(directory / _KEYS)
            if resume:
                self._take_over()
        except OSError as error:
            self.failed = describe(error)
        except RunDirectoryError as error:
            if not resume:
                raise
            self.failed = error.message
        except Malformed as error:
            self.failed = f"the history is damaged: {error}"

    @property
    def rolls(self) -> int:
        """Number of the next interval: one above the newest."""
        return self._levels[0].end

    def append(
        self,
        interval: Interval,
        keys: Iterable[SeriesKey] = (),
        number: int | None = None,
        slices: Iterable[Slice] = (),
    ) -> None:
        """Append the next second, or second `number`, and the last of its slices.

        A number that exists already is skipped; numbers may be left out.

        `keys`: the keys of its indices; those already written are skipped. Blocks for copies into the page cache,
        never for the disk.
        """
        if self.failed:
            return
        try:
            self._add_keys(keys)
            self.append_slices(slices)
            number = self.rolls if number is None else number
            if number >= self.rolls:
                self._settle(number)
                self._write(0, number, interval)
                self._keep_below_cap()
        except OSError as error:
            self.failed = describe(error)

    def append_slices(self, slices: Iterable[Slice]) -> None:
        """Append slices. Their keys come with the second.

        Those that exist already are skipped. There are no more slices once there are `SLICES` and their second is
        complete, or the size cap has removed data.
        """
        if self.failed:
            return
        try:
            for item in () if self.notices else slices:
                self.bytes_written += self._slices.write(item)
        except OSError as error:
            self.failed = describe(error)

    def close(self) -> None:
        """Write unfinished roll-ups, so that every level covers the whole run, and close the files."""
        try:
            for at in range(len(LEVELS) - 1):
                if not self.failed and not self._levels[at].sum.empty:
                    self._flush(at)
            while not self.failed and self._keep_below_cap():
                pass
        except OSError as error:
            self.failed = describe(error)
        self._slices.close()
        for level in self._levels:
            level.close()
        if self._keys is not None:
            self._keys.close()

    def _keep_below_cap(self) -> bool:
        """Delete segments above the cap, and thin the coarsest level at most once.

        Thinning takes a second or two, and the next interval is due soon. Return whether the level was thinned; the
        size may still be above the cap.
        """
        if self._cap_bytes is None or self._keys is None:
            return False
        *finer, coarsest = self._levels
        fixed = _NOTICE_BYTES + self._keys.size
        while fixed + self._slices.bytes + sum(level.bytes for level in self._levels) > self._cap_bytes:
            if self._slices.drop() or any(level.drop_oldest() for level in finer):
                self._notice(self._cap_bytes, _COARSER)
                continue
            firsts = [level.first for level in finer if level.first is not None]
            if coarsest.thin(min(firsts, default=coarsest.end)):
                self._notice(self._cap_bytes, _COARSER)
                return True
            if not coarsest.drop_oldest():
                return False
            self._notice(self._cap_bytes, _DELETED)
        return False

    def _notice(self, cap_bytes: int, cost: str) -> None:
        """Add the notice and store it, also for a later resume or recovery of the run."""
        message = f"the history reached its size limit (history.cap_bytes, {formatting.size(cap_bytes)}): {cost}"
        if message not in self.notices:
            self.notices = (*self.notices, message)
            lines = "".join(f"{line}\n" for line in self.notices)
            write_atomic(self._directory / _CAP, lines.encode(), durable=False)

    def _open_keys(self, path: Path) -> None:
        """Open the key file and cut its unreadable lines: their keys are written again."""
        good_bytes = 0
        data = b""
        with suppress(FileNotFoundError):
            data = read_file(path, limits.KEYS_BYTES, depth=2)
        for number, line in enumerate(data.splitlines(keepends=True)):
            try:
                if not line.endswith(b"\n"):
                    break
                self._take_key(line, header=not number)
            except BAD_INPUT:
                break
            good_bytes += len(line)
        self.cut_bytes += len(data) - good_bytes
        self._keys = AppendFile(path, depth=2)
        if len(data) > good_bytes:
            self._keys.cut(good_bytes)
        if not good_bytes:
            self.bytes_written += self._keys.append([sealed(b'{"schema_version":%d}\n' % SCHEMA)])

    def _take_key(self, line: bytes, *, header: bool) -> None:
        check_seal(line)
        if not header:
            key = msgspec.json.decode(line, type=SeriesKey)
            self._known.add((key.kind, key.index))
        elif (version := msgspec.json.decode(line, type=_KeysHeader).schema_version) > SCHEMA:
            raise RunDirectoryError(f"the history has schema version {version}; this telemetry writes {SCHEMA}")

    def _take_over(self) -> None:
        """Resume from the files.

        Seconds are written first, so an interval of a coarser level beyond them is incomplete.

        Such intervals are dropped, and missing or unfinished ones are summed again.
        """
        remove_replaced(self._directory)
        with suppress(FileNotFoundError):
            notices = read_file(self._directory / _CAP, _CAP_BYTES, depth=2).decode("utf-8", "replace")
            self.notices = tuple(notices.splitlines()[:_NOTICES])
        self.cut_bytes += self._slices.take_over() + self._levels[0].take_over()
        for level in self._levels[1:]:
            self.cut_bytes += level.take_over(self.rolls)
        for at in range(len(LEVELS) - 2, -1, -1):
            for first, interval in self._levels[at].stored(self._levels[at + 1].end):
                self._settle(first)
                self._add(at, first, interval)

    def _add_keys(self, keys: Iterable[SeriesKey]) -> None:
        new = [key for key in keys if (key.kind, key.index) not in self._known]
        if new and self._keys is not None:
            self.bytes_written += self._keys.append([sealed(msgspec.json.encode(key) + b"\n") for key in new])
            self._known.update((key.kind, key.index) for key in new)

    def _write(self, at: int, first: int, interval: Interval) -> None:
        if first >= self._levels[at].end:
            self.bytes_written += self._levels[at].write(first, interval)
        self._add(at, first, interval)

    def _add(self, at: int, first: int, interval: Interval) -> None:
        """Add an interval of one level to the sum of the next level, and write that sum when it is complete."""
        if at + 1 == len(LEVELS):
            return
        finer, coarser = self._levels[at], self._levels[at + 1]
        finer.sum.add(interval)
        finer.sum_begin, finer.sum_end = first // coarser.seconds * coarser.seconds, first + finer.seconds
        if finer.sum_end == finer.sum_begin + coarser.seconds:
            self._flush(at)

    def _flush(self, at: int) -> None:
        level = self._levels[at]
        self._write(at + 1, level.sum_begin, level.sum.take(level.sum_end - level.sum_begin))

    def _settle(self, first: int) -> None:
        """Write sums that roll `first` does not belong to: the rolls that would complete them are missing."""
        for at, (finer, coarser) in enumerate(zip(self._levels, self._levels[1:], strict=False)):
            if not finer.sum.empty and first >= finer.sum_begin + coarser.seconds:
                self._flush(at)


class HistoryReader:
    """A reader of a history, also of one that is still being written, or whose writer was killed. One owner.

    It remembers positions in the segments of seconds. Repeated requests for new intervals read only the new ones.
    """

    def __init__(self, directory: Path) -> None:
        self.torn: dict[Path, int] = {}
        """Bytes at damaged ends of segments, for each segment with damage in the last reading."""
        self._directory = directory
        self._marks: dict[Path, list[tuple[int, int]]] = {}
        """Positions (time, bytes) in a segment of seconds, ascending.

        All intervals before that byte had ended by that time. These segments only grow, even when a writer resumes.
        A resuming writer may shorten coarser ones.
        """

    @property
    def torn_bytes(self) -> int:
        """Damaged bytes of all segments."""
        return sum(self.torn.values())

    def keys(self) -> list[SeriesKey]:
        """Return the keys of all kinds in the order of their first use.

        Raises RunDirectoryError if a line is damaged: it may belong to any instrument.
        """
        path = self._directory / _KEYS
        try:
            *lines, rest = read_file(path, limits.KEYS_BYTES, depth=2).split(b"\n")
        except OSError as error:
            raise RunDirectoryError(f"no history to read: {describe(error)}") from error
        keys = []
        if lost_its_end(rest):
            raise RunDirectoryError(f"{path} line {len(lines) + 1} is damaged: its line end was changed")
        for number, line in enumerate(lines, 1):
            try:
                check_seal(line)
                if number > 1:
                    keys.append(msgspec.json.decode(line, type=SeriesKey))
            except BAD_INPUT as error:
                raise RunDirectoryError(f"{path} line {number} is damaged: {error}") from error
        return keys

    def intervals(self, start_ns: int = 0, end_ns: int = (1 << 63) - 1, level_s: int = 0) -> Iterator[Interval]:
        """Yield intervals that overlap `[start_ns, end_ns)`, in order. Blocks on the disk.

        `level_s` 0 yields each moment once, from the finest level that still has it; 1, 10 or 60 yields that level
        only. Raises UsageError for another level, RunDirectoryError if files can't be read.
        """
        if level_s:
            _check_level(level_s)
        self.torn = {}
        return self._read(start_ns, end_ns, level_s)

    def coarse(
        self,
        start_ns: int = 0,
        end_ns: int = (1 << 63) - 1,
        longest_s: int = LEVELS[-1],
        *,
        slices: bool = False,
    ) -> Iterator[Interval]:
        """Yield intervals that overlap `[start_ns, end_ns)`, in order, each moment once. Blocks on the disk.

        Uses the coarsest intervals inside the time range and finer ones at its edges, with `slices` down to these.
        For sums. A level above `longest_s` is used only for moments that no finer level still has. Raises as
        `intervals`.
        """
        _check_level(longest_s)
        if slices:
            return self._sliced(start_ns, end_ns, longest_s, everywhere=False)
        return self._time_range(start_ns, end_ns, longest_s, FoundInterval.interval)

    def fine(self, start_ns: int = 0, end_ns: int = (1 << 63) - 1) -> Iterator[Interval]:
        """Yield intervals as `intervals`, with slices instead of seconds that have them."""
        return self._sliced(start_ns, end_ns, LEVELS[0], everywhere=True)

    def _sliced(self, start_ns: int, end_ns: int, longest_s: int, *, everywhere: bool) -> Iterator[Interval]:
        """Yield intervals, with slices instead of seconds at the edges of the time range, or `everywhere`."""
        slices = SliceReader(self._directory)

        def read(entry: FoundInterval) -> list[Interval]:
            inside = start_ns + SLICE_TOLERANCE_NS <= entry.start_ns <= entry.end_ns <= end_ns
            if everywhere or not inside:
                parts = slices.of(entry.place.stamp, entry.start_ns, entry.end_ns)
                if parts:
                    return [part for part in parts if part.start_ns < end_ns and part.end_ns > start_ns]
            interval = entry.interval()
            return [] if interval is None else [interval]

        for intervals in self._time_range(start_ns, end_ns, longest_s, read):
            yield from intervals

    @property
    def slice_bytes(self) -> int:
        """Size of the slices; 0 without any."""
        try:
            return self._directory.joinpath(FILE_NAME).stat().st_size
        except OSError:
            return 0

    def pick(
        self, index: int, start_ns: int = 0, end_ns: int = (1 << 63) - 1, *, coarse: bool = False
    ) -> Iterator[Picked]:
        """Yield the values of one series in each of the finest intervals, or of the intervals of `coarse`.

        Includes intervals without values. Blocks on the disk. Raises as `intervals`.

        Other series are skipped by their position and not read. So damage to them is not noticed, while `intervals`
        ends the segment there. Seconds inside a minute outside the time range are not searched, although a changed
        clock may have left matching seconds there.
        """
        return self._time_range(
            start_ns, end_ns, LEVELS[-1] if coarse else LEVELS[0], lambda entry: entry.pick(index)
        )

    def _time_range(
        self, start_ns: int, end_ns: int, longest_s: int, read: Callable[[FoundInterval], _T | None]
    ) -> Iterator[_T]:
        self.torn = {}
        try:
            with ExitStack() as stack:
                time_range = RangeReader(self._open(stack), start_ns, end_ns, longest_s)
                for entry in time_range:
                    if (value := read(entry)) is not None:
                        yield value
                self.torn = time_range.torn
        except OSError as error:
            raise RunDirectoryError(f"can't read the history: {describe(error)}") from error

    def _read(self, start_ns: int, end_ns: int, level_s: int) -> Iterator[Interval]:
        try:
            with ExitStack() as stack:
                opened = self._open(stack)
                kept = {item.segment.path for item in opened}
                self._marks = {path: marks for path, marks in self._marks.items() if path in kept}
                for part in _parts(opened, LEVELS if not level_s else (level_s,), start_ns):
                    yield from self._part(part, start_ns, end_ns)
        except OSError as error:
            raise RunDirectoryError(f"can't read the history: {describe(error)}") from error

    def _open(self, stack: ExitStack) -> list[OpenSegment]:
        """Open all segments at once, so that a segment deleted by retention meanwhile stays readable."""
        for _ in range(_LISTINGS):
            with ExitStack() as attempt:
                opened, gone = [], 0
                for segment in segments(self._directory):
                    try:
                        opened.append(OpenSegment(segment, attempt.enter_context(open_reader(segment.path))))
                    except FileNotFoundError:  # retention deleted it, or a thinned segment replaced it
                        gone += 1
                if not gone:
                    stack.push(attempt.pop_all())
                    return opened
        raise RunDirectoryError(f"{self._directory} changes too fast to be read")

    def _part(self, part: _Part, start_ns: int, end_ns: int) -> Iterator[Interval]:
        segment = part.opened.segment
        reader = SegmentReader(part.opened.file, segment.path, MAGIC)
        marks = self._marks.setdefault(segment.path, []) if segment.level == LEVELS[0] else []
        passed = bisect_right(marks, start_ns, key=itemgetter(0))
        ended_ns, from_byte = marks[passed - 1] if passed else (0, 0)
        for item in reader.frames(from_byte):
            if part.until is not None and item.stamp >= part.until:
                return
            if item.kind not in KINDS:
                continue
            ends_ns, interval = within(item, segment.path, start_ns, end_ns)
            ended_ns = max(ended_ns, ends_ns)
            if reader.good_bytes >= (marks[-1][1] if marks else 0) + _MARK_BYTES:
                marks.append((ended_ns, reader.good_bytes))
            if interval is not None:
                yield interval
        if reader.torn_bytes:
            self.torn[segment.path] = reader.torn_bytes


class _Part(NamedTuple):
    opened: OpenSegment
    until: int | None
    """Rolls from here on are in a finer level."""


def _parts(opened: Sequence[OpenSegment], levels: Sequence[int], start_ns: int) -> list[_Part]:
    """Return the segments to read, in order of time: coarse segments up to the beginning of a finer level."""
    parts: list[_Part] = []
    until: int | None = None
    for level in levels:
        mine = [item for item in opened if item.segment.level == level]
        parts = [_Part(item, until) for item in mine[skipped(mine, start_ns) :]] + parts
        if mine:
            first = mine[0].segment.first
            until = first if until is None else min(until, first)
    return parts


def _check_level(level_s: int) -> None:
    if level_s not in LEVELS:
        raise UsageError(f"no history level of {level_s} s", hint="levels are 1, 10 and 60 s; 0 is the finest")
