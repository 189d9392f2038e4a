"""`backends/<name>/` in a run directory: settings, progress and state of a writer.

writer.json      its settings, so that another process can continue; written at its start
checkpoint.json  items that the tracker has acknowledged; written after each acknowledgement
ahead            number of items handed to the tracker since then; only for trackers where that matters
status.json      its newest report of its state
writer.log       messages of the tracker's library
lock             held by the writer process
data/            files of the tracker, unless an option sets another place
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from telemetry import limits
from telemetry.common.file_lock import lock_file
from telemetry.common.files import make_folder, open_file, open_reader, read_file
from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import describe
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.events import Drops, Natural
from telemetry.wire.seal import check_seal, sealed
from telemetry.wire.snapshot import BackendStat
from telemetry.wire.version import SCHEMA

BACKENDS: Final = "backends"
_DEPTH: Final = 3
"""Depth of the files of a writer, as in `telemetry.common.files`."""

_AHEAD: Final = re.compile(rb"(\d{1,18}) (\d{1,18})\n")
_T = TypeVar("_T", bound=Struct)


class _File(Struct, kw_only=True, frozen=True):
    schema_version: int = SCHEMA


class WriterFacts(_File, kw_only=True, frozen=True):
    name: str
    kind: str
    to: str
    """Value of `--to`, with secrets masked."""
    cwd: str = ""
    """Working directory: the base of relative paths, and the place of the settings."""
    every_s: float | None = None
    """Seconds between readings; null: as in the settings."""


class Counts(Struct, kw_only=True, frozen=True):
    """Counts over all processes of a writer."""

    written: Natural = 0
    retried: Natural = 0
    repeated: Natural = 0
    dropped: Drops = {}
    no_place: Drops = {}
    refused: Annotated[list[Natural], Meta(max_length=limits.BACKEND_REFUSED)] = []
    """Numbers of the newest records that the tracker refused."""


class WriterCheckpoint(_File, kw_only=True, frozen=True):
    """A checkpoint of a writer: everything before `position` is delivered to the tracker, or counted as dropped."""

    serial: Natural = 0
    """Number of the checkpoint; each one adds 1."""
    position: dict[str, Any] = {}
    """Position in the format of the source of items; empty: the beginning."""
    state: dict[str, Any] = {}
    """State of the backend itself."""
    counts: Counts = Counts()
    unconfirmed: Natural = 0
    """Number of items after `position` that the tracker may have; only for trackers where that matters."""
    done: bool = False
    """True if the run was over, everything was delivered, and the backend was closed."""


@dataclass(frozen=True)
class WriterFolder:
    """The folder of one writer. Creating this object touches no file. Only the process with the lock writes."""

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
        """Create the folder and its data folder. Remove links in it that lead out of the run directory.

        Trackers' libraries, which write there, follow links. Raises RunDirectoryError.
        """
        try:
            for folder in (self.path.parent, self.path, self.data):
                make_folder(folder)
            run = Path(os.path.realpath(self.path.parent.parent))
            for directory, folders, files in os.walk(self.path):
                for path in (Path(directory) / name for name in (*folders, *files)):
                    if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(run):
                        path.unlink()
        except OSError as error:
            raise RunDirectoryError(f"can't create the writer's folder: {describe(error)}") from error

    def write_facts(self, facts: WriterFacts) -> None:
        """Write the writer's settings. Raises RunDirectoryError."""
        _write(self.facts, facts)

    def read_facts(self) -> WriterFacts | None:
        """Return the writer's settings; None if there is no writer. Raises RunDirectoryError."""
        return _read(self.facts, WriterFacts)

    def write_checkpoint(self, checkpoint: WriterCheckpoint) -> None:
        """Write the checkpoint. Raises RunDirectoryError.

        It survives a crash of the process, but not of the machine. The same is true for data that most trackers
        acknowledge.
        """
        _write(self.checkpoint, checkpoint)

    def read_checkpoint(self) -> WriterCheckpoint:
        """Return the checkpoint; that of a new writer if there is none. Raises RunDirectoryError."""
        return _read(self.checkpoint, WriterCheckpoint) or WriterCheckpoint()

    def write_status(self, stat: BackendStat) -> None:
        """Write the newest report. Raises RunDirectoryError."""
        _write(self.status, _Status(status=stat))

    def taken(self) -> bool:
        """Return whether a live writer has this folder; True also if that is unknown."""
        try:
            with open_reader(self.lock, depth=_DEPTH) as file:
                return not lock_file(file.fileno(), shared=True, of_process=True)  # closing the file releases it
        except FileNotFoundError:
            return False
        except OSError:
            return True

    def read_status(self) -> BackendStat | None:
        """Return the newest report; None if there is none yet. Raises RunDirectoryError."""
        report = _read(self.status, _Status)
        return report.status if report else None


class _Status(_File, kw_only=True, frozen=True):
    status: BackendStat


class Unconfirmed:
    """The number of items handed to the tracker since the checkpoint; the tracker may or may not have them.

    Each update is one small write without a rename. Never raises: if the file can't be written, the number is
    unknown.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def read(self, serial: int) -> int:
        """Return the number of items handed over after the checkpoint of that number."""
        with suppress(OSError):
            match = _AHEAD.fullmatch(read_file(self._path, limits.KIB, depth=_DEPTH))
            if match and int(match[1]) == serial:
                return int(match[2])
        return 0

    def write(self, serial: int, items: int) -> None:
        with suppress(OSError):
            if self._fd < 0:
                self._fd = open_file(self._path, os.O_WRONLY | os.O_CREAT, depth=_DEPTH)
            os.pwrite(self._fd, b"%018d %018d\n" % (serial, items), 0)

    def close(self) -> None:
        """Close the file. Can be called twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def writer_folder(run: Path, name: str) -> WriterFolder:
    return WriterFolder(run / BACKENDS / name)


def writer_folders(run: Path) -> list[WriterFolder]:
    """Return the writer folders of a run, by name; empty if there are none, or if they can't be listed."""
    try:
        paths = [path for path in (run / BACKENDS).iterdir() if (path / "writer.json").is_file()]
    except OSError:
        return []
    return [WriterFolder(path) for path in sorted(paths)]


def unfinished_writers(run: Path) -> set[str]:
    """Return the names of writers that have not delivered all, also of those whose checkpoint can't be read."""
    folders = {folder.path.name: folder for folder in writer_folders(run)}
    for name, folder in list(folders.items()):
        with suppress(RunDirectoryError):
            if folder.read_checkpoint().done:
                del folders[name]
    return set(folders)


def read_backends(run: Path) -> list[BackendStat]:
    """Return the newest reports of all writers of a run, by name. Unreadable reports are left out."""
    stats = []
    for folder in writer_folders(run):
        with suppress(RunDirectoryError):
            if stat := folder.read_status():
                stats.append(stat)
    return stats


def _write(path: Path, value: _File) -> None:
    try:
        write_atomic(path, sealed(msgspec.json.encode(value) + b"\n"), durable=False, mode=OWNER_ONLY)
    except OSError as error:
        raise RunDirectoryError(f"can't write {path}: {describe(error)}") from error


def _read(path: Path, kind: type[_T]) -> _T | None:
    """Read the file; return None if there is no such file."""
    try:
        data = read_file(path, limits.FACTS_BYTES, depth=_DEPTH)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunDirectoryError(f"can't read {path}: {describe(error)}") from error
    try:
        check_seal(data)
        version = msgspec.json.decode(data, type=_File).schema_version
        if version > SCHEMA:
            raise RunDirectoryError(f"{path} has schema version {version}; this telemetry reads up to {SCHEMA}")
        return msgspec.json.decode(data, type=kind)
    except BAD_INPUT as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error
