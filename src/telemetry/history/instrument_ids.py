"""What tells an instrument from all others of its kind."""

from __future__ import annotations

from telemetry.wire.control import SeriesKey
from telemetry.wire.report import SeriesBounds, SeriesOverTime
from telemetry.wire.snapshot import CounterStat, GaugeStat, SeriesStat

SeriesId = tuple[str, tuple[tuple[str, str], ...]]
"""Name and labels, these sorted."""


def series_id(of: SeriesKey | SeriesStat | CounterStat | GaugeStat | SeriesBounds | SeriesOverTime) -> SeriesId:
    """By name and labels."""
    return of.name, tuple(sorted(of.labels.items()))
