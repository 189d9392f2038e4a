"""Simulated ranks that work and then wait for each other, for tests of the detection of slow ranks.

The noise is that of real jobs: the work of each rank and step is lognormal, uneven data add to it, some steps are
much longer, ranks differ a little all the time, and the collective call takes its own time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
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
            collective_s = self.collective_s * np.exp(0.3 * random.standard_normal())
            wait = work.max() - work + collective_s * np.exp(0.02 * random.standard_normal(self.ranks))
            yield SimulatedStep(number, list(enumerate(work.tolist())), list(enumerate(wait.tolist())))

    def true_cost(self, count: int, seed: int, rank: int) -> tuple[float, float]:
        """Return the mean cost of a rank in these steps, in seconds and as a share of a step."""
        costs, lengths = [], []
        for step in self.steps(count, seed):
            work = dict(step.work)
            longest = max(value for other, value in step.work if other != rank)
            costs.append(max(work[rank] - longest, 0.0))
            lengths.append(max(work.values()) + self.collective_s)
        return float(np.mean(costs)), float(np.mean(costs) / np.mean(lengths))
