"""Slow ranks: which ones are named, what they cost, and who is never named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from telemetry.statistics.stragglers import Slow, StragglerDetector
from telemetry.testing.slow_ranks import SimulatedRanks, SimulatedStep
from telemetry.wire.events import Rank

Factors = npt.NDArray[np.float64]
Groups = Mapping[Rank, Mapping[str, int | str]]
EVEN: Any = {"noise": (0.01, 0.01), "uneven": 0.0, "long_steps": 0.0}
"""Ranks with a noise of 1 %."""
PIPELINES: Any = {"stages": 8, "work_s": 0.42, **EVEN}
"""Eight pipelines of eight stages."""


def judged(steps: Iterable[SimulatedStep], groups: Groups | None = None) -> StragglerDetector:
    detector = StragglerDetector()
    for rank, coordinates in (groups or {}).items():
        detector.group(rank, coordinates)
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
    """A rank that is slow behind the slowest is named. Repairing it alone saves nothing, and both save more."""
    job = SimulatedRanks(slow={7: 1.4, 50: 1.15})
    detector = judged(job.steps(100))
    [first, second] = detector.verdict()
    assert (first.rank, second.rank) == (7, 50)
    assert first.cost_s == pytest.approx(job.true_cost(100, 0, 7)[0], rel=0.2)
    assert second.share < 0.001
    assert second.alone_s == pytest.approx(job.without(7).true_cost(100, 0, 50)[0], rel=0.2)
    assert detector.together_s() == pytest.approx(job.true_cost(100, 0, 7, 50)[0], rel=0.2)


def test_slow_ranks_together_cost_more_than_each_alone() -> None:
    """Eight ranks share the last place, so that none of them is last in most windows. Their node is not known."""
    job = SimulatedRanks(slow=dict.fromkeys(range(8, 16), 1.12))
    detector = judged(job.steps(200))
    assert names(detector.verdict()) == set(range(8, 16))
    assert sum(slow.cost_s for slow in detector.verdict()) < 0.6 * (detector.together_s() or 0.0)
    assert detector.together_s() == pytest.approx(job.true_cost(200, 0, *range(8, 16))[0], rel=0.2)


def test_a_slow_node_is_one_cause() -> None:
    """It has one cost."""
    job = SimulatedRanks(slow=dict.fromkeys(range(24, 32), 1.1), per_node=8, **EVEN)
    detector = judged(job.steps(200), job.groups())
    [node] = detector.verdict()
    assert (node.dimension, node.value, node.members) == ("node", "n3", tuple(range(24, 32)))
    assert (node.always, node.now, detector.together_s()) == (True, True, None)
    assert node.cost_s == pytest.approx(job.true_cost(200, 0, *range(24, 32))[0], rel=0.2)


@pytest.mark.parametrize("seed", [0, 8])
def test_a_slow_rank_is_no_slow_node(seed: int) -> None:
    """Its node may have ranks that are all a little slower than others. They cost nothing without it."""
    job = SimulatedRanks(slow={37: 1.1}, per_node=8, **EVEN)
    [rank] = judged(job.steps(150, seed), job.groups()).verdict()
    assert (rank.dimension, rank.rank) == ("", 37)


LAST_STAGE = dict.fromkeys(range(56, 64), 1.15)


def test_a_slow_stage_is_one_cause() -> None:
    """The ranks of the last stage work alike, so none of them is slow. The stage is, and a rank hides behind it."""
    job = SimulatedRanks(slow=LAST_STAGE | {29: 1.1}, **PIPELINES)
    slow = judged(job.steps(150), job.groups()).verdict()
    [stage, rank] = slow
    assert (stage.dimension, stage.value, stage.members) == ("pp", 7, tuple(range(56, 64)))
    assert stage.excess == pytest.approx(0.15, abs=0.02)
    assert (rank.dimension, rank.rank) == ("", 29)
    assert rank.excess == pytest.approx(0.1, abs=0.02)
    assert all(cause.is_sure for cause in slow)
    assert stage.cost_s == pytest.approx(job.true_cost(150, 0, *LAST_STAGE)[0], rel=0.2)
    assert rank.cost_s == pytest.approx(job.true_cost(150, 0, 29)[0], abs=0.0005)


def test_a_cost_that_a_pipeline_hides_is_not_told() -> None:
    """How much of a slow rank in the middle the other stages hide depends on what ranks don't report."""
    job = SimulatedRanks(slow={29: 1.1}, **PIPELINES)
    [rank] = judged(job.steps(150), job.groups()).verdict()
    assert (rank.rank, rank.is_sure) == (29, False)
    assert rank.highest_s > job.true_cost(150, 0, 29)[0]


def test_stages_without_a_slow_one_name_nobody() -> None:
    """Some stage is always the slowest by a little."""
    job = SimulatedRanks(per_node=8, **PIPELINES)
    assert judged(job.steps(150), job.groups()).verdict() == []


def test_stages_count_once_all_ranks_have_one() -> None:
    """A rank whose stage is not known could be of any. Groups may come after the first steps."""
    job = SimulatedRanks(slow=LAST_STAGE, **PIPELINES)
    groups, steps = job.groups(), list(job.steps(150))
    some = {rank: groups[rank] for rank in groups if rank != 0}
    assert {slow.dimension for slow in judged(steps, some).verdict()} == {""}
    detector = StragglerDetector()
    for step in steps:
        if step.number == 10:
            for rank, coordinates in groups.items():
                detector.group(rank, coordinates)
        detector.add(*step)
    assert [slow.value for slow in detector.verdict()] == [7]


def test_groups_may_change() -> None:
    """A rank without a stage ends what was said of stages, and a node with another name begins anew."""
    job = SimulatedRanks(slow=LAST_STAGE, **PIPELINES)
    detector = judged(job.steps(100), job.groups())
    assert [(slow.value, slow.now) for slow in detector.verdict()] == [(7, True)]
    for step in job.steps(40):
        detector.add(step.number, [*step.work, (64, 0.42)], [*step.wait, (64, 0.2)])
    assert [(slow.value, slow.now) for slow in detector.verdict() if slow.dimension] == [(7, False)]
    nodes = SimulatedRanks(slow=dict.fromkeys(range(24, 32), 1.3), per_node=8, **EVEN)
    detector = judged(nodes.steps(60), nodes.groups())
    for rank, coordinates in nodes.groups().items():
        detector.group(rank, {"node": f"new-{coordinates['node']}"})
    for step in nodes.steps(60, 1):
        detector.add(*step)
    assert {slow.value: slow.now for slow in detector.verdict()} == {"n3": False, "new-n3": True}


@pytest.mark.parametrize("even", [{}, EVEN])
def test_periodic_pauses_are_named(even: Any) -> None:
    """Most windows know nothing of a rank that pauses in one step of 20: it is last in those steps alone."""
    job = SimulatedRanks(pauses={37: (20, 2.0)}, **even)
    [slow] = judged(job.steps(240)).verdict()
    assert slow.pauses is not None
    assert (slow.rank, slow.pauses.every, slow.now) == (37, 20, True)
    assert slow.pauses.pause_s == pytest.approx(2.0, rel=0.05)
    assert slow.cost_s == pytest.approx(job.true_cost(240, 0, 37)[0], rel=0.2)
    assert slow.share == pytest.approx(job.true_cost(240, 0, 37)[1], rel=0.2)


def test_a_rank_that_is_longer_in_every_seventh_step_is_named() -> None:
    """Pauses may be short, and hidden behind the long steps of others now and then."""

    def change(step: int, of_step: Factors) -> None:
        of_step[37] = 1.3 if step % 7 == 6 else 1.0

    for even, rel in (({}, 0.35), (EVEN, 0.2)):
        job = SimulatedRanks(factors=factors(64, change), **even)
        plain = SimulatedRanks(**even)
        true = np.mean(
            [one.duration_s - other.duration_s for one, other in zip(job.steps(300), plain.steps(300), strict=True)]
        )
        [slow] = judged(job.steps(300)).verdict()
        assert slow.rank == 37
        assert slow.cost_s == pytest.approx(float(true), rel=rel)


def test_a_node_may_pause() -> None:
    """Its ranks pause at the same time, so that none of them is alone."""

    def change(step: int, of_step: Factors) -> None:
        of_step[24:32] = 4.0 if step % 15 == 14 else 1.0

    job = SimulatedRanks(factors=factors(64, change), per_node=8)
    [slow] = judged(job.steps(300), job.groups()).verdict()
    assert slow.pauses is not None
    assert (slow.dimension, slow.value, slow.pauses.every) == ("node", "n3", 15)


def test_pauses_end() -> None:
    """A rank that pauses no more is named in the past tense, with the pauses it had."""

    def change(step: int, of_step: Factors) -> None:
        of_step[37] = 5.0 if step % 20 == 19 and step < 300 else 1.0

    [slow] = judged(SimulatedRanks(factors=factors(64, change)).steps(500)).verdict()
    assert (slow.rank, slow.now, slow.first_step, slow.last_step) == (37, False, 19, 299)


def test_the_smallest_cause_that_would_be_named_is_told() -> None:
    """It is an estimate. Clearly larger causes are named in each job, and clearly smaller ones are not."""
    job = SimulatedRanks()
    quiet = judged(job.steps(400)).sight()
    assert quiet.lag_s is not None
    assert quiet.pauses is not None
    assert 0.03 < quiet.excess < 0.1
    shorter = 0.6 * quiet.excess
    bigger, smaller = (
        [bool(judged(SimulatedRanks(slow={5: 1.0 + excess}).steps(400, seed)).verdict()) for seed in range(4)]
        for excess in (1.5 * quiet.excess, shorter)
    )
    assert sum(bigger) == 4
    assert sum(smaller) < 4
    every = 400 // (2 * quiet.pauses.pauses)
    pausing = SimulatedRanks(pauses={5: (every, 8.0 * quiet.pauses.pause_s)})
    assert names(judged(pausing.steps(400)).verdict()) == {5}
    assert judged(job.steps(20)).sight() == (None, 0.0, 0.0, None)


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


def test_a_single_hang_names_nobody() -> None:
    """A rank that hangs for a dozen steps. A checkpoint of rank 0 every hundred steps is a pause, and is named."""

    def change(step: int, of_step: Factors) -> None:
        of_step[0] = 30.0 if step % 100 == 99 else 1.0
        of_step[5] = 3.0 if 100 <= step < 112 else 1.0

    [slow] = judged(SimulatedRanks(factors=factors(64, change)).steps(800)).verdict()
    assert slow.pauses is not None
    assert (slow.rank, slow.pauses.every) == (0, 100)


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


def test_memory_is_bounded_by_ranks() -> None:
    """Windows of many short steps keep some of their steps, however many ranks there are."""
    job = SimulatedRanks(ranks=512, work_s=0.002, collective_s=0.0001)
    detector = judged(job.steps(900))
    kept = [len(window.busy) for window in detector._windows]
    assert max(window.steps for window in detector._windows) > 2 * max(kept)
    assert max(kept) == (1 << 15) // 512
