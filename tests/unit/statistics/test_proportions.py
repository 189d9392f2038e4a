"""Confidence intervals of proportions."""

from __future__ import annotations

import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.statistics.confidence import least_total, wilson


def by_search(successes: int, total: int, confidence: float) -> tuple[float, float]:
    """Return the proportions that the score test does not reject, by bisection of its definition."""
    z, share = NormalDist().inv_cdf(0.5 + confidence / 2), successes / total

    def rejected(chance: float) -> bool:
        return abs(share - chance) > z * math.sqrt(chance * (1 - chance) / total)

    ends = []
    for outer in (0.0, 1.0):
        inside, outside = share, outer
        if not rejected(outer) and outer == share:
            ends.append(outer)
            continue
        for _ in range(200):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if rejected(middle) else (middle, outside)
        ends.append(inside)
    return ends[0], ends[1]


@given(st.integers(1, 5000), st.floats(0, 1), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_interval_is_what_the_score_test_accepts(total: int, share: float, confidence: float) -> None:
    """The closed form against the definition."""
    successes = round(share * total)
    assert wilson(successes, total, confidence) == pytest.approx(by_search(successes, total, confidence), abs=1e-9)


def test_known_intervals() -> None:
    """The intervals are those of textbooks, also at both ends and without a sample."""
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=5e-5)
    assert wilson(10, 10) == pytest.approx((0.7225, 1.0), abs=5e-5)
    assert wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize("proportion", [0.5, 0.9, 0.95, 0.99, 0.999, 0.001, 1 / 3])
def test_the_least_total_is_the_first_that_can_show_it(proportion: float) -> None:
    """One trial fewer can't: not even if all succeed, or all fail."""
    least = least_total(proportion)
    assert least is not None

    def can(total: int) -> bool:
        return wilson(total, total)[0] >= proportion if proportion >= 0.5 else wilson(0, total)[1] <= proportion

    assert can(least)
    assert least == 1 or not can(least - 1)
    assert least_total(0.99) == 381


def test_certainty_needs_more_than_any_number() -> None:
    """No number of samples shows that something always happens or never does."""
    assert (least_total(0.0), least_total(1.0)) == (None, None)
