"""Intervals of the history as JSON: figures per series, with the precision of their own key."""

from __future__ import annotations

import numpy as np

from telemetry.gateway.routes.history import _interval
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns

S = 1_000_000_000


def column(kind: str, *values: float) -> bytes:
    return np.array(values, dtype=kind).tobytes()


INTERVAL = Interval(
    start_ns=5 * S,
    end_ns=7 * S,
    series=SeriesColumns(
        index=column("<u4", 0, 4),
        count=column("<u8", 4, 2),
        total=column("<f8", 10.0, 3.0),
        min=column("<f8", 1.0, 1.0),
        max=column("<f8", 4.0, 2.0),
        occupied=column("<u4", 4, 2),
        slots=column("<u4", 1, 2, 3, 4, 100, 200),
        counts=column("<u4", 1, 1, 1, 1, 1, 1),
    ),
    counters=ValueColumns(index=column("<u4", 1, 3), value=column("<f8", 7.0, 0.5)),
    gauges=ValueColumns(index=column("<u4", 2), value=column("<f8", -1.5)),
)
KEYS = {
    0: SeriesKey(index=0, name="a", kind="series"),
    4: SeriesKey(index=4, name="b", kind="series", ticks_per_unit=100.0),
}


def test_an_interval_has_all_its_values() -> None:
    """Each series with its count, total, extremes and percentiles, in its own unit."""
    found = _interval(INTERVAL, KEYS)
    assert (found.start_ns, found.end_ns) == (5 * S, 7 * S)
    first, second = found.series
    assert (first.index, first.count, first.total, first.min, first.max) == (0, 4, 10.0, 1.0, 4.0)
    assert first.percentiles == {"50": 2.0, "90": 4.0, "99": 4.0, "99.9": 4.0}
    assert (second.index, second.count, second.total) == (4, 2, 3.0)
    assert second.percentiles == {"50": 1.0, "90": 2.0, "99": 2.0, "99.9": 2.0}
    assert [(point.index, point.value) for point in found.counters] == [(1, 7.0), (3, 0.5)]
    assert [(point.index, point.value) for point in found.gauges] == [(2, -1.5)]


def test_an_empty_interval_is_empty() -> None:
    """A run may be silent for a while."""
    found = _interval(Interval(start_ns=0, end_ns=S), {})
    assert (found.series, found.counters, found.gauges) == ([], [], [])
