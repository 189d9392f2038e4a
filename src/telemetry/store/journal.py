"""The journal: every call that changes a run's numbers, in order, written before the call is made.

SIGKILL loses none of it; a power cut loses at most the frames that were not synced.

    journal/00000000.seg, 00000001.seg, …     frames of `telemetry.store.framing`, stamped with the monotonic time
    journal/00000002-failed.seg               the same; its writer failed and could not continue

The kind of a frame defines its content: `BATCH` is one whole `ev/1` frame, `CHECKPOINT` the state of the run at
that moment, `NOTE` a call other than a batch; `telemetry.wire.journal` has the structs of the last two. Each
segment begins with a checkpoint, so reading can start at any segment. Readers pass on frames of unknown kinds.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from telemetry import limits
from telemetry.common.files import make_folder, open_file, open_reader, opener
from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import AppendFile, Buffer, describe
from telemetry.store.atomic import sync_directory
from telemetry.store.framing import SEGMENT_HEADER_BYTES, Kind, SegmentReader, frame, segment_header
from telemetry.wire.codec import EVENTS

MAGIC: Final = b"tmjrnl\r\n"
BATCH: Final = 1
CHECKPOINT: Final = 2
NOTE: Final = 3

_MAP: Final = rb"[\x80-\x8f]"
_KINDS: Final = {  # each segment begins with a checkpoint; its limit is twice the largest possible one
    BATCH: Kind(limits.FRAME_BYTES, re.escape(EVENTS)),
    NOTE: Kind(limits.FRAME_BYTES, _MAP + rb"\xa4type"),
    CHECKPOINT: Kind(limits.SEGMENT_FRAME_BYTES, _MAP + rb"\xaeschema_version"),
}
_SEGMENT_NAME: Final = re.compile(r"(\d{8,})(-failed)?\.seg")
_CHECKPOINTS_A_SEGMENT: Final = 8  # times its checkpoint at least, so that a large state is not saved too often
_sync_data = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class JournalFrame(NamedTuple):
    time_ns: int
    kind: int
    data: memoryview
    """Payload, valid until the next frame is requested."""
    segment: int
    """Number of its segment."""
    damaged: bool = False
    """True if something between the previous frame and this one can't be read.

    The numbers are known again only from the next checkpoint on. This frame is a checkpoint if a `JournalWriter`
    wrote it.
    """


class JournalWriter:
    """A writer that appends frames to segments. Beyond `cap_bytes` the oldest segments are deleted and counted.

    Nothing raises: the first OSError, also during construction, sets `failed`; later appends are ignored. Then the
    newest segment is renamed, which needs no space on a full disk; see `JournalReader.failed`. `sync` may run on a
    second thread at the same time; all other methods belong to one thread.

    Only `begin` ends a segment: if `full`, the owner makes a checkpoint and calls `begin` before its next frames.
    """

    def __init__(
        self,
        directory: Path,
        checkpoint: Buffer,
        now_ns: int,
        segment_bytes: int = limits.JOURNAL_SEGMENT_BYTES,
        cap_bytes: int = limits.JOURNAL_CAP_BYTES,
    ) -> None:
        """Begin a segment with `checkpoint`. An existing journal is continued and its torn tail cut."""
        self.failed = ""
        """Reason why writing stopped; empty while it works."""
        self.bytes_written = 0
        self.cut_bytes = 0
        """Bytes cut from the torn tail."""
        self.dropped_segments = 0
        """Number of segments deleted, because of the cap or by `forget`: segment numbers begin at 0."""
        self._directory = directory
        self._segment_bytes = min(segment_bytes, cap_bytes // 2)  # at least half of the cap always remains
        self._cap_bytes = cap_bytes
        self._full_bytes = 0
        self._kept: deque[tuple[Path, int]] = deque()
        self._kept_bytes = 0
        self._number = 0
        self._file: AppendFile | None = None
        self._lock = threading.RLock()
        self._unsynced: list[int] = []
        """Descriptors of ended segments that are not synced yet."""
        self._inherited: list[Path] = []
        """Segments of an earlier writer, which may have died before it synced them. The first sync does it."""
        self._unlinked: list[int] = []
        """Descriptors of deleted segments: closing the last one frees the blocks, which is slow."""
        self._names_changed = False
        try:
            self._take_over()
            self._begin(checkpoint, now_ns)
        except (OSError, RunDirectoryError) as error:
            self._fail(error)

    @property
    def full(self) -> bool:
        """True if the segment is long enough for `begin`.

        Its checkpoint takes an eighth of it at most; half if the cap is very small.
        """
        return self._file is not None and not self.failed and self._file.size >= self._full_bytes

    def begin(self, checkpoint: Buffer, now_ns: int) -> None:
        """End the segment and begin the next one. Blocks like `append`.

        Older segments are deleted after the next one has its checkpoint, so that there is always one to start from.
        For that moment the cap may be exceeded by the size of a checkpoint.
        """
        if self.failed or self._file is None:
            return
        try:
            self._begin(checkpoint, now_ns)
        except OSError as error:
            self._fail(error)

    @property
    def next_segment(self) -> int:
        """Number of the segment that `begin` begins."""
        return self._number

    def forget(self) -> None:
        """Delete all segments but the current one and the one before it. Their number counts as dropped."""
        if self.failed:
            return
        try:
            while len(self._kept) > 1:
                self._delete_oldest()
        except OSError as error:
            self._fail(error)

    def append(self, frames: Sequence[Buffer], now_ns: int) -> None:
        """Append the batches of one loop turn in one `writev`.

        Blocks for a copy into the page cache, never for the disk.
        """
        self._append(frames, now_ns, BATCH)

    def note(self, payloads: Sequence[Buffer], now_ns: int) -> None:
        """Append encoded `telemetry.wire.journal.Note`s, as `append` does with batches."""
        self._append(payloads, now_ns, NOTE)

    def sync(self) -> None:
        """Block until everything appended before the call is on the disk. Can be called from any thread."""
        with self._lock:
            ended, self._unsynced = self._unsynced, []
            unlinked, self._unlinked = self._unlinked, []
            names_changed, self._names_changed = self._names_changed, False
            inherited, self._inherited = self._inherited, []
            current = self._file.fd if self._file is not None else -1
            try:
                if current >= 0:
                    ended.append(os.dup(current))
            except OSError as error:
                self._fail(error)
        try:
            for path in inherited:
                _sync_path(path)
            for fd in ended:
                _sync_data(fd)
            if names_changed:
                sync_directory(self._directory)
        except OSError as error:
            self._fail(error)
        finally:
            for fd in (*ended, *unlinked):
                os.close(fd)

    def close(self) -> None:
        """Close the files without waiting for the disk. Later appends are ignored."""
        with self._lock:
            for fd in (*self._unsynced, *self._unlinked):
                os.close(fd)
            self._unsynced, self._unlinked = [], []
            if self._file is not None:
                self._file.close()
                self._file = None

    def _append(self, payloads: Sequence[Buffer], now_ns: int, kind: int) -> None:
        if self.failed or self._file is None:
            return
        buffers = frame(payloads, now_ns, kind)
        try:
            self._make_room(sum(map(len, buffers)))
            self.bytes_written += self._file.append(buffers)
        except OSError as error:
            self._fail(error)

    def _take_over(self) -> None:
        make_folder(self._directory)
        self.cut_bytes = cut_torn_tail(self._directory)
        for number, path in _segments(self._directory):
            self._keep(path, path.stat().st_size)
            self._inherited.append(path)
            if not self._number:
                self.dropped_segments = number
            self._number = number + 1

    def _begin(self, checkpoint: Buffer, now_ns: int) -> None:
        head = [segment_header(MAGIC), *frame([checkpoint], now_ns, CHECKPOINT)]
        file = AppendFile(self._directory / f"{self._number:08d}.seg", depth=2)
        try:
            self.bytes_written += file.append(head)
        except OSError:
            file.close()
            file.path.unlink()
            raise
        self._number += 1
        at_most = max(self._cap_bytes // 2, 2 * file.size)
        self._full_bytes = min(max(self._segment_bytes, _CHECKPOINTS_A_SEGMENT * file.size), at_most)
        with self._lock:
            ended = self._file
            if ended is not None:
                self._unsynced.append(ended.fd)
            self._file = file
            self._names_changed = True
        if ended is not None:
            self._keep(ended.path, ended.size)
        self._make_room(0)

    def _keep(self, path: Path, size: int) -> None:
        self._kept.append((path, size))
        self._kept_bytes += size

    def _make_room(self, needed: int) -> None:
        assert self._file is not None
        while self._kept and self._kept_bytes + self._file.size + needed > self._cap_bytes:
            self._delete_oldest()

    def _delete_oldest(self) -> None:
        path, size = self._kept.popleft()
        fd = open_file(path, depth=2)
        with self._lock:
            self._unlinked.append(fd)
            self._names_changed = True
        path.unlink()
        self._kept_bytes -= size
        self.dropped_segments += 1

    def _fail(self, error: OSError | RunDirectoryError) -> None:
        with self._lock:
            if self.failed:
                return
            self.failed = describe(error) if isinstance(error, OSError) else error.message
            self._mark()

    def _mark(self) -> None:
        """Rename the newest segment, to show that frames are missing after it. Errors are ignored."""
        if self._file is not None:
            newest = self._file.path
        elif self._kept:
            newest, _ = self._kept[-1]
        else:
            return
        number = _SEGMENT_NAME.fullmatch(newest.name)
        assert number is not None
        with suppress(OSError):
            newest.rename(newest.with_name(f"{number[1]}-failed.seg"))
            self._names_changed = True


def _sync_path(path: Path) -> None:
    """Sync a segment, unless it was deleted. Raises OSError."""
    with suppress(FileNotFoundError):
        fd = open_file(path, depth=2)
        try:
            _sync_data(fd)
        finally:
            os.close(fd)


class JournalReader:
    """A stream of the frames of a journal in order, through one buffer of a few MiB.

    A segment ends at its first torn or damaged frame. Reading continues with the next segment, whose first frame is
    `damaged`. The attributes describe the last `frames()`: up to the newest frame, or everything once it has ended.
    """

    def __init__(self, directory: Path) -> None:
        self.torn_bytes = 0
        """Number of bytes that could not be read."""
        self.tail_bytes = 0
        """Number of unreadable bytes after the last good frame of the journal."""
        self.tail_damaged = False
        """True if a frame after the last good one was damaged, and is not just the rest of a killed write."""
        self.damaged = False
        """True if frames between two others could not be read, or are missing."""
        self.dropped_segments = 0
        """Number of deleted segments before the first one. Numbers begin at 0, and the oldest are deleted first."""
        self._directory = directory

    @property
    def failed(self) -> bool:
        """True if a writer failed: calls between the failure and its end are in no frame. A file name marks this.

        Blocks on the disk, raises as `frames`.
        """
        try:
            return any(path.stem.endswith("-failed") for _, path in self._found())
        except OSError as error:
            raise self._unreadable(error) from error

    def frames(self, first_segment: int | None = None, *, unread: Collection[int] = ()) -> Iterator[JournalFrame]:
        """Yield the frames from the beginning, or from the segment of that number on. Blocks on the disk.

        Frames of the kinds `unread` have no data.

        Raises RunDirectoryError if there is no journal, no segment from that number on, or a file that can't be
        read.
        """
        self.torn_bytes = self.tail_bytes = 0
        self.damaged = self.tail_damaged = False
        try:
            segments = self._found()
            self.dropped_segments = segments[0][0]
            wanted = [item for item in segments if item[0] >= (first_segment or 0)]
            if not wanted:
                raise RunDirectoryError(f"the journal in {self._directory} ends before segment {first_segment}")
            yield from self._frames(wanted, unread)
        except OSError as error:
            raise self._unreadable(error) from error

    def last_checkpoint(self) -> int:
        """Return the number of the newest segment that begins with an intact checkpoint. Blocks on the disk.

        Raises RunDirectoryError if there is none, or no journal, or it can't be read.
        """
        try:
            for number, path in reversed(self._found()):
                with open_reader(path) as file:
                    first = next(SegmentReader(file, path, MAGIC).frames(), None)
                if first is not None and first.kind == CHECKPOINT:
                    return number
        except OSError as error:
            raise self._unreadable(error) from error
        raise RunDirectoryError(f"no segment in {self._directory} starts with a readable checkpoint")

    def _frames(self, segments: Sequence[tuple[int, Path]], unread: Collection[int]) -> Iterator[JournalFrame]:
        expected = segments[0][0]
        gap = False
        for number, path in segments:
            gap = gap or number != expected
            expected = number + 1
            with open_reader(path) as file:
                reader = SegmentReader(file, path, MAGIC)
                item = None
                for item in reader.frames(unread=unread):
                    self.damaged = self.damaged or gap
                    self.tail_bytes, self.tail_damaged = 0, False
                    yield JournalFrame(*item, number, gap)
                    gap = False
                if reader.torn_bytes and not reader.cut_short(_KINDS):
                    self.tail_damaged = True
            self.torn_bytes += reader.torn_bytes
            self.tail_bytes += reader.torn_bytes
            gap = gap or item is None or reader.torn_bytes > 0

    def _found(self) -> list[tuple[int, Path]]:
        segments = _segments(self._directory)
        if not segments:
            raise RunDirectoryError(f"there is no journal in {self._directory}")
        return segments

    def _unreadable(self, error: OSError) -> RunDirectoryError:
        return RunDirectoryError(f"can't read the journal: {describe(error)}")


def cut_torn_tail(directory: Path) -> int:
    """Cut a journal after its last good frame, as a continuing writer does. Return the number of removed bytes.

    A last segment without a good frame is deleted. Reads one segment, blocks until the cut is on the disk. May
    raise OSError, and RunDirectoryError for a segment of a newer version.
    """
    cut = 0
    for _, path in reversed(_segments(directory)):
        with open(path, "r+b", buffering=0, opener=opener(depth=2)) as file:
            reader = SegmentReader(file, path, MAGIC)
            for _ in reader.frames():
                pass
            cut += reader.torn_bytes
            if reader.good_bytes > SEGMENT_HEADER_BYTES:
                if reader.torn_bytes:
                    file.truncate(reader.good_bytes)
                    os.fsync(file.fileno())
                break
        path.unlink()
    return cut


def append_notes(directory: Path, payloads: Sequence[Buffer], now_ns: int) -> None:
    """Append notes to the newest segment of a journal that has no writer and ends with a good frame.

    Writes all notes or raises OSError and writes none. Like a writer's appends, it does not wait for the disk.
    """
    _, newest = _segments(directory)[-1]
    file = AppendFile(newest, depth=2)
    try:
        file.append(frame(payloads, now_ns, NOTE))
    finally:
        file.close()


def segment_files(directory: Path) -> list[Path]:
    """Return the segment files in the order in which they were written. May raise OSError."""
    return [path for _, path in _segments(directory)]


def _segments(directory: Path) -> list[tuple[int, Path]]:
    """Return (number, path) of the segments, ascending."""
    names = [(match, path) for path in directory.iterdir() if (match := _SEGMENT_NAME.fullmatch(path.name))]
    return sorted((int(match[1]), path) for match, path in names)
