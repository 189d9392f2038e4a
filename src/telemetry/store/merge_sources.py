"""sources.json: the results of each run that was merged into this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from telemetry.errors import RunDirectoryError
from telemetry.store.append_file import describe
from telemetry.store.atomic import OWNER_ONLY, write_atomic
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.codec import BAD_INPUT
from telemetry.wire.seal import check_seal, sealed
from telemetry.wire.sources import Sources, SourceStat
from telemetry.wire.version import SCHEMA

SOURCES: Final = "sources.json"


def write_sources(run: RunDirectory, sources: Sequence[SourceStat]) -> None:
    """Write the sources atomically. Blocks on the disk. Raises RunDirectoryError."""
    path = run.path / SOURCES
    try:
        data = msgspec.json.encode(Sources(sources=list(sources)))
        write_atomic(path, sealed(msgspec.json.format(data, indent=2) + b"\n"), mode=OWNER_ONLY)
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be written: {describe(error)}") from error


def read_sources(run: RunDirectory) -> list[SourceStat]:
    """Return the merged runs in their given order; empty for a run that was not merged.

    Raises RunDirectoryError if the file is damaged, or newer than this version.
    """
    path = run.path / SOURCES
    try:
        data = path.read_bytes()
        check_seal(data)
        found = msgspec.json.decode(data, type=Sources)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunDirectoryError(f"{path} can't be read: {describe(error)}") from error
    except BAD_INPUT as error:
        raise RunDirectoryError(f"{path} is damaged: {error}") from error
    if found.schema_version > SCHEMA:
        raise RunDirectoryError(
            f"{path} has schema version {found.schema_version}, this telemetry reads up to {SCHEMA}",
            hint="read it with the version that wrote it",
        )
    return found.sources
