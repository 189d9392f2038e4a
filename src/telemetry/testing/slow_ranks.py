"""Simulated ranks that work and then wait for each other, for tests of the detection of slow ranks.

The noise is that of real jobs: the work of each rank and step is lognormal, uneven data add to it, some steps are
much longer, ranks differ a little all the time, and the collective call takes its own time. The same job without a
cause has the same noise, so the true cost of a cause is the difference of two simulations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from telemetry.wire.events import ClosedStep, Rank
from telemetry.wire.stragglers import WAIT, WORK

Floats = npt.NDArray[np.float64]


class SimulatedStep(NamedTuple):
    """The seconds of work and of wait by rank."""

    number: int
    work: list[tuple[Rank, float]]
    wait: list[tuple[Rank, float]]

    @property
    def duration_s(self) -> float:
        """Median duration of the step."""
        return float(np.median([work + wait for (_, work), (_, wait) in zip(self.work, self.wait, strict=True)]))

    def closed(self, axis: str = "step") -> ClosedStep:
        """Return the step as the aggregator publishes it."""
        ranks = {WORK: self.work, WAIT: self.wait}
        values: dict[str, float | None] = {
            name: sum(value for _, value in pairs) / len(pairs) for name, pairs in ranks.items()
        }
        return ClosedStep(axis, self.number, values, producers=len(self.work), ranks=ranks)


@dataclass(frozen=True, kw_only=True)
class SimulatedRanks:
    """Ranks of a job. `slow` has the factor of the work of slow ranks."""

    ranks: int = 64
    slow: Mapping[int, float] = field(default_factory=dict)
    pauses: Mapping[int, tuple[int, float]] = field(default_factory=dict)
    """Rank → number of steps from one of its pauses to the next, and their seconds."""
    work_s: float = 0.28
    noise: tuple[float, float] = (0.03, 0.05)
    """Range of the standard deviation of the logarithm of the work; a job has one of them."""
    uneven: float = 0.03
    """The same for the size of a rank's data, which differs in each step."""
    long_steps: float = 0.01
    """Share of the steps of a rank that are up to six times as long. More than 64 ranks have as many as 64."""
    levels: float = 0.005
    """Standard deviation of the lasting differences between ranks."""
    collective_s: float = 0.02
    factors: Callable[[int], Floats | float] = lambda _step: 1.0
    """Function that returns factors of the work in a step, for example by rank."""
    stages: int = 1
    """Number of stages of a pipeline. Rank r is in stage r // (ranks / stages)."""
    microbatches: int = 16
    microbatch_noise: float = 0.05
    """Standard deviation of the logarithm of the time of a pass of one microbatch, on top of that of the step."""
    per_node: int = 0
    """Number of ranks of a node; 0 for a job whose nodes are not known."""

    def steps(self, count: int, seed: int = 0) -> Iterator[SimulatedStep]:
        """Yield that many steps. Equal seeds give equal steps."""
        random = np.random.default_rng(seed)
        noise = random.uniform(*self.noise)
        level = self.work_s * np.exp(self.levels * random.standard_normal(self.ranks))
        for rank, factor in self.slow.items():
            level[rank] *= factor
        for number in range(count):
            work = level * np.exp(noise * random.standard_normal(self.ranks))
            work *= np.exp(self.uneven * random.standard_normal(self.ranks))
            long = random.random(self.ranks) < self.long_steps / max(self.ranks / 64, 1.0)
            work[long] *= 1.0 + np.minimum(0.3 * random.pareto(2.0, int(long.sum())), 5.0)
            work *= self.factors(number)
            for rank, (every, pause_s) in self.pauses.items():
                work[rank] += pause_s if number % every == every - 1 else 0.0
            collective_s = self.collective_s * np.exp(0.3 * random.standard_normal())
            if self.stages > 1:
                work, end_s = self._pipelined(work, random)
            else:
                end_s = float(work.max())
            wait = end_s - work + collective_s * np.exp(0.02 * random.standard_normal(self.ranks))
            yield SimulatedStep(number, list(enumerate(work.tolist())), list(enumerate(wait.tolist())))

    def _pipelined(self, work: Floats, random: np.random.Generator) -> tuple[Floats, float]:
        """Return the work of each rank, and the end of the step, with one forward and one backward at a time.

        A third of the time of a microbatch is forward. Each of them has noise of its own.
        """
        pipelines = self.ranks // self.stages
        noise = np.exp(
            self.microbatch_noise * random.standard_normal((2, self.microbatches, self.stages, pipelines))
        )
        parts = np.array([1.0, 2.0])[:, None, None, None] / 3.0 / self.microbatches
        times = work.reshape(self.stages, pipelines) * parts * noise
        ends = np.zeros((2, self.microbatches, self.stages, pipelines))
        free = np.zeros((self.stages, pipelines))
        queues = [_one_forward_one_backward(stage, self.stages, self.microbatches) for stage in range(self.stages)]
        done: set[tuple[int, int, int]] = set()
        while any(queues):
            for stage, queue in enumerate(queues):
                while queue:
                    backward, batch = queue[0]
                    before = stage + 1 if backward else stage - 1
                    needed = (backward, batch, before) if 0 <= before < self.stages else (0, batch, stage)
                    begins = free[stage]
                    if needed != (backward, batch, stage):
                        if needed not in done:
                            break
                        begins = np.maximum(begins, ends[needed])
                    free[stage] = ends[backward, batch, stage] = begins + times[backward, batch, stage]
                    done.add((backward, batch, stage))
                    queue.pop(0)
        return times.sum(axis=(0, 1)).ravel(), float(free.max())

    def groups(self) -> dict[Rank, dict[str, int | str]]:
        """Return the groups of each rank, as a program declares them."""
        per_stage = self.ranks // self.stages
        groups: dict[Rank, dict[str, int | str]] = {rank: {} for rank in range(self.ranks)}
        for rank, of_rank in groups.items():
            if self.stages > 1:
                of_rank.update(pp=int(rank) // per_stage, dp=int(rank) % per_stage)
            if self.per_node:
                of_rank["node"] = f"n{int(rank) // self.per_node}"
        return groups

    def without(self, *causes: int) -> SimulatedRanks:
        """Return the same job in which these ranks are neither slow nor pause."""
        return replace(
            self,
            slow={rank: factor for rank, factor in self.slow.items() if rank not in causes},
            pauses={rank: pause for rank, pause in self.pauses.items() if rank not in causes},
        )

    def true_cost(self, count: int, seed: int, *causes: int) -> tuple[float, float]:
        """Return how much sooner the steps would end without these causes: mean seconds, and share of a step."""
        lengths, without = (
            np.mean([step.duration_s for step in job.steps(count, seed)]) for job in (self, self.without(*causes))
        )
        return float(lengths - without), float((lengths - without) / lengths)


def _one_forward_one_backward(stage: int, stages: int, microbatches: int) -> list[tuple[int, int]]:
    """Return the order of work of a stage: (0 forward or 1 backward, microbatch)."""
    warm_up = min(stages - stage - 1, microbatches)
    order = [(0, batch) for batch in range(warm_up)]
    for batch in range(microbatches):
        if warm_up + batch < microbatches:
            order.append((0, warm_up + batch))
        order.append((1, batch))
    return order
