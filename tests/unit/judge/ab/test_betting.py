"""Tests of the bets on paired differences."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.judge.ab.betting import PairedBets, _wealth

ALPHA = 0.05
DIFFERENCES = st.lists(st.integers(-20, 20).map(lambda number: number / 64), min_size=1, max_size=30)
"""Differences with ties and zeros. A float holds their sums exactly."""


def bets_on(differences: list[float]) -> PairedBets:
    bets = PairedBets()
    for difference in differences:
        bets.add(difference)
    return bets


@given(DIFFERENCES)
def test_the_wealth_after_each_pair_is_that_of_all_pairs(differences: list[float]) -> None:
    """Bets that grow pair by pair have the wealth of the whole sequence, in both directions."""
    bets = bets_on(differences)
    values = np.array(differences)
    assert bets.more == pytest.approx(_wealth(values))
    assert bets.less == pytest.approx(_wealth(-values))


@given(DIFFERENCES)
def test_swapped_sides_swap_everything(differences: list[float]) -> None:
    """With the sides swapped, both wealths, both ends and the sign of the middle are swapped."""
    bets, swapped = bets_on(differences), bets_on([-difference for difference in differences])
    assert (bets.more, bets.less) == (swapped.less, swapped.more)
    low, high = bets.interval(ALPHA)
    assert swapped.interval(ALPHA) == (-high, -low)
    assert swapped.middle == -bets.middle


@given(DIFFERENCES, st.integers(-64, 64).map(lambda number: number / 64))
def test_a_shift_of_all_differences_shifts_the_interval(differences: list[float], shift: float) -> None:
    """The interval and the middle move with the differences."""
    low, high = bets_on(differences).interval(ALPHA)
    moved = bets_on([difference + shift for difference in differences])
    assert moved.interval(ALPHA) == (low + shift, high + shift)
    assert moved.middle == bets_on(differences).middle + shift


@given(DIFFERENCES, st.data())
def test_the_wealth_of_more_never_rises_with_the_assumed_difference(
    differences: list[float], data: st.DataObject
) -> None:
    """A larger assumed difference leaves less wealth for "more": so the rejected ones are below one point."""
    lower, higher = sorted(data.draw(st.tuples(*[st.integers(-80, 80)] * 2)))
    values = np.array(differences)
    assert _wealth(values - higher / 256) <= _wealth(values - lower / 256)


@given(DIFFERENCES)
def test_the_interval_has_what_is_not_rejected(differences: list[float]) -> None:
    """A difference outside is rejected, one inside is not; a smaller alpha gives a wider interval."""
    bets = bets_on(differences)
    low, high = bets.interval(ALPHA)
    values = np.array(differences)
    for assumed in np.arange(-25, 26) / 64 + 1 / 1000:
        rejected = max(_wealth(values - assumed), _wealth(assumed - values)) >= 2 / ALPHA
        assert rejected == (not low <= assumed <= high)
    wider = bets.interval(ALPHA / 3)
    assert wider[0] <= low
    assert high <= wider[1]


@given(DIFFERENCES, st.lists(st.sampled_from([0.5, 0.2, ALPHA, ALPHA / 3]), min_size=1, max_size=6))
def test_intervals_do_not_depend_on_those_before(differences: list[float], alphas: list[float]) -> None:
    """Intervals and middles that were asked for earlier change no later one."""
    bets = PairedBets()
    for difference in differences:
        bets.add(difference)
        for alpha in alphas:
            bets.interval(alpha)
        middle = bets.middle
    fresh = bets_on(differences)
    assert [bets.interval(alpha) for alpha in alphas] == [bets_on(differences).interval(alpha) for alpha in alphas]
    assert middle == fresh.middle


@given(DIFFERENCES)
def test_the_two_signs_of_the_next_pair_balance(differences: list[float]) -> None:
    """The mean wealth over both signs of the last pair is the wealth before: the bets are fair."""
    before = bets_on(differences[:-1])
    either = [bets_on([*differences[:-1], sign * differences[-1]]) for sign in (1, -1)]
    assert sum(bets.more for bets in either) / 2 == pytest.approx(before.more)
    assert sum(bets.less for bets in either) / 2 == pytest.approx(before.less)


def test_the_truth_is_seldom_rejected_at_any_time() -> None:
    """Of 300 sequences on a machine that drifts, at most 5 % reject the truth after any pair."""
    rng = np.random.default_rng(3)
    rejected = 0
    for _ in range(300):
        drift = np.cumsum(rng.standard_normal(60)) * 0.02
        order = np.where(rng.random(30) < 0.5, 1, -1)
        noise = rng.standard_normal(30) * 0.01
        bets, most = PairedBets(), 0.0
        for difference in order * np.diff(drift.reshape(30, 2), axis=1)[:, 0] + noise:
            bets.add(float(difference))
            most = max(most, bets.more, bets.less)
        rejected += most >= 2 / ALPHA
    assert rejected <= 15


def test_pairs_without_a_difference_change_nothing() -> None:
    """Equal runs bet nothing, however many they are."""
    bets = bets_on([0.0] * 50)
    assert (bets.more, bets.less, bets.middle) == (1.0, 1.0, 0.0)
    low, high = bets.interval(ALPHA)
    assert low == high == 0.0


def test_equal_differences_end_at_that_difference() -> None:
    """The interval of equal differences is a point once there are enough of them, and unbounded before."""
    assert bets_on([0.25] * 3).interval(ALPHA) == (-math.inf, math.inf)
    assert bets_on([0.25] * 20).interval(ALPHA) == (0.25, 0.25)


def test_one_pair_decides_nothing() -> None:
    """After one pair all differences are possible; the estimate is that of the pair."""
    bets = bets_on([7.0])
    assert bets.interval(ALPHA) == (-math.inf, math.inf)
    assert (bets.pairs, bets.middle) == (1, 7.0)
    assert bets.more < 2


def test_without_pairs_nothing_is_known() -> None:
    """No pair is a wealth of 1, and every difference is possible."""
    bets = PairedBets()
    assert (bets.pairs, bets.more, bets.less, bets.middle) == (0, 1.0, 1.0, 0.0)
    assert bets.interval(ALPHA) == (-math.inf, math.inf)


@pytest.mark.parametrize("difference", [math.nan, math.inf, -math.inf])
def test_a_difference_that_is_not_finite_is_refused(difference: float) -> None:
    """A number that is not finite raises, and leaves the bets as they were."""
    bets = bets_on([0.5])
    with pytest.raises(ValueError, match="a difference of"):
        bets.add(difference)
    assert bets.pairs == 1


def test_an_interval_that_never_misses_has_no_ends() -> None:
    """A share of a very small alpha can be below all floats."""
    bets = PairedBets()
    for _ in range(30):
        bets.add(0.5)
    low, _ = bets.interval(1e-3)
    assert low > 0
    assert bets.interval(5e-324 / 2) == (-math.inf, math.inf)
