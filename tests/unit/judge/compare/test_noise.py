"""Tests of how much runs differ by themselves."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from statistics import stdev
from typing import Any

import pytest

from telemetry.judge.compare.figures import FigureKey
from telemetry.judge.compare.noise import SIDES, noise_of, noises
from telemetry.statistics.runs import RunNoise, difference
from telemetry.store.calibrations import Calibration, MetricNoise
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat

Run = Callable[..., Report]
P50 = FigureKey("series", "latency", (), "p50")
NOISE = MetricNoise(of="series", statistic="p50", name="latency", values=[9.0, 11.0] * 5)
CALIBRATION = Calibration(name="x", runs=10, metrics=[NOISE])


def test_noise_of_runs(run: Run) -> None:
    """Values in the order of the runs, deviation over the mean, and what that lets be found."""
    found = noise_of([run(9.0), run(10.0), run(11.0)])
    (p50,) = [one for one in found if one.statistic == "p50"]
    assert (p50.of, p50.name, p50.unit, p50.values, p50.mean) == (
        "series",
        "latency",
        "ms",
        [9.0, 10.0, 11.0],
        10.0,
    )
    assert p50.cv == pytest.approx(stdev([9.0, 10.0, 11.0]) / 10)
    assert list(p50.detectable) == [str(runs) for runs in SIDES]
    assert p50.detectable["5"] > p50.detectable["10"] > p50.detectable["20"]
    assert {one.statistic for one in found} == {"p50", "p90", "p99", "mean", "rate", "value", "wall", "cpu"}


def test_only_what_every_run_has(run: Run, series: Callable[..., Any]) -> None:
    """A series that one run lacks has no noise, nor has a percentile that rests on too few values in one."""
    runs = [run(), run(series=[series("latency", 1.0, count=50)]), run(series=[])]
    assert {one.of for one in noise_of(runs)} == {"counter", "command"}
    assert "p99" not in {one.statistic for one in noise_of(runs[:2])}
    assert noise_of([]) == []


def test_noise_of_all_rates_of_requests(run: Run, series: Callable[..., Any]) -> None:
    """Noise covers all rates of requests, also those that no comparison has: a gate may ask for them."""
    issued = CounterStat(name="llm.issued", unit="requests", value=5)
    runs = [run(counters=[issued], series=[series("llm.ttft", 1.0, unit="ns")]) for _ in range(2)]
    assert {one.name for one in noise_of(runs) if one.statistic == "rate"} == {"llm.issued", "llm.ttft"}


def test_a_mean_of_0_has_no_relative_noise(run: Run) -> None:
    """A mean of 0 has no relative noise and no detectable effects, and no division fails."""
    runs = [run(counters=[CounterStat(name="errors", value=0)]) for _ in range(2)]
    (value,) = [one for one in noise_of(runs) if one.statistic == "value"]
    assert (value.mean, value.cv, value.detectable) == (0.0, None, {})


def test_what_is_called_detectable_is_found_nine_times_of_ten() -> None:
    """A simulation finds the detectable effect nine times of ten, with the method that compares."""
    source = random.Random(3)
    noise = RunNoise(0.05, 10, of_ratios=True)
    effect = noise.detectable(5, 0.95, 0.9)
    found = 0
    for _ in range(300):
        before = [source.gauss(1.0, 0.05) for _ in range(5)]
        after = [source.gauss(1.0 + effect, 0.05) for _ in range(5)]
        told = difference(before, after)
        assert told is not None
        found += told.p_value < 0.05
    assert 0.84 < found / 300 < 0.96
    with pytest.raises(ValueError, match="1 run per side"):
        noise.detectable(1, 0.95, 0.9)


def test_a_difference_against_the_noise() -> None:
    """The limits are farther apart with fewer runs; a difference is beyond them in either direction."""
    one, ten, down, unknown = (
        noise
        for size, difference in ((1, 0.2), (10, 0.2), (10, -0.2), (10, None))
        for noise in noises(CALIBRATION, [(P50, difference)], (size, size), 0.05)
    )
    assert one is not None
    assert ten is not None
    assert down is not None
    assert unknown is not None
    reach = 2.262157 * stdev(map(math.log, NOISE.values)) * 2**0.5
    assert (one.low, one.high) == pytest.approx((math.expm1(-reach), math.expm1(reach)))
    assert ten.high == pytest.approx(math.expm1(reach / 10**0.5))
    assert (one.exceeded, ten.exceeded, down.exceeded, unknown.exceeded) == (False, True, True, None)


def test_the_limits_of_several_figures_hold_together() -> None:
    """The limits of several figures follow the steps of Holm.

    The surest figure has the level of all, the next one that of the others.
    """
    every = [(P50, 9.0), (FigureKey("series", "latency", (), "p99"), 0.0), (P50, 0.2), (P50, -1.0)]
    first, lacking, third, gone = noises(CALIBRATION, every, (1, 1), 0.05)
    single = noises(CALIBRATION, [(P50, 0.2)], (1, 1), 0.05)[0]
    assert lacking is None
    assert first is not None
    assert third is not None
    assert gone is not None
    assert third == single
    assert gone.low < first.low < third.low
    assert (first.exceeded, gone.exceeded) == (True, True)


def test_where_nothing_is_known_of_the_noise() -> None:
    """A figure has no noise without a calibration, if the calibration lacks it, or without two runs."""
    assert noises(None, [(P50, 0.2)], (1, 1), 0.05) == [None]
    assert noises(CALIBRATION, [(FigureKey("series", "latency", (), "p99"), 0.2)], (1, 1), 0.05) == [None]
    assert noises(CALIBRATION, [(P50, 0.2)], (0, 1), 0.05) == [None]
    thin = Calibration(
        name="x", metrics=[MetricNoise(of="series", statistic="p50", name="latency", cv=0.1, values=[1.0])]
    )
    assert noises(thin, [(P50, 0.2)], (1, 1), 0.05) == [None]
