"""Sums, means and spreads of parts."""

from __future__ import annotations

import math
import statistics

from hypothesis import given
from hypothesis import strategies as st

from telemetry.judge.merge.result import LARGEST, MergedMoments, carried, mean_of, plain, stddev_of, total_of


def test_integers_stay_integers() -> None:
    """A total of integers of any size is an integer. One float makes it a float, and small values are not lost."""
    assert total_of([2**62, 2**62, 1]) == 2**63 + 1
    assert total_of([1e16, 1.0, 1, -1e16]) == 2.0
    assert isinstance(total_of([1, 2]), int)
    assert total_of([1e308, 1e308]) == LARGEST


def test_numbers_are_carried_as_far_as_they_fit() -> None:
    """JSON readers and the wire take integers of 64 bits; whole floats read better as integers."""
    assert carried(2**63 - 1) == 2**63 - 1
    assert isinstance(carried(2**63), float)
    assert (plain(3.0), plain(0.5), plain(2.0**53)) == (3, 0.5, 2.0**53)
    assert isinstance(plain(3.0), int)
    assert isinstance(plain(2.0**53), float)


def test_what_overflows_is_unknown() -> None:
    """A mean or spread that overflows is unknown. No infinity comes out, whichever part of the sum is too large."""
    assert mean_of(10**400, 10**399) == 10.0
    assert stddev_of([MergedMoments(1, 1e200, 0.0), MergedMoments(1, 0.0, 0.0)]) is None
    assert stddev_of([MergedMoments(2, 2, None), MergedMoments(1, 1, 0.0)]) is None
    assert stddev_of([MergedMoments(2, 2, 1e200), MergedMoments(1, 1, 0.0)]) is None


@given(
    st.lists(st.lists(st.integers(0, 1000), min_size=1, max_size=20), min_size=1, max_size=6),
    st.sampled_from([0, 10**6, 10**9]),
)
def test_spread_is_that_of_all_values(parts: list[list[int]], base: int) -> None:
    """The merged spread is that of all values, within the parts and between them."""
    moved = [[base + value for value in part] for part in parts]
    moments = [MergedMoments(len(part), sum(part), statistics.pstdev(part)) for part in moved]
    expected = statistics.pstdev([value for part in moved for value in part])
    found = stddev_of(moments)
    assert found is not None
    assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-6)
