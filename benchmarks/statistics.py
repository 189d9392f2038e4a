"""Do the statistics keep what they say? `python -m benchmarks.statistics [--quick]`, about ten minutes.

Processes whose truth is known are sampled again and again: how often are percentiles within their bounds, warm-ups
and steady parts found, equal runs called different, and slower ones found? Prints the tables of docs/STATISTICS.md.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.history.intervals.histograms import Histograms
from telemetry.statistics.beta import t_two_sided
from telemetry.statistics.confidence import rank_bounds
from telemetry.statistics.hdr.layout import Layout
from telemetry.statistics.hdr.percentiles import parse_percentile
from telemetry.statistics.runs import difference
from telemetry.statistics.steady import SteadyRange, steady_part, warmup_end

Floats = NDArray[np.float64]
Generator = np.random.Generator
_NORMAL: Final = NormalDist()

# --- bounds of percentiles -----------------------------------------------------------------------

PERCENTILES: Final = ("50", "90", "99", "99.9")
COUNTS: Final = (30, 100, 1_000, 10_000, 100_000)
_DRAWN: Final = 200_000_000
"""Values of one row of the table, at the most."""
_TICKS: Final = 1_000.0
"""In a unit: values are some ms, ticks a µs."""


def lognormal(generator: Generator, shape: tuple[int, int]) -> Floats:
    return generator.lognormal(1.0, 1.0, shape)


def bimodal(generator: Generator, shape: tuple[int, int]) -> Floats:
    """Seven of ten are around 2 ms, the others around 40."""
    slow = generator.random(shape) < 0.3
    return np.where(slow, 40.0, 2.0) * np.exp(0.1 * generator.standard_normal(shape))


def pareto(generator: Generator, shape: tuple[int, int]) -> Floats:
    """So heavy a tail that it has no variance."""
    return 1.0 + generator.pareto(1.5, shape)


def _bimodal_percentile(fraction: float) -> float:
    low, high = math.log(0.5), math.log(200.0)
    for _ in range(100):
        middle = (low + high) / 2
        below = 0.7 * _NORMAL.cdf((middle - math.log(2.0)) / 0.1) + 0.3 * _NORMAL.cdf(
            (middle - math.log(40.0)) / 0.1
        )
        low, high = (middle, high) if below < fraction else (low, middle)
    return math.exp(low)


PROCESSES: Final[dict[str, tuple[Callable[[Generator, tuple[int, int]], Floats], Callable[[float], float]]]] = {
    "lognormal": (lognormal, lambda fraction: math.exp(1.0 + _NORMAL.inv_cdf(fraction))),
    "bimodal": (bimodal, _bimodal_percentile),
    "Pareto": (pareto, lambda fraction: (1.0 - fraction) ** (-1.0 / 1.5)),
}


def coverage(runs: int) -> Iterator[list[str]]:
    """How often the truth is within the bounds: of the values themselves, and of histograms with 3 digits."""
    yield ["percentile", "values", "sides", *(f"{name}: values, histogram" for name in PROCESSES)]
    for count in COUNTS:
        found = {name: _covered(name, count, min(runs, _DRAWN // count)) for name in PROCESSES}
        for place, key in enumerate(PERCENTILES):
            low, high = rank_bounds(parse_percentile(key), count)
            sides = {(False, False): "none", (True, False): "low", (False, True): "high", (True, True): "both"}
            told = sides[low is not None, high is not None]
            shares = [", ".join(f"{100 * share:.1f} %" for share in found[name][:, place]) for name in PROCESSES]
            yield [f"p{key}", f"{count:,}", told, *(shares if told != "none" else ["–"] * len(shares))]


def _covered(name: str, count: int, runs: int) -> Floats:
    """Shares of the runs, for values and histograms, by percentile. A side without a bound covers all."""
    draw, percentile = PROCESSES[name]
    generator = np.random.default_rng(count)
    ratios = [parse_percentile(key) for key in PERCENTILES]
    truths = [percentile(numerator / denominator) for numerator, denominator in ratios]
    hits, left = np.zeros((2, len(ratios))), runs
    while left:
        rows = min(left, max(1_000_000 // count, 1))
        left -= rows
        values = np.sort(draw(generator, (rows, count)), axis=1)
        for place, (ratio, truth) in enumerate(zip(ratios, truths, strict=True)):
            low, high = rank_bounds(ratio, count)
            above = values[:, low - 1] > truth if low else np.zeros(rows, bool)
            below = values[:, high - 1] < truth if high else np.zeros(rows, bool)
            hits[0, place] += rows - np.count_nonzero(above | below)
        for bounds in _histograms(values).bounds(PERCENTILES):
            for place, (key, truth) in enumerate(zip(PERCENTILES, truths, strict=True)):
                least, most = bounds[key].low, bounds[key].high
                hits[1, place] += (least is None or least <= truth) and (most is None or truth <= most)
    return hits / runs


def _histograms(values: Floats) -> Histograms:
    """One a row."""
    layout, rows = Layout.of(3), values.shape[0]
    slots = layout.slot_of(np.rint(values * _TICKS).astype(np.int64)) + np.arange(rows)[:, None] * layout.slots
    keys, counts = np.unique(slots, return_counts=True)
    return Histograms(
        digits=np.full(rows, 3),
        ticks_per_unit=np.full(rows, _TICKS),
        seconds=np.ones(rows),
        count=np.full(rows, values.shape[1]),
        total=values.sum(axis=1),
        min=values[:, 0],
        max=values[:, -1],
        ends=np.searchsorted(keys, np.arange(1, rows + 1) * layout.slots),
        slots=keys % layout.slots,
        counts=counts,
    )


def dependence(runs: int) -> Iterator[list[str]]:
    """What is left of it if each of 10,000 values remembers a part of the one before."""
    yield ["remembered", *(f"p{key}" for key in PERCENTILES)]
    for remembered in (0.0, 0.5, 0.9, 0.99):
        yield [f"{100 * remembered:.0f} %", *(f"{100 * share:.0f} %" for share in _dependent(remembered, runs))]


def _dependent(remembered: float, runs: int, count: int = 10_000) -> list[float]:
    generator = np.random.default_rng(1)
    values = generator.standard_normal((count, runs))
    for at in range(1, count):
        values[at] = remembered * values[at - 1] + math.sqrt(1.0 - remembered**2) * values[at]
    values.sort(axis=0)
    shares = []
    for key in PERCENTILES:
        ratio = parse_percentile(key)
        low, high = rank_bounds(ratio, count)
        assert low is not None
        assert high is not None
        truth = _NORMAL.inv_cdf(ratio[0] / ratio[1])
        shares.append(float(np.mean((values[low - 1] <= truth) & (truth <= values[high - 1]))))
    return shares


# --- warm-up and steady part ---------------------------------------------------------------------

STEPS: Final = (60, 300, 1_800)
SPREADS: Final = (0.01, 0.05)


def white(generator: Generator, size: int) -> Floats:
    return generator.standard_normal(size)


def remembering(generator: Generator, size: int) -> Floats:
    """Half of each step is left of the one before."""
    steps = generator.standard_normal(size) * math.sqrt(0.75)
    for at in range(1, size):
        steps[at] += 0.5 * steps[at - 1]
    return steps


def with_outliers(generator: Generator, size: int) -> Floats:
    """Three of a hundred steps are 10 deviations off."""
    return white(generator, size) + 10.0 * (generator.random(size) < 0.03)


NOISES: Final = {"white": white, "remembering": remembering, "outliers": with_outliers}


def steadiness(runs: int) -> Iterator[list[str]]:
    """What is found of runs whose course is known. A step and a drift are 4 and 8 deviations of the noise."""
    yield ["steps", "noise", "constant: kept", "warm-up: below noise after, cut at", "step: found", "drift: none"]
    for size in STEPS:
        for spread in SPREADS:
            for name, noise in NOISES.items():
                yield [f"{size:,}", f"{100 * spread:.0f} % {name}", *_steadiness(size, spread, noise, runs)]


def _steadiness(size: int, spread: float, noise: Callable[[Generator, int], Floats], runs: int) -> Iterator[str]:
    times = np.arange(size)
    at = round(0.4 * size)

    def found(find: Callable[[Floats], SteadyRange], course: Floats) -> list[SteadyRange]:
        seeds = (np.random.default_rng(seed) for seed in range(runs))
        return [find(100.0 * (course + spread * noise(seed, size))) for seed in seeds]

    kept = found(steady_part, np.ones(size))
    yield _share(part.end - part.begin >= 0.9 * size for part in kept)
    last = size / 15
    begins = [part.begin if part else size for part in found(warmup_end, 1.0 + 0.5 * np.exp(-times / last))]
    few, half, many = np.quantile(begins, (0.05, 0.5, 0.95))
    yield f"{last * math.log(0.5 / spread):.0f}, {half:.0f} ({few:.0f} to {many:.0f})"
    stepped = found(steady_part, 1.0 + 4.0 * spread * (times >= at))
    yield _share(bool(part) and abs(part.begin - at) <= 0.05 * size for part in stepped)
    yield _share(not part for part in found(steady_part, 1.0 + 8.0 * spread * times / size))


def _share(hits: Iterator[bool]) -> str:
    told = list(hits)
    return f"{100 * sum(told) / len(told):.0f} %"


# --- runs ----------------------------------------------------------------------------------------

SIDES: Final = (3, 5, 8, 10, 20)
SLOWER: Final = 1.1
LEVEL: Final = 0.05


def hit_by_others(generator: Generator, shape: tuple[int, int]) -> Floats:
    """One run of ten is slowed down by 3 deviations and more."""
    hit = generator.random(shape) < 0.1
    return generator.standard_normal(shape) + hit * (3.0 + generator.exponential(5.0, shape))


def two_modes(generator: Generator, shape: tuple[int, int]) -> Floats:
    """Four runs of ten are 3 deviations slower, for good; the deviation of all is 1.8 then."""
    return generator.standard_normal(shape) + 3.0 * (generator.random(shape) < 0.4)


def heavy(generator: Generator, shape: tuple[int, int]) -> Floats:
    """Student's t with 3 degrees of freedom."""
    return generator.standard_t(3, shape) / math.sqrt(3.0)


RUNS: Final[dict[str, Callable[[Generator, tuple[int, int]], Floats]]] = {
    "normal": lambda generator, shape: generator.standard_normal(shape),
    "heavy tails": heavy,
    "one of ten hit": hit_by_others,
    "two modes": two_modes,
}


def comparing(pairs: int) -> Iterator[list[str]]:
    """False alarms of equal sides, and how many of the sides that are a tenth slower are found, at 5 %."""
    yield ["noise, 4 %", "runs a side", "difference: false, found", "means: false, found", "trimmed: false, found"]
    for name in RUNS:
        for runs in SIDES:
            told = [", ".join(f"{100 * share:.1f} %" for share in line) for line in _told(name, 0.04, runs, pairs)]
            yield [name, str(runs), *told]


def limits(pairs: int) -> Iterator[list[str]]:
    """Up to which noise between runs a tenth is found in nine of ten comparisons."""
    yield ["noise between runs", "false, found with 10 runs a side", "with 20"]
    for percent in (2.0, 4.0, 5.0, 5.5, 6.0, 6.5, 7.0, 8.0, 10.0):
        shares = [_told("normal", percent / 100, runs, pairs)[0] for runs in (10, 20)]
        yield [f"{percent:g} %", *(f"{100 * false:.1f} %, {100 * found:.1f} %" for false, found in shares)]


def _told(name: str, spread: float, runs: int, pairs: int) -> list[tuple[float, float]]:
    """(False alarms, found) of `difference`, of Welch's test, and of Yuen's that trims a fifth at each end."""
    sides = np.random.default_rng(runs).spawn(2)
    before, after = (100.0 * np.exp(spread * RUNS[name](side, (pairs, runs))) for side in sides)
    ways = (_difference, lambda one, other: _trimmed(one, other, 0.0), lambda one, other: _trimmed(one, other, 0.2))
    return [(_significant(way, before, after), _significant(way, before, SLOWER * after)) for way in ways]


def _significant(p_value: Callable[[Floats, Floats], float], before: Floats, after: Floats) -> float:
    return sum(p_value(one, other) < LEVEL for one, other in zip(before, after, strict=True)) / len(before)


def _difference(before: Floats, after: Floats) -> float:
    found = difference(before.tolist(), after.tolist())
    assert found is not None
    return found.p_value


def _trimmed(before: Floats, after: Floats, share: float) -> float:
    means, squares, weights = [], [], []
    for side in (before, after):
        ordered = np.sort(np.log(side))
        cut = int(share * side.size)
        kept = ordered[cut : side.size - cut]
        drawn_in = np.clip(ordered, kept[0], kept[-1])
        means.append(kept.mean())
        squares.append(drawn_in.var(ddof=1) * (side.size - 1) / (kept.size * (kept.size - 1)))
        weights.append(squares[-1] ** 2 / (kept.size - 1))
    return t_two_sided(abs(means[1] - means[0]) / math.sqrt(sum(squares)), sum(squares) ** 2 / sum(weights))


# --- tables --------------------------------------------------------------------------------------

TABLES: Final[dict[str, tuple[Callable[[int], Iterator[list[str]]], int]]] = {
    "Bounds of percentiles, nominal 95 %": (coverage, 10_000),
    "Bounds of values that remember": (dependence, 1_000),
    "Warm-up and steady part": (steadiness, 200),
    "Comparing runs": (comparing, 2_000),
    "Noise between runs and a slowdown of 10 %": (limits, 2_000),
}


def main(argv: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    for title, (rows, repeats) in TABLES.items():
        begin = time.monotonic()
        print(f"\n## {title}\n")
        for number, row in enumerate(rows(max(repeats // args.less, 2))):
            print("| " + " | ".join(row) + " |", flush=True)
            if number == 0:
                print("|" + "---|" * len(row))
        print(f"{title}: {time.monotonic() - begin:.0f} s", file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.statistics", description=__doc__)
    parser.add_argument(
        "--quick", dest="less", action="store_const", const=10, default=1, help="a tenth of the repeats"
    )
    parser.add_argument(
        "--tiny",
        dest="less",
        action="store_const",
        const=10_000,
        help="does it run at all; the figures mean nothing",
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
