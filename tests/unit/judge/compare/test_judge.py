"""The rules from evidence to verdict."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from telemetry.judge.compare.evidence import DifferenceEvidence
from telemetry.judge.compare.figures import FigureKey
from telemetry.judge.compare.judge import Case, result, verdict
from telemetry.judge.compare.model import Noise
from telemetry.judge.compare.options import Options
from telemetry.judge.compare.sides import SideSamples

OPTIONS = Options(min_effect=0.02)
SAMPLE = SideSamples(
    figure=FigureKey("series", "latency", (), "p99"), unit="ms", before=[10.0, 12.0], after=[20.0, 24.0]
)


def evidence(difference: float | None, low: float, high: float, **parts: Any) -> DifferenceEvidence:
    after = 10.0 * (1 + (difference if difference is not None else 1))
    values: dict[str, Any] = {"p_value": 0.001, "before": 10.0, "after": after, "method": "runs"}
    return DifferenceEvidence(difference=difference, low=low, high=high, **(values | parts))


SLOWER = evidence(0.10, 0.05, 0.15)
FASTER = evidence(-0.10, -0.15, -0.05)


@pytest.mark.parametrize(
    ("found", "better", "said"),
    [
        (SLOWER, "lower", "worse"),
        (SLOWER, "higher", "better"),
        (SLOWER, "neither", "changed"),
        (FASTER, "lower", "better"),
        (FASTER, "higher", "worse"),
        (FASTER, "neither", "changed"),
        (evidence(0.01, 0.005, 0.015), "lower", "same"),
        (evidence(0.0, -0.02, 0.02), "lower", "same"),
        (evidence(0.0, -0.021, 0.02), "lower", "not_shown"),
        (evidence(0.015, 0.005, 0.025), "lower", "not_shown"),
        (evidence(0.02, 0.005, 0.035), "lower", "worse"),
        (evidence(None, math.inf, math.inf), "lower", "worse"),
        (evidence(None, math.inf, math.inf), "neither", "changed"),
    ],
)
def test_a_significant_difference(found: DifferenceEvidence, better: Any, said: str) -> None:
    """A significant difference has a verdict by direction and size.

    One that is surely too small to matter is `same`.
    """
    assert verdict(found, 0.04, better, OPTIONS) == said


def test_a_difference_that_is_not_significant_is_not_shown() -> None:
    """A difference is not shown if its p-value is not below the level, whatever its size.

    The level is what the confidence leaves.
    """
    assert verdict(SLOWER, 0.05, "lower", OPTIONS) == "not_shown"
    assert verdict(SLOWER, 0.04, "lower", replace(OPTIONS, confidence=0.99)) == "not_shown"


def test_a_line_has_all_that_is_known() -> None:
    """Values of each run, both sides, the interval, both p-values, and what is better."""
    line = result(Case(sample=SAMPLE, better="lower", evidence=SLOWER, p_adjusted=0.03), OPTIONS)
    assert (line.verdict, line.better, line.method, line.reason) == ("worse", "lower", "runs", "")
    assert (line.before, line.difference, line.low, line.high) == (10.0, 0.10, 0.05, 0.15)
    assert (line.p_value, line.p_adjusted) == (0.001, 0.03)
    assert (line.before_values, line.after_values) == ([10.0, 12.0], [20.0, 24.0])


def test_bounds_that_are_infinite_are_null() -> None:
    """JSON has no infinity."""
    line = result(
        Case(sample=SAMPLE, better="lower", evidence=evidence(None, math.inf, math.inf), p_adjusted=0.03), OPTIONS
    )
    assert (line.verdict, line.difference, line.low, line.high) == ("worse", None, None, None)
    assert line.reason == "0 in every run before"


@pytest.mark.parametrize(
    ("found", "p_adjusted", "reason"),
    [
        (SLOWER, 0.2, "significant alone"),
        (evidence(0.015, 0.005, 0.025), 0.01, "may be smaller than 2 %"),
        (evidence(0.1, 0.1, 0.1, method="exact", p_value=0.3), 0.3, "too few runs to rule out chance"),
        (evidence(0.1, -0.1, 0.3, p_value=0.3), 0.3, ""),
    ],
)
def test_why_a_difference_is_not_shown(found: DifferenceEvidence, p_adjusted: float, reason: str) -> None:
    """The reason says why a difference is not shown that the interval alone suggests."""
    line = result(Case(sample=SAMPLE, better="lower", evidence=found, p_adjusted=p_adjusted), OPTIONS)
    assert line.verdict == "not_shown"
    assert reason in line.reason
    assert bool(line.reason) == bool(reason)


def test_a_verdict_within_the_noise_of_a_calibration_says_so() -> None:
    """A verdict stands if it is within the noise of a calibration, and the reason says so."""
    noise = Noise(runs=10, low=-0.17, high=0.2, exceeded=False)
    line = result(Case(sample=SAMPLE, better="lower", evidence=SLOWER, p_adjusted=0.01, noise=noise), OPTIONS)
    assert line.verdict == "worse"
    assert line.reason == "but within the noise of the calibration, -17 % … +20 %"


def test_without_evidence_numbers_come_without_a_claim() -> None:
    """Means and their ratio, no interval, and the obstacle; against a calibration if there is one."""
    line = result(Case(sample=SAMPLE, better="lower", obstacle="one run per side"), OPTIONS)
    assert (line.verdict, line.reason) == ("cannot_tell", "one run per side")
    assert (line.before, line.after, line.difference) == (11.0, 22.0, 1.0)
    assert (line.low, line.high, line.p_value, line.method) == (None, None, None, "")
    noise = Noise(runs=10, low=-0.17, high=None, exceeded=True)
    line = result(Case(sample=SAMPLE, better="lower", obstacle="one run per side", noise=noise), OPTIONS)
    assert line.reason == "one run per side; beyond the noise of the calibration, -17 % … –"


def test_what_has_two_units_has_no_difference() -> None:
    """Milliseconds over seconds is no ratio anybody asked for."""
    line = result(Case(sample=SAMPLE, better="lower", obstacle="different units: ms, s"), OPTIONS)
    assert (line.before, line.after, line.difference) == (None, None, None)
