"""Distributions in bins of one width."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from telemetry.backends.aim.backend import BINS, Cell, even

EDGES = st.floats(allow_nan=False, allow_infinity=False)


@example([(sys.float_info.max, sys.float_info.max, 1)])
@example([(-sys.float_info.max, -sys.float_info.max, 1)])
@example([(-sys.float_info.max, sys.float_info.max, 3), (5e-324, 1e-323, 1)])
@given(st.lists(st.tuples(EDGES, EDGES, st.integers(0, 1 << 40)), max_size=30))
def test_no_value_is_lost_in_even_bins(found: list[tuple[float, float, int]]) -> None:
    """Even bins hold the whole count of any cells, also at the ends of the range of a float."""
    cells: list[Cell] = [(min(one, other), max(one, other), count) for one, other, count in found]
    bins = even(cells)
    total = sum(count for _, _, count in cells)
    if bins is None:
        assert total == 0
        return
    assert len(bins.weights) == BINS
    assert min(bins.weights) >= 0.0
    assert sum(bins.weights) == pytest.approx(total)
    assert -math.inf < bins.low < bins.high < math.inf


def test_values_of_a_cell_lie_evenly_in_it() -> None:
    """A cell of half the width gives half the bins as much; what is one value is in one bin."""
    bins = even([(0.0, 32.0, 320), (63.5, 63.5, 7), (64.0, 64.0, 3), (70.0, 80.0, 0)])
    assert bins is not None
    assert (bins.low, bins.high) == (0.0, 64.0)
    assert bins.weights == [10.0] * 32 + [0.0] * 31 + [10.0]
    alone = even([(5.0, 5.0, 4)])
    assert alone is not None
    assert alone.weights[-1] == 4
    assert even([]) is None
