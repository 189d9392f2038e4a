"""The steady part of a run, and the end of its warm-up."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.statistics.steady import Floats, SteadyRange, steady_part, warmup_end

SEEDS = range(100)
STEPS = 200


def noise(seed: int, size: int = STEPS) -> Floats:
    return np.random.default_rng(seed).normal(0.0, 1.0, size)


def test_a_steady_run_is_kept() -> None:
    """At least 95 of 100 runs of pure noise keep nine tenths of their steps. As many have no warm-up."""
    for level, spread in ((1_000.0, 1.0), (100.0, 20.0)):
        runs = [level + spread * noise(seed) for seed in SEEDS]
        assert sum(part.end - part.begin >= 0.9 * STEPS for part in map(steady_part, runs)) >= 95
        assert sum(bool(part) and part.begin <= 0.1 * STEPS for part in map(warmup_end, runs)) >= 95


def test_a_warm_up_is_cut_where_the_noise_begins() -> None:
    """The cut lies near step 46 of a decay from twice the level.

    The rest of the decay is one deviation of the noise there.
    """
    decay = 100.0 * np.exp(-np.arange(STEPS) / 10.0)
    begins = []
    for seed in SEEDS[:40]:
        run = 100.0 + decay + noise(seed)
        part, settled = steady_part(run), warmup_end(run)
        assert settled == SteadyRange(part.begin, STEPS, settled.reason)
        assert settled.reason.startswith("the first steps differ: the figure changes from")
        begins.append(settled.begin)
    assert 40 <= np.median(begins) <= 56
    assert min(begins) >= 30
    assert max(begins) <= 80


def test_the_tail_of_a_warm_up_is_no_drift() -> None:
    """The tail of a warm-up is a slope, but a short one beside the part that follows.

    Noise with heavy tails changes nothing.
    """
    decay = 50.0 * np.exp(-np.arange(300) / 20.0)
    noises = (np.random.default_rng(seed).standard_t(3, 300) for seed in SEEDS)
    found = [warmup_end(100.0 + decay + noise) for noise in noises]
    assert sum(not part for part in found) <= 1


def test_of_two_levels_the_longer_one_is_steady() -> None:
    """Wherever the step is, up or down; the first part is no warm-up if it is the longer one."""
    for seed in SEEDS[:30]:
        for at, change in ((90, 8.0), (120, -8.0)):
            run = 100.0 + noise(seed)
            run[at:] += change
            part, settled = steady_part(run), warmup_end(run)
            assert part.end - part.begin >= 0.9 * max(at, STEPS - at)
            expected = at if at < STEPS // 2 else 0
            assert abs(part.begin - expected) <= 4
            assert settled.begin == part.begin
            assert settled.end == STEPS


def test_a_drift_without_end_has_no_steady_part() -> None:
    """The reason says in which direction it goes."""
    for seed in SEEDS[:30]:
        for sign, word in ((1.0, "rising"), (-1.0, "falling")):
            part = steady_part(100.0 + sign * np.linspace(0.0, 20.0, STEPS) + noise(seed), names=["rate"])
            assert (part, part.reason) == (SteadyRange(0, 0, part.reason), f"rate keeps {word}")
    settled = warmup_end(np.linspace(1.0, 2.0, STEPS))
    assert not settled
    assert settled.reason == "the figure keeps rising"


def test_a_drift_after_the_warm_up_is_one_too() -> None:
    """The cut at the end of the warm-up does not hide it."""
    decay = 100.0 * np.exp(-np.arange(STEPS) / 4.0)
    found = [steady_part(100.0 + decay + np.linspace(0.0, 12.0, STEPS) + noise(seed)) for seed in SEEDS]
    assert sum(not part for part in found) >= 95


def test_a_run_in_many_levels_has_none() -> None:
    """A run in many levels has no steady part, because no level is a quarter of the run."""
    part = steady_part(np.repeat([1.0, 9.0, 3.0, 7.0, 2.0, 8.0, 4.0], 30))
    assert not part
    assert part.reason == "at most 30 of 210 consecutive steps have no shift or slope"


def test_a_run_that_settles_late_does_not_count_as_settled() -> None:
    """The steady part is there, but a warm-up of more than half of the run is none."""
    run = np.repeat([1.0, 9.0, 3.0], [60, 60, 80]) + 0.01 * noise(1)
    assert (steady_part(run).begin, steady_part(run).end) == (120, 200)
    settled = warmup_end(run)
    assert not settled
    assert settled.reason == "it settles only in the second half, after 120 of 200 steps"


def test_a_disturbance_is_no_warm_up() -> None:
    """A disturbance is no warm-up, because the steps before it are like those after it."""
    run = 100.0 + noise(3)
    run[30:50] += 40.0
    assert (warmup_end(run).begin, warmup_end(run).end) == (0, STEPS)
    part = steady_part(run)
    assert (part.begin, part.end) == (50, STEPS)


def test_short_disturbances_don_t_end_it() -> None:
    """A pause of two steps now and then belongs to what the run is like."""
    run = 100.0 + noise(4)
    run[[40, 41, 90, 150, 151]] += 60.0
    assert (steady_part(run).begin, steady_part(run).end) == (0, STEPS)


def test_all_rows_have_to_agree() -> None:
    """The rate settles early, the median late: the run is steady when both are; the reason names who is not."""
    rate, median = 500.0 + noise(5), 20.0 + 0.1 * noise(6)
    rate[:10] -= 200.0
    median[:60] += 5.0
    settled = warmup_end(np.array([rate, median]), names=("rate", "p50"))
    assert abs(settled.begin - 60) <= 1
    assert "p50 changes from 25" in settled.reason
    assert abs(warmup_end(rate).begin - 10) <= 1
    drift = np.array([rate, 20.0 + np.linspace(0.0, 6.0, STEPS)])
    assert steady_part(drift).reason == "figure 2 keeps rising"


def test_steps_without_values_are_passed_over() -> None:
    """Places are counted with them."""
    run = 100.0 + noise(7)
    run[:50] += 30.0
    run[10:20] = run[60:100:3] = np.nan
    assert abs(warmup_end(run).begin - 50) <= 2
    part = steady_part(np.array([run, np.ones(STEPS)]))
    assert (abs(part.begin - 50) <= 2, part.end) == (True, STEPS)


@pytest.mark.parametrize("steps", [[], [1.0], [1.0] * 9, [np.nan] * 100, [1.0] * 9 + [np.nan] * 50])
def test_too_few_steps_show_nothing(steps: list[float]) -> None:
    """A run of too few steps has no steady part, and the reason says how many are needed."""
    part = steady_part(np.array(steps))
    assert not part
    there = int(np.isfinite(steps).sum())
    said = "1 step has" if there == 1 else f"{there} steps have"
    assert part.reason == f"{said} values, but 10 are needed"
    assert warmup_end(np.array(steps)).reason == part.reason


def test_constant_figures_are_steady() -> None:
    """Constant figures are steady without any noise, also at a level of 0."""
    for level in (0.0, 7.5):
        assert steady_part(np.full(10, level)) == SteadyRange(0, 10, "no shift or slope in any step")
        assert warmup_end(np.full(10, level)) == SteadyRange(0, 10, "the first steps are like the others")


@pytest.mark.parametrize(
    ("steps", "names"),
    [(np.zeros((2, 2, 2)), ()), (np.array([1.0, np.inf]), ()), (np.zeros((2, 20)), ("rate",))],
)
def test_what_are_no_rows_of_figures_is_refused(steps: Floats, names: tuple[str, ...]) -> None:
    """Shapes, infinite figures, and names of other rows."""
    with pytest.raises(ValueError, match="rows of finite figures"):
        steady_part(steps, names=names)
