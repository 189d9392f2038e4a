"""Tests of what the values of both sides show, and by which method."""

from __future__ import annotations

import math

import pytest

from telemetry.judge.compare.evidence import DifferenceEvidence, evidence
from telemetry.judge.compare.figures import FigureKey
from telemetry.judge.compare.sides import SideSamples

PAIRS = [(number, number) for number in range(6)]
NOISY = [10.0, 11.0, 9.0, 10.5, 9.5, 10.2]


def of(before: list[float], after: list[float], *, paired: bool = False) -> DifferenceEvidence | str:
    sample = SideSamples(figure=FigureKey("series", "s", (), "p50"), unit="ms", before=before, after=after)
    return evidence(sample, PAIRS[: len(before)] if paired else None, 0.95)


def test_pairs_are_held_against_each_other() -> None:
    """Pairs are compared with each other in their own order, not in that of the runs.

    Pairs that agree leave no noise.
    """
    after = [value * 1.1 for value in reversed(NOISY)]
    sample = SideSamples(figure=FigureKey("series", "s", (), "p50"), unit="ms", before=NOISY, after=after)
    found = evidence(sample, [(number, 5 - number) for number in range(6)], 0.95)
    assert isinstance(found, DifferenceEvidence)
    assert (found.method, found.up) == ("pairs", True)
    assert found.low == pytest.approx(0.1) == found.high


def test_without_pairs_the_spread_of_the_runs_counts() -> None:
    """The same values then show nothing."""
    found = of(NOISY, [value * 1.1 for value in NOISY])
    assert isinstance(found, DifferenceEvidence)
    assert found.method == "runs"
    assert found.low < 0.1 < found.high
    assert found.high - found.low > 0.1


def test_pairs_with_0_among_them_have_no_ratios() -> None:
    """Figures with a 0 among them are compared as they are, by runs and not by pairs."""
    found = of(NOISY, [0.0, 10.0, 9.0, 11.0, 10.0, 9.0], paired=True)
    assert isinstance(found, DifferenceEvidence)
    assert found.method == "runs"


@pytest.mark.parametrize("paired", [True, False])
def test_figures_that_are_the_same_in_every_run(paired: bool) -> None:
    """The interval of figures without spread is a point.

    The p-value is the chance that runs fall apart so neatly.
    """
    found = of([1000.0] * 6, [1010.0] * 6, paired=paired)
    assert isinstance(found, DifferenceEvidence)
    assert (found.method, found.difference, found.low, found.high) == ("exact", *[pytest.approx(0.01)] * 3)
    assert found.p_value == pytest.approx(2 / math.comb(12, 6))
    alike = of([1000.0] * 6, [1000.0] * 6, paired=paired)
    assert isinstance(alike, DifferenceEvidence)
    assert (alike.difference, alike.p_value, alike.up) == (0.0, 1.0, False)
    nothing = of([0.0] * 6, [0.0] * 6, paired=paired)
    assert isinstance(nothing, DifferenceEvidence)
    assert (nothing.difference, nothing.p_value) == (0.0, 1.0)


def test_what_comes_from_0_has_no_ratio_but_a_direction() -> None:
    """Errors that were not there in any run before, and are in every run after."""
    found = of([0.0] * 5, [3.0, 4.0, 2.0, 5.0, 3.0])
    assert isinstance(found, DifferenceEvidence)
    assert (found.difference, found.low, found.high, found.up) == (None, math.inf, math.inf, True)
    assert found.p_value == pytest.approx(2 / math.comb(10, 5))
    assert found.after == pytest.approx(3.4)


def test_what_comes_from_0_in_some_runs_can_t_be_told() -> None:
    """There is neither a ratio nor a neat parting."""
    assert of([0.0] * 5, [3.0, 0.0, 2.0, 5.0, 3.0]) == (
        "0 in all runs before and above 0 in some after, so there is no relative difference"
    )
    assert of([0.0] * 8 + [1.0], [3.0] * 8 + [0.0]) == "0 in most runs before, so there is no relative difference"
