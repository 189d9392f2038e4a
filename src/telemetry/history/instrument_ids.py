"""Identity of an instrument among those of its kind."""

from __future__ import annotations

from telemetry.wire.control import SeriesKey
from telemetry.wire.report import SeriesBounds, SeriesOverTime
from telemetry.wire.snapshot import CounterStat, GaugeStat, SeriesStat

SeriesId = tuple[str, tuple[tuple[str, str], ...]]
"""Name and sorted labels."""


def series_id(of: SeriesKey | SeriesStat | CounterStat | GaugeStat | SeriesBounds | SeriesOverTime) -> SeriesId:
    """Return the id: name and sorted labels."""
    return of.name, tuple(sorted(of.labels.items()))
