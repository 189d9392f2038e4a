"""Recurrence: how often a rank comes last, against chance."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest

from telemetry.statistics.recurrence import (
    EIGHTH,
    FEWEST,
    LAST,
    last_ones,
    level,
    most_recurrent,
    number_of_tests,
    tail,
)

NOBODY = np.zeros(4, dtype=np.bool_)


def test_the_chance_is_that_of_the_binomial_distribution() -> None:
    """The chance of at least 3 in 10 is equal to the sum over all cases."""
    exact = sum(comb(10, hits) * 0.125**hits * 0.875 ** (10 - hits) for hits in range(3, 11))
    assert tail(3, 10, 0.125) == pytest.approx(exact, rel=1e-9)
    assert (tail(0, 10, 0.125), tail(3, 10, 1.0), tail(11, 10, 0.5)) == (1.0, 1.0, 1.0)


def test_all_looks_together_keep_the_confidence() -> None:
    """However long the run is."""
    spent = sum(level(0.99, 64, windows) * 64 for windows in range(FEWEST, 200_000))
    assert 0.005 < spent < 0.01


def test_a_look_has_a_test_for_each_rank_and_horizon() -> None:
    """The number of tests includes the last eighth of the ranks if that is more than one rank."""
    assert (number_of_tests(8, 8), number_of_tests(30, 8), number_of_tests(30, 64)) == (16, 32, 512)


def test_the_last_rank_of_a_window_is_the_one_with_the_largest_lag() -> None:
    """The last rank has the largest lag. Ranks with equal lags have no last one."""
    lags = np.array([[0.0, 1.0, 2.0, 3.0], [3.0, 3.0, 0.0, 0.0]])
    hits = last_ones(lags, NOBODY, LAST)
    assert hits.flags.tolist() == [[False, False, False, True], [False] * 4]
    assert hits.chance == 0.25
    away = np.array([False, False, False, True])
    assert last_ones(lags, away, LAST).flags.tolist()[0] == [False, False, True, False]
    assert last_ones(lags, away, LAST).chance == pytest.approx(1 / 3)


def test_the_last_eighth_has_several_ranks() -> None:
    """Two of sixteen."""
    hits = last_ones(np.arange(16.0)[None, :], np.zeros(16, dtype=np.bool_), EIGHTH)
    assert np.flatnonzero(hits.flags[0]).tolist() == [14, 15]
    assert hits.chance == 0.125


def test_the_clearest_rank_is_returned() -> None:
    """The one that is last in nine of ten windows."""
    lags = np.random.default_rng(1).standard_normal((10, 8))
    lags[:9, 3] = 5.0 + np.random.default_rng(2).standard_normal(9)
    found = most_recurrent(lags, np.zeros(8, dtype=np.bool_))
    assert found is not None
    assert found.column == 3
    assert found.chance < 1e-5


def test_windows_that_are_alike_prove_less() -> None:
    """Ten windows of which each repeats half of the one before."""
    random = np.random.default_rng(5)
    fresh = random.standard_normal((30, 8))
    alike = fresh.copy()
    for window in range(1, 30):
        alike[window] = 0.8 * alike[window - 1] + 0.6 * fresh[window]
    for lags in (fresh, alike):
        lags[:, 3] = lags[:, 3] + 3.0
    apart, together = (most_recurrent(lags, np.zeros(8, dtype=np.bool_)) for lags in (fresh, alike))
    assert apart is not None
    assert together is not None
    assert together.chance > 100 * apart.chance


def test_absent_ranks_are_never_last() -> None:
    """NaN is no lag."""
    lags = np.full((10, 4), np.nan)
    lags[:, 0], lags[:, 1] = 0.0, 1.0
    found = most_recurrent(lags, NOBODY)
    assert found is not None
    assert found.column == 1
    assert most_recurrent(np.full((10, 4), np.nan), NOBODY) is None
