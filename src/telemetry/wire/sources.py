"""The runs that a merged run was made of, and what each of them came to by itself."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from telemetry.wire.snapshot import Completeness
from telemetry.wire.version import SCHEMA

ODD_FROM: Final = 1.1
"""A source is marked as odd if its p99 is so many times that of the others, or so many times less."""


class SourceSeries(Struct, frozen=True, kw_only=True):
    """A series of one source; values in `unit`. Null: the source's result does not say."""

    name: str
    labels: dict[str, str] = {}
    unit: str = ""
    count: int = 0
    mean: float | None = None
    p50: int | float | None = None
    p99: int | float | None = None
    max: int | float | None = None
    p99_to_others: float | None = None
    """p99 over the median of the p99 of all other sources."""
    odd: bool = False
    """Of all sources its p99 is farthest from that of the others, and by `ODD_FROM` at least."""


class SourceStat(Struct, frozen=True, kw_only=True):
    run_id: str
    name: str
    label: str = ""
    """What tells it from the other sources: its name, its host, or its run id."""
    host: str = ""
    directory: str = ""
    """Where it was when it was merged."""
    started_ns: int = 0
    """On the clock of its host."""
    elapsed_s: float = 0.0
    start_offset_s: float = 0.0
    """From the start of the first source to its own."""
    completeness: Completeness = "incomplete"
    lost: int = 0
    """Events that were emitted and are in no number."""
    series: list[SourceSeries] = []
    """Those with values."""


class Sources(Struct, frozen=True, kw_only=True):
    """`sources.json`."""

    schema_version: int = SCHEMA
    sources: list[SourceStat] = []
