"""The ring of a killed producer and its definitions (docs/RING.md), read without trust in the file."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.common.file_lock import lock_file
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Define
from telemetry.wire.rings import DEFINITIONS_SUFFIX, RING_SUFFIX, Introduction

MAGIC: Final = b"TMTRING1"
SLOT: Final = np.dtype([("id", "<f8"), ("time", "<u8"), ("value", "<f8")])
COUNTED: Final = (Reason.BUFFER_FULL, Reason.NOT_A_NUMBER, Reason.BLOCK_TIMEOUT, Reason.UNENCODABLE)
"""Reasons of the counts in the header, in their order."""

_VERSION: Final = 1
_HEADER_BYTES: Final = 4_096
_BATCHES: Final = 1_024
_BATCH_END: Final = np.dtype((np.dtype("<u8"), 8))
_RECORDS_AT: Final = _HEADER_BYTES + _BATCHES * _BATCH_END.itemsize
_MOST_SLOTS: Final = 1 << 32
_MOST_RECORD_BYTES: Final = 1 << 32
_BEGIN: Final = struct.Struct("<8sII8Q64s")
_ROWS: Final = struct.Struct("<12Q")
_ROWS_AT: Final = 192
_RECORDS: Final = struct.Struct("<5Q")
_RECORDS_HEAD_AT: Final = 320
_TAKEN: Final = struct.Struct("<Q")
_TAKEN_AT: Final = 384
_SUM_START: Final = 0xCBF29CE484222325
_SUM_FACTOR: Final = 0x100000001B3


class RingInUse(Exception):
    """The process that writes this ring still lives."""


class RingUnreadable(Exception):
    """The file is not a ring of this producer and user. The text is the reason."""


class RingGone(RingUnreadable):
    """There is no such ring: the producer has removed it, died before it made it, or is on another machine."""


class BatchEnd(msgspec.Struct, frozen=True):
    """The end of a batch: rows, records and bytes below these positions are in it or in an earlier one."""

    first: int = 0
    rows: int = 0
    records: int = 0
    record_bytes: int = 0
    anchor: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class RingHead:
    """The numbers in the header of a ring, checked against each other and the size of the file."""

    pid: int
    anchor: tuple[int, int]
    rows: int
    """Number of committed rows: the position after the newest one."""
    readable_rows: int
    """Position of the oldest row that is still in a slot."""
    capacity: int
    counts: dict[str, int]
    """Events that were dropped before they got into the ring, by reason."""
    records: int
    record_bytes: int
    readable_bytes: int
    """Position of the oldest byte of records that is still there."""
    record_capacity: int
    unlogged: int = 0
    """Number of requests that ended, belong in the request log, and are in no record."""

    @property
    def emitted(self) -> int:
        """Number of events that the producer has recorded or dropped."""
        return self.rows + self.records + sum(self.counts.values())


class RingFile:
    """The open ring of a process that has ended."""

    def __init__(self, fd: int, path: str, producer: str) -> None:
        """Read and check all numbers. `open_ring` is the way to make one."""
        self._fd = fd
        self.path = path
        self._size = os.fstat(fd).st_size
        self.head = self._read_head(producer)
        self.ends = self._read_ends()
        """Where the newest batches end, by number."""

    @property
    def next_seq(self) -> int:
        """Number of the first batch that the producer has not made."""
        return max(self.ends, default=-1) + 1

    def end_of(self, seq: int) -> BatchEnd | None:
        """Return where a batch ends. Return None if that is no longer known."""
        return BatchEnd(anchor=self.head.anchor) if seq == -1 else self.ends.get(seq)

    def rows(self, begin: int, end: int) -> NDArray[np.void]:
        """Return those of the rows `[begin, end)` that can still be read."""
        begin, end = max(begin, self.head.readable_rows), min(end, self.head.rows)
        if begin >= end:
            return np.empty(0, SLOT)
        data = self._read_wrapped(
            self._slots_at, self.head.capacity * SLOT.itemsize, begin * SLOT.itemsize, end * SLOT.itemsize
        )
        return np.frombuffer(data, SLOT)

    def records(self, begin: BatchEnd, record_bytes: int, records: int) -> list[bytes]:
        """Return the records from the end of a batch up to these positions, as far as they can still be read."""
        start, stop = begin.record_bytes, min(record_bytes, self.head.record_bytes)
        if start < self.head.readable_bytes or start >= stop:
            return []
        data = self._read_wrapped(_RECORDS_AT, self.head.record_capacity, start, stop)
        return list(split_entries(data, records - begin.records))

    def definitions(self) -> Definitions:
        """Read the file of definitions. Return none of them if it is missing or can't be read."""
        return read_definitions(self.path)

    def remove(self) -> None:
        """Remove both files, unless another file has taken the ring's place."""
        with suppress(OSError):
            at_path, ours = os.stat(self.path, follow_symlinks=False), os.fstat(self._fd)
            if (at_path.st_dev, at_path.st_ino) == (ours.st_dev, ours.st_ino):
                os.unlink(self.path)
                os.unlink(self.path.removesuffix(RING_SUFFIX) + DEFINITIONS_SUFFIX)

    # --- reading ---------------------------------------------------------------------------------

    def _read(self, begin: int, size: int) -> bytes:
        pieces = []
        while size > 0:
            try:
                piece = os.pread(self._fd, size, begin)
            except OSError as error:
                raise RingUnreadable(error.strerror or str(error)) from None
            if not piece:
                raise RingUnreadable("its file was cut short")
            pieces.append(piece)
            begin, size = begin + len(piece), size - len(piece)
        return b"".join(pieces)

    def _read_wrapped(self, at: int, capacity: int, begin: int, end: int) -> bytes:
        """Read the bytes `[begin, end)` of a ring that begins at offset `at` of the file and may wrap around."""
        start, size = begin % capacity, end - begin
        first = min(size, capacity - start)
        return self._read(at + start, first) + self._read(at, size - first)

    @property
    def _slots_at(self) -> int:
        return _RECORDS_AT + self.head.record_capacity

    def _read_head(self, producer: str) -> RingHead:
        if self._size < _RECORDS_AT:
            raise RingUnreadable("its file is too small")
        data = self._read(0, _HEADER_BYTES)
        begin = _BEGIN.unpack_from(data)
        magic, version, number, region_bytes, most_slots, record_capacity, batches, pid, _, mono, wall, name = begin
        if not any(magic) and not mono:
            raise RingGone("its process ended before it recorded")
        if not any(magic):
            raise RingUnreadable("there was no room for its file to grow")
        if magic != MAGIC or version != _VERSION or number != 0:
            raise RingUnreadable("its file is not a ring of version 1")
        if name.rstrip(b"\0") != producer.encode()[: len(name)]:
            raise RingUnreadable("its file belongs to another producer")
        if not (
            batches == _BATCHES
            and _is_power(most_slots, _MOST_SLOTS)
            and (record_capacity == 0 or _is_power(record_capacity, _MOST_RECORD_BYTES))
            and region_bytes == self._size == _RECORDS_AT + record_capacity + most_slots * SLOT.itemsize
        ):
            raise RingUnreadable("its file has another size than it says")
        committed, writing, capacity, floor, *counts = _ROWS.unpack_from(data, _ROWS_AT)
        records, record_bytes, record_writing, ended, logged = _RECORDS.unpack_from(data, _RECORDS_HEAD_AT)
        (taken,) = _TAKEN.unpack_from(data, _TAKEN_AT)
        if not (
            _is_power(capacity, most_slots)
            and max(floor, taken) <= committed <= limits.EVENT_NUMBERS
            and committed - taken <= capacity
            and writing <= committed + capacity
            and sum(counts) <= limits.EVENT_NUMBERS
            and records * LENGTH.size <= record_bytes <= limits.EVENT_NUMBERS
            and record_writing <= record_bytes + record_capacity
            and max(mono, wall) < 1 << 63
            and max(ended, logged) <= limits.EVENT_NUMBERS
        ):
            raise RingUnreadable("its numbers contradict each other")
        return RingHead(
            pid=pid,
            anchor=(mono, wall),
            rows=committed,
            readable_rows=max(floor, min(taken, max(0, max(committed + 1, writing) - capacity))),
            capacity=capacity,
            counts={reason.value: count for reason, count in zip(COUNTED, counts, strict=False) if count},
            records=records,
            record_bytes=record_bytes,
            readable_bytes=max(0, max(record_bytes, record_writing) - record_capacity),
            record_capacity=record_capacity,
            unlogged=max(0, ended - logged),
        )

    def _read_ends(self) -> dict[int, BatchEnd]:
        """Read the table of batches. Its entries must ascend, and none may be above the positions in the header."""
        table = np.frombuffer(self._read(_HEADER_BYTES, _RECORDS_AT - _HEADER_BYTES), _BATCH_END)
        used = [(line[0] - 1, line) for line in table.tolist() if line[-1]]  # others were being written
        if any(checksum(*line[:-1]) != line[-1] for _, line in used):
            raise RingUnreadable("its table of batches is damaged")
        newest = max((seq for seq, _ in used), default=0)
        ends: dict[int, BatchEnd] = {}
        before = BatchEnd()
        for seq, (_, first, rows, records, record_bytes, mono, wall, _) in sorted(used):
            if newest - seq >= _BATCHES - 1:  # its entry may have been half overwritten
                continue
            end = BatchEnd(first, rows, records, record_bytes, (mono, wall))
            is_in_place = table[seq % _BATCHES][0] == seq + 1 and seq < limits.EVENT_NUMBERS
            if not (is_in_place and self._follows(before, end)):
                raise RingUnreadable("its table of batches contradicts itself")
            ends[seq] = before = end
        return ends

    def _follows(self, before: BatchEnd, end: BatchEnd) -> bool:
        head = self.head
        return (
            before.first <= end.first <= limits.EVENT_NUMBERS
            and before.rows <= end.rows <= head.rows
            and before.records <= end.records <= head.records
            and before.record_bytes <= end.record_bytes <= head.record_bytes
            and max(end.anchor) < 1 << 63
        )


@contextmanager
def open_ring(path: str, producer: str) -> Iterator[RingFile]:
    """Open the ring of a producer whose process has ended, and keep it locked meanwhile.

    Raises RingInUse while the process lives, and RingUnreadable for any other file. The caller's own ring must not
    be opened: closing it again would drop its lock.
    """
    if not (os.path.isabs(path) and path.endswith(RING_SUFFIX)) or "\0" in path:
        raise RingUnreadable("its path is not that of a ring")
    try:
        fd = open_private(path)
    except FileNotFoundError:
        raise RingGone("its file is gone") from None
    except OSError as error:
        raise RingUnreadable(error.strerror or str(error)) from None
    try:
        _lock(fd)
        yield RingFile(fd, path, producer)
    finally:
        os.close(fd)


def checksum(*numbers: int) -> int:
    """Return the checksum of an entry in the table of batches."""
    total = _SUM_START
    for number in numbers:
        total = (total ^ number) * _SUM_FACTOR % (1 << 64)
    return total


def _lock(fd: int) -> None:
    """Take a shared lock, for which the file need not be writable. The lock of the writer is exclusive."""
    try:
        if not lock_file(fd, shared=True, of_process=True):
            raise RingInUse
    except OSError as error:
        raise RingUnreadable(error.strerror or str(error)) from None


def _is_power(number: int, most: int) -> bool:
    return 0 < number <= most and number & (number - 1) == 0


LENGTH: Final = struct.Struct("<I")
_SKIPPED: Final = 1 << 31
_RULES_READ: Final = 1_000  # settings that changed so often are none
_DEFINE: Final = msgspec.msgpack.Decoder(Define)
_INTRODUCTION: Final = msgspec.msgpack.Decoder(Introduction)


class RedactionRules(msgspec.Struct, frozen=True):
    """Rules by which records and definitions are masked."""

    secrets: bool = True
    personal: bool = False
    patterns: list[str] = []


_RULES: Final = msgspec.msgpack.Decoder(RedactionRules)


@dataclass(frozen=True)
class Definitions:
    """The definitions of a producer before masking. Without rules they can't be masked, and there are none."""

    rules: RedactionRules | None
    records: list[bytes]


def read_definitions(path: str) -> Definitions:
    """Read the definitions beside a ring. Return none of them if they are missing or can't be read."""
    try:
        data = _read(path, limits.RING_DEFINITIONS_BYTES)
    except OSError:
        return Definitions(None, [])
    rules, records = None, []
    for entry in split_entries(data, _RULES_READ + limits.PRODUCER_IDS):
        if _is_map(entry):
            try:
                rules = _RULES.decode(entry)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                return Definitions(None, [])
        elif _is_definition(entry):
            records.append(entry)
    return Definitions(rules, records if rules is not None else [])


def read_introduction(path: str) -> Introduction | None:
    """Return what a producer has written beside its ring to introduce itself, or None if there is nothing.

    The ring itself is not opened. Raise OSError if the file can't be read now. A file that is missing or of another
    user says nothing.
    """
    try:
        first = next(split_entries(_read(path, limits.RING_INTRODUCTION_BYTES), 1), b"")
        return _INTRODUCTION.decode(first)
    except (FileNotFoundError, PermissionError, msgspec.MsgspecError, ValueError, RecursionError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


def _read(path: str, most: int) -> bytes:
    """Read the file of definitions beside a ring, up to so many bytes. Raise OSError."""
    with open(open_private(path.removesuffix(RING_SUFFIX) + DEFINITIONS_SUFFIX), "rb") as file:
        return file.read(min(os.fstat(file.fileno()).st_size, most))


def open_private(path: str) -> int:
    """Open a regular file that belongs to this user alone. Raise OSError for any other."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    facts = os.fstat(fd)
    if stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077:
        return fd
    os.close(fd)
    raise OSError(errno.EPERM, "it is not a file of this user alone", path)


def split_entries(data: bytes, most: int) -> Iterator[bytes]:
    """Yield at most so many entries: a length and the bytes. Ends at an entry that is cut off."""
    at = 0
    for _ in range(most):
        if at + LENGTH.size > len(data):
            return
        (size,) = LENGTH.unpack_from(data, at)
        at += LENGTH.size
        if size & _SKIPPED:  # no bytes of it were kept
            continue
        if size > len(data) - at:
            return
        yield data[at : at + size]
        at += size


def _is_map(entry: bytes) -> bool:
    return bool(entry) and (entry[0] & 0xF0 == 0x80 or entry[0] in (0xDE, 0xDF))


def _is_definition(entry: bytes) -> bool:
    try:
        _DEFINE.decode(entry)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True
