"""Frames of the journal and the history. A length and a CRC in front of each show where a torn or rotten file ends.

    segment = magic[8], u64 schema version, frame …
    frame   = u32 length, u32 crc, u64 stamp, u8 kind, payload[length]

All little endian. The CRC-32 covers stamp, kind and payload. What a stamp is, the kind of file says.
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
from telemetry.limits import KIB, MIB
from telemetry.store.append_file import Buffer
from telemetry.wire.version import SCHEMA

_SEGMENT: Final = struct.Struct("<8sQ")
_LENGTH_CRC: Final = struct.Struct("<II")
_STAMP_KIND: Final = struct.Struct("<QB")
_HEADER: Final = struct.Struct("<IIQB")
_READ_BYTES: Final = 2 * MIB  # four of the largest batches: reads are few, and it stays in the cache

_PIECE_BYTES: Final = 256 * KIB  # of a frame larger than the buffer, while its CRC is looked at
_BLOCK_BYTES: Final = 512  # of the smallest block of a disk: a power cut leaves those it did not write as zeros
_SEARCH_BYTES: Final = 256 * MIB  # of what looks like a frame and is none: more is in nothing that was torn
_CANDIDATE_BYTES: Final = KIB  # what looking at one costs, besides its length

_NOTHING: Final = memoryview(b"")

SEGMENT_HEADER_BYTES: Final = _SEGMENT.size
FRAME_HEADER_BYTES: Final = _HEADER.size
OPENING_BYTES: Final = 32
"""Of a payload, at most: what a `Kind` says of its beginning."""


class Frame(NamedTuple):
    stamp: int
    kind: int
    data: memoryview
    """Valid until the next frame is asked for."""


class Kind(NamedTuple):
    """What is known of the payloads of one kind."""

    longest: int
    opening: bytes = b""
    """A regular expression of what each begins with: what does not is not even looked at. A payload is full of what
    could be the header of a small frame."""


def segment_header(magic: bytes) -> bytes:
    return _SEGMENT.pack(magic, SCHEMA)


def frame(payloads: Sequence[Buffer], stamp: int, kind: int) -> list[Buffer]:
    """Headers and payloads in turn, not copied, for one gathering write."""
    tail = _STAMP_KIND.pack(stamp, kind)
    seed = crc32(tail)
    buffers: list[Buffer] = []
    for payload in payloads:
        buffers.append(_LENGTH_CRC.pack(len(payload), crc32(payload, seed)) + tail)
        buffers.append(payload)
    return buffers


class SegmentReader:
    """Streams one segment in big reads through one buffer. Blocks on the disk.

    It ends at the first frame that is cut short or does not match its CRC: `good_bytes` lie before it, `torn_bytes`
    from there on. A lying length costs no memory: what is larger than the buffer is checked before it is held.
    """

    def __init__(self, file: io.FileIO, path: Path, magic: bytes) -> None:
        self.torn_bytes = 0
        self._file = file
        self._path = path
        self._magic = magic
        self._hold(memoryview(bytearray(_READ_BYTES)))
        self._start = self._end = 0
        self._passed = 0
        """Bytes of the file before `_start`."""
        self._unread: Collection[int] = ()

    @property
    def good_bytes(self) -> int:
        """From the beginning of the file to the end of the last frame handed out."""
        return self._passed

    def frames(self, from_byte: int = 0, *, unread: Collection[int] = ()) -> Iterator[Frame]:
        """From the beginning, or from what once was `good_bytes` of this segment. Frames of the kinds `unread` are
        checked as all are, but have no data, and take no memory however large they are.

        Raises RunDirectoryError if the segment was written by a newer version, OSError if it can't be read.
        """
        self._unread = unread
        if self._header_is_good():
            if from_byte > self._passed:
                self._start = self._end = 0
                self._passed = self._file.seek(from_byte)
            while (found := self._next()) is not None:
                yield found
        self.torn_bytes = self._file.seek(0, io.SEEK_END) - self._passed

    def cut_short(self, kinds: Mapping[int, Kind]) -> bool:
        """Whether the torn bytes are the beginning of one frame, or none: what a writer leaves that is stopped in
        mid-write, also by a power cut. Else something that was whole can't be read. After the end of `frames`.

        `kinds`: all there are. May raise OSError.
        """
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
            if not self._large_is_good(size, crc):
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
        """Whether `count` bytes lie at `_start`, after reading if need be."""
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
        """Reads a frame larger than the buffer, piece by piece, to its end."""
        found = crc32(self._view[self._start + _LENGTH_CRC.size : self._end])
        left = size - (self._end - self._start)
        piece = memoryview(bytearray(min(left, _PIECE_BYTES)))
        while left and (got := self._file.readinto(piece[:left])):
            found = crc32(piece[:got], found)
            left -= got
        return not left and found == crc

    def _move(self, target: memoryview) -> None:
        rest = self._end - self._start
        target[:rest] = self._buffer[self._start : self._end]
        self._start, self._end = 0, rest

    def _hold(self, buffer: memoryview) -> None:
        self._buffer = buffer
        self._view = buffer.toreadonly()


class FramePosition(NamedTuple):
    """A frame that lies whole in its file, as its length says."""

    stamp: int
    kind: int
    length: int
    crc: int
    begin: int
    """Of the payload, in the file."""


class SegmentSteps:
    """Goes through a segment by the lengths of its frames, and reads what it is asked for. Blocks on the disk.

    A place is as good as its length and the lengths before it: who relies on what lies there has a CRC to check.
    No memory is taken for what is not in the file. Every method may raise OSError.
    """

    def __init__(self, file: io.FileIO, path: Path, magic: bytes) -> None:
        """Raises RunDirectoryError if the segment was written by a newer version."""
        self.path = path
        self._file = file
        self._size = file.seek(0, io.SEEK_END)
        is_one = _is_segment(_read_at(file, 0, SEGMENT_HEADER_BYTES), magic, path)
        self._at = SEGMENT_HEADER_BYTES if is_one else 0
        self._torn = not is_one

    @property
    def torn_bytes(self) -> int:
        """From the first frame on that is cut short or was told to `tear`, once `next` has come to it."""
        return self._size - self._at if self._torn else 0

    def next(self) -> FramePosition | None:
        """The next frame, among those there were when this was made."""
        if self._torn or self._at >= self._size:
            return None
        head = _read_at(self._file, self._at, FRAME_HEADER_BYTES)
        if len(head) == FRAME_HEADER_BYTES:
            length, crc, stamp, kind = _HEADER.unpack(head)
            end = self._at + FRAME_HEADER_BYTES + length
            if end <= self._size:
                self._at = end
                return FramePosition(stamp, kind, length, crc, end - length)
        self._torn = True
        return None

    def tear(self, place: FramePosition) -> None:
        """It was found last, and is not what was written: it counts for nothing, nor does what follows."""
        self._torn = True
        self._at = place.begin - FRAME_HEADER_BYTES

    def read(self, place: FramePosition, first: int, count: int) -> bytes:
        """Some bytes of the payload; fewer if it ends before that."""
        return _read_at(self._file, place.begin + first, max(0, min(count, place.length - first)))

    def payload(self, place: FramePosition) -> bytes | None:
        """All of it; None if the CRC is wrong."""
        data = self.read(place, 0, place.length)
        seed = crc32(_STAMP_KIND.pack(place.stamp, place.kind))
        return data if crc32(data, seed) == place.crc else None


def _is_segment(header: Buffer, magic: bytes, path: Path) -> bool:
    """Raises RunDirectoryError for one of a newer version."""
    if len(header) < SEGMENT_HEADER_BYTES:
        return False
    found, version = _SEGMENT.unpack(header)
    if found != magic:
        return False
    if version > SCHEMA:
        raise RunDirectoryError(
            f"{path} has schema version {version}, this telemetry reads up to {SCHEMA}",
            hint="read it with the version that wrote it",
        )
    return True


def _end_of_data(file: io.FileIO, start: int, end: int) -> int:
    """Where the zeros at the end of this time range begin."""
    while end > start:
        begin = max(start, end - _PIECE_BYTES)
        if data := _read_at(file, begin, end - begin).rstrip(b"\0"):
            return begin + len(data)
        end = begin
    return start


def _holds_a_frame(file: io.FileIO, start: int, end: int, kinds: Mapping[int, Kind]) -> bool:
    """Whether a whole, intact frame lies somewhere in this time range."""
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
        if len(piece) < _PIECE_BYTES:  # the last one; or a file that somebody is cutting
            return False
        start += len(piece) - before - OPENING_BYTES
    return False


def _read_at(file: io.FileIO, at: int, count: int) -> bytes:
    """Fewer if the file ends before that."""
    file.seek(at)
    pieces = []
    while count and (piece := file.read(count)):
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
