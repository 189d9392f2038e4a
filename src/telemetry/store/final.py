"""final_snapshot.json: the result of a run, written whole or not at all, in the first place that takes it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from telemetry.errors import RunDirectoryError
from telemetry.store.appendfile import describe
from telemetry.store.atomic import write_atomic
from telemetry.store.rundir import RunDirectory
from telemetry.wire.report import Report
from telemetry.wire.snapshot import MetricsSnapshot
from telemetry.wire.version import SCHEMA

_PAIR: Final = re.compile(rb"\[\n\s+([-\d.eE+]+),\n\s+([-\d.eE+]+)\n\s+\]")


def write_final(snapshot: MetricsSnapshot, candidates: Sequence[Path]) -> Path:
    """Writes the file at the first of `candidates` (file paths) that can be written; returns which.

    Missing directories are made. Blocks until it is on the disk. Raises RunDirectoryError with every reason.
    """
    data = final_json(snapshot)
    reasons = []
    for path in candidates:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, data)
        except OSError as error:
            reasons.append(f"{path}: {error.strerror or error}")
        else:
            return path
    raise RunDirectoryError(
        f"the final result can't be written: {'; '.join(reasons) or 'there is no place for it'}"
    )


def final_json(snapshot: MetricsSnapshot) -> bytes:
    """Strict, indented JSON. A number that is not finite is null, and a warning says which and why."""
    document = msgspec.to_builtins(snapshot)
    odd: list[str] = []
    document = _finite(document, "", odd)
    document["warnings"] += odd
    indented = msgspec.json.format(msgspec.json.encode(document), indent=2)
    # A raw line break can't be inside a JSON string, so that only pairs of numbers match.
    return _PAIR.sub(rb"[\1, \2]", indented) + b"\n"


def read_final(path: Path) -> MetricsSnapshot:
    """Raises RunDirectoryError if the file is missing, broken, or of a newer schema."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise RunDirectoryError(f"there is no {path}") from error
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be read: {describe(error)}") from error
    try:
        document = msgspec.json.decode(data)
        version = document["schema_version"]
        if version > SCHEMA:
            raise RunDirectoryError(
                f"{path} has schema version {version}, this telemetry reads up to {SCHEMA}",
                hint="read it with the version that wrote it",
            )
        return _snapshot(document)
    except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, RecursionError) as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error


def load(run: RunDirectory) -> Report:
    """The result of a run from its directory. Raises RunDirectoryError if it left none that can be read."""
    if not run.final.exists():
        raise RunDirectoryError(
            f"{run.path} has no final result: the run is still going, or it was killed",
            hint="`telemetry ls` lists the runs that are still going",
        )
    return Report(snapshot=read_final(run.final), source="file")


def _finite(value: Any, where: str, odd: list[str]) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        odd.append(f"{where} is {value}, written as null")
        return None
    if isinstance(value, dict):
        name = value.get("name")
        here = f"{where}[{name}]" if isinstance(name, str) and where else where
        return {key: _finite(item, f"{here}.{key}" if here else str(key), odd) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item, where, odd) for item in value]
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
