"""Ranks that have a percentile between them."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.statistics.beta import binomial_cdf
from telemetry.statistics.confidence import least_count, rank_bounds

RATIOS = ((1, 100), (1, 2), (9, 10), (99, 100), (999, 1000))
ratios = st.sampled_from([*RATIOS, (3, 4), (9999, 10_000), (9_999_999, 10_000_000)])
confidences = st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.9999])


def exact_chances(trials: int, ratio: tuple[int, int]) -> list[Fraction]:
    """Return the chances of at most 0, 1, … successes."""
    success, failure = ratio[0], ratio[1] - ratio[0]
    ways = (math.comb(trials, k) * success**k * failure ** (trials - k) for k in range(trials + 1))
    return [Fraction(some, ratio[1] ** trials) for some in accumulate(ways)]


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("count", [1, 5, 6, 36, 99, 299, 368])
def test_each_tail_has_half_of_the_rest_and_no_more_would_do(ratio: tuple[int, int], count: int) -> None:
    """Counted in fractions: the ranks err seldom enough on either side, and their inner neighbours too often."""
    tail = Fraction(1, 40)
    low, high = rank_bounds(ratio, count)
    below = exact_chances(count, ratio)
    # The value of rank r is above the percentile if at most r - 1 are not, and below it if at least r are.
    too_high = [below[rank - 1] for rank in range(1, count + 1)]
    too_low = [1 - chance for chance in too_high]
    assert low == max((rank for rank, chance in enumerate(too_high, 1) if chance <= tail), default=None)
    assert high == min((rank for rank, chance in enumerate(too_low, 1) if chance <= tail), default=None)


@pytest.mark.parametrize(("ratio", "count"), [((1, 2), 181), ((1, 2), 195), ((9, 10), 411), ((9, 10), 529)])
def test_ranks_are_counted_where_the_expansion_can_t_tell(ratio: tuple[int, int], count: int) -> None:
    """Ranks are exact where the expansion is within thousandths of a whole number, on the wrong side."""
    low, _ = rank_bounds(ratio, count, 0.9999)
    below, tail = exact_chances(count, ratio), Fraction(1, 20_000)
    assert low is not None
    assert below[low - 1] <= tail < below[low]


@given(ratios, st.integers(1, 2 * 10**9) | st.integers(1, 3_000), confidences)
def test_the_chances_hold_at_any_count(ratio: tuple[int, int], count: int, confidence: float) -> None:
    """The bounds keep their confidence at up to two thousand million values.

    The binomial distribution, which is computed in another way, shows it.
    """
    tail, chance = (1.0 - confidence) / 2.0, ratio[0] / ratio[1]
    low, high = rank_bounds(ratio, count, confidence)
    near = 1.0 + 1e-6
    if count > 10**7:
        near += 1e-4  # where the distribution itself has fewer digits
    assert binomial_cdf((low or 0) - 1, count, chance) <= tail * near
    assert binomial_cdf(low or 0, count, chance) >= tail / near
    above = count - (count + 1 if high is None else high)
    rest = (ratio[1] - ratio[0]) / ratio[1]
    assert binomial_cdf(above, count, rest) <= tail * near
    assert binomial_cdf(above + 1, count, rest) >= tail / near


@given(ratios, st.integers(1, 10**9), confidences)
def test_the_rank_of_the_percentile_lies_between(ratio: tuple[int, int], count: int, confidence: float) -> None:
    """The percentile lies within its own bounds, and the bounds are ranks that exist."""
    low, high = rank_bounds(ratio, count, confidence)
    rank = -(-ratio[0] * count // ratio[1])
    assert low is None or 1 <= low <= rank
    assert high is None or rank <= high <= count


@pytest.mark.parametrize(
    ("ratio", "count", "expected"),
    [
        ((1, 2), 5, (None, None)),
        ((1, 2), 6, (1, 6)),
        ((1, 2), 100, (40, 61)),
        ((1, 2), 1_000, (469, 532)),
        ((99, 100), 200, (195, None)),
        ((99, 100), 1_000, (983, 997)),
        ((1, 100), 200, (None, 6)),
        ((99, 100), 0, (None, None)),
        ((1, 1), 10**6, (None, None)),
    ],
)
def test_bounds_that_textbooks_list(
    ratio: tuple[int, int], count: int, expected: tuple[int | None, int | None]
) -> None:
    """The bounds are those of textbooks, among them one side alone and no side."""
    assert rank_bounds(ratio, count) == expected


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [((1, 2), 6), ((9, 10), 36), ((99, 100), 368), ((999, 1000), 3_688), ((9999, 10_000), 36_887), ((1, 1), None)],
)
def test_least_count(ratio: tuple[int, int], expected: int | None) -> None:
    """0.975 of so many values are all on one side seldom enough."""
    assert least_count(ratio) == expected


@given(ratios, confidences)
def test_fewer_than_the_least_count_lack_a_side(ratio: tuple[int, int], confidence: float) -> None:
    """Both bounds exist with the least count, and one is missing with one value less."""
    count = least_count(ratio, confidence)
    assert count is not None
    assert None not in rank_bounds(ratio, count, confidence)
    assert None in rank_bounds(ratio, count - 1, confidence)


@pytest.mark.parametrize(("ratio", "confidence"), [((0, 1), 0.95), ((3, 2), 0.95), ((1, 2), 0.0), ((1, 2), 1.0)])
def test_what_is_no_percentile_or_confidence_is_refused(ratio: tuple[int, int], confidence: float) -> None:
    """Both functions say so."""
    with pytest.raises(ValueError, match=r"percentile|confidence"):
        rank_bounds(ratio, 10, confidence)
    with pytest.raises(ValueError, match=r"percentile|confidence"):
        least_count(ratio, confidence)
