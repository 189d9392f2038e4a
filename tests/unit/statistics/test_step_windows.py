"""Windows of steps: when one ends, and what it keeps."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.statistics.step_windows import StepTimes, Window, costs


def window(work: list[list[float]], wait: list[list[float]]) -> Window:
    times = StepTimes()
    for step, (works, waits) in enumerate(zip(work, wait, strict=True)):
        assert times.add(step, enumerate(works), enumerate(waits))
    found = times.window()
    assert found is not None
    return found


def test_a_window_has_five_steps_and_a_second() -> None:
    """Whichever takes longer."""
    for seconds, steps in ((0.5, 5), (0.1, 10)):
        times, ended = StepTimes(), []
        for step in range(steps):
            times.add(step, [(0, seconds), (1, seconds)], [(0, 0.0), (1, 1e-6)])
            ended.append(times.window() is not None)
        assert ended == [False] * (steps - 1) + [True]
        assert times.window() is None


def test_lags_are_medians_over_the_steps() -> None:
    """A single slow step moves none."""
    waits = [[0.3, 0.2, 0.1]] * 4 + [[0.0, 9.0, 9.0]]
    found = window([[0.1, 0.2, 0.3]] * 5, waits)
    assert found.lags.tolist() == pytest.approx([-0.1, 0.0, 0.1])
    assert (found.first_step, found.last_step, found.steps) == (0, 4, 5)
    assert found.step_s == pytest.approx(0.4)
    assert found.last([]) == 2
    assert found.last([2]) == 1
    lag_s, work_s, others_s = found.beside_others(2)
    assert (lag_s, work_s, others_s) == pytest.approx((0.15, 0.3, 0.15))


def test_of_equal_ranks_none_is_last() -> None:
    """Equal ranks have no last one, because the order in a list is no reason to name a rank."""
    assert window([[1.0, 1.0]] * 5, [[0.0, 0.0]] * 5).last([]) is None


def test_the_cost_is_the_distance_to_the_next_rank_that_is_not_named() -> None:
    """Zero in steps in which others are slower."""
    found = window([[1.0] * 3] * 5, [[0.1, 0.4, 0.2], *[[0.3, 0.4, 0.2]] * 4])
    assert costs(found, 0, [0]).tolist() == pytest.approx([0.1, 0.0, 0.0, 0.0, 0.0])
    assert costs(found, 0, [0, 2]).tolist() == pytest.approx([0.3, 0.1, 0.1, 0.1, 0.1])
    assert costs(found, 2, [0, 2]).tolist() == pytest.approx([0.2, 0.2, 0.2, 0.2, 0.2])


def test_a_rank_that_is_mostly_absent_has_no_lag() -> None:
    """A rank that is in two of five steps has no lag. An infinite number counts as absent."""
    times = StepTimes()
    for step in range(5):
        late = [("late", 0.2)] if step >= 3 else [("late", float("inf"))]
        times.add(step, [("a", 1.0), ("b", 1.0)], [("a", 0.1), ("b", 0.3), *late])
    found = times.window()
    assert found is not None
    assert times.ranks == ["a", "b", "late"]
    assert np.isnan(found.lags).tolist() == [False, False, True]
    assert found.lags_of(4).tolist()[:2] == found.lags.tolist()[:2]
