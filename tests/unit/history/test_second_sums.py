"""Sums by second, and numbers in few bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.history.second_sums import SecondSums, SmallNumbers

SECOND = 10**9


@given(
    st.lists(st.tuples(st.integers(0, 9 * SECOND), st.floats(0, 1e6)), min_size=1, max_size=60),
    st.integers(1, 20),
)
def test_sums_are_those_of_all_numbers_at_once(things: list[tuple[int, float]], at_once: int) -> None:
    """The largest sum of a second is exact to the last bit, in whatever pieces the numbers come."""
    times, weights = np.array([time for time, _ in things]), np.array([weight for _, weight in things])
    begin = int(times.min())
    sums, counts = SecondSums(begin), SecondSums(begin)
    for first in range(0, times.size, at_once):
        own = slice(first, first + at_once)
        sums.add(times[own], weights[own])
        counts.add(times[own])
    _, seconds = np.unique((times - begin) // SECOND, return_inverse=True)
    assert sums.most == np.bincount(seconds, weights).max()
    assert counts.most == np.bincount(seconds).max()


def test_without_numbers() -> None:
    """The largest sum is 0."""
    assert SecondSums(5).most == 0.0


@given(st.lists(st.lists(st.one_of(st.integers(-(1 << 63), (1 << 63) - 1), st.integers(0, 300)), max_size=5)))
def test_integers_stay_what_they_are(lists: list[list[int]]) -> None:
    """A number that does not fit makes room for itself."""
    numbers = SmallNumbers("B", "I", "q")
    for some in lists:
        numbers.extend(some)
    assert numbers.view().tolist() == [one for some in lists for one in some]
    assert len(numbers) == sum(map(len, lists))


def test_types_widen_only_as_far_as_needed() -> None:
    """Bytes become floats for a number that is not whole."""
    numbers = SmallNumbers("B", "d")
    numbers.extend([1, 255])
    assert numbers.view().dtype.itemsize == 1
    numbers.extend([0.5, 256])
    assert numbers.view().tolist() == [1.0, 255.0, 0.5, 256.0]
    with pytest.raises(OverflowError):
        SmallNumbers("I", "q").extend([1 << 63])
