"""Slow ranks: how surely one is named, how surely none is named in a job without one, and what that costs.

`python -m benchmarks.stragglers [--trials N]` simulates jobs of 50 steps: 15 s at 0.3 s a step. In half of
them a rank is 10 % slow. It takes about a minute with the default number of trials, and ends with exit code 1 if a
figure was missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from telemetry.statistics.stragglers import Slow, StragglerDetector
from telemetry.testing.slow_ranks import SimulatedRanks, SimulatedStep

STEPS: Final = 50
"""Number of steps after which a slow rank has to be named."""
STEP_S: Final = 0.3
"""Duration of a step, about."""
SLOW: Final = 1.10
NAMED: Final = 0.95
"""Share of the jobs in which it has to be named, within that time."""
_LOOP_STEPS: Final = 20_000


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


def judged(steps: Sequence[SimulatedStep]) -> tuple[list[Slow], float]:
    """Return the verdict after these steps, and the seconds that it took."""
    detector, began_s = StragglerDetector(), time.perf_counter()
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


def cost_of_a_loop() -> tuple[float, float]:
    """Return the nanoseconds of a loop's step that logs, has a span and ends: without and with the declaration."""
    import telemetry

    def loop(first: int) -> float:
        began_ns = time.thread_time_ns()
        for step in range(first, first + _LOOP_STEPS):
            with telemetry.span("all_reduce"):
                pass
            telemetry.log({"loss": 0.5}, step=step)
            telemetry.end_step(step)
        return (time.thread_time_ns() - began_ns) / _LOOP_STEPS

    with tempfile.TemporaryDirectory() as folder, telemetry.start("stragglers", dir=folder, policy="block"):
        loop(0)
        without = min(loop(_LOOP_STEPS * turn) for turn in (1, 2, 3))
        telemetry.stragglers(wait="all_reduce")
        declared = min(loop(_LOOP_STEPS * turn) for turn in (4, 5, 6))
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
    without, declared = cost_of_a_loop()
    print(f"\na step of a loop: {without:,.0f} ns CPU without the declaration, {declared:,.0f} ns with it")
    return 0 if options.tiny or all(result.met for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
