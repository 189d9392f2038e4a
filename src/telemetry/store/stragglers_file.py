"""`stragglers.json` in a run directory: the causes of slow steps, as the aggregator found them during the run.

A reader need not read the record log again, which takes long for many ranks and steps.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from telemetry.store.run_directory import RunDirectory
from telemetry.store.sealed_json import read_json, write_json
from telemetry.wire.report import Stragglers
from telemetry.wire.version import SCHEMA

STRAGGLERS: Final = "stragglers.json"


class StragglersFile(Struct, kw_only=True, frozen=True):
    """The verdicts, and the part of the record log that they are based on."""

    schema_version: int = SCHEMA
    first_record: int = 0
    """First record that was judged. Above 0: the aggregator was started again."""
    log_bytes: int = 0
    """Size of `records.jsonl` up to the last record that was judged."""
    stragglers: list[Stragglers] = []


def write_stragglers(run: RunDirectory, content: StragglersFile) -> None:
    """Write the file. Raises as `write_json`."""
    write_json(run.path / STRAGGLERS, content, durable=False)


def read_stragglers(run: RunDirectory) -> StragglersFile | None:
    """Return the content of the file, or None if there is none. Raises as `read_json`."""
    return read_json(run.path / STRAGGLERS, StragglersFile)
