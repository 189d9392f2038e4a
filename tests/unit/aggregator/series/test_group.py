"""Definitions of series, and the rows of one precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

from telemetry.aggregator.series.group import Definition, IntervalSlots, SeriesGroup, slots_by_index
from telemetry.errors import InstrumentError
from telemetry.statistics.hdr.layout import Layout


def test_a_unit_sets_ticks_and_cells() -> None:
    """A tick of the histogram is a tick of the display if the series has no bounds."""
    definition = Definition("s", {}, "ms")
    assert (definition.ticks_per_unit, definition.resolution, definition.cell_unit) == (1e6, 1e-6, 1e-6)
    assert (definition.smallest, definition.cells_per_tick, definition.error_bound) == (1e-6, 1.0, 0.001)


def test_low_sets_the_tick_but_not_the_cells() -> None:
    """`low` is one tick; display cells depend on the unit alone."""
    definition = Definition("s", {}, "s", 2, low=0.5)
    assert (definition.ticks_per_unit, definition.resolution, definition.smallest) == (2.0, 0.5, 0.5)
    assert (definition.cell_unit, definition.cells_per_tick) == (1e-9, 5e8)


BAD_BOUNDS = [(None, -1.0), (0.0, None), (2.0, 1.0), (None, math.inf), (1e-310, None), (math.nan, None)]


@pytest.mark.parametrize(("low", "high"), BAD_BOUNDS)
def test_bounds_that_make_no_range_are_refused(low: float | None, high: float | None) -> None:
    """Bounds are positive, ordered, and have a finite reciprocal."""
    with pytest.raises(InstrumentError, match="'s'"):
        Definition("s", {}, "s", low=low, high=high)


def test_digits_are_refused_outside_1_to_5() -> None:
    """A precision nobody has a layout for is an instrument error."""
    with pytest.raises(InstrumentError, match="digits"):
        Definition("s", {}, "s", 0)


def test_rows_know_their_series() -> None:
    """Rows are dense, whatever series they belong to, and a roll names them by row."""
    group = SeriesGroup(Layout.of(3), 2)
    assert [group.add(index, Definition("s", {}, "ns")) for index in range(5, 50, 2)] == list(range(23))
    assert group.members.tolist() == list(range(5, 50, 2))
    group.record(np.array([20, 3, 20]), np.array([4.0, 9.0, 4.0]), 4.0, 9.0)
    rolled = group.roll()
    assert rolled.rows.tolist() == [3, 20]
    assert (rolled.occupied.tolist(), rolled.slots.tolist(), rolled.counts.tolist()) == ([1, 1], [9, 4], [1, 2])
    assert group.roll().rows.size == 0


def test_slots_of_several_groups_are_in_the_order_of_series() -> None:
    """Each series brings its slots with it. One group is in order already, and no group has none."""
    groups = [SeriesGroup(Layout.of(digits), 2) for digits in (3, 2)]
    for index in range(6):
        groups[index % 2].add(index, Definition("s", {}, "ns"))
    uint = np.uint32
    odd = IntervalSlots(np.array([0, 2]), np.array([1, 2]), np.array([7, 8, 9], uint), np.array([1, 2, 3], uint))
    even = IntervalSlots(np.array([1, 2]), np.array([2, 1]), np.array([4, 5, 6], uint), np.array([4, 5, 6], uint))
    occupied, slots, counts = slots_by_index(groups, [even, odd])  # series 2 and 4, then 1 and 5
    assert occupied.tolist() == [1, 2, 1, 2]
    assert (slots.tolist(), counts.tolist()) == ([7, 4, 5, 6, 8, 9], [1, 4, 5, 6, 2, 3])
    assert [part.tolist() for part in slots_by_index(groups[:1], [even])] == [[2, 1], [4, 5, 6], [4, 5, 6]]
    assert [part.size for part in slots_by_index([], [])] == [0, 0, 0]


def test_percentiles_are_in_units() -> None:
    """A rank gives the highest value of its slot, in the unit of its row."""
    group = SeriesGroup(Layout.of(3), 2)
    group.add(0, Definition("a", {}, "s"))
    group.add(1, Definition("b", {}, "ns"))
    group.record(np.array([0, 1]), np.array([1.0, 1e9]), 1.0, 1e9)
    found = group.percentiles(group.index(group.counts), np.array([0, 1]), np.array([[1], [1]]))
    assert found[1, 0] == found[0, 0] * 1e9
    assert 1e9 <= found[1, 0] <= 1.001e9
