"""Tests of the figures of a time range."""

from __future__ import annotations

from telemetry.history.intervals.figures import Figures


def test_without_values_nothing_is_said() -> None:
    """There is no smallest of no values, and no percentile."""
    empty = Figures(seconds=3.0)
    assert (empty.count, empty.rate, empty.min, empty.max, dict(empty.percentiles)) == (0, 0.0, None, None, {})
