"""The compiled hot path: a ring in memory that may outlive the process. docs/RING.md has its format."""

from __future__ import annotations

import os
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from telemetry.client.native_module import RECORDER
from telemetry.client.recorders import Recorders, discard, python_recorders
from telemetry.client.redaction import REDACTION
from telemetry.client.signal_safe import Locked
from telemetry.transport.ring_directory import (
    is_on_this_host,
    namespaces,
    remove_old,
    ring_directory,
)
from telemetry.wire.control import Hello
from telemetry.wire.rings import DEFINITIONS_SUFFIX, RING_SUFFIX, Introduction

_BUFFER_FULL, _NOT_A_NUMBER, _BLOCK_TIMEOUT, _UNENCODABLE = range(4)
_ROW: Final = 3  # numbers of a row
_LENGTH: Final = struct.Struct("<I")
_ENCODE: Final = msgspec.msgpack.Encoder().encode


def build_recorders() -> Recorders:
    """Return the recorders of a process: compiled ones if there are any."""
    return python_recorders() if RECORDER is None else _native_recorders()


def _native_recorders() -> Recorders:
    buffer = RingBuffer()
    install = buffer.install
    return Recorders(
        buffer=buffer,
        memory=RingMemory(buffer),
        refused=buffer.tally(_NOT_A_NUMBER),
        buffer_full=buffer.tally(_BUFFER_FULL),
        timed_out=buffer.tally(_BLOCK_TIMEOUT),
        unencodable=buffer.tally(_UNENCODABLE),
        install=lambda target: install(None if target is discard else target),
        install_waiting=lambda waiting: install(buffer.extend, waiting),
        record=buffer.record,
        add=buffer.add,
        put=buffer.put,
        next_request=buffer.next_request,
        requests_logged=buffer.requests_logged,
    )


class _KeptRecords(deque[bytes]):
    """A queue of records that also keeps them in the ring. Any thread may append."""

    def __init__(self, keep: Callable[[Sequence[bytes], Callable[[Iterable[bytes]], object]], None]) -> None:
        super().__init__()
        self._keep = keep
        self._extend = super().extend

    def append(self, record: bytes, /) -> None:
        self._keep((record,), self._extend)

    def extend(self, records: Iterable[bytes], /) -> None:
        self._keep(list(records), self._extend)


class RingBuffer(RECORDER.Ring if RECORDER is not None else object):  # type: ignore[misc]
    """A ring as a `telemetry.client.recorders.Buffer`."""

    def __len__(self) -> int:
        return _ROW * int(self.waiting)

    def __iter__(self) -> Iterator[float]:
        return iter(self.rows())

    def __getitem__(self, which: int | slice) -> Any:
        return self.rows()[which]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | RingBuffer) and self.rows() == list(other)

    __hash__ = None  # type: ignore[assignment]

    def clear(self) -> None:
        self.drop(self.waiting)

    def new_records(self) -> deque[bytes]:
        return _KeptRecords(self.keep)


class RingMemory(Locked):
    """The file of a ring, and the file of definitions beside it. Thread-safe."""

    def __init__(self, ring: RingBuffer) -> None:
        super().__init__()
        self._ring = ring
        self._path: Path | None = None
        self._definitions = -1
        """Descriptor of the file of definitions."""

    def open(
        self,
        producer: str,
        bound: int,
        definitions: Sequence[bytes],
        hello: Hello | None = None,
        endpoint: str = "",
    ) -> str:
        """Make the files of a producer. Without a place for them, the memory ends with the process."""
        directory = ring_directory() if not endpoint or is_on_this_host(endpoint) else None
        with self._lock:
            if directory is not None:
                path = directory / f"{producer}{RING_SUFFIX}"
                entries = [_ENCODE(REDACTION.rules()), *definitions]
                if hello is not None:
                    introduction = Introduction(replace(hello, ring=str(path)), endpoint, namespaces(endpoint))
                    with suppress(UnicodeEncodeError):  # an address that no message can name
                        entries.insert(0, _ENCODE(introduction))
                try:
                    remove_old(directory)
                    self._make(path, producer, bound, entries)
                except OSError:
                    self.remove()
                else:
                    return str(path)
            self._ring.open("", producer, bound, 0, time.time_ns())
            return ""

    def _make(self, path: Path, producer: str, bound: int, entries: Sequence[bytes]) -> None:
        self._close()
        self._path = path
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._definitions = os.open(path.with_suffix(DEFINITIONS_SUFFIX), flags, 0o600)
        self._write(entries)  # before there is a ring, so that its finder finds the entries, too
        self._ring.open(os.fspath(path), producer, bound, _started(), time.time_ns())

    def define(self, definition: bytes) -> None:
        with self._lock:
            if self._definitions >= 0:
                try:
                    self._write([definition])
                except OSError:  # no room: what has this id can't be salvaged, and its reader says so
                    self._close()

    def renew_rules(self) -> None:
        self.define(_ENCODE(REDACTION.rules()))

    def _write(self, entries: Iterable[bytes]) -> None:
        data = b"".join(_LENGTH.pack(len(entry)) + entry for entry in entries)
        while data:
            data = data[os.write(self._definitions, data) :]

    def remove(self) -> None:
        with self._lock:
            path, self._path = self._path, None
            self._close()
            self._ring.release()
            if path is not None:
                path.unlink(missing_ok=True)
                path.with_suffix(DEFINITIONS_SUFFIX).unlink(missing_ok=True)

    def forget(self) -> None:
        with self._lock:
            self._path = None
            self._close()
            self._ring.release()

    def _close(self) -> None:
        descriptor, self._definitions = self._definitions, -1
        if descriptor >= 0:
            os.close(descriptor)


def _started() -> int:
    """Return the start of this process in clock ticks since boot, or 0 if the system does not tell."""
    try:
        return int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
