"""A window that holds nothing has nothing to say, and no error either."""

from __future__ import annotations

from telemetry.history.interval_sums import RangeTotals


def test_an_empty_window() -> None:
    """An empty window has no series, no bounds and no increases."""
    window = RangeTotals(start_s=0.0, end_s=1.0, seconds=1.0)
    assert (window.series, window.counters, window.gauges) == ({}, {}, {})
    assert window.bounds(("latency", ()), ["50"]) == {}
