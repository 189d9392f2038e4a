"""The transaction log of a W&B run, read back: what is in it outlives every process that wrote it.

A file in the form of LevelDB's logs, each record of it a protobuf message of W&B's own. What is not whole yet, or
was cut off by a kill, is not there.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from glob import escape
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal, NamedTuple

ITEM: Final = "_item"
"""The column that says which item a row was made of."""
FINAL: Final = "_final"
"""The same for the result, which is in the summary."""
STEP: Final = "_step"
_BLOCK: Final = 32_768
_CHUNK: Final = 7
_START: Final = 7  # of a file: its kind and version
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass
class Seen:
    """What was found in logs."""

    items: set[str] = field(default_factory=set)
    """Their keys."""
    params: set[str] = field(default_factory=set)
    """Names of settings."""
    next_row: int = 0
    """One above the last row."""
    axes: dict[str, str] = field(default_factory=dict)
    """Names that have an x-axis, and which."""


class LogEntry(NamedTuple):
    """One thing a log says."""

    kind: Literal["row", "params", "summary", "files"]
    number: int
    """Of a row."""
    values: dict[str, Any]
    """Of files their paths alone."""
    folder: Path
    """That paths begin at."""


class LogReader:
    """One file from a place between two records on. Reads only what is whole; calling again reads on."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        """`offset`: one that a reader had."""
        self.path = path
        self.offset = max(offset, _START)
        self._decode: Any = import_module("wandb.proto.wandb_internal_pb2").Record.FromString

    def records(self) -> Iterator[Any]:
        """W&B's `Record` messages that are there by now. Raises OSError."""
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while (data := self._next(file)) is not None:
                record = self._decode(data)
                self.offset = file.tell()
                yield record

    def _next(self, file: BinaryIO) -> bytes | None:
        parts: list[bytes] = []
        while True:
            left = _BLOCK - file.tell() % _BLOCK
            if left < _CHUNK:
                file.seek(left, 1)
            head = file.read(_CHUNK)
            if len(head) < _CHUNK:
                return None
            size, kind = int.from_bytes(head[4:6], "little"), head[6]
            data = file.read(size)
            if len(data) < size or kind not in (_FULL, _FIRST, _MIDDLE, _LAST):
                return None
            if zlib.crc32(data, zlib.crc32(head[6:7])) != int.from_bytes(head[:4], "little"):
                return None
            parts.append(data)
            if kind in (_FULL, _LAST):
                return b"".join(parts)


def look(reader: LogReader, seen: Seen) -> None:
    """Adds what is new. Raises OSError."""
    for record in reader.records():
        match record.WhichOneof("record_type"):
            case "history":
                seen.items |= _said(record.history.item, ITEM)
                seen.next_row = max(seen.next_row, record.history.step.num + 1)
            case "summary":
                seen.items |= _said(record.summary.update, FINAL)
            case "config":
                seen.params |= {key_of(one) for one in record.config.update}
            case "metric" if record.metric.step_metric:
                seen.axes[record.metric.name] = record.metric.step_metric


def plain_row(record: Any) -> dict[str, Any]:
    """A row of the history but for what is nested, such as pictures and distributions."""
    found: dict[str, Any] = {}
    for item in record.history.item:
        if item.key or len(item.nested_key) == 1:
            found[key_of(item)] = json.loads(item.value_json)
    found.setdefault(STEP, record.history.step.num)
    return found


def whole_row(items: Any) -> dict[str, Any]:
    """What a message with items says, nested as it was logged."""
    found: dict[str, Any] = {}
    for item in items:
        *above, last = list(item.nested_key) or [item.key]
        place = found
        for part in above:
            place = place.setdefault(part, {})
        place[last] = json.loads(item.value_json)
    return found


def key_of(item: Any) -> str:
    """Of a message that has a key, plain or as a path of parts."""
    return str(item.key or ".".join(item.nested_key))


def said_since(logs: Sequence[Path], first_row: int) -> Iterator[LogEntry]:
    """All settings, the rows from a number on, and the result, in order; a row that was said again comes once.

    Files are those of logs that have no end, and of the newest: a server that has the row may lack its file.
    """
    for path in logs:
        folder = path.parent / "files"
        files: dict[str, Any] = {}
        ended = False
        for record in LogReader(path).records():
            match record.WhichOneof("record_type"):
                case "config":
                    values = {name: one for name, one in whole_row(record.config.update).items() if name[:1] != "_"}
                    if values:
                        yield LogEntry("params", 0, values, folder)
                case "summary" if any(key_of(one) == FINAL for one in record.summary.update):
                    yield LogEntry("summary", 0, whole_row(record.summary.update), folder)
                case "history" if record.history.step.num >= first_row:
                    first_row = record.history.step.num + 1
                    yield LogEntry("row", record.history.step.num, whole_row(record.history.item), folder)
                case "files":
                    files |= {one.path: None for one in record.files.files}
                case "exit":
                    ended = True
        if files and (not ended or path == logs[-1]):
            yield LogEntry("files", 0, files, folder)


def logs_of(folder: Path, run_id: str) -> list[Path]:
    """All logs of a run below W&B's folder, oldest first: each process that wrote to it began one."""
    found = folder.glob(f"wandb/*run-*/run-{escape(run_id)}.wandb")
    return sorted(found, key=lambda path: _begun(path, run_id))


def _said(items: Any, name: str) -> set[str]:
    return {json.loads(item.value_json) for item in items if key_of(item) == name}


def _begun(path: Path, run_id: str) -> tuple[str, int]:
    mode_and_time, _, suffix = path.parent.name.rpartition(f"-{run_id}")
    number = suffix.removeprefix("-")
    return mode_and_time.rpartition("-")[2], int(number) if number.isdecimal() else 0
