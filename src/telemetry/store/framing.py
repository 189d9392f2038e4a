"""Frames of the journal and the history. The length and CRC of each show where a torn or damaged file ends.

    segment = magic[8], u64 schema version, frame …
    frame   = u32 length, u32 crc, u64 stamp, u8 kind, payload[length]

All numbers are little endian. The CRC-32 covers stamp, kind and payload. The kind of file defines what a stamp
means.
"""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple
from zlib import crc32

from telemetry.errors import RunDirectoryError
from telemetry.limits import KIB, MIB, SEGMENT_FRAME_BYTES
from telemetry.store.append_file import Buffer
from telemetry.wire.version import SCHEMA

_SEGMENT: Final = struct.Struct("<8sQ")
_LENGTH_CRC: Final = struct.Struct("<II")
_STAMP_KIND: Final = struct.Struct("<QB")
_HEADER: Final = struct.Struct("<IIQB")
_READ_BYTES: Final = 2 * MIB  # four of the largest batches: few reads, and it stays in the cache

_PIECE_BYTES: Final = 256 * KIB  # read at once of a frame larger than the buffer, to check its CRC
_BLOCK_BYTES: Final = 512  # smallest block of a disk: after a power cut, unwritten blocks hold zeros
_SEARCH_BYTES: Final = 256 * MIB  # of false frame candidates: a torn tail never holds more
_TORN_BYTES: Final = 256 * MIB
_CANDIDATE_BYTES: Final = KIB  # cost of checking one candidate, besides its length

_NOTHING: Final = memoryview(b"")

SEGMENT_HEADER_BYTES: Final = _SEGMENT.size
FRAME_HEADER_BYTES: Final = _HEADER.size
OPENING_BYTES: Final = 32
"""Largest number of payload bytes that the pattern of a `Kind` may match."""


class Frame(NamedTuple):
    stamp: int
    kind: int
    data: memoryview
    """Payload, valid until the next frame is requested."""


class Kind(NamedTuple):
    """The properties of payloads of one kind."""

    longest: int
    opening: bytes = b""
    """Regular expression for the beginning of each payload.

    Candidates without a match are skipped at once: a payload is full of bytes that could be the header of a small
    frame.
    """


def segment_header(magic: bytes) -> bytes:
    return _SEGMENT.pack(magic, SCHEMA)


def frame(payloads: Sequence[Buffer], stamp: int, kind: int) -> list[Buffer]:
    """Return headers and payloads in turn, without copies, for one gathering write."""
    tail = _STAMP_KIND.pack(stamp, kind)
    seed = crc32(tail)
    buffers: list[Buffer] = []
    for payload in payloads:
        buffers.append(_LENGTH_CRC.pack(len(payload), crc32(payload, seed)) + tail)
        buffers.append(payload)
    return buffers


class SegmentReader:
    """A stream of the frames of one segment, in large reads through one buffer. Blocks on the disk.

    It ends at the first frame that is incomplete or has a wrong CRC. `good_bytes` is the size before that frame,
    `torn_bytes` the size from there on. A wrong length costs no memory: a frame larger than the buffer is checked
    before memory is allocated for it.
    """

    def __init__(self, file: io.FileIO, path: Path, magic: bytes) -> None:
        self.torn_bytes = 0
        self._file = file
        self._path = path
        self._magic = magic
        self._hold(memoryview(bytearray(_READ_BYTES)))
        self._start = self._end = 0
        self._passed = 0
        """Number of file bytes before `_start`."""
        self._unread: Collection[int] = ()

    @property
    def good_bytes(self) -> int:
        """Number of bytes from the beginning of the file to the end of the last yielded frame."""
        return self._passed

    def frames(self, from_byte: int = 0, *, unread: Collection[int] = ()) -> Iterator[Frame]:
        """Yield the frames from the beginning, or from an earlier `good_bytes` of this segment.

        Frames of the kinds `unread` are checked too, but have no data and take no memory.

        Raises RunDirectoryError if the segment was written by a newer version, OSError if it can't be read.
        """
        self._unread = unread
        if self._header_is_good():
            if from_byte > self._passed:
                self._start = self._end = 0
                self._passed = self._file.seek(from_byte)
            while (next_frame := self._next()) is not None:
                yield next_frame
        self.torn_bytes = self._file.seek(0, io.SEEK_END) - self._passed

    def cut_short(self, kinds: Mapping[int, Kind]) -> bool:
        """Return whether the torn bytes are one incomplete frame, or empty.

        A writer that is stopped in mid-write leaves that, also after a power cut. Otherwise a complete frame was
        damaged. Call it after the end of `frames`.

        `kinds`: all kinds of the file. May raise OSError.
        """
        if self.torn_bytes > _TORN_BYTES:
            return False
        end = self._passed + self.torn_bytes
        written = _end_of_data(self._file, self._passed, end)
        if -(-written // _BLOCK_BYTES) * _BLOCK_BYTES < end:
            end = written
        rest = end - self._passed
        head = _read_at(self._file, self._passed, min(rest, FRAME_HEADER_BYTES))
        if self._passed < SEGMENT_HEADER_BYTES:
            return rest < SEGMENT_HEADER_BYTES and segment_header(self._magic).startswith(head)
        if len(head) < FRAME_HEADER_BYTES:
            return True
        length, _, _, kind = _HEADER.unpack(head)
        if kind not in kinds or length > kinds[kind].longest or FRAME_HEADER_BYTES + length <= rest:
            return False
        return not _holds_a_frame(self._file, self._passed + 1, end, kinds)

    def _header_is_good(self) -> bool:
        if not self._fill(SEGMENT_HEADER_BYTES):
            return False
        header = self._buffer[self._start : self._start + SEGMENT_HEADER_BYTES]
        if not _is_segment(header, self._magic, self._path):
            return False
        self._pass(SEGMENT_HEADER_BYTES)
        return True

    def _next(self) -> Frame | None:
        if not self._fill(FRAME_HEADER_BYTES):
            return None
        length, crc, stamp, kind = _HEADER.unpack_from(self._buffer, self._start)
        size = FRAME_HEADER_BYTES + length
        if size > len(self._buffer):
            here = self._file.tell()
            if length > SEGMENT_FRAME_BYTES or not self._large_is_good(size, crc):
                return None
            if kind in self._unread:
                self._start = self._end = 0
                self._passed += size
                return Frame(stamp, kind, _NOTHING)
            self._file.seek(here)
        if not self._fill(size):
            return None
        body = self._start + FRAME_HEADER_BYTES
        data = self._view[body : body + length]
        seed = crc32(self._view[body - _STAMP_KIND.size : body])
        if crc32(data, seed) != crc:
            return None
        self._pass(size)
        return Frame(stamp, kind, _NOTHING if kind in self._unread else data)

    def _pass(self, count: int) -> None:
        self._start += count
        self._passed += count

    def _fill(self, count: int) -> bool:
        """Read as needed and return whether `count` bytes are available at `_start`."""
        if self._end - self._start >= count:
            return True
        if count > len(self._buffer):
            larger = memoryview(bytearray(count))
            self._move(larger)
            self._hold(larger)
        self._move(self._buffer)
        while self._end < count:
            got = self._file.readinto(self._buffer[self._end :])
            if not got:
                return False
            self._end += got
        return True

    def _large_is_good(self, size: int, crc: int) -> bool:
        """Check the CRC of a frame larger than the buffer. Reads the frame piece by piece to its end."""
        actual = crc32(self._view[self._start + _LENGTH_CRC.size : self._end])
        left = size - (self._end - self._start)
        piece = memoryview(bytearray(min(left, _PIECE_BYTES)))
        while left and (got := self._file.readinto(piece[:left])):
            actual = crc32(piece[:got], actual)
            left -= got
        return not left and actual == crc

    def _move(self, target: memoryview) -> None:
        rest = self._end - self._start
        target[:rest] = self._buffer[self._start : self._end]
        self._start, self._end = 0, rest

    def _hold(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._view = buffer.toreadonly()


class FramePosition(NamedTuple):
    """The position of a frame that, by its length, is complete in its file."""

    stamp: int
    kind: int
    length: int
    crc: int
    begin: int
    """Offset of the payload in the file."""


class SegmentSteps:
    """A walk through a segment by the lengths of its frames that reads only requested bytes. Blocks on the disk.

    A position is right only if its length and the lengths before it are right. The CRC of the frame shows whether
    its content is right. Memory is allocated only for bytes that are in the file. Every method may raise OSError.
    """

    def __init__(self, file: io.FileIO, path: Path, magic: bytes) -> None:
        """Open the segment. Raises RunDirectoryError if it was written by a newer version."""
        self.path = path
        self._file = file
        self._size = file.seek(0, io.SEEK_END)
        is_one = _is_segment(_read_at(file, 0, SEGMENT_HEADER_BYTES), magic, path)
        self._at = SEGMENT_HEADER_BYTES if is_one else 0
        self._torn = not is_one

    @property
    def torn_bytes(self) -> int:
        """Number of bytes from the first incomplete or `tear`-marked frame on; 0 before `next` has reached it."""
        return self._size - self._at if self._torn else 0

    def next(self) -> FramePosition | None:
        """Return the next frame, among those that existed when this object was made."""
        if self._torn or self._at >= self._size:
            return None
        head = _read_at(self._file, self._at, FRAME_HEADER_BYTES)
        if len(head) == FRAME_HEADER_BYTES:
            length, crc, stamp, kind = _HEADER.unpack(head)
            end = self._at + FRAME_HEADER_BYTES + length
            if end <= self._size and length <= SEGMENT_FRAME_BYTES:
                self._at = end
                return FramePosition(stamp, kind, length, crc, end - length)
        self._torn = True
        return None

    def tear(self, position: FramePosition) -> None:
        """Mark the frame that was found last as damaged: it and all later frames are ignored."""
        self._torn = True
        self._at = position.begin - FRAME_HEADER_BYTES

    def read(self, position: FramePosition, first: int, count: int) -> bytes:
        """Return bytes of the payload; fewer if it ends before."""
        return _read_at(self._file, position.begin + first, max(0, min(count, position.length - first)))

    def payload(self, position: FramePosition) -> bytes | None:
        """Return the whole payload; None if the CRC is wrong."""
        data = self.read(position, 0, position.length)
        seed = crc32(_STAMP_KIND.pack(position.stamp, position.kind))
        return data if crc32(data, seed) == position.crc else None


def _is_segment(header: Buffer, magic: bytes, path: Path) -> bool:
    """Return whether the header belongs to such a segment. Raises RunDirectoryError for a newer version."""
    if len(header) < SEGMENT_HEADER_BYTES:
        return False
    file_magic, version = _SEGMENT.unpack(header)
    if file_magic != magic:
        return False
    if version > SCHEMA:
        raise RunDirectoryError(
            f"{path} has schema version {version}; this telemetry reads up to {SCHEMA}",
            hint="read it with the version that wrote it",
        )
    return True


def _end_of_data(file: io.FileIO, start: int, end: int) -> int:
    """Return the offset where the zeros at the end of this range of bytes begin."""
    while end > start:
        begin = max(start, end - _PIECE_BYTES)
        if data := _read_at(file, begin, end - begin).rstrip(b"\0"):
            return begin + len(data)
        end = begin
    return start


def _holds_a_frame(file: io.FileIO, start: int, end: int, kinds: Mapping[int, Kind]) -> bool:
    """Return whether this range of bytes contains a complete, intact frame."""
    left, before = _SEARCH_BYTES, FRAME_HEADER_BYTES - 1
    looks_like_one = re.compile(
        b"|".join(re.escape(bytes([kind])) + b"(?=%b)" % kinds[kind].opening for kind in kinds)
    )
    while end - start >= FRAME_HEADER_BYTES:
        piece = _read_at(file, start, min(_PIECE_BYTES, end - start))
        for match in looks_like_one.finditer(piece, before):
            at = start + match.start() - before
            length, crc, _, kind = _HEADER.unpack_from(piece, match.start() - before)
            if length > kinds[kind].longest or at + FRAME_HEADER_BYTES + length > end:
                continue
            left -= length + _CANDIDATE_BYTES
            body = _read_at(file, at + _LENGTH_CRC.size, _STAMP_KIND.size + length)
            if crc32(body) == crc or left < 0:
                return True
        if len(piece) < _PIECE_BYTES:  # the last piece, or the file was truncated meanwhile
            return False
        start += len(piece) - before - OPENING_BYTES
    return False


def _read_at(file: io.FileIO, at: int, count: int) -> bytes:
    """Read `count` bytes; fewer if the file ends before."""
    file.seek(at)
    pieces = []
    while count and (piece := file.read(count)):
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
