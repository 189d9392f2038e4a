"""Tests of how far single runs of one program differ."""

from __future__ import annotations

import math
from statistics import stdev

import pytest

from telemetry.judge.gates.noise import floors
from telemetry.statistics.beta import t_quantile
from telemetry.store.calibrations import Calibration, MetricNoise


def test_two_single_runs_differ_by_a_quantile_of_the_spread() -> None:
    """Each metric with a spread has noise under its name in gates. Positive values are compared by ratios."""
    metrics = [
        MetricNoise(
            of="series", statistic="p99", name="ttft", labels={"b": "2", "a": "1"}, values=[1.0, math.e] * 5
        ),
        MetricNoise(of="steps", statistic="last", name="gain", values=[-1.0, 3.0]),
        MetricNoise(of="counter", statistic="value", name="n", values=[1.0]),
        MetricNoise(of="counter", statistic="rate", name="n", values=[0.0, 0.0]),
    ]
    found = floors(Calibration(name="job", metrics=metrics))
    times = t_quantile(0.975, 9) * stdev([0.0, 1.0] * 5) * math.sqrt(2)
    gain = t_quantile(0.975, 1) * stdev([-1.0, 3.0]) * math.sqrt(2)
    assert found == {
        ("p99", "ttft", (("a", "1"), ("b", "2"))): pytest.approx((math.expm1(-times), math.expm1(times))),
        ("last", "gain", ()): pytest.approx((-gain, gain)),
    }
    assert floors(None) == {}
