"""A struct as one JSON file of the run directory: sealed, with a schema version, written atomically."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol, TypeVar

import msgspec

from telemetry import limits
from telemetry.common.files import read_file
from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import describe
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.seal import check_seal, sealed
from telemetry.wire.version import SCHEMA


class _Versioned(Protocol):
    @property
    def schema_version(self) -> int: ...


_T = TypeVar("_T", bound=_Versioned)


def write_json(path: Path, content: _Versioned, *, durable: bool = True) -> None:
    """Write the file atomically. Blocks on the disk if `durable`. Raises RunDirectoryError."""
    data = msgspec.json.format(msgspec.json.encode(content), indent=2)
    try:
        write_atomic(path, sealed(data + b"\n"), durable=durable, mode=OWNER_ONLY)
    except OSError as error:
        raise RunDirectoryError(f"can't write {path}: {describe(error)}") from error


def read_json(path: Path, type: type[_T]) -> _T | None:
    """Read the file; return None if there is none.

    Raises RunDirectoryError if it can't be read, is damaged, or is newer than this version.
    """
    try:
        data = read_file(path, limits.RESULT_BYTES)
        check_seal(data)
        content = msgspec.json.decode(data, type=type)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunDirectoryError(f"can't read {path}: {describe(error)}") from error
    except BAD_INPUT as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error
    if content.schema_version > SCHEMA:
        raise RunDirectoryError(
            f"{path} has schema version {content.schema_version}; this telemetry reads up to {SCHEMA}",
            hint="read it with the version that wrote it",
        )
    return content
