"""`sources.json` in a run directory: the results of each run that was merged into this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telemetry.store.run_directory import RunDirectory
from telemetry.store.sealed_json import read_json, write_json
from telemetry.wire.sources import Sources, SourceStat

SOURCES: Final = "sources.json"


def write_sources(run: RunDirectory, sources: Sequence[SourceStat]) -> None:
    """Write the sources. Raises as `write_json`."""
    write_json(run.path / SOURCES, Sources(sources=list(sources)))


def read_sources(run: RunDirectory) -> list[SourceStat]:
    """Return the merged runs in their given order; empty for a run that was not merged. Raises as `read_json`."""
    content = read_json(run.path / SOURCES, Sources)
    return content.sources if content is not None else []
