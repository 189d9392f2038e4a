"""Shifts and slopes of one row of figures."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.statistics.steady import Floats, clearest_shift, differ, is_slope

NONE = np.nan


def noise(size: int, seed: int = 1) -> Floats:
    return np.random.default_rng(seed).normal(0.0, 1.0, size)


def test_a_shift_is_found_where_it_is() -> None:
    """A shift has its step and the levels on both sides. Steps without a figure are counted, too."""
    steps = 100.0 + noise(90)
    steps[30:] += 10.0
    steps[[3, 4, 29, 60]] = NONE
    shift = clearest_shift(steps, 0.01)
    assert shift is not None
    assert shift.at == 30
    assert (shift.before, shift.after) == (pytest.approx(100.0, abs=0.5), pytest.approx(110.0, abs=0.5))
    assert shift.clarity > 20.0


def test_noise_alone_has_no_shift() -> None:
    """One false one in 200 rows at the most."""
    assert sum(clearest_shift(100.0 + noise(120, seed), 0.0) is not None for seed in range(200)) <= 1


def test_noise_that_remembers_has_no_shift_either() -> None:
    """Neighbours that are alike (by a half) wander, and that is no shift."""
    found = 0
    for seed in range(100):
        steps = noise(120, seed)
        for at in range(1, 120):
            steps[at] += 0.5 * steps[at - 1]
        found += clearest_shift(100.0 + steps, 0.0) is not None
    assert found <= 3


def test_what_is_within_the_tolerance_is_no_shift() -> None:
    """However clear it is; beside it a larger one is found, though it is shorter."""
    steps = 1_000.0 + 0.1 * noise(200)
    steps[100:] += 5.0
    assert clearest_shift(steps, 0.01) is None
    assert clearest_shift(steps, 0.001) is not None
    steps[:4] += 300.0
    shift = clearest_shift(steps, 0.01)
    assert shift is not None
    assert shift.at == 4


def test_the_first_step_alone_may_be_off() -> None:
    """A program that starts is seldom as fast in its first second; the same step in the midst is an outlier."""
    steps = 100.0 + noise(60)
    steps[0] = 20.0
    shift = clearest_shift(steps, 0.01)
    assert shift is not None
    assert shift.at == 1
    steps[0], steps[30] = 100.0, 20.0
    assert clearest_shift(steps, 0.01) is None


def test_a_slope_counts_though_no_place_of_it_is_a_shift() -> None:
    """A slope is cut where it looks most like a shift."""
    found = [clearest_shift(100.0 + noise(40, seed) + np.linspace(0.0, 2.8, 40), 0.01) for seed in range(40)]
    assert sum(shift is not None for shift in found) > 12
    assert any(shift is not None and shift.clarity < 4.5 for shift in found)


@pytest.mark.parametrize("steps", [[], [1.0, 2.0, 9.0], [5.0] * 50, [NONE] * 20])
def test_what_shows_nothing_has_no_shift(steps: list[float]) -> None:
    """Too few steps, all of them equal, none with a figure."""
    assert clearest_shift(np.array(steps), 0.01) is None
    assert not is_slope(np.array(steps), [1], 0.01)


def test_steps_without_noise_are_seen_as_they_are() -> None:
    """A change of exact figures is as clear as can be."""
    steps = np.array([7.0] * 20 + [9.0] * 30)
    shift = clearest_shift(steps, 0.01)
    assert shift is not None
    assert (shift.at, shift.before, shift.after) == (20, 7.0, 9.0)


def test_parts_differ_by_more_than_noise_and_tolerance() -> None:
    """Both are needed, and values on both sides."""
    steps = 100.0 + noise(80)
    assert not differ(steps[:20], steps[20:], 0.01)
    assert differ(steps[:20] + 5.0, steps[20:], 0.01)
    assert not differ(steps[:20] + 5.0, steps[20:], 0.1)
    assert not differ(np.full(5, NONE), steps, 0.01)


def test_a_slope_is_told_from_a_shift() -> None:
    """Each cut at the middle, the one in noise is told from the other every time."""
    for seed in range(50):
        assert is_slope(100.0 + noise(100, seed) + np.linspace(0.0, 6.0, 100), [50], 0.01)
        assert not is_slope(100.0 + noise(100, seed) + np.repeat([0.0, 6.0], 50), [50], 0.01)
        assert not is_slope(100.0 + noise(100, seed) * 0.1 + np.linspace(0.0, 1.0, 100), [50], 0.01)
