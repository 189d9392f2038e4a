"""Slow ranks: which ones are named, what they cost, and who is never named."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pytest

from telemetry.statistics.stragglers import Slow, StragglerDetector
from telemetry.testing.slow_ranks import SimulatedRanks, SimulatedStep

Factors = npt.NDArray[np.float64]


def judged(steps: Iterable[SimulatedStep]) -> StragglerDetector:
    detector = StragglerDetector()
    for step in steps:
        detector.add(*step)
    return detector


def factors(ranks: int, change: Callable[[int, Factors], None]) -> Callable[[int], Factors]:
    """Factors of the work that `change` sets for a step."""

    def of(step: int) -> Factors:
        found = np.ones(ranks)
        change(step, found)
        return found

    return of


def names(slow: Iterable[Slow]) -> set[object]:
    return {one.rank for one in slow}


@pytest.mark.parametrize("ranks", [8, 64, pytest.param(512, marks=pytest.mark.slow)])
def test_a_slow_rank_is_named_with_its_cost(ranks: int) -> None:
    """A slow rank is named within 50 steps, with noise as large as the difference."""
    job = SimulatedRanks(ranks=ranks, slow={5: 1.12})
    found = [judged(job.steps(50, seed)).verdict() for seed in range(20)]
    named = [slow for slow in found if names(slow) == {5}]
    assert len(named) >= 18
    estimated = sum(slow[0].share for slow in named) / len(named)
    true = sum(job.true_cost(50, seed, 5)[1] for seed in range(20)) / 20
    assert 0.6 * true < estimated < 1.2 * true
    assert all(0.07 < slow[0].excess < 0.17 and slow[0].always and slow[0].now for slow in named)


@pytest.mark.parametrize(
    "ranks", [pytest.param(2, marks=pytest.mark.slow), 8, pytest.param(64, marks=pytest.mark.slow)]
)
def test_without_a_slow_rank_none_is_named(ranks: int) -> None:
    """Uneven data and long steps hit every rank alike."""
    job = SimulatedRanks(ranks=ranks, uneven=0.08, long_steps=0.03)
    assert [names(judged(job.steps(250, seed)).verdict()) for seed in range(12)] == [set()] * 12


@pytest.mark.slow
def test_disturbances_that_outlast_a_window_name_nobody() -> None:
    """Neighbouring windows are alike then, so that they prove less."""
    for seed in range(6):
        random, state = np.random.default_rng(seed), np.zeros(64)

        def drift(_step: int, found: Factors, random: np.random.Generator = random, state: Factors = state) -> None:
            state *= 0.9
            state += 0.017 * random.standard_normal(64)
            found *= np.exp(state)

        job = SimulatedRanks(factors=factors(64, drift))
        assert judged(job.steps(600, seed)).verdict() == []


def test_two_slow_ranks_are_both_named() -> None:
    """A rank that is slow behind the slowest is named, too.

    Each cost counts against the ranks that are not named.
    """
    [first, second] = judged(SimulatedRanks(slow={7: 1.4, 50: 1.15}).steps(100)).verdict()
    assert (first.rank, second.rank) == (7, 50)
    assert first.share > second.share > 0.003


def test_a_slow_node_is_named_rank_by_rank() -> None:
    """Eight ranks share the last place, so that none of them is last in most windows."""
    slow = judged(SimulatedRanks(slow=dict.fromkeys(range(8, 16), 1.12)).steps(200)).verdict()
    assert names(slow) == set(range(8, 16))


def test_a_rank_that_becomes_slow_is_dated() -> None:
    """A rank is named soon after it becomes slow, and is past once it has recovered."""

    def change(step: int, found: Factors) -> None:
        found[7] = 1.25 if 300 <= step < 500 else 1.0

    steps = list(SimulatedRanks(factors=factors(64, change)).steps(700))
    [now] = judged(steps[:350]).verdict()
    assert (now.rank, now.now, now.always) == (7, True, False)
    assert abs(now.first_step - 300) <= 10
    assert now.best < 0.05
    [past] = judged(steps).verdict()
    assert (past.rank, past.now) == (7, False)
    assert 490 <= past.last_step <= 560


def test_single_slow_steps_name_nobody() -> None:
    """A checkpoint of rank 0 every hundred steps, and a rank that hangs for a dozen steps."""

    def change(step: int, found: Factors) -> None:
        found[0] = 30.0 if step % 100 == 99 else 1.0
        found[5] = 3.0 if 100 <= step < 112 else 1.0

    assert judged(SimulatedRanks(factors=factors(64, change)).steps(800)).verdict() == []


def test_a_rank_that_is_slow_in_some_steps_is_named() -> None:
    """A rank that is slow in some steps recurs, although its median is like that of the others.

    Its cost is the mean over all steps.
    """
    random = np.random.default_rng(3)

    def change(_step: int, found: Factors) -> None:
        found[7] = 1.5 if random.random() < 0.35 else 1.0

    [slow] = judged(SimulatedRanks(factors=factors(64, change)).steps(600)).verdict()
    assert slow.rank == 7
    assert 0.05 < slow.share < 0.2


def test_a_few_steps_are_too_few() -> None:
    """The detector names no rank before it has enough steps, whatever these show."""
    assert judged(SimulatedRanks(slow={5: 2.0}).steps(29)).verdict() == []
    assert names(judged(SimulatedRanks(slow={5: 2.0}).steps(50)).verdict()) == {5}


def test_a_difference_that_matters_little_names_nobody() -> None:
    """However certain it is: half a percent of the work, without noise."""
    job = SimulatedRanks(ranks=4, slow={1: 1.002}, noise=(1e-5, 1e-5), uneven=0.0, long_steps=0.0, levels=0.0)
    assert judged(job.steps(400)).verdict() == []


def test_ranks_that_wait_alike_name_nobody() -> None:
    """Equal ranks have no last one, as in a job without collective calls."""
    work: list[tuple[int | str, float]] = [(rank, 0.3) for rank in range(4)]
    steps = [SimulatedStep(step, work, [(rank, 0.0) for rank, _ in work]) for step in range(300)]
    assert judged(steps).verdict() == []


def test_two_ranks_can_be_told_apart() -> None:
    """Two ranks take more steps to tell apart, because each is last in half of the windows anyway."""
    job = SimulatedRanks(ranks=2, slow={1: 1.25}, work_s=0.08, collective_s=0.001)
    assert names(judged(job.steps(350)).verdict()) == {1}


def test_a_large_steady_lag_is_sure_though_its_changes_are_alike() -> None:
    """Small changes that last explain no lag of a thousand times their size."""
    random, drift = np.random.default_rng(4), np.zeros(2)
    steps = []
    for number in range(250):
        drift = 0.98 * drift + 1e-6 * random.standard_normal(2)
        work = 0.08 + np.array([0.0, 0.02]) + drift
        wait = work.max() - work + 1e-4
        steps.append(SimulatedStep(number, list(enumerate(work.tolist())), list(enumerate(wait.tolist()))))
    assert names(judged(steps).verdict()) == {1}


def test_steps_may_begin_again() -> None:
    """Steps that begin again after a restart from a checkpoint all count."""
    steps = list(SimulatedRanks(ranks=16, slow={3: 1.3}).steps(300))
    [slow] = judged([*steps[:200], *steps[100:]]).verdict()
    assert (slow.rank, slow.now, slow.steps) == (3, True, 400)
    assert (slow.first_step, slow.last_step) == (0, 299)


def test_ranks_may_come_and_go() -> None:
    """A rank that was replaced is judged no more; the one that came is."""

    def replaced(step: SimulatedStep) -> SimulatedStep:
        name = 3 if step.number < 200 else "new"
        return step._replace(
            work=[(name if rank == 3 else rank, value) for rank, value in step.work],
            wait=[(name if rank == 3 else rank, value) for rank, value in step.wait],
        )

    slow = judged(map(replaced, SimulatedRanks(ranks=16, slow={3: 1.3}).steps(400))).verdict()
    assert {one.rank: one.now for one in slow} == {3: False, "new": True}


def test_a_step_of_one_rank_is_none() -> None:
    """A step of one rank does not count, because no rank waits. A rank without work does not count either."""
    detector = StragglerDetector()
    assert not detector.add(0, [(0, 1.0)], [(0, 0.1)])
    assert not detector.add(1, [(0, 1.0)], [(0, 0.1), (1, 0.1)])
    assert (detector.steps, detector.verdict(), detector.step_s) == (0, [], 0.0)


@pytest.mark.slow
def test_the_map_shows_who_lags_when() -> None:
    """The map shows the lag of a rank when it happens, and its size is bounded in runs of any length."""

    def change(step: int, found: Factors) -> None:
        found[2] = 1.5 if step >= 1_500 else 1.0

    detector = judged(SimulatedRanks(ranks=4, factors=factors(4, change)).steps(3_000))
    columns = detector.map.columns
    assert 120 <= len(columns) <= 240
    assert (columns[0].first_step, columns[-1].last_step) == (0, 2_999)
    early, late = (
        [each.lags[2] for each in columns if (each.first_step >= 1_500) is when] for when in (False, True)
    )
    assert abs(float(np.mean(early))) < 0.05
    assert float(np.mean(late)) > 0.15
