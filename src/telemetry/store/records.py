"""The record log: all records of the run's one sequence, for those who join late or missed some.

    records/records.jsonl
        {"schema_version":1,"run_id":"…","protocol":[1,1],"crc":"…"}
        {"seq":0,"wall_ns":…,"producer":"…","type":"mark","text":"…",…,"crc":"…"}

Line `seq + 1` is record `seq`. A number that is not finite is null. Each line has a check (`telemetry.wire.seal`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from telemetry.errors import RunDirectoryError
from telemetry.limits import MIB
from telemetry.store.append_file import AppendFile, describe
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.events import Streamed, StreamRecord
from telemetry.wire.seal import check_seal, lost_its_end, sealed
from telemetry.wire.version import PROTOCOL, SCHEMA, Version

FILE_NAME: Final = "records.jsonl"
_STRIDE: Final = 256  # lines between remembered offsets: a read skips that many at most
_TYPES: Final[dict[str, type[Any]]] = {str(kind.__struct_config__.tag): kind for kind in get_args(Streamed)}
_ENCODER: Final = msgspec.json.Encoder()
_SENDABLE: Final = msgspec.msgpack.Encoder()


class DamagedRecord(RunDirectoryError):
    """A line of a record log that is no record, while others may be."""


class _Header(Struct):
    schema_version: int = SCHEMA
    run_id: str = ""
    protocol: Version = PROTOCOL


def record_line(record: StreamRecord) -> bytes:
    """A record as one line of strict JSON, line end included."""
    tag = type(record.record).__struct_config__.tag
    head = {"seq": record.seq, "wall_ns": record.wall_ns, "producer": record.producer, "type": tag}
    return sealed(_ENCODER.encode(head | asdict(record.record)) + b"\n")


class RecordLog:
    """Appends from one thread; reads from any number of threads and processes at the same time.

    The first OSError of an append sets `failed`, and from then on appends are ignored.

    A number stands for one record for ever: subscribers drop numbers that they have. So records that the journal
    lost keep theirs, and those that producers send again are in the log a second time, under other numbers.
    """

    def __init__(self, directory: Path, *, resume: bool = False) -> None:
        """Touches nothing, but with `resume`: lines at the end that are no records are cut, as a power cut leaves
        them. Half a line is cut by the first `append` in any case.

        Raises RunDirectoryError if there is a log that can't be read; with `resume`, that one is left as it is, and
        `failed` says why.
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
        """One above the newest record known: after an `append`, or a `read` of what another process appended."""
        return max(self._appended, self._lines.records)

    def append(self, records: Sequence[StreamRecord]) -> None:
        """One write. Raises ValueError unless `records` go on where the log ends."""
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
        """At most `limit` records from `from_seq` on, and with `max_bytes` no more lines than that, but one.

        Blocks on the disk. A line still being written is left out.

        Raises RunDirectoryError if the file can't be read, DamagedRecord if one of these lines is damaged.
        """
        self._refresh()
        count = min(limit, self._lines.records - from_seq)
        if count <= 0 or from_seq < 0:
            if self._lines.end_is_damaged and from_seq == self._lines.records:
                raise DamagedRecord(f"{self._path} can't be read: line {from_seq + 2}: its line end was changed")
            return []
        try:
            with self._path.open("rb") as file:
                header = self._header(file.readline())
                skip = self._lines.seek(file, from_seq + 1)
                lines = list(_within(islice(file, skip, skip + count), max_bytes))
        except OSError as error:
            raise self._unreadable(describe(error)) from error
        return [self._decode(line, seq, header) for seq, line in enumerate(lines, from_seq)]

    def close(self) -> None:
        """Closes the file of the appending side."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, first: StreamRecord) -> AppendFile:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = AppendFile(self._path)
        if file.size > self._lines.bytes:  # half a line of a process that was killed
            file.cut(self._lines.bytes)
        if not file.size:
            file.append([sealed(_ENCODER.encode(_Header(run_id=first.run_id)) + b"\n")])
        self._file = file
        return file

    def _cut_bad_lines(self) -> None:
        try:
            with self._path.open("r+b") as file:
                header = self._header(file.readline())
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
            values = [fields[name] for name in kind.__struct_fields__ if name in fields]
            if fields["seq"] != seq:
                raise ValueError(f"it holds record {fields['seq']}")
            facts = (header.protocol, header.run_id, seq, fields["producer"], fields["wall_ns"])
            record = msgspec.convert([*facts, [fields["type"], *values]], StreamRecord)
            _SENDABLE.encode(record)  # JSON knows larger numbers
            return record
        except (*BAD_INPUT, KeyError, TypeError, OverflowError) as error:
            raise DamagedRecord(f"{self._path} can't be read: line {seq + 2}: {error}") from error

    def _unreadable(self, why: str) -> RunDirectoryError:
        return RunDirectoryError(f"{self._path} can't be read: {why}")


def _within(lines: Iterable[bytes], max_bytes: int | None) -> Iterator[bytes]:
    """The first line, and those after it up to the bound."""
    size = 0
    for line in lines:
        if max_bytes is not None and size and size + len(line) > max_bytes:
            return
        size += len(line)
        yield line


class _Lines:
    """Where the whole lines of a growing file are. Thread-safe."""

    def __init__(self) -> None:
        self.bytes = 0
        """Up to the end of the last whole line."""
        self.end_is_damaged = False
        """What follows that is no line that is still being written."""
        self._count = 0
        self._offsets = [0]
        """Of line 0, `_STRIDE`, 2·`_STRIDE`, …"""
        self._lock = threading.Lock()

    @property
    def records(self) -> int:
        return max(0, self._count - 1)

    def refresh(self, path: Path) -> None:
        """Takes in what was appended since the last call; no file is an empty file."""
        with self._lock:
            try:
                file = path.open("rb")
            except FileNotFoundError:
                return
            with file:
                file.seek(self.bytes)
                rest = b""
                while chunk := file.read(MIB):
                    rest = self._take(rest + chunk)
                self.end_is_damaged = lost_its_end(rest)

    def seek(self, file: BinaryIO, line: int) -> int:
        """Goes to the nearest remembered line at or before `line`; returns how many lines are left to skip."""
        with self._lock:
            mark = min(line // _STRIDE, len(self._offsets) - 1)
            file.seek(self._offsets[mark])
            return line - mark * _STRIDE

    def cut(self, line: int, begin: int) -> None:
        """Forgets `line`, which begins at a byte of the file, and those after it."""
        with self._lock:
            self._count, self.bytes = line, begin
            del self._offsets[line // _STRIDE + 1 :]

    def _take(self, data: bytes) -> bytes:
        """Counts the whole lines of `data`, which begins where the last one ended; returns what follows them."""
        start, end = self.bytes, 0
        while (at := data.find(b"\n", end)) >= 0:
            end = at + 1
            self.bytes = start + end
            self._count += 1
            if self._count % _STRIDE == 0:
                self._offsets.append(self.bytes)
        return data[end:]
