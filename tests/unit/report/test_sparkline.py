"""Bars for figures over time."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from telemetry.report.sparkline import bars, curve

points = st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=100)


def test_bars_begin_at_zero_and_show_the_highest() -> None:
    """A time of half the largest is half as high, whatever its neighbours in the same bar are."""
    assert bars([4.0, 8.0, None, 0.0], 30) == "▅█ ▁"
    assert bars([1.0, 8.0, 4.0, 4.0], 2) == "█▅"


def test_a_curve_uses_its_own_range_and_means() -> None:
    """A loss that falls from 2.4 to 2.3 is seen to fall; a constant is flat."""
    assert curve([2.4, 2.35, 2.3], 30) == "█▅▁"
    assert curve([0.0, 1.0, 1.0, 1.0], 2) == "▁█"
    assert curve([5.0, 5.0], 30) == "▁▁"
    assert curve([0.1] * 80, 30) == "▁" * 30, "a mean of equal values may be rounded"
    assert curve([0.1, 0.1 + 1e-16, 0.1, 0.1 + 1e-15], 30) == "▁▁▁▁", "as the means of ranks are"
    assert curve([], 30) == bars([], 30) == ""


@given(points, st.integers(1, 40))
def test_any_values_fit_into_the_columns(values: list[float | None], columns: int) -> None:
    """A line has as many bars as values, at most one a column. A gap appears only if a value is missing."""
    for text in (bars(values, columns), curve(values, columns)):
        assert len(text) == min(columns, len(values))
        assert (" " in text) <= (None in values)


def test_sums_beyond_a_float_are_drawn_too() -> None:
    """Means of huge values overflow; the bar is then the highest or the lowest one."""
    assert curve([1e308, 1e308, 1.0, 2.0, 1.0, 1.0], 3)[0] == "█"
    assert math.isinf(1e308 + 1e308)
