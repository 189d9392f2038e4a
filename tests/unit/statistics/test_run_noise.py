"""The noise between identical runs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.statistics.runs import difference, run_noise

ALIKE = (1, 1)
numbers = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize("times", [1.01, 2.0, 50.0])
def test_a_rise_is_as_rare_as_the_fall_that_undoes_it(times: float) -> None:
    """Ratios are compared, so the direction does not matter however loud the noise is."""
    noise = run_noise([1.0, 2.0, 4.0, 0.5])
    assert noise is not None
    assert noise.p_value(times - 1, ALIKE) == pytest.approx(noise.p_value(1 / times - 1, ALIKE))
    low, high = noise.limits(ALIKE, 0.95)
    assert (1 + low) * (1 + high) == pytest.approx(1.0)
    assert -1 < low < 0


def test_small_noise_is_a_fraction_of_the_mean() -> None:
    """The logarithm of 1.01 is almost 0.01."""
    noise = run_noise([0.99, 1.0, 1.01])
    assert noise is not None
    assert noise.spread == pytest.approx(0.01, rel=1e-3)


def test_values_that_are_not_positive_are_compared_as_they_are() -> None:
    """A value that falls below 0 falls by more than 100 %."""
    noise = run_noise([-1.0, 0.0, 4.0])
    assert noise is not None
    low, high = noise.limits(ALIKE, 0.95)
    assert low == -high < -1


def test_without_noise_every_difference_is_beyond_it() -> None:
    """A count that is the same in every run."""
    noise = run_noise([5.0, 5.0])
    assert noise is not None
    assert (noise.limits(ALIKE, 0.95), noise.p_value(0.0, ALIKE), noise.p_value(0.01, ALIKE)) == ((0, 0), 1, 0)
    assert run_noise([5.0]) is None
    assert run_noise([-1.0, 1.0]) is None


@given(values=st.lists(numbers, min_size=2, max_size=5), apart=numbers, confidence=st.floats(0.01, 0.9999))
def test_a_difference_is_beyond_the_limits_if_it_is_rare(
    values: list[float], apart: float, confidence: float
) -> None:
    """A difference lies beyond the limits if its p-value is small, for any values of a calibration.

    Limits that no float can hold are infinite.
    """
    noise = run_noise(values)
    if noise is not None:
        low, high = noise.limits(ALIKE, confidence)
        assert low <= 0 <= high
        chance = noise.p_value(apart, ALIKE)
        if abs(chance - (1 - confidence)) > 1e-6 and math.isfinite(high) and low > -1:
            assert (not low <= apart <= high) == (chance < 1 - confidence)


def test_sides_that_no_float_can_divide_differ_without_limit() -> None:
    """The ratio of two sides is infinite if no float can hold it."""
    found = difference([1e-300, 2e-300], [1e300, 2e300])
    assert found is not None
    assert found.ratio == math.inf
