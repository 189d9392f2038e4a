"""A reader of a W&B run's transaction log, whose content survives all processes that wrote it.

The file has the format of LevelDB logs; each record is a protobuf message of W&B. Incomplete records are skipped.
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
"""Column with the key of a row's item."""
FINAL: Final = "_final"
"""Column with the key of the result, in the summary."""
STEP: Final = "_step"
_BLOCK: Final = 32_768
_CHUNK: Final = 7
_START: Final = 7  # size of the file header: kind and version
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass
class LoggedItems:
    """The items found in logs."""

    items: set[str] = field(default_factory=set)
    """Keys of items."""
    params: set[str] = field(default_factory=set)
    """Names of parameters."""
    next_row: int = 0
    """Number after the last row."""
    axes: dict[str, str] = field(default_factory=dict)
    """Name → its x-axis."""


class LogEntry(NamedTuple):
    """An entry of a log."""

    kind: Literal["row", "params", "summary", "files"]
    number: int
    """Number of a row."""
    values: dict[str, Any]
    """Values. Entries of files only have paths as keys."""
    folder: Path
    """Folder that paths are relative to."""


class LogReader:
    """A reader of a log file. It reads complete records only, and continues in the next call."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        """Start at `offset`, a value from an earlier reader."""
        self.path = path
        self.offset = max(offset, _START)
        self._decode: Any = import_module("wandb.proto.wandb_internal_pb2").Record.FromString

    def records(self) -> Iterator[Any]:
        """Yield the available `Record` messages of W&B. Raises OSError."""
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


def look(reader: LogReader, seen: LoggedItems) -> None:
    """Add new records. Raises OSError."""
    for record in reader.records():
        match record.WhichOneof("record_type"):
            case "history":
                seen.items |= _said(record.history.item, ITEM)
                seen.next_row = max(seen.next_row, record.history.step.num + 1)
            case "summary":
                seen.items |= _said(record.summary.update, FINAL)
            case "config":
                seen.params |= {key_of(item) for item in record.config.update}
            case "metric" if record.metric.step_metric:
                seen.axes[record.metric.name] = record.metric.step_metric


def plain_row(record: Any) -> dict[str, Any]:
    """Return a row of the history without nested values, such as images and distributions."""
    row: dict[str, Any] = {}
    for item in record.history.item:
        if item.key or len(item.nested_key) == 1:
            row[key_of(item)] = json.loads(item.value_json)
    row.setdefault(STEP, record.history.step.num)
    return row


def whole_row(items: Any) -> dict[str, Any]:
    """Return the items of a message, nested as they were logged."""
    row: dict[str, Any] = {}
    for item in items:
        *above, last = list(item.nested_key) or [item.key]
        level = row
        for part in above:
            level = level.setdefault(part, {})
        level[last] = json.loads(item.value_json)
    return row


def key_of(item: Any) -> str:
    """Return the key of an item, plain or as a path."""
    return str(item.key or ".".join(item.nested_key))


def said_since(logs: Sequence[Path], first_row: int) -> Iterator[LogEntry]:
    """Yield all parameters, the rows from a number on, and the result, in order. A repeated row is yielded once.

    Files are included for logs without an end and for the newest log: a server that has a row may lack its file.
    """
    for path in logs:
        folder = path.parent / "files"
        files: dict[str, Any] = {}
        ended = False
        for record in LogReader(path).records():
            match record.WhichOneof("record_type"):
                case "config":
                    values = {
                        name: value for name, value in whole_row(record.config.update).items() if name[:1] != "_"
                    }
                    if values:
                        yield LogEntry("params", 0, values, folder)
                case "summary" if any(key_of(item) == FINAL for item in record.summary.update):
                    yield LogEntry("summary", 0, whole_row(record.summary.update), folder)
                case "history" if record.history.step.num >= first_row:
                    first_row = record.history.step.num + 1
                    yield LogEntry("row", record.history.step.num, whole_row(record.history.item), folder)
                case "files":
                    files |= {file.path: None for file in record.files.files}
                case "exit":
                    ended = True
        if files and (not ended or path == logs[-1]):
            yield LogEntry("files", 0, files, folder)


def logs_of(folder: Path, run_id: str) -> list[Path]:
    """Return all logs of a run in W&B's folder, oldest first. Each W&B process began one."""
    logs = folder.glob(f"wandb/*run-*/run-{escape(run_id)}.wandb")
    return sorted(logs, key=lambda path: _begun(path, run_id))


def _said(items: Any, name: str) -> set[str]:
    return {json.loads(item.value_json) for item in items if key_of(item) == name}


def _begun(path: Path, run_id: str) -> tuple[str, int]:
    mode_and_time, _, suffix = path.parent.name.rpartition(f"-{run_id}")
    number = suffix.removeprefix("-")
    return mode_and_time.rpartition("-")[2], int(number) if number.isdecimal() else 0
