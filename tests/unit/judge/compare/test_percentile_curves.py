"""Percentile curves of both sides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from telemetry.judge.compare.compare import curves
from telemetry.wire.report import Report

Run = Callable[..., Report]


def test_a_curve_is_the_median_over_the_runs_of_a_side(run: Run) -> None:
    """A curve runs from the lowest to the highest value, with the fractions in ascending order."""
    (curve,) = curves([run(1.0), run(2.0), run(9.0)], [run(4.0)])
    assert (curve.name, curve.unit) == ("latency", "ms")
    assert curve.before == [(0.0, 1.0), (0.5, 2.0), (0.9, 3.0), (0.99, 4.0), (0.999, 6.0), (1.0, 8.0)]
    assert [value for _, value in curve.after] == [2.0, 4.0, 6.0, 8.0, 12.0, 16.0]


def test_only_series_that_all_runs_have_in_one_unit(run: Run, series: Callable[..., Any]) -> None:
    """Curves cover only series that all runs have in one unit, and percentiles that all of them have."""
    whole = run(series=[series("a", 1.0), series("b", 1.0), series("c", 1.0)])
    other = run(series=[series("a", 1.0, unit="s"), series("b", 1.0, percentiles={"50": 3.0}), series("d", 1.0)])
    (curve,) = curves([whole], [other])
    assert curve.name == "b"
    assert [fraction for fraction, _ in curve.before] == [0.0, 0.5, 1.0]
    assert curves([], []) == []
