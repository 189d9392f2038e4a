"""`gates.json` in a run directory: the results of the gates given to `telemetry run`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import describe
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.gates import GateResult
from telemetry.wire.seal import check_seal, sealed
from telemetry.wire.version import SCHEMA

GATES: Final = "gates.json"


class _File(Struct, kw_only=True, frozen=True):
    schema_version: int = SCHEMA
    gates: list[GateResult] = []


def write_gates(directory: Path, results: list[GateResult]) -> Path:
    """Write the results atomically. Blocks on the disk. Raises RunDirectoryError."""
    path = directory / GATES
    try:
        data = msgspec.json.format(msgspec.json.encode(_File(gates=results)), indent=2)
        write_atomic(path, sealed(data + b"\n"), mode=OWNER_ONLY)
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be written: {describe(error)}") from error
    return path


def read_gates(directory: Path) -> list[GateResult]:
    """Return the gate results of a run; empty if it had no gates.

    Raises RunDirectoryError if the file can't be read or is newer than this version.
    """
    path = directory / GATES
    try:
        data = path.read_bytes()
        check_seal(data)
        found = msgspec.json.decode(data, type=_File)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be read: {describe(error)}") from error
    except BAD_INPUT as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error
    if found.schema_version > SCHEMA:
        raise RunDirectoryError(
            f"{path} has schema version {found.schema_version}, this telemetry reads up to {SCHEMA}"
        )
    return found.gates
