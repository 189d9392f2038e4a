"""`imported.json` in a run directory: the file of another tool that the run was made from."""

from __future__ import annotations

from typing import Final

from telemetry.store.run_directory import RunDirectory
from telemetry.store.sealed_json import read_json, write_json
from telemetry.wire.imported import ImportedFile

IMPORTED: Final = "imported.json"


def write_imported(run: RunDirectory, origin: ImportedFile) -> None:
    """Write the origin of a run. Raises as `write_json`."""
    write_json(run.path / IMPORTED, origin)


def read_imported(run: RunDirectory) -> ImportedFile | None:
    """Return the origin of a run; None for a run that was recorded. Raises as `read_json`."""
    return read_json(run.path / IMPORTED, ImportedFile)
