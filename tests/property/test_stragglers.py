"""Slow ranks: the verdict depends on durations alone, and not on names, on order or on the unit of time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.statistics.stragglers import Slow, StragglerDetector
from telemetry.testing.slow_ranks import SimulatedRanks, SimulatedStep

RANKS = 12
JOBS = st.tuples(
    st.integers(0, 10_000), st.dictionaries(st.integers(0, RANKS - 1), st.floats(1.0, 1.5), max_size=3)
)


def steps_of(job: tuple[int, dict[int, float]], work_s: float = 1.5) -> list[SimulatedStep]:
    """Steps of a second and more, so that windows have five steps whatever the scale."""
    seed, slow = job
    return list(SimulatedRanks(ranks=RANKS, slow=slow, work_s=work_s).steps(120, seed))


def verdict(steps: list[SimulatedStep]) -> dict[int, Slow]:
    detector = StragglerDetector()
    for step in steps:
        detector.add(*step)
    return {int(str(one.rank)): one for one in detector.verdict()}


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(JOBS, st.permutations(range(RANKS)))
def test_permuting_ranks_changes_names_only(job: tuple[int, dict[int, float]], order: list[int]) -> None:
    """Costs, steps and counts stay."""
    steps = steps_of(job)
    permuted = [
        SimulatedStep(
            step.number,
            [(order[int(rank)], value) for rank, value in step.work],
            [(order[int(rank)], value) for rank, value in reversed(step.wait)],
        )
        for step in steps
    ]
    before, after = verdict(steps), verdict(permuted)
    assert {order[rank] for rank in before} == after.keys()
    for rank, one in before.items():
        other = after[order[rank]]
        assert (one.cost_s, one.steps, one.last_in, one.now) == (
            other.cost_s,
            other.steps,
            other.last_in,
            other.now,
        )


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(JOBS, st.floats(1.0, 1_000.0))
def test_scaling_time_scales_the_cost(job: tuple[int, dict[int, float]], scale: float) -> None:
    """The same ranks, and the same share of a step."""
    steps = steps_of(job)
    scaled = [
        SimulatedStep(
            step.number,
            [(rank, value * scale) for rank, value in step.work],
            [(rank, value * scale) for rank, value in step.wait],
        )
        for step in steps
    ]
    before, after = verdict(steps), verdict(scaled)
    assert before.keys() == after.keys()
    for rank, one in before.items():
        assert after[rank].cost_s == pytest.approx(one.cost_s * scale, rel=1e-9)
        assert after[rank].share == pytest.approx(one.share, rel=1e-9)
