"""Mann and Whitney's test, against all choices counted out."""

from __future__ import annotations

from itertools import combinations
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.statistics import runs as runs_module
from telemetry.statistics.runs import interval_rank, rank_sum_test

values = st.lists(st.integers(0, 6).map(float), min_size=1, max_size=6)


def counted_out(before: list[float], after: list[float]) -> float:
    """Return the share of choices of `before` among all values that are at least as far off as this."""
    everything = before + after

    def pairs(chosen: tuple[int, ...]) -> float:
        left = [everything[index] for index in chosen]
        right = [everything[index] for index in range(len(everything)) if index not in chosen]
        return sum((one > other) + 0.5 * (one == other) for one in left for other in right)

    middle = len(before) * len(after) / 2
    seen = abs(pairs(tuple(range(len(before)))) - middle)
    ways = [abs(pairs(chosen) - middle) for chosen in combinations(range(len(everything)), len(before))]
    return sum(way >= seen for way in ways) / len(ways)


@given(values, values)
def test_the_p_value_is_counted_out(before: list[float], after: list[float]) -> None:
    """The p-value is the counted share, also with equal values and with sides of different size."""
    assert rank_sum_test(before, after) == pytest.approx(counted_out(before, after), rel=1e-12)


@pytest.mark.parametrize(("runs", "rank"), [(3, 1), (4, 1), (5, 3), (8, 14), (10, 24), (20, 128)])
def test_intervals_are_bounded_by_the_ranks_of_the_tables(runs: int, rank: int) -> None:
    """One more than the critical value of the test at 5 %; three a side have none, and get the outermost."""
    assert interval_rank(runs, runs, 0.95) == rank


def test_many_values_are_nearly_exact() -> None:
    """Beyond the limit p-values and ranks go on where they were."""
    generator = np.random.default_rng(5)
    for shift in (0.0, 0.3, 0.6):
        before, after = generator.normal(size=40).round(1), generator.normal(shift, 1.0, 40).round(1)
        exact = rank_sum_test(before.tolist(), after.tolist())
        with patch.object(runs_module, "EXACT_TO", 10):
            assert rank_sum_test(before.tolist(), after.tolist()) == pytest.approx(exact, rel=0.15, abs=1e-5)
    with patch.object(runs_module, "EXACT_TO", 10):
        assert abs(interval_rank.__wrapped__(40, 40, 0.95) - interval_rank(40, 40, 0.95)) <= 1
        assert rank_sum_test([1.0] * 6, [1.0] * 7) == 1.0


def test_sides_without_values_are_refused() -> None:
    """A test without values on either of the two sides is an error."""
    for before, after in (([], [1.0]), ([1.0], [])):
        with pytest.raises(ValueError, match="values on both"):
            rank_sum_test(before, after)
