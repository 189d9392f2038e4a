"""The difference of two sets of runs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.statistics.runs import RANKED_FROM, difference, holm

FEW = [10.0, 11.0, 12.0, 10.5]
FEWER = [11.0, 12.5, 13.0]
positive = st.lists(st.floats(1e-3, 1e6), min_size=2, max_size=14)


def test_few_runs_are_compared_by_their_means() -> None:
    """Welch's test on the logarithms, as scipy 1.17 has it."""
    found = difference(FEW, FEWER)
    assert found is not None
    assert found.p_value == pytest.approx(0.1513076113670725, rel=1e-9)
    assert (found.low, found.high) == (pytest.approx(-0.060915, abs=1e-6), pytest.approx(0.332225, abs=1e-6))
    assert found.before == pytest.approx(math.prod(FEW) ** (1 / 4))
    assert found.after == pytest.approx(math.prod(FEWER) ** (1 / 3))
    assert found.ratio == pytest.approx(found.after / found.before - 1.0)


def test_enough_runs_are_compared_by_their_ranks() -> None:
    """One run that is far off changes its rank and nothing else; sides fully apart are as rare as they can be."""
    before = [100.0 + number for number in range(10)]
    after = [1.2 * value for value in before]
    found = difference(before, after)
    off = difference(before, [*after[:-1], 1e6])
    assert found is not None
    assert off is not None
    assert found.p_value == off.p_value == pytest.approx(2 / math.comb(20, 10))
    assert found.ratio == pytest.approx(0.2, abs=0.005)
    assert off.ratio == pytest.approx(found.ratio, abs=0.02)
    assert (found.before, off.after) == (pytest.approx(104.5, rel=1e-3), pytest.approx(1.2 * 104.5, rel=1e-3))


@given(positive, positive)
def test_the_interval_is_around_the_ratio_and_agrees_with_the_p_value(
    before: list[float], after: list[float]
) -> None:
    """The interval excludes zero exactly if the p-value is small, except for rounding and ties."""
    found = difference(before, after)
    assert found is not None
    assert found.low <= found.ratio <= found.high
    assert 0.0 <= found.p_value <= 1.0
    tied = len({*before, *after}) < len(before) + len(after)
    if not tied and abs(found.p_value - 0.05) > 1e-9:
        assert (found.p_value < 0.05) == (not found.low <= 0.0 <= found.high)


@pytest.mark.parametrize("runs", [4, 8, 10])
def test_the_interval_ends_where_the_test_begins(runs: int) -> None:
    """Moved so that an end of the interval is just beyond 0 it is significant; just before, it isn't."""
    generator = np.random.default_rng(3)
    for _ in range(30):
        before, after = (100.0 * np.exp(generator.normal(0.0, 0.05, runs)) for _ in range(2))
        found = difference(before.tolist(), after.tolist())
        assert found is not None
        for end, sign in ((found.low, 1.0), (found.high, -1.0)):
            for nudge, significant in ((1.0 + sign * 1e-9, True), (1.0 - sign * 1e-9, False)):
                moved = difference(before.tolist(), (after / (1.0 + end) * nudge).tolist())
                assert moved is not None
                assert (moved.p_value < 0.05) == significant


@given(positive, positive, st.floats(0.1, 10.0))
def test_the_unit_does_not_matter(before: list[float], after: list[float], factor: float) -> None:
    """Milliseconds or seconds: the same ratio."""
    one, other = difference(before, after), difference([factor * v for v in before], [factor * v for v in after])
    assert one is not None
    assert other is not None
    assert other.ratio == pytest.approx(one.ratio, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("runs", [3, 5, 10])
def test_runs_that_are_alike_seldom_differ(runs: int) -> None:
    """At most 7 % of 400 comparisons of a program with itself show a difference. Some of the runs are outliers."""
    generator = np.random.default_rng(runs)
    alarms = 0
    for _ in range(400):
        sides = 100.0 * np.exp(generator.normal(0.0, 0.05, (2, runs)))
        sides *= np.where(generator.random((2, runs)) < 0.1, 1.5, 1.0)
        found = difference(sides[0].tolist(), sides[1].tolist())
        alarms += found is not None and found.p_value < 0.05
    assert alarms <= 28


def test_a_tenth_is_found_with_ten_runs_a_side() -> None:
    """A difference of a tenth shows in at least 9 of 10 comparisons, in noise of 5 % between runs."""
    generator = np.random.default_rng(1)
    found = 0
    for _ in range(200):
        sides = 100.0 * np.exp(generator.normal(0.0, 0.05, (2, 10)))
        difference_ = difference(sides[0].tolist(), (1.1 * sides[1]).tolist())
        found += difference_ is not None and difference_.p_value < 0.05 and difference_.low > 0.0
    assert found >= 180


@pytest.mark.parametrize("runs", [3, RANKED_FROM])
def test_values_that_have_no_logarithm_are_compared_as_they_are(runs: int) -> None:
    """Zeros and negative ones: relative to the typical run before, without its sign."""
    before, after = [-10.0, -11.0, -12.0] * 3, [-5.0, -5.5, -6.0] * 3
    found = difference(before[:runs], after[:runs])
    assert found is not None
    assert found.ratio == pytest.approx(0.5, abs=0.05)
    assert (found.before, found.after) == (-11.0, -5.5)
    found = difference([0.0, 0.0, 4.0, *[2.0] * runs], [5.0, 6.0, *[7.0] * runs])
    assert found is not None
    assert found.ratio > 1.0


def test_nothing_is_relative_to_zero() -> None:
    """A difference from zero has no ratio, but zeros on both sides are no difference."""
    assert difference([0.0, 0.0, 0.0], [0.0, 1.0, 0.0]) is None
    assert difference([-1.0, 1.0], [3.0, 4.0]) is None
    found = difference([0.0, 0.0], [0.0, 0.0])
    assert found is not None
    assert (found.ratio, found.low, found.high, found.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_sides_without_spread_are_compared_by_how_many_runs_there_are() -> None:
    """Equal: no difference. Else the interval is a point, and so neat a split of runs has a chance of its own."""
    equal, apart = difference([5.0] * 3, [5.0] * 4), difference([5.0] * 3, [6.0] * 3)
    assert equal is not None
    assert apart is not None
    assert (equal.ratio, equal.p_value) == (0.0, 1.0)
    assert (apart.ratio, apart.low, apart.high) == (pytest.approx(0.2), apart.ratio, apart.ratio)
    assert apart.p_value == pytest.approx(2 / 20)
    one_side = difference([5.0] * 3, [6.0, 6.1, 6.2])
    assert one_side is not None
    assert 0.0 < one_side.p_value < 0.05


@pytest.mark.parametrize(("before", "after"), [([], []), ([1.0], [1.0, 2.0]), ([1.0, 2.0], [2.0])])
def test_one_run_a_side_tells_nothing(before: list[float], after: list[float]) -> None:
    """One run on a side gives no difference, because the spread of the runs is not known."""
    assert difference(before, after) is None


def test_what_is_no_number_is_refused() -> None:
    """Infinite values, and confidences that are none."""
    with pytest.raises(ValueError, match="finite"):
        difference([1.0, math.inf], [1.0, 2.0])
    with pytest.raises(ValueError, match="confidence"):
        difference(FEW, FEWER, 1.0)


def test_holm_adjusts_for_all() -> None:
    """The smallest for all of them, the next for one less, and never below one that is smaller; in their order."""
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])
    assert holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert holm([]) == []


@given(st.lists(st.floats(0.0, 1.0), max_size=20))
def test_holm_is_between_one_and_all(p_values: list[float]) -> None:
    """Never below the value itself; the smallest times their number; and in the same order."""
    adjusted = holm(p_values)
    assert all(own <= found <= 1.0 for own, found in zip(p_values, adjusted, strict=True))
    assert not adjusted or min(adjusted) == min(1.0, len(p_values) * min(p_values))
    pairs = sorted(zip(p_values, adjusted, strict=True))
    assert [found for _, found in pairs] == sorted(adjusted)
