"""Tests of the figures that the histogram of one time range gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.aggregator.series.table import SeriesTable
from telemetry.history.intervals.histograms import Digest
from telemetry.history.intervals.timeline import Timeline
from telemetry.wire.history import Interval

pytestmark = pytest.mark.slow


def digest(values: list[float], unit: str = "ns", low: float | None = None, digits: int = 3) -> Digest:
    table = SeriesTable(("50",), 1)
    table.add("s", {}, unit, digits=digits, low=low)
    if values:
        table.record(np.zeros(len(values), np.intp), np.array(values))
    timeline = Timeline(table.key(0))
    timeline.add(Interval(10, 20, table.roll(1.0)))
    return timeline.between(0, 30)


def test_curve_is_every_slot_where_there_is_room() -> None:
    """A curve goes from (0, min) to (1, max), with the share of each distinct slot in between."""
    found = digest([1.0] * 50 + [2.0] * 40 + [7.0] * 10)
    assert found.curve(20) == [(0.0, 1.0), (0.5, 1.0), (0.9, 2.0), (1.0, 7.0)]
    assert found.curve(2) == [(0.0, 1.0), (1.0, 7.0)]
    assert (found.start_ns, found.end_ns, found.count) == (10, 20, 100)


def test_curve_is_thinned_evenly_on_the_axis_of_nines() -> None:
    """The last nines of a curve of many slots keep as many points as the first."""
    found = digest([float(value) for value in range(1, 20_001)]).curve(40)
    fractions = np.array([fraction for fraction, _ in found])
    assert 20 <= len(found) <= 40
    assert (np.diff(fractions) > 0).all()
    assert (np.diff([value for _, value in found]) > 0).all()
    for nines in (0.0, 0.9, 0.99):
        assert np.count_nonzero((fractions > nines) & (fractions < 1.0)) >= 3


def test_curve_agrees_with_percentiles() -> None:
    """The value at a fraction is the percentile of that fraction."""
    found = digest([float(value * value) for value in range(1, 101)])
    percentiles = found.figures(("25", "50", "99")).percentiles
    curve = dict(found.curve(1_000))
    assert [curve[0.25], curve[0.5], curve[0.99]] == [percentiles["25"], percentiles["50"], percentiles["99"]]


def test_bounds_are_around_the_percentiles() -> None:
    """Wider where more confidence is asked for."""
    found = digest([float(value) for value in range(1, 1_001)])
    median, surer = found.bounds(("50", "99.9"))["50"], found.bounds(("50",), 0.999)["50"]
    assert (median.low, median.high, median.beyond) == (469.0, 532.0, 500)
    assert (surer.low, surer.high) == (448.0, 553.0)
    assert found.bounds(("99.9",))["99.9"].high is None


def test_without_values_there_is_nothing_to_draw() -> None:
    """A digest without values has no curve, no cells and no bounds."""
    assert (digest([]).curve(9), digest([]).cells(), digest([]).count) == ([], [], 0)
    assert digest([]).bounds(("50",)) == {}


@pytest.mark.parametrize("unit", ["ns", "s", "B", "parsecs"])
@given(
    values=st.lists(st.floats(0.0, 1e6) | st.integers(0, 5_000).map(float), min_size=1, max_size=40),
    low=st.none() | st.floats(1e-9, 1e3) | st.sampled_from([4e-9, 0.1, 0.3, 1e-3, 5.0, 2.0**-20]),
    digits=st.integers(1, 5),
)
def test_cells_are_those_of_the_snapshot(unit: str, values: list[float], low: float | None, digits: int) -> None:
    """The display histogram has the cells, the counts and the unit that the aggregator says."""
    table = SeriesTable(("50",), 1)
    table.add("s", {}, unit, digits=digits, low=low)
    table.record(np.zeros(len(values), np.intp), np.array(values))
    found = digest(values, unit, low, digits)
    stat = table.stats()[0]
    assert found.cells() == stat.histogram
    assert found.cell_unit == stat.cell_unit
