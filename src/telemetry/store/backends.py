"""`backends/<name>/` in a run directory: what a writer is, how far it has come, and how it is doing.

writer.json      what it was asked to do, so that somebody can go on with it; written at its start
checkpoint.json  how far the tracker has acknowledged, after each time it did
ahead            how many items have been handed to the tracker since then; only where that matters
status.json      its newest report of itself
writer.log       what the tracker's library had to say
lock             held by the writer while it lives
data/            the tracker's own files, unless an option says otherwise
"""

from __future__ import annotations

import fcntl
import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct

from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import describe
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.events import Drops, Natural
from telemetry.wire.seal import check_seal, sealed
from telemetry.wire.snapshot import BackendStat
from telemetry.wire.version import SCHEMA

BACKENDS: Final = "backends"

_AHEAD: Final = re.compile(rb"(\d{1,18}) (\d{1,18})\n")
_T = TypeVar("_T", bound=Struct)


class _File(Struct, kw_only=True, frozen=True):
    schema_version: int = SCHEMA


class WriterFacts(_File, kw_only=True, frozen=True):
    name: str
    kind: str
    to: str
    """Of `--to`; secrets are masked."""
    cwd: str = ""
    """What paths in it are relative to, and where the settings are from."""
    every_s: float | None = None
    """That readings are apart; null: as the settings say."""


class Counts(Struct, kw_only=True, frozen=True):
    """Of all processes of a writer together."""

    written: Natural = 0
    retried: Natural = 0
    repeated: Natural = 0
    dropped: Drops = {}
    no_place: Drops = {}


class Checkpoint(_File, kw_only=True, frozen=True):
    """Everything before `position` is with the tracker, or counted."""

    serial: Natural = 0
    """One more with each."""
    position: dict[str, Any] = {}
    """As the source of items writes it; empty: the beginning."""
    state: dict[str, Any] = {}
    """The backend's own."""
    counts: Counts = Counts()
    done: bool = False
    """The run was over, all of it is there, and the backend was closed."""


@dataclass(frozen=True)
class WriterFolder:
    """Making one from a path touches nothing. One process writes: the one that has the lock."""

    path: Path

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def log(self) -> Path:
        return self.path / "writer.log"

    @property
    def lock(self) -> Path:
        return self.path / "lock"

    @property
    def facts(self) -> Path:
        return self.path / "writer.json"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.json"

    @property
    def status(self) -> Path:
        return self.path / "status.json"

    @property
    def ahead(self) -> Path:
        return self.path / "ahead"

    def make(self) -> None:
        """With its folder for data. Raises RunDirectoryError."""
        try:
            for folder in (self.path.parent, self.path, self.data):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise RunDirectoryError(f"the writer's folder can't be made: {describe(error)}") from error

    def write_facts(self, facts: WriterFacts) -> None:
        """Raises RunDirectoryError."""
        _write(self.facts, facts)

    def read_facts(self) -> WriterFacts | None:
        """None if there is no writer. Raises RunDirectoryError."""
        return _read(self.facts, WriterFacts)

    def write_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Outlives the process, not the machine: neither does what most trackers acknowledge. Raises
        RunDirectoryError."""
        _write(self.checkpoint, checkpoint)

    def read_checkpoint(self) -> Checkpoint:
        """That of a new writer if there is none. Raises RunDirectoryError."""
        return _read(self.checkpoint, Checkpoint) or Checkpoint()

    def write_status(self, stat: BackendStat) -> None:
        """Raises RunDirectoryError."""
        _write(self.status, _Status(status=stat))

    def taken(self) -> bool:
        """Whether a writer lives that has it; also if nobody can tell."""
        try:
            with self.lock.open("rb") as file:
                fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # let go of with the file
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return False

    def read_status(self) -> BackendStat | None:
        """None if it has never said anything. Raises RunDirectoryError."""
        found = _read(self.status, _Status)
        return found.status if found else None


class _Status(_File, kw_only=True, frozen=True):
    status: BackendStat


class Ahead:
    """What a writer has handed to the tracker since its checkpoint: the tracker may have it, although nobody knows.

    One small write each time, no rename. Nothing is raised: where it can't be kept, nothing is known.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def read(self, serial: int) -> int:
        """How many items were handed over after the checkpoint of that number."""
        with suppress(OSError):
            found = _AHEAD.fullmatch(self._path.read_bytes())
            if found and int(found[1]) == serial:
                return int(found[2])
        return 0

    def write(self, serial: int, items: int) -> None:
        with suppress(OSError):
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            os.pwrite(self._fd, b"%018d %018d\n" % (serial, items), 0)

    def close(self) -> None:
        """May be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def writer_folder(run: Path, name: str) -> WriterFolder:
    return WriterFolder(run / BACKENDS / name)


def writer_folders(run: Path) -> list[WriterFolder]:
    """Those of a run, by name. Empty where there are none, or where they can't be looked at."""
    try:
        found = [path for path in (run / BACKENDS).iterdir() if (path / "writer.json").is_file()]
    except OSError:
        return []
    return [WriterFolder(path) for path in sorted(found)]


def read_backends(run: Path) -> list[BackendStat]:
    """The newest reports of all writers of a run, by name; one that can't be read is left out."""
    found = []
    for folder in writer_folders(run):
        with suppress(RunDirectoryError):
            if stat := folder.read_status():
                found.append(stat)
    return found


def _write(path: Path, value: _File) -> None:
    try:
        write_atomic(path, sealed(msgspec.json.encode(value) + b"\n"), durable=False, mode=OWNER_ONLY)
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be written: {describe(error)}") from error


def _read(path: Path, kind: type[_T]) -> _T | None:
    """None if there is no such file."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be read: {describe(error)}") from error
    try:
        check_seal(data)
        version = msgspec.json.decode(data, type=_File).schema_version
        if version > SCHEMA:
            raise RunDirectoryError(f"{path} has schema version {version}, this telemetry reads up to {SCHEMA}")
        return msgspec.json.decode(data, type=kind)
    except BAD_INPUT as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error
