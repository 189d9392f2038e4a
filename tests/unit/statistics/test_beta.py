"""The incomplete beta function, the binomial and the t distribution, against tables that scipy 1.17 made."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.statistics.beta import (
    binomial_cdf,
    binomial_pmf,
    incomplete_beta,
    t_cdf,
    t_quantile,
    t_two_sided,
)

BETA = [
    (0.5, 0.5, 0.3, 0.36901011956554536),
    (0.1, 5.0, 0.001, 0.6128983593749946),
    (1.0, 1.0, 0.25, 0.25),
    (2.0, 3.0, 0.9, 0.9963),
    (30.0, 0.5, 0.99, 0.43933436890525074),
    (100.0, 200.0, 0.3, 0.10884306564490986),
    (100.0, 200.0, 0.4, 0.9916844649260862),
    (10000.0, 30000.0, 0.25, 0.5007677677977396),
    (10000.0, 30000.0, 0.26, 0.9999976846675375),
    (5000000.0, 50.0, 0.99999, 0.4811638036610323),
    (1000000000.0, 1000000000.0, 0.5, 0.49999999999999695),
    (1000000000.0, 1000000000.0, 0.50002, 0.9631808649796085),
    (1000000000.0, 20.0, 0.99999998, 0.4702572331286462),
]
BINOMIAL = [
    (480, 1000, 0.5, 0.10872414660207075),
    (989700, 1000000, 0.99, 0.0013631150395321421),
    (999, 1000000, 0.001, 0.4957884448330078),
    (900, 1000000, 0.001, 0.0006940154622868455),
    (499970000, 1000000000, 0.5, 0.02889187095237678),
    (998998500, 1000000000, 0.999, 0.06680171516218886),
    (10, 1000000000, 2e-08, 0.01081171835883831),
]
STUDENT = [
    (-0.1, 0.3, 0.47723101760206793),
    (2.0, 1.0, 0.8524163823495667),
    (-3.0, 4.5, 0.01719043394437981),
    (12.0, 2.0, 0.9965635331614208),
    (-40.0, 6.0, 8.159180465271234e-09),
    (1.96, 30.0, 0.9703288435519748),
    (-5.0, 10000.0, 2.9151633068313295e-07),
    (2.5, 1000000000.0, 0.9937903345947987),
]
QUANTILES = [
    (0.975, 1.0, 12.706204736174694),
    (0.975, 2.0, 4.302652729749462),
    (0.975, 4.5, 2.6589123472044034),
    (0.975, 9.0, 2.262157162798205),
    (0.975, 18.0, 2.1009220402410382),
    (0.995, 18.0, 2.8784404727386077),
    (0.05, 30.0, -1.6972608865939574),
    (0.6, 120.0, 0.25390952321492877),
    (1e-08, 1.1, -6756040.406537757),
    (0.999, 10000.0, 3.091047516030612),
]

parameters = st.floats(1e-2, 1e5)


@pytest.mark.parametrize(("a", "b", "x", "expected"), BETA)
def test_incomplete_beta_is_the_table(a: float, b: float, x: float, expected: float) -> None:
    """The function agrees with the table on both sides of the mean and far out.

    Parameters range from below 1 to 1e9.
    """
    assert incomplete_beta(a, b, x) == pytest.approx(expected, rel=1e-10 if max(a, b) < 1e8 else 1e-7)


@given(parameters, parameters, st.integers(0, 1 << 30))
def test_incomplete_beta_is_a_distribution(a: float, b: float, places: int) -> None:
    """The function lies between 0 and 1, never falls, and both sides of x add up to 1."""
    x = places / (1 << 30)  # 1 - x has no rounding
    found = incomplete_beta(a, b, x)
    assert 0.0 <= found <= 1.0 + 1e-12
    assert found + incomplete_beta(b, a, 1.0 - x) == pytest.approx(1.0, abs=1e-9)
    assert incomplete_beta(a, b, min(x + 0.01, 1.0)) >= found - 1e-12


@given(st.integers(1, 60), st.floats(0.001, 0.999))
def test_the_binomial_is_the_sum_of_its_chances(trials: int, chance: float) -> None:
    """Each term as `math.comb` has it, and all of them up to k."""
    total = 0.0
    for successes in range(trials + 1):
        term = math.comb(trials, successes) * chance**successes * (1.0 - chance) ** (trials - successes)
        assert binomial_pmf(successes, trials, chance, 1.0 - chance) == pytest.approx(term, rel=1e-11)
        total += term
        assert binomial_cdf(successes, trials, chance) == pytest.approx(total, rel=1e-10)
    assert (binomial_cdf(-1, trials, chance), binomial_cdf(trials + 1, trials, chance)) == (0.0, 1.0)


@pytest.mark.parametrize(("successes", "trials", "chance", "expected"), BINOMIAL)
def test_large_binomials_are_the_table(successes: int, trials: int, chance: float, expected: float) -> None:
    """The distribution agrees with the table up to a thousand million trials.

    A logarithm of factorials would have no digits left there.
    """
    assert binomial_cdf(successes, trials, chance) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize(("t", "freedom", "expected"), STUDENT)
def test_t_is_the_table(t: float, freedom: float, expected: float) -> None:
    """Fractions of degrees of freedom, few and many; far out, too."""
    assert t_cdf(t, freedom) == pytest.approx(expected, rel=1e-10 if freedom < 1e8 else 1e-7)


@pytest.mark.parametrize(("chance", "freedom", "expected"), QUANTILES)
def test_quantiles_of_t_are_the_table(chance: float, freedom: float, expected: float) -> None:
    """Quantiles of t agree with the table, for entries of every textbook and some of none."""
    assert t_quantile(chance, freedom) == pytest.approx(expected, rel=1e-9)


@given(st.floats(1e-6, 1.0 - 1e-6), st.floats(0.5, 1e6))
def test_the_quantile_undoes_the_distribution(chance: float, freedom: float) -> None:
    """There and back."""
    assert t_cdf(t_quantile(chance, freedom), freedom) == pytest.approx(chance, rel=1e-8)


def test_without_end_t_is_normal() -> None:
    """Infinite degrees of freedom, and infinitely far out."""
    assert t_cdf(1.959963984540054, math.inf) == pytest.approx(0.975, rel=1e-14)
    assert t_quantile(0.025, math.inf) == pytest.approx(-1.959963984540054, rel=1e-12)
    assert (t_cdf(-math.inf, 3.0), t_cdf(math.inf, 3.0), t_two_sided(0.0, 3.0)) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: incomplete_beta(0.0, 1.0, 0.5),
        lambda: incomplete_beta(1.0, math.nan, 0.5),
        lambda: incomplete_beta(1.0, 1.0, 1.5),
        lambda: binomial_cdf(1, 2, -0.1),
        lambda: t_cdf(math.nan, 2.0),
        lambda: t_cdf(1.0, 0.0),
        lambda: t_quantile(1.0, 2.0),
    ],
)
def test_what_is_no_parameter_is_refused(call: object) -> None:
    """Rather than a number that means nothing."""
    with pytest.raises(ValueError, match=r"beta|chance|distribution"):
        call()  # type: ignore[operator]
