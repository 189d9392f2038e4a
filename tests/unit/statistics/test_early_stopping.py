"""Bounds of percentiles as MLPerf's early stopping has them."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.statistics.beta import binomial_cdf
from telemetry.statistics.early_stopping import bound_rank, samples_needed

FLOORS = [
    ((1, 2), 11),
    ((9, 10), 64),
    ((95, 100), 130),
    ((99, 100), 662),
    ((999, 1000), 6_636),
    ((9_999, 10_000), 66_381),
]
ratios = st.sampled_from([ratio for ratio, _ in FLOORS])


def over_the_limit(count: int, above: Fraction, allowed: int) -> Fraction:
    """Return the chance that at most `allowed` of `count` samples are above a limit.

    `above` is the chance of a single sample to be above the limit.
    """
    return sum(
        (math.comb(count, k) * above**k * (1 - above) ** (count - k) for k in range(allowed + 1)), Fraction(0)
    )


@pytest.mark.parametrize(("ratio", "floor"), FLOORS)
def test_the_floors_are_those_of_mlperf(ratio: tuple[int, int], floor: int) -> None:
    """The largest sample is a bound at the number of samples in the table. One sample less gives no bound."""
    assert samples_needed(ratio) == floor
    assert bound_rank(ratio, floor) == floor
    assert bound_rank(ratio, floor - 1) is None


@pytest.mark.parametrize("count", [11, 40, 64, 150])
@pytest.mark.parametrize("ratio", [(1, 2), (9, 10)])
@pytest.mark.parametrize("tolerance", [Fraction(0), Fraction(1, 16)])
def test_the_rank_is_the_lowest_that_may_be_claimed(
    ratio: tuple[int, int], count: int, tolerance: Fraction
) -> None:
    """The rank is the lowest one that has the required confidence of 99 %.

    The test computes the chance of a wrong claim with exact fractions. If one more sample were above the limit,
    this chance would be more than 1 %.
    """
    rank = bound_rank(ratio, count, 0.99, float(tolerance))
    above = 1 - Fraction(*ratio) + tolerance
    allowed = max((k for k in range(count) if over_the_limit(count, above, k) <= Fraction(1, 100)), default=0)
    assert rank == (count - allowed + 1 if allowed else None)


@given(ratios, st.integers(1, 10**9), st.sampled_from([0.5, 0.9, 0.99, 0.9999]))
def test_the_chance_holds_at_any_count(ratio: tuple[int, int], count: int, confidence: float) -> None:
    """The bound keeps its confidence at up to a thousand million samples.

    The binomial distribution, which is computed in another way, shows it.
    """
    rank = bound_rank(ratio, count, confidence)
    allowed = 0 if rank is None else count - rank + 1
    above, left, near = 1.0 - ratio[0] / ratio[1], 1.0 - confidence, 1.0 + 1e-4
    assert (allowed == 0) == (count < samples_needed(ratio, confidence))
    assert not allowed or binomial_cdf(allowed, count, above) <= left * near
    assert binomial_cdf(allowed + 1, count, above) >= left / near


def test_a_tolerance_takes_fewer_samples() -> None:
    """A tolerance of 0.01 makes 99 % as easy as 98 %: both need the same number of samples."""
    assert samples_needed((99, 100), tolerance=0.01) == samples_needed((98, 100))
    assert samples_needed((99, 100), confidence=0.9) < samples_needed((99, 100))


def test_the_maximum_of_the_process_has_no_bound() -> None:
    """No number of samples bounds the 100th percentile, unless a tolerance makes it another one."""
    assert bound_rank((1, 1), 10**9) is None
    with pytest.raises(ValueError, match="100th"):
        samples_needed((1, 1))
    assert samples_needed((1, 1), tolerance=0.01) == 662
    assert bound_rank((1, 2), 0) is None


@pytest.mark.parametrize(
    ("ratio", "confidence", "tolerance"),
    [((0, 1), 0.99, 0.0), ((3, 2), 0.99, 0.0), ((1, 2), 1.0, 0.0), ((1, 2), 0.99, -0.1), ((1, 2), 0.99, 0.5)],
)
def test_what_makes_no_sense_is_refused(ratio: tuple[int, int], confidence: float, tolerance: float) -> None:
    """Ratios, confidences and tolerances outside their ranges."""
    with pytest.raises(ValueError, match=r"percentile|confidence"):
        bound_rank(ratio, 100, confidence, tolerance)
    with pytest.raises(ValueError, match=r"percentile|confidence"):
        samples_needed(ratio, confidence, tolerance)
