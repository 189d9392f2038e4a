"""The record log: all records of the run in one sequence, for subscribers that join late or missed some.

    records/records.jsonl
        {"schema_version":1,"run_id":"…","protocol":[1,1],"crc":"…"}
        {"seq":0,"wall_ns":…,"producer":"…","type":"mark","text":"…",…,"crc":"…"}

Line `seq + 1` is record `seq`. A number that is not finite is null. Values of many ranks are packed
(`telemetry.store.ranked_values`). Each line has a checksum
(`telemetry.wire.seal`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from telemetry.common.files import make_folder, open_reader, opener
from telemetry.errors import RunDirectoryError
from telemetry.limits import MIB, RECORD_LINE_BYTES
from telemetry.store.append_file import AppendFile, describe
from telemetry.store.ranked_values import packed, unpacked
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.events import ClosedStep, Streamed, StreamRecord
from telemetry.wire.seal import check_seal, lost_its_end, sealed
from telemetry.wire.version import PROTOCOL, SCHEMA, Version

FILE_NAME: Final = "records.jsonl"
_AT_ONCE: Final = 1_024  # records
_STRIDE: Final = 256  # lines between remembered offsets: a read skips at most that many
_TYPES: Final[dict[str, type[Any]]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Streamed)}
_ENCODER: Final = msgspec.json.Encoder()
_SENDABLE: Final = msgspec.msgpack.Encoder()
_Line = TypeVar("_Line", bound=Struct)


class DamagedRecord(RunDirectoryError):
    """A line of a record log that is not a valid record; other lines may be valid."""


class _Header(Struct):
    schema_version: int = SCHEMA
    run_id: str = ""
    protocol: Version = PROTOCOL


def record_line(record: StreamRecord) -> bytes:
    """Return a record as one line of strict JSON, line end included."""
    tag = type(record.record).__struct_config__.tag
    head = {"seq": record.seq, "wall_ns": record.wall_ns, "producer": record.producer, "type": tag}
    fields = asdict(record.record)
    if isinstance(record.record, ClosedStep) and record.record.ranks:
        fields |= packed(record.record.ranks)
    return sealed(_ENCODER.encode(head | fields) + b"\n")


class RecordLog:
    """A record log: appends from one thread, reads from any number of threads and processes at the same time.

    The first OSError of an append sets `failed`; later appends are ignored.

    A number belongs to one record for ever, because subscribers drop numbers that they already have. So records
    that the journal lost keep their numbers. If producers send them again, the log has them twice, under two
    numbers.
    """

    def __init__(self, directory: Path, *, resume: bool = False) -> None:
        """Open the log without changing it. With `resume`, invalid lines at the end, as after a power cut, are cut.

        The first `append` always cuts an incomplete line.

        Raises RunDirectoryError if an existing log can't be read. With `resume` it leaves such a log unchanged and
        sets `failed` to the reason.
        """
        self.failed = ""
        self._path = directory / FILE_NAME
        self._lines = _Lines()
        self._file: AppendFile | None = None
        try:
            self._refresh()
            if resume and self._lines.records:
                self._cut_bad_lines()
        except RunDirectoryError as error:
            if not resume:
                raise
            self.failed = error.message
        self._appended = self._lines.records

    @property
    def next_seq(self) -> int:
        """Number above the newest known record: from an `append`, or a `read` of records from another process."""
        return max(self._appended, self._lines.records)

    def append(self, records: Sequence[StreamRecord]) -> None:
        """Append records in one write. Raises ValueError unless their numbers continue the log."""
        if self.failed or not records:
            return
        if [record.seq for record in records] != list(range(self._appended, self._appended + len(records))):
            raise ValueError(f"records must go on with {self._appended} without a gap")
        try:
            file = self._file or self._open(records[0])
            file.append([b"".join(map(record_line, records))])
            self._appended += len(records)
        except OSError as error:
            self.failed = describe(error)

    def read(self, from_seq: int, limit: int, max_bytes: int | None = None) -> list[StreamRecord]:
        """Return at most `limit` records from `from_seq` on.

        With `max_bytes`, return at most that many bytes, but at least one record. Blocks on the disk. A line that
        is still being written is left out.

        Raises RunDirectoryError if the file can't be read, DamagedRecord if one of these lines is damaged.
        """
        self._refresh()
        count = min(limit, self._lines.records - from_seq)
        if count <= 0 or from_seq < 0:
            if self._lines.end_is_damaged and from_seq == self._lines.records:
                raise DamagedRecord(f"can't read {self._path}: line {from_seq + 2}: its line end was changed")
            return []
        try:
            with BufferedReader(open_reader(self._path)) as file:
                header = self._header(file.readline(RECORD_LINE_BYTES))
                skip = self._lines.seek(file, from_seq + 1)
                lines = list(_within(islice(file, skip, skip + count), max_bytes))
        except OSError as error:
            raise self._unreadable(describe(error)) from error
        return [self._decode(line, seq, header) for seq, line in enumerate(lines, from_seq)]

    def readable(self) -> Iterator[StreamRecord]:
        """Yield all records so far, without those of damaged lines. Blocks on the disk.

        Raises RunDirectoryError if the file can't be read.
        """
        seq, limit = 0, _AT_ONCE
        while seq < self.next_seq:
            try:
                records = self.read(seq, limit)
            except DamagedRecord:
                seq += limit == 1
                limit = 1 if limit > 1 else _AT_ONCE
                continue
            if not records:
                return
            yield from records
            seq += len(records)

    def of_type(self, kind: type[_Line]) -> Iterator[_Line]:
        """Yield the records of one type so far, without damaged lines. Blocks on the disk.

        `kind` has the fields to read; its tag, in the field `type`, selects the records. Ten times as fast as
        `readable`. Raises RunDirectoryError if the file can't be read.
        """
        decoder = msgspec.json.Decoder(kind)
        mark = b'"type":%b' % _ENCODER.encode(kind.__struct_config__.tag)
        try:
            with BufferedReader(open_reader(self._path)) as file:
                self._header(file.readline(RECORD_LINE_BYTES))
                for line in _lines_of(file):
                    if mark not in line or not line.endswith(b"\n"):
                        continue
                    try:
                        check_seal(line)
                        record = decoder.decode(line)
                    except BAD_INPUT:
                        continue
                    yield record
        except FileNotFoundError:
            return
        except OSError as error:
            raise self._unreadable(describe(error)) from error

    def damaged_lines(self) -> int:
        """Return the number of complete lines that are not what was written. Blocks on the disk.

        Raises RunDirectoryError if the file can't be read.
        """
        damaged = 0
        try:
            with BufferedReader(open_reader(self._path)) as file:
                for line in _lines_of(file):
                    try:
                        if line.endswith(b"\n"):
                            check_seal(line)
                    except BAD_INPUT:
                        damaged += 1
        except FileNotFoundError:
            return 0
        except OSError as error:
            raise self._unreadable(describe(error)) from error
        return damaged

    def close(self) -> None:
        """Close the file used for appending."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, first: StreamRecord) -> AppendFile:
        make_folder(self._path.parent)
        file = AppendFile(self._path, depth=2)
        if file.size > self._lines.bytes:  # the incomplete line of a killed process
            file.cut(self._lines.bytes)
        if not file.size:
            file.append([sealed(_ENCODER.encode(_Header(run_id=first.run_id)) + b"\n")])
        self._file = file
        return file

    def _cut_bad_lines(self) -> None:
        try:
            with open(self._path, "r+b", opener=opener(depth=2)) as file:
                header = self._header(file.readline(RECORD_LINE_BYTES))
                for line in range(self._lines.records, 0, -1):
                    for _ in range(self._lines.seek(file, line)):
                        file.readline()
                    begin = file.tell()
                    with suppress(RunDirectoryError):
                        self._decode(file.readline(), line - 1, header)
                        break
                    self._lines.cut(line, begin)
                file.truncate(self._lines.bytes)
        except OSError as error:
            raise self._unreadable(describe(error)) from error

    def _refresh(self) -> None:
        try:
            self._lines.refresh(self._path)
        except OSError as error:
            raise self._unreadable(describe(error)) from error

    def _header(self, line: bytes) -> _Header:
        try:
            check_seal(line)
            header = msgspec.json.decode(line, type=_Header)
        except BAD_INPUT as error:
            raise self._unreadable(f"line 1: {error}") from error
        if header.schema_version > SCHEMA:
            raise self._unreadable(f"it has schema version {header.schema_version}, newer than {SCHEMA}")
        return header

    def _decode(self, line: bytes, seq: int, header: _Header) -> StreamRecord:
        try:
            check_seal(line)
            fields = msgspec.json.decode(line, type=dict[str, Any])
            kind = _TYPES[fields["type"]]
            if "packed_ranks" in fields:
                fields["ranks"] = unpacked(fields)
            values = [fields[name] for name in kind.__struct_fields__ if name in fields]
            if fields["seq"] != seq:
                raise ValueError(f"it holds record {fields['seq']}")
            facts = (header.protocol, header.run_id, seq, fields["producer"], fields["wall_ns"])
            record = msgspec.convert([*facts, [fields["type"], *values]], StreamRecord)
            _SENDABLE.encode(record)  # JSON has larger numbers than msgpack
            return record
        except (*BAD_INPUT, KeyError, TypeError, OverflowError) as error:
            raise DamagedRecord(f"can't read {self._path}: line {seq + 2}: {error}") from error

    def _unreadable(self, why: str) -> RunDirectoryError:
        return RunDirectoryError(f"can't read {self._path}: {why}")


def _lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that are left in a file. The last one is incomplete if it is too long to be a line."""
    while line := file.readline(RECORD_LINE_BYTES):
        yield line
        if not line.endswith(b"\n"):
            return


def _within(lines: Iterable[bytes], max_bytes: int | None) -> Iterator[bytes]:
    """Yield the first line, and the following lines up to the bound."""
    size = 0
    for line in lines:
        if max_bytes is not None and size and size + len(line) > max_bytes:
            return
        size += len(line)
        yield line


class _Lines:
    """The offsets of complete lines in a growing file. Thread-safe."""

    def __init__(self) -> None:
        self.bytes = 0
        """Offset of the end of the last complete line."""
        self.end_is_damaged = False
        """True if the bytes after it are not a line that is still being written."""
        self._count = 0
        self._offsets = [0]
        """Offsets of line 0, `_STRIDE`, 2·`_STRIDE`, …"""
        self._lock = threading.Lock()

    @property
    def records(self) -> int:
        return max(0, self._count - 1)

    def refresh(self, path: Path) -> None:
        """Index the lines appended since the last call. A missing file counts as empty."""
        with self._lock:
            try:
                file = BufferedReader(open_reader(path))
            except FileNotFoundError:
                return
            with file:
                file.seek(self.bytes)
                rest = b""
                while len(rest) < RECORD_LINE_BYTES and (chunk := file.read(MIB)):
                    rest = self._take(rest + chunk)
                self.end_is_damaged = len(rest) >= RECORD_LINE_BYTES or lost_its_end(rest)

    def seek(self, file: BinaryIO, line: int) -> int:
        """Move to the nearest remembered line at or before `line`. Return the number of lines left to skip."""
        with self._lock:
            mark = min(line // _STRIDE, len(self._offsets) - 1)
            file.seek(self._offsets[mark])
            return line - mark * _STRIDE

    def cut(self, line: int, begin: int) -> None:
        """Forget `line`, which begins at offset `begin`, and all later lines."""
        with self._lock:
            self._count, self.bytes = line, begin
            del self._offsets[line // _STRIDE + 1 :]

    def _take(self, data: bytes) -> bytes:
        """Count the complete lines of `data`, which begins at the end of the last one.

        Return the bytes after them.
        """
        start, end = self.bytes, 0
        while (at := data.find(b"\n", end)) >= 0:
            end = at + 1
            self.bytes = start + end
            self._count += 1
            if self._count % _STRIDE == 0:
                self._offsets.append(self.bytes)
        return data[end:]
