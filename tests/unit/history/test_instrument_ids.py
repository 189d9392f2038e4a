"""An instrument is known by its name and labels, in whatever order they come."""

from __future__ import annotations

from telemetry.history.instrument_ids import series_id
from telemetry.wire.control import SeriesKey
from telemetry.wire.snapshot import SeriesStat


def test_the_same_series_has_the_same_id_everywhere() -> None:
    """The key of the history and the line of the result agree, and labels are sorted."""
    key = SeriesKey(index=3, name="a", kind="series", labels={"y": "2", "x": "1"})
    assert series_id(key) == series_id(SeriesStat(name="a", labels={"x": "1", "y": "2"}))
    assert series_id(key) == ("a", (("x", "1"), ("y", "2")))
