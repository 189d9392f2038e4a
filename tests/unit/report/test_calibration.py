"""A calibration as text."""

from __future__ import annotations

from telemetry.report.calibration import calibration_text
from telemetry.store.calibrations import Calibration, MetricNoise

FOUND = {"5": 0.2, "10": 0.13, "20": 0.09}
CALIBRATION = Calibration(
    name="bench\n",
    argv=["python", "a b.py"],
    runs=10,
    metrics=[
        MetricNoise(of="counter", statistic="value", name="errors", mean=0.0),
        MetricNoise(of="series", statistic="p99", name="latency", unit="ms", mean=10.0, cv=0.05, detectable=FOUND),
        MetricNoise(of="command", statistic="wall", unit="s", mean=1.5, cv=0.01, detectable=FOUND),
    ],
)


def test_the_calmest_figures_come_first() -> None:
    """The calmest figures come first, and those without relative noise come last. The command can be copied."""
    lines = calibration_text(CALIBRATION).splitlines()
    assert lines[0] == r"calibration bench\n: 10 identical runs"
    assert lines[1] == "python 'a b.py'"
    assert [line.split() for line in lines[3:6]] == [
        ["command", "wall", "1.50", "s", "1", "%", "20", "%", "13", "%", "9", "%"],
        ["latency", "p99", "10.0", "ms", "5", "%", "20", "%", "13", "%", "9", "%"],
        ["errors", "value", "0", "–", "–", "–", "–"],
    ]


def test_colour_is_asked_for() -> None:
    """The head alone has it."""
    assert "\x1b" not in calibration_text(CALIBRATION)
    assert calibration_text(CALIBRATION, color=True).count("\x1b") == 2
