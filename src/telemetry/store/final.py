"""final_snapshot.json: the result of a run, written whole or not at all, in the first place that takes it."""

from __future__ import annotations

import math
import os
import re
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from telemetry.errors import RunDirectoryError
from telemetry.store.appendfile import describe
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.store.rundir import FINAL, RunDirectory
from telemetry.wire.codec import BAD_INPUT, check_numbers
from telemetry.wire.events import Natural
from telemetry.wire.snapshot import Completeness, MetricsSnapshot, State
from telemetry.wire.version import SCHEMA

_PLAIN: Final = frozenset({bool, int, str, type(None)})
_PAIR: Final = re.compile(rb"\[\n\s+([-\d.eE+]+),\n\s+([-\d.eE+]+)\n\s+\]")


def final_candidates(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> list[Path]:
    """Where the final file of a run goes: into its directory, or else the first of these that takes it."""
    folders = [Path(folder) for folder in fallback_dirs]
    if temporary := _temporary():
        folders.append(temporary)
    return [run.final, *(folder / f"telemetry-{run.run_id}-{FINAL}" for folder in folders)]


def find_final(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> Path | None:
    """The final file of a run, wherever it went. In the directory for temporary files only one of this user's."""
    for path in final_candidates(run, fallback_dirs):
        with suppress(OSError):
            if path.is_file() and (path.parent != _temporary() or path.stat().st_uid == os.getuid()):
                return path
    return None


def write_final(snapshot: MetricsSnapshot, candidates: Sequence[Path]) -> Path:
    """Writes the file at the first of `candidates` (file paths) that can be written; returns which.

    Missing directories are made. Blocks until it is on the disk. Raises RunDirectoryError with every reason.
    """
    data = final_json(snapshot)
    reasons = []
    for path in candidates:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data, mode=OWNER_ONLY)
        except OSError as error:
            reasons.append(f"{path}: {error.strerror or error}")
        else:
            return path
    raise RunDirectoryError(
        f"the final result can't be written: {'; '.join(reasons) or 'there is no place for it'}"
    )


def final_json(snapshot: MetricsSnapshot) -> bytes:
    """Strict, indented JSON. A number that is not finite is null, and a warning says which and why."""
    return strict_json(msgspec.to_builtins(snapshot))


def strict_json(document: dict[str, Any]) -> bytes:
    """`final_json` of a document that has `warnings`, and only builtins in it."""
    odd: list[str] = []
    document = _finite(document, "", odd)
    document["warnings"] = [*document["warnings"], *odd]
    indented = msgspec.json.format(msgspec.json.encode(document), indent=2)
    # A raw line break can't be inside a JSON string, so that only pairs of numbers match.
    return _PAIR.sub(rb"[\1, \2]", indented) + b"\n"


class FinalHead(msgspec.Struct):
    """What a list of runs says of a result."""

    name: str
    run_id: str
    state: State
    completeness: Completeness
    started_ns: Natural = 0


def read_head(path: Path) -> FinalHead:
    """A fraction of the work of `read_final`. Raises RunDirectoryError if the file is missing or broken."""
    try:
        return msgspec.json.decode(_read(path), type=FinalHead)
    except BAD_INPUT as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error


def read_final(path: Path) -> MetricsSnapshot:
    """Raises RunDirectoryError if the file is missing, broken, or of a newer schema."""
    data = _read(path)
    try:
        document = msgspec.json.decode(data)
        version = document["schema_version"]
        if version > SCHEMA:
            raise RunDirectoryError(
                f"{path} has schema version {version}, this telemetry reads up to {SCHEMA}",
                hint="read it with the version that wrote it",
            )
        check_numbers(document)
        return _snapshot(document)
    except (*BAD_INPUT, KeyError, TypeError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise RunDirectoryError(f"there is no {path}") from error
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be read: {describe(error)}") from error


def _temporary() -> Path | None:
    """Not every machine has one."""
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
        odd.append(f"{where} is {value}, written as null")
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
        # A number that was not finite and whose field has no null: the warning in the file speaks of it.
        return msgspec.convert(_without_nulls(document), MetricsSnapshot)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
