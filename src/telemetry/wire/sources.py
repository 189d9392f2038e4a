"""The runs that were merged into a run, with the results of each."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from telemetry.wire.events import RunId
from telemetry.wire.snapshot import Completeness
from telemetry.wire.version import SCHEMA

ODD_FROM: Final = 1.1
"""Smallest factor between the p99 of a source and that of the others for which the source is marked as odd."""


class SourceSeries(Struct, frozen=True, kw_only=True):
    """A series of one source; values in `unit`. Null: missing in the source's result."""

    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    count: int = 0
    mean: float | None = None
    p50: int | float | None = None
    p99: int | float | None = None
    max: int | float | None = None
    p99_to_others: float | None = None
    """p99 divided by the median p99 of all other sources."""
    odd: bool = False
    """True if its p99 is the farthest from that of the others, by `ODD_FROM` at least."""


class SourceStat(Struct, frozen=True, kw_only=True):
    run_id: RunId
    name: str
    label: str = ""
    """Text that distinguishes the source from the others: its name, its host, or its run id."""
    host: str = ""
    directory: str = ""
    """Directory of the source at the time of the merge."""
    started_ns: int = 0
    """Start time on the clock of its host."""
    elapsed_s: float = 0.0
    start_offset_s: float = 0.0
    """Seconds from the start of the first source to its own."""
    completeness: Completeness = "incomplete"
    lost: int = 0
    """Number of events that were emitted and are in no number."""
    series: list[SourceSeries] = []
    """Series with values."""


class Sources(Struct, frozen=True, kw_only=True):
    """The content of `sources.json`."""

    schema_version: int = SCHEMA
    sources: list[SourceStat] = []
