"""How often verdicts on two commands are wrong: `telemetry ab` beside the rules of other tools, on the same times.

`python -m benchmarks.verdicts [--trials N] [--seed N]` simulates run times with known noise, drift and slowdown. It
takes some minutes with the default number of trials, prints Markdown tables, and ends with exit code 1 if a figure
was missed.

`--recorded DIR` takes real run times of this machine instead, in about an hour. Each comparison is a call of
`telemetry ab`, kept in the folder. The other rules get the times of the same runs. Start it on a quiet machine.

The rules of other tools, each with 25 runs a side unless noted:

* Welch, Mann–Whitney: p below 5 %, once, at the end. "Blocks" means all runs before, then all runs after.
* mean ± σ: the intervals of both blocks do not overlap, as hyperfine's summary shows them.
* Bencher: one new run above the 99 % limit of Student's t of the 49 runs before it (its default threshold).
* github-action-benchmark: one new run takes at least 200 % of the run before it.
* t-test with peeking: a paired t-test after each pair from the fifth on, until p is below 5 %. Like `telemetry ab`,
  it has 60 pairs without a slowdown and 25 with one.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

import numpy as np
from numpy.typing import NDArray

from benchmarks.recorded_verdicts import Command, Neighbour, neighbour, planted, same
from telemetry.judge.ab.judge import AbJudge
from telemetry.judge.ab.model import AbFigure, AbPair, AbResult, AbRun, AbSettings, Verdict
from telemetry.statistics.beta import t_quantile, t_two_sided
from telemetry.statistics.runs import rank_sum_test

Floats = NDArray[np.float64]
Rule = Callable[[Floats, NDArray[np.bool_], float], bool]
"""A function that tells whether a rule calls two commands different.

It gets the times of runs one after the other, whether `after` is the first one of each pair, and the slowdown.
"""

ALPHA: Final = 0.05
PAIRS: Final = 60
FOUND_WITHIN: Final = 25
_NOISE: Final = 0.027
_NEIGHBOURS: Final[dict[Neighbour, int]] = {"quiet": 50, "loaded": 50, "drifting": 200}
"""Number of real comparisons of a command with itself, beside each neighbour."""
_SAME_PAIRS: Final = 30
_PLANTED: Final = 40
"""Number of real comparisons with a command that is slower by a known share."""
_FIGURE: Final = AbFigure(name="wall time", unit="s", better="lower")


@dataclass(frozen=True)
class Machine:
    """A simulated machine. Noise and drift are shares of a run's time."""

    noise: float
    drift: float = 0.0

    def times(self, runs: int, rng: np.random.Generator) -> Floats:
        """Return the times of one command, run again and again: noise, outliers, waves, steps and a trend."""
        values = rng.standard_normal(runs) * self.noise
        values += (rng.random(runs) < 0.05) * rng.exponential(3 * self.noise, runs)
        waves, pushes = np.zeros(runs), rng.standard_normal(runs) * self.drift * 0.3
        for at in range(1, runs):
            waves[at] = 0.95 * waves[at - 1] + pushes[at]
        steps = np.cumsum((rng.random(runs) < 0.03) * rng.standard_normal(runs) * self.drift * 2)
        trend = np.linspace(0, rng.normal() * self.drift * 3, runs)
        return np.exp(values + waves + steps + trend)


def in_pairs(times: Floats, after_first: NDArray[np.bool_], slowdown: float) -> tuple[Floats, Floats]:
    """Return the times before and after of pairs in random order."""
    slots = times[: len(times) // 2 * 2].reshape(-1, 2)
    after_first = after_first[: len(slots)]
    before = np.where(after_first, slots[:, 1], slots[:, 0])
    after = np.where(after_first, slots[:, 0], slots[:, 1])
    return before, after * (1 + slowdown)


def in_blocks(times: Floats, slowdown: float) -> tuple[Floats, Floats]:
    """Return the first half of the times as those before, the others as those after."""
    half = FOUND_WITHIN
    return times[:half], times[half : 2 * half] * (1 + slowdown)


def verdict(before: Floats, after: Floats, min_effect: float) -> Verdict:
    """Return the verdict of `telemetry ab` on these pairs."""
    settings = AbSettings(before=[], after=[], labels=("", ""), seed=0, alpha=ALPHA, min_effect=min_effect)
    judge = AbJudge(settings, [_FIGURE])
    for old, new in zip(before.tolist(), after.tolist(), strict=True):
        runs = [AbRun(values={_FIGURE.name: value}) for value in (old, new)]
        judge.add(AbPair(before=runs[0], after=runs[1], first="before"))
        if judge.is_decided:
            break
    return judge.verdicts()[0].verdict


def ours(times: Floats, after_first: NDArray[np.bool_], slowdown: float) -> bool:
    """`telemetry ab`: without a slowdown every difference counts, else one from 40 % of the slowdown on."""
    outcome = verdict(*in_pairs(times, after_first, slowdown), 0.4 * slowdown)
    return outcome == "worse" or (not slowdown and outcome == "better")


def welch(before: Floats, after: Floats) -> bool:
    parts = [float(np.var(side, ddof=1)) / len(side) for side in (before, after)]
    freedom = sum(parts) ** 2 / sum(part**2 / (len(before) - 1) for part in parts)
    t = float(after.mean() - before.mean()) / math.sqrt(sum(parts))
    return t_two_sided(t, freedom) < ALPHA


def mann_whitney(before: Floats, after: Floats) -> bool:
    return rank_sum_test(before.tolist(), after.tolist()) < ALPHA


def apart(before: Floats, after: Floats) -> bool:
    """Return whether mean ± σ of both sides do not overlap."""
    return bool(abs(after.mean() - before.mean()) > before.std(ddof=1) + after.std(ddof=1))


def bencher(times: Floats, _after_first: NDArray[np.bool_], slowdown: float) -> bool:
    *history, newest = times[: 2 * FOUND_WITHIN].tolist()
    limit = fmean(history) + t_quantile(0.99, len(history) - 1) * stdev(history)
    return bool(newest * (1 + slowdown) > limit)


def twice(times: Floats, _after_first: NDArray[np.bool_], slowdown: float) -> bool:
    return bool(times[1] * (1 + slowdown) >= 2 * times[0])


def peeking(times: Floats, after_first: NDArray[np.bool_], slowdown: float) -> bool:
    before, after = in_pairs(times, after_first, slowdown)
    differences = np.log(after) - np.log(before)
    return any(
        t_two_sided(float(part.mean() / part.std(ddof=1) * math.sqrt(len(part))), len(part) - 1) < ALPHA
        for part in (differences[:count] for count in range(5, len(differences) + 1))
    )


def blocks(test: Callable[[Floats, Floats], bool]) -> Rule:
    return lambda times, _after_first, slowdown: test(*in_blocks(times, slowdown))


RULES: Final[dict[str, Rule]] = {
    "**telemetry ab**": ours,
    "Welch, blocks": blocks(welch),
    "Mann–Whitney, blocks": blocks(mann_whitney),
    "mean ± σ apart (hyperfine)": blocks(apart),
    "Bencher's threshold": bencher,
    "github-action-benchmark, 200 %": twice,
    "paired t-test with peeking": peeking,
}


def share(rule: Rule, machine: Machine, slowdown: float, trials: int, seed: int) -> float:
    """Return the share of the trials in which a rule calls the commands different. All rules see the same times."""
    runs = 2 * (FOUND_WITHIN if slowdown else PAIRS)
    called = 0
    for trial in range(trials):
        rng = np.random.default_rng([seed, trial])
        times, after_first = machine.times(runs, rng), rng.random(runs // 2) < 0.5
        called += rule(times, after_first, slowdown)
    return called / trials


def called_same(machine: Machine, min_effect: float, trials: int, seed: int) -> float:
    """Return how often a difference of twice the smallest that matters is called none that matters."""
    wrong = 0
    for trial in range(trials):
        rng = np.random.default_rng([seed, trial])
        sides = in_pairs(machine.times(2 * PAIRS, rng), rng.random(PAIRS) < 0.5, 2 * min_effect)
        wrong += verdict(*sides, min_effect) == "same"
    return wrong / trials


def recorded_times(result: AbResult) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the wall times of the runs of a comparison one after the other, and whether `after` was first."""
    times = []
    for pair in result.pairs:
        values = [run.values[_FIGURE.name] for run in (pair.before, pair.after)]
        times += values if pair.first == "before" else values[::-1]
    return np.array(times), np.array([pair.first == "after" for pair in result.pairs])


def print_recorded(folder: Path, seed: int, *, tiny: bool) -> bool:
    """Record what the folder lacks, print the tables, and return whether all figures are met."""
    command = Command()
    finds: list[tuple[str, float, float]] = []
    for slowdown, wanted in ((0.05, 0.9), (0.1, 0.99)):
        count = 1 if tiny else _PLANTED
        where = folder / f"planted-{slowdown}"
        results = [planted(where / str(number), command, PAIRS, seed + number, slowdown) for number in range(count)]
        share = fmean(result.verdict == "worse" for result in results)
        pairs = [result.valid_pairs for result in results]
        name = f"{slowdown:.0%} slower, {count} comparisons of {fmean(pairs):.0f} pairs on average"
        finds.append((name, wanted, share))
    print(f"| rule | {' | '.join(f'{kind}, {count} comparisons' for kind, count in _NEIGHBOURS.items())} |")
    print("|---|---|---|---|")
    alarms: dict[str, list[float]] = {name: [] for name in RULES}
    for kind, count in _NEIGHBOURS.items():
        with neighbour(kind, seed):
            results = [
                same(folder / kind / str(number), command, _SAME_PAIRS, seed + number)
                for number in range(1 if tiny else count)
            ]
        for name, rule in RULES.items():
            calls = [
                result.verdict in ("better", "worse") if rule is ours else rule(*recorded_times(result), 0.0)
                for result in results
            ]
            alarms[name].append(fmean(calls))
    for name, cells in alarms.items():
        print(f"| {name} | {' | '.join(f'{cell:.1%}' for cell in cells)} |")
    own = dict(zip(_NEIGHBOURS, alarms["**telemetry ab**"], strict=True))
    of_all = sum(share * count for share, count in zip(own.values(), _NEIGHBOURS.values(), strict=True))
    print("\n| hold | wanted | measured |\n|---|---|---|")
    print(f"| false alarms beside a drifting neighbour | ≤ 5 % | {own['drifting']:.1%} |")
    print(f"| false alarms in all of the three | ≤ 5 % | {of_all / sum(_NEIGHBOURS.values()):.1%} |")
    for name, wanted, share in finds:
        print(f"| {name} | ≥ {wanted:.0%} | {share:.1%} |")
    return own["drifting"] <= 0.05 and all(share >= wanted for _, wanted, share in finds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.verdicts", description=__doc__)
    parser.add_argument("--trials", type=int, default=1_000, help="comparisons of each cell (default: 1,000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--recorded", type=Path, metavar="DIR", help="take real run times; keep them in DIR")
    parser.add_argument("--tiny", action="store_true", help="do everything once, without figures")
    options = parser.parse_args()
    if options.recorded:
        return 0 if print_recorded(options.recorded, options.seed, tiny=options.tiny) or options.tiny else 1
    trials = 1 if options.tiny else options.trials
    drifts = [Machine(_NOISE, drift * _NOISE) for drift in (0, 1, 3)]
    slowdowns = [(Machine(_NOISE, _NOISE), 0.05), (Machine(0.01, 0.01), 0.02)]
    print("| rule | false alarms: no drift | drift as the noise | three times | 5 % at 2.7 % noise | 2 % at 1 % |")
    print("|---|---|---|---|---|---|")
    cells = {}
    for name, rule in RULES.items():
        alarms = [share(rule, machine, 0.0, trials, options.seed) for machine in drifts]
        finds = [share(rule, machine, slowdown, trials, options.seed) for machine, slowdown in slowdowns]
        cells[name] = (alarms, finds)
        print(f"| {name} | {' | '.join(f'{cell:.1%}' for cell in (*alarms, *finds))} |", flush=True)
    missed = max(called_same(Machine(noise, noise), 0.02, trials, options.seed) for noise in (0.01, _NOISE))
    print("\n| hold | wanted | measured |\n|---|---|---|")
    alarms, finds = cells["**telemetry ab**"]
    print(f"| false alarms, worst of the three drifts | ≤ 5 % | {max(alarms):.1%} |")
    print(f"| 5 % slower at 2.7 % noise, found within 25 pairs | ≥ 95 % | {finds[0]:.1%} |")
    print(f"| 2 % slower at 1 % noise, found within 25 pairs | ≥ 95 % | {finds[1]:.1%} |")
    print(f'| "no difference that matters" at twice the smallest that matters | ≤ 5 % | {missed:.1%} |')
    met = max(*alarms, missed) <= 0.05 and min(finds) >= 0.95
    return 0 if options.tiny or met else 1


if __name__ == "__main__":
    sys.exit(main())
