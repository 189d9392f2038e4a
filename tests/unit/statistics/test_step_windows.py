"""Windows of steps: when one ends, and what it keeps."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.statistics.step_windows import StepTimes, Window


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
    lag_s, work_s, others_s = found.beside(np.array([2]), np.array([0, 1]))
    assert (lag_s, work_s, others_s) == pytest.approx((0.15, 0.3, 0.15))


def test_a_window_of_many_ranks_keeps_some_of_its_steps() -> None:
    """The first, the last, and some between them. Its lags are those of all steps."""
    ranks = 8_192
    found = window([[0.11] * ranks] * 10, [[0.0] * ranks] * 10)
    kept = found.thinned()
    assert (found.steps, len(found.busy)) == (10, 10)
    assert kept.numbers.tolist() == [0, 1, 2, 3, 5, 6, 7, 9]
    assert len(kept.busy) == len(kept.durations) == 8
    assert kept.lags.tolist() == found.lags.tolist()


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
