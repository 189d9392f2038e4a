"""How far single runs of one program differ."""

from __future__ import annotations

import math

import pytest

from telemetry.gates.noise import floors
from telemetry.statistics.beta import t_quantile
from telemetry.store.calibrations import Calibration, MetricNoise


def test_two_single_runs_differ_by_a_quantile_of_the_spread() -> None:
    """Of each metric that has a spread, under the name that a gate has for it."""
    metrics = [
        MetricNoise(
            of="series", statistic="p99", name="ttft", labels={"b": "2", "a": "1"}, values=[1.0] * 10, cv=0.02
        ),
        MetricNoise(of="command", statistic="wall", values=[1.0] * 5, cv=0.1),
        MetricNoise(of="counter", statistic="value", name="n", values=[1.0], cv=0.1),
        MetricNoise(of="counter", statistic="rate", name="n", values=[0.0, 0.0]),
    ]
    found = floors(Calibration(name="job", metrics=metrics))
    assert found == {
        ("p99", "ttft", (("a", "1"), ("b", "2"))): pytest.approx(t_quantile(0.975, 9) * 0.02 * math.sqrt(2)),
        ("command.wall", "", ()): pytest.approx(t_quantile(0.975, 4) * 0.1 * math.sqrt(2)),
    }
    assert floors(None) == {}
