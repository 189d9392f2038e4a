"""Runs made by turns, each held against its neighbour."""

from __future__ import annotations

import math
import random

import pytest

from telemetry.statistics.runs import difference, paired_difference


def test_what_both_runs_of_a_pair_share_cancels() -> None:
    """A machine that becomes twice as slow hides a difference of 5 % from whoever does not know the pairs."""
    drift = [1 + number / 9 for number in range(10)]
    wobble = [0.001 * (-1) ** number for number in range(10)]
    before = [100 * slow for slow in drift]
    after = [105 * slow * (1 + off) for slow, off in zip(drift, wobble, strict=True)]
    found = paired_difference(before, after)
    assert found is not None
    assert found.low < 0.05 < found.high
    assert found.high - found.low < 0.01
    assert found.p_value < 1e-6
    unpaired = difference(before, after)
    assert unpaired is not None
    assert unpaired.p_value > 0.3


def test_outliers_at_either_end_are_left_out() -> None:
    """Two of ten pairs that are hit, in whatever direction, change neither the middle nor the verdict."""
    before = [100.0] * 10
    after = [110 + off for off in (-0.4, -0.3, -0.2, -0.1, 0.0, 0.0, 0.1, 0.2, 0.3, 0.4)]
    plain = paired_difference(before, after)
    hit = paired_difference(before, [30.0, 55.0, *after[2:8], 400.0, 900.0])
    assert plain is not None
    assert hit is not None
    assert plain.ratio == pytest.approx(hit.ratio, rel=0.01) == pytest.approx(0.10, rel=0.01)
    assert hit.p_value < 0.001


def test_without_a_difference_few_p_values_are_small() -> None:
    """About one p-value in twenty is below 0.05 in normal noise, and the interval covers as often."""
    source = random.Random(7)
    small = covered = 0
    for _ in range(600):
        sides = [[math.exp(source.gauss(0, 0.1)) for _ in range(10)] for _ in range(2)]
        found = paired_difference(*sides)
        assert found is not None
        small += found.p_value < 0.05
        covered += found.low <= 0 <= found.high
    assert 0.025 < small / 600 < 0.085
    assert covered == 600 - small


@pytest.mark.parametrize(("before", "after"), [([1.0], [2.0]), ([1.0, 0.0], [1.0, 2.0]), ([1.0, 1.0], [-1.0, 2.0])])
def test_where_there_are_no_ratios_there_is_nothing(before: list[float], after: list[float]) -> None:
    """One pair has no spread, and 0 and less have no logarithm."""
    assert paired_difference(before, after) is None


def test_sides_have_to_be_as_long() -> None:
    """Sides of different length are an error, because a value without a neighbour is in no pair."""
    with pytest.raises(ValueError, match="can't be pairs"):
        paired_difference([1.0, 2.0], [1.0])


def test_pairs_that_agree_are_a_point() -> None:
    """The interval has no width if pairs agree except for rounding. No value is divided by 0."""
    found = paired_difference([1.0, 2.0, 4.0], [2.0, 4.0, 8.0])
    assert found is not None
    assert found.low == pytest.approx(1.0) == found.ratio == pytest.approx(found.high)
    assert found.p_value < 1e-9
    alike = paired_difference([1.0, 2.0, 4.0], [1.0, 2.0, 4.0])
    assert alike is not None
    assert (alike.ratio, alike.p_value) == (0.0, 1.0)


def test_an_interval_may_leave_the_range_of_floats() -> None:
    """Two wild pairs bound nothing from above."""
    found = paired_difference([1e-300, 1e300], [1e300, 1e-300])
    assert found is not None
    assert found.high == math.inf
    assert found.low == -1.0
