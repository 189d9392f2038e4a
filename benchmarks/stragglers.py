"""Slow ranks: how surely one is named, how surely none is named in a job without one, and what that costs.

`python -m benchmarks.stragglers [--trials N]` simulates jobs of 50 steps: 15 s at 0.3 s a step. In half of
them a rank is 10 % slow. Then it compares the costs of causes with the truth, and looks at quiet jobs of 250
steps. It takes about ten minutes with the default number of trials, and ends with exit code 1 if a figure was
missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from telemetry.statistics.stragglers import LEAST_COST, Slow, StragglerDetector
from telemetry.testing.slow_ranks import SimulatedRanks, SimulatedStep
from telemetry.wire.events import Rank

STEPS: Final = 50
"""Number of steps after which a slow rank has to be named."""
STEP_S: Final = 0.3
"""Duration of a step, about."""
SLOW: Final = 1.10
NAMED: Final = 0.95
"""Share of the jobs in which it has to be named, within that time."""
_LOOP_STEPS: Final = 20_000
_CAUSE_STEPS: Final = 240
NEAR: Final = 0.2
"""Largest relative error of the mean cost of a cause that is told."""
_EVEN: Final[Mapping[str, Any]] = {"noise": (0.01, 0.01), "uneven": 0.0, "long_steps": 0.0}
_NODE: Final = tuple(range(24, 32))
_LAST_STAGE: Final = dict.fromkeys(range(56, 64), 1.15)


@dataclass(frozen=True)
class Result:
    """The outcome for one number of ranks."""

    ranks: int
    trials: int
    named: int
    """Jobs in which the slow rank was named in time."""
    others: int
    """Jobs in which another rank was named."""
    false: int
    """Jobs without a slow rank in which one was named."""
    share: float
    """Mean cost of the slow rank as it was estimated, as a share of a step."""
    true_share: float
    us_per_step: float
    """Time of the detector for a step."""

    @property
    def met(self) -> bool:
        return self.named >= NAMED * self.trials and not self.others and self.false <= self.trials // 100

    def __str__(self) -> str:
        return (
            f"| {self.ranks:,} | {self.trials} | {self.named} | {self.others} "
            f"| {self.share:.2%}, {self.true_share:.2%} | {self.false} | {self.us_per_step:,.0f} |"
        )


def job_of(ranks: int, slow: dict[int, float]) -> SimulatedRanks:
    """Return a job whose steps last about STEP_S: the slowest of many ranks is much slower than the median one."""
    plain = SimulatedRanks(ranks=ranks)
    longest = statistics.fmean(max(value for _, value in step.work) for step in plain.steps(200, seed=1))
    return SimulatedRanks(ranks=ranks, slow=slow, work_s=plain.work_s * (STEP_S - plain.collective_s) / longest)


def judged(
    steps: Sequence[SimulatedStep], groups: Mapping[Rank, Mapping[str, int | str]] = MappingProxyType({})
) -> tuple[list[Slow], float]:
    """Return the verdict after these steps, and the seconds that it took."""
    detector, began_s = StragglerDetector(), time.perf_counter()
    for rank, coordinates in groups.items():
        detector.group(rank, coordinates)
    for step in steps:
        detector.add(*step)
    return detector.verdict(), time.perf_counter() - began_s


def measure(ranks: int, trials: int) -> Result:
    slow = ranks // 2
    named = others = false = 0
    shares, true_shares, times = [], [], []
    job, plain = job_of(ranks, {slow: SLOW}), job_of(ranks, {})
    for seed in range(trials):
        steps = list(job.steps(STEPS, seed))
        verdict, took_s = judged(steps)
        own = [one.share for one in verdict if one.rank == slow]
        named += bool(own)
        others += len(verdict) > len(own)
        shares += own
        true_shares.append(job.true_cost(len(steps), seed, slow)[1])
        times.append(took_s / len(steps))
        false += bool(judged(list(plain.steps(STEPS, 1_000_000 + seed)))[0])
    return Result(
        ranks, trials, named, others, false,
        statistics.fmean(shares) if shares else 0.0, statistics.fmean(true_shares), 1e6 * statistics.median(times),
    )  # fmt: skip


@dataclass(frozen=True)
class CauseOfSlowSteps:
    """A cause in a job, with the unit that has to be named."""

    name: str
    job: SimulatedRanks
    ranks: tuple[int, ...]
    key: tuple[str, int | str]
    """Dimension and value of the unit."""


def causes(even: bool) -> list[CauseOfSlowSteps]:
    """Return a job for each kind of cause, with a noise of 1 %, or with that of `SimulatedRanks`."""
    noise = _EVEN if even else {}
    pipelines: dict[str, Any] = {"stages": 8, "work_s": 0.42, **noise}
    node: dict[str, Any] = {"per_node": 8, **noise}
    last = tuple(_LAST_STAGE)
    stage = dict.fromkeys(_NODE, 1.15)
    both = _LAST_STAGE | {29: 1.1}
    long, short = {37: (20, 2.0)}, {37: (7, 0.09)}
    return [
        CauseOfSlowSteps("rank 37 +10 %", SimulatedRanks(slow={37: 1.1}, **node), (37,), ("", 37)),
        CauseOfSlowSteps(
            "node n3 +10 %", SimulatedRanks(slow=dict.fromkeys(_NODE, 1.1), **node), _NODE, ("node", "n3")
        ),
        CauseOfSlowSteps("2 s every 20 steps", SimulatedRanks(pauses=long, **node), (37,), ("", 37)),
        CauseOfSlowSteps("90 ms every 7 steps", SimulatedRanks(pauses=short, **node), (37,), ("", 37)),
        CauseOfSlowSteps("stage 7 of 8 +15 %", SimulatedRanks(slow=_LAST_STAGE, **pipelines), last, ("pp", 7)),
        CauseOfSlowSteps("stage 3 of 8 +15 %", SimulatedRanks(slow=stage, **pipelines), _NODE, ("pp", 3)),
        CauseOfSlowSteps("rank in stage 3 +10 %", SimulatedRanks(slow={29: 1.1}, **pipelines), (29,), ("", 29)),
        CauseOfSlowSteps("that rank, stage 7 +15 %", SimulatedRanks(slow=both, **pipelines), (29,), ("", 29)),
        CauseOfSlowSteps("stage 7, that rank +10 %", SimulatedRanks(slow=both, **pipelines), last, ("pp", 7)),
    ]


def measure_cause(cause: CauseOfSlowSteps, even: bool, trials: int) -> bool:
    """Print what is told of a cause beside the truth. Return False if a cost is far from it."""
    told_s, true_s, most_s, shares, ratios, named = [], [], [], [], [], 0
    for seed in range(trials):
        verdict = judged(list(cause.job.steps(_CAUSE_STEPS, seed)), cause.job.groups())[0]
        truth = cause.job.true_cost(_CAUSE_STEPS, seed, *cause.ranks)
        true_s.append(truth[0])
        shares.append(truth[1])
        own = [slow for slow in verdict if (slow.dimension, slow.value) == cause.key]
        named += bool(own)
        told_s += [slow.cost_s for slow in own if slow.is_sure]
        ratios += [slow.cost_s / truth[0] for slow in own if slow.is_sure]
        most_s += [slow.highest_s for slow in own if not slow.is_sure]
    true = statistics.fmean(true_s)
    told = f"{1e3 * statistics.fmean(told_s):.1f} ms" if told_s else ""
    ratio = statistics.fmean(ratios) if ratios else 1.0
    ratio_text = f"{ratio:.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if ratios else "not told"
    most = f"up to {1e3 * statistics.fmean(most_s):.1f} ms in {len(most_s)}" if most_s else ""
    noise = "1 %" if even else "3 to 5 %"
    print(
        f"| {cause.name} | {noise} | {named} of {trials} | {', '.join(filter(None, (told, most)))} "
        f"| {1e3 * true:.1f} ms | {ratio_text} |",
        flush=True,
    )
    small = statistics.fmean(shares) < LEAST_COST
    return named >= NAMED * trials and (small or abs(ratio - 1.0) <= NEAR)


def quiet_jobs(trials: int) -> int:
    """Return in how many jobs without a cause one is named. There are six kinds of jobs."""
    jobs = [
        SimulatedRanks(), SimulatedRanks(per_node=8), SimulatedRanks(ranks=8, per_node=4),
        SimulatedRanks(per_node=8, uneven=0.08, long_steps=0.03), SimulatedRanks(stages=8, work_s=0.42),
        SimulatedRanks(per_node=8, **_EVEN),
    ]  # fmt: skip
    return sum(
        bool(judged(list(job.steps(250, 1_000_000 + seed)), job.groups())[0])
        for job in jobs
        for seed in range(trials)
    )


def cost_of_a_loop(steps: int) -> tuple[float, float]:
    """Return the nanoseconds of a loop's step that logs, has a span and ends: without and with the declaration."""
    import telemetry

    def loop(first: int) -> float:
        began_ns = time.thread_time_ns()
        for step in range(first, first + steps):
            with telemetry.span("all_reduce"):
                pass
            telemetry.log({"loss": 0.5}, step=step)
            telemetry.end_step(step)
        return (time.thread_time_ns() - began_ns) / steps

    with tempfile.TemporaryDirectory() as folder, telemetry.start("stragglers", dir=folder, policy="block"):
        loop(0)
        without = min(loop(steps * turn) for turn in (1, 2, 3))
        telemetry.stragglers(wait="all_reduce")
        declared = min(loop(steps * turn) for turn in (4, 5, 6))
    return without, declared


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stragglers", description=__doc__)
    parser.add_argument("--trials", type=int, default=400, help="jobs of 64 and of 8 ranks (default: 400)")
    parser.add_argument("--tiny", action="store_true", help="do everything once, without figures")
    options = parser.parse_args()
    trials = 1 if options.tiny else options.trials
    results = []
    print("| ranks | jobs | slow rank named | another named | cost: estimate, truth | named without | µs a step |")
    print("|---|---|---|---|---|---|---|")
    for ranks, count in ((8, trials), (64, trials), (512, max(trials // 4, 1)), (4_096, max(trials // 10, 1))):
        results.append(measure(ranks, count))
        print(results[-1], flush=True)
    print("\n| cause | noise | named | told | truth | told / truth |\n|---|---|---|---|---|---|")
    near = [measure_cause(cause, even, max(trials // 20, 1)) for even in (True, False) for cause in causes(even)]
    quiet = max(trials // 5, 1)
    false = quiet_jobs(quiet)
    print(f"\nquiet jobs in which a cause is named: {false} of {6 * quiet}")
    without, declared = cost_of_a_loop(_LOOP_STEPS // 20 if options.tiny else _LOOP_STEPS)
    print(f"\na step of a loop: {without:,.0f} ns CPU without the declaration, {declared:,.0f} ns with it")
    return 0 if options.tiny or (all(result.met for result in results) and all(near) and not false) else 1


if __name__ == "__main__":
    sys.exit(main())
