"""final_snapshot.json: the result of a run, written atomically at the first candidate path that is writable."""

from __future__ import annotations

import errno
import math
import os
import re
import stat
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from telemetry import limits
from telemetry.common.files import read_file, read_owned
from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import describe
from telemetry.store.atomic import OWNER_ONLY, replacing, write_atomic
from telemetry.store.run_directory import FINAL, RunDirectory
from telemetry.wire.codec import BAD_INPUT, check_numbers
from telemetry.wire.consistency import contradiction
from telemetry.wire.events import Natural, RunId
from telemetry.wire.seal import SEAL, BrokenSeal, check_seal, sealed
from telemetry.wire.snapshot import Completeness, MetricsSnapshot, State
from telemetry.wire.version import SCHEMA

_PLAIN: Final = frozenset({bool, int, str, type(None)})
_PAIR: Final = re.compile(rb"\[\n\s+([-\d.eE+]+),\n\s+([-\d.eE+]+)\n\s+\]")


@dataclass(frozen=True)
class FinalFile:
    """The result file of a run at the path where it was found."""

    path: Path
    run: RunDirectory

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the file lies outside of the run directory."""
        return self.path != self.run.final

    def head(self) -> FinalHead:
        """Read the fields that a list of runs shows. Raises as `read_final`."""
        return _head(self._data(), self.path)

    def read(self) -> MetricsSnapshot:
        """Read the result. Raises as `read_final`, and for an untrusted file outside of the run directory."""
        data = self._data()
        if self.is_elsewhere:
            _check_run(_head(data, self.path), self.run, self.path)
        return _decode(data, self.path)

    def _data(self) -> bytes:
        return _read_elsewhere(self.path, self.run) if self.is_elsewhere else _read(self.path)


def final_candidates(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> list[Path]:
    """Return the paths for the final file of a run, best first: its directory, then the fallback directories."""
    folders = [Path(folder) for folder in fallback_dirs]
    if temporary := _temporary():
        folders.append(temporary)
    return [run.final, *(folder / f"telemetry-{run.run_id}-{FINAL}" for folder in folders)]


def find_final(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> FinalFile | None:
    """Find the final file of a run in its directory or a fallback directory.

    Other users may be able to write outside of the run directory. A file there must be a regular file and not a
    link. It must belong to this user or the owner of the run directory, must not be writable for others, and must
    have the id of this run.
    """
    for path in final_candidates(run, fallback_dirs):
        final_file = FinalFile(path, run)
        if not final_file.is_elsewhere:
            with suppress(OSError):
                if path.is_file():
                    return final_file
            continue
        with suppress(RunDirectoryError):
            _check_run(final_file.head(), run, path)
            return final_file
    return None


def write_final(snapshot: MetricsSnapshot, candidates: Sequence[Path]) -> Path:
    """Write the file to the first of `candidates` (file paths) that is writable. Return that path.

    Missing directories are created. Outside of a run directory only this user can read the file. Blocks until it is
    on the disk. Raises RunDirectoryError with the reason for each path.
    """
    data = final_json(snapshot)
    reasons = []
    for path in candidates:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.name == FINAL:
                write_atomic(path, data, mode=OWNER_ONLY)
            else:
                _write_elsewhere(path, data)
        except OSError as error:
            reasons.append(f"{path}: {error.strerror or error}")
        else:
            return path
    raise RunDirectoryError(f"can't write the final result: {'; '.join(reasons) or 'no location is writable'}")


def final_json(snapshot: MetricsSnapshot) -> bytes:
    """Return strict, indented JSON with a checksum.

    A number that is not finite becomes null, and a warning names it.
    """
    return sealed(strict_json(msgspec.to_builtins(snapshot)))


def strict_json(document: dict[str, Any]) -> bytes:
    """Return `final_json` of a document that has `warnings` and consists of builtins only."""
    odd: list[str] = []
    document = _finite(document, "", odd)
    document["warnings"] = [*document["warnings"], *odd]
    indented = msgspec.json.format(msgspec.json.encode(document), indent=2)
    # A JSON string can't contain a raw line break, so only pairs of numbers match.
    return _PAIR.sub(rb"[\1, \2]", indented) + b"\n"


class NodeHead(msgspec.Struct):
    """A node in a list of runs, which only counts nodes."""


class AccountHead(msgspec.Struct):
    """The number of events in a list of runs."""

    applied: Natural = 0


class CommandHead(msgspec.Struct):
    """The end of the command in a list of runs."""

    exit_code: int | None = None
    signal: str | None = None


class MarkHead(msgspec.Struct):
    """A mark in a list of runs, which shows why a command failed."""

    text: str
    time_ns: Natural = 0


class FinalHead(msgspec.Struct):
    """The fields of a result that a list of runs shows."""

    name: str
    run_id: RunId
    state: State
    completeness: Completeness
    reason: str = ""
    started_ns: Natural = 0
    elapsed_s: float = 0.0
    accounting: AccountHead = msgspec.field(default_factory=AccountHead)
    command: CommandHead | None = None
    nodes: list[NodeHead] = []
    marks: list[MarkHead] = []


def read_final(path: Path) -> MetricsSnapshot:
    """Read a result.

    Raises RunDirectoryError if the file is missing, damaged, of a newer schema, or contradicts itself.
    """
    return _decode(_read(path), path)


def _head(data: bytes, path: Path) -> FinalHead:
    """Read the head only, with a fraction of the work of `_decode`. Raises RunDirectoryError for a damaged file."""
    try:
        check_seal(data)
        return msgspec.json.decode(data, type=FinalHead)
    except BAD_INPUT as error:
        raise _damaged(path, error) from error


def _decode(data: bytes, path: Path) -> MetricsSnapshot:
    try:
        check_seal(data)
        document = msgspec.json.decode(data)
        if not isinstance(document, dict) or "schema_version" not in document:
            raise RunDirectoryError(
                f"{path} is damaged: it has no schema_version, so it is not the result of a run"
            )
        version = document["schema_version"]
        if version > SCHEMA:
            raise RunDirectoryError(
                f"{path} has schema version {version}; this telemetry reads up to {SCHEMA}",
                hint="read it with the version that wrote it",
            )
        check_numbers(document)
        snapshot = _snapshot(document)
        problem = contradiction(snapshot)
    except (*BAD_INPUT, KeyError, TypeError) as error:
        raise _damaged(path, error) from error
    if problem:
        raise RunDirectoryError(f"{path} is inconsistent: {problem}")
    return snapshot


def _damaged(path: Path, error: Exception) -> RunDirectoryError:
    hint = f"if you edited it, remove its last field, `{SEAL}`" if isinstance(error, BrokenSeal) else ""
    return RunDirectoryError(f"{path} is damaged: {error}", hint=hint)


def _read(path: Path) -> bytes:
    try:
        return read_file(path, limits.RESULT_BYTES)
    except FileNotFoundError as error:
        raise RunDirectoryError(f"{path} does not exist") from error
    except OSError as error:
        raise RunDirectoryError(f"can't read {path}: {describe(error)}") from error


def _read_elsewhere(path: Path, run: RunDirectory) -> bytes:
    """Read a file in a folder where other users may write. Raises RunDirectoryError also for a file of theirs."""
    try:
        return read_owned(path, _owners(run), limits.RESULT_BYTES)
    except OSError as error:
        raise RunDirectoryError(f"can't read {path}: {describe(error)}") from error


def _owners(run: RunDirectory) -> set[int]:
    """Return the trusted owners: this user and the owner of the run directory, who could write any file into it."""
    owners = {os.geteuid()}
    with suppress(OSError):
        owners.add(run.path.stat().st_uid)
    return owners


def _check_run(head: FinalHead, run: RunDirectory, path: Path) -> None:
    if head.run_id != run.run_id:
        raise RunDirectoryError(f"{path} is the result of run {head.run_id}, not of {run.run_id}")


def _write_elsewhere(path: Path, data: bytes) -> None:
    """Write to a folder outside of the run directory. Raises OSError."""
    mode = path.parent.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX and path.parent == _temporary():
        raise PermissionError(errno.EPERM, "other users may replace files in this folder")
    with replacing(path) as file:
        os.fchmod(file.fileno(), stat.S_IRUSR | stat.S_IWUSR)
        file.write(data)


def _temporary() -> Path | None:
    """Return the folder for temporary files; None if the machine has none."""
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        return None


def _finite(value: Any, where: str, odd: list[str]) -> Any:
    if type(value) in _PLAIN:
        return value
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        odd.append(f"{where} is {value}, stored as null")
        return None
    if isinstance(value, dict):
        name = value.get("name")
        here = f"{where}[{name}]" if isinstance(name, str) and where else where
        return {key: _finite(item, f"{here}.{key}" if here else str(key), odd) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [item if type(item) in _PLAIN else _finite(item, where, odd) for item in value]
    return value


def _snapshot(document: Any) -> MetricsSnapshot:
    try:
        return msgspec.convert(document, MetricsSnapshot)
    except msgspec.ValidationError:
        # A non-finite number in a field that can't be null: the warning in the file mentions it.
        return msgspec.convert(_without_nulls(document), MetricsSnapshot)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
