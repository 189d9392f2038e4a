"""Cells as buckets of exponential histograms."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from telemetry.backends.exponential_histogram import FINEST, buckets, runs, scale_within
from telemetry.wire.cells import CELLS, edge

CELL_LISTS = st.dictionaries(st.integers(0, CELLS - 1), st.integers(1, 10**6), max_size=12).map(
    lambda counts: [(edge(at) * 1e-6, edge(at + 1) * 1e-6, count) for at, count in sorted(counts.items())]
)


def upper(index: int, scale: int) -> float:
    return float(2.0 ** ((index + 1) * 2.0**-scale))


@given(CELL_LISTS, st.integers(-2, FINEST))
def test_no_value_is_lost_or_moved_out_of_its_cell(cells: list[tuple[float, float, int]], scale: int) -> None:
    """No value is lost or moved.

    At a bucket's bound the count is between those of the cells below and of the cells that begin below.
    """
    made = buckets(cells, scale)
    assert made.zero + sum(made.counts.values()) == sum(count for _, _, count in cells)
    for index in made.counts:
        bound = upper(index, scale)
        below = made.zero + sum(count for at, count in made.counts.items() if at <= index)
        assert below >= sum(count for _, high, count in cells if high <= bound * (1 - 1e-12))
        assert below <= sum(count for low, _, count in cells if low < bound * (1 + 1e-12))


@given(CELL_LISTS, CELL_LISTS)
def test_buckets_never_shrink_as_cells_grow(
    before: list[tuple[float, float, int]], more: list[tuple[float, float, int]]
) -> None:
    """Buckets never shrink as cells grow.

    A cumulative count may not decrease, or a reader takes it for a restart.
    """
    sums = {(low, high): count for low, high, count in before}
    for low, high, count in more:
        sums[low, high] = sums.get((low, high), 0) + count
    after = [(*place, count) for place, count in sorted(sums.items())]
    bounds = buckets(before, FINEST).counts.keys() | buckets(after, FINEST).counts.keys()

    def below(cells: list[tuple[float, float, int]], bound: int) -> int:
        return sum(count for index, count in buckets(cells, FINEST).counts.items() if index <= bound)

    assert all(below(after, bound) >= below(before, bound) for bound in bounds)


def test_powers_of_two_are_the_upper_bounds_of_their_buckets() -> None:
    """A point at a bound is in the bucket that ends there, at every scale."""
    for exponent in (-30, -1, 0, 1, 52):
        value = math.ldexp(1.0, exponent)
        assert list(buckets([(value, value, 5)], 0).counts) == [exponent - 1]
        assert list(buckets([(value, value, 5)], 3).counts) == [exponent * 8 - 1]


def test_zeros_have_a_bucket_of_their_own() -> None:
    """Logarithms begin above zero."""
    made = buckets([(0.0, 0.5, 3), (1.0, 2.0, 4)], 0)
    assert made == (3, 0.5, {0: 4})


def test_a_wide_distribution_gets_a_coarser_scale() -> None:
    """A wide distribution gets the finest scale that the number of buckets allows."""
    assert scale_within([(1.0, 2.0, 1)], 160) == 3
    assert scale_within([(1.0, 2.0**20, 1)], 160) == 3
    assert scale_within([(1.0, 2.0**21, 1)], 160) == 2
    assert scale_within([(5e-324, 2.0, 1), (1e300, 1.7e308, 1)], 160) == -4
    assert scale_within([(0.0, 1.0, 1)], 160) == FINEST


def test_runs_of_indices() -> None:
    """Gaps part them."""
    assert runs([-2, -1, 3, 4, 5, 9]) == [(-2, 2), (3, 3), (9, 1)]
    assert runs([]) == []
