"""A trend in a few characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.tui.model.sparkline import Move, course, move, movement, sparkline


def test_steady_is_half_high_and_a_doubling_fills_the_line() -> None:
    """Heights are proportional from zero, so noise of a few percent does not look like news."""
    assert sparkline((2.0, 2.0, 2.2, 1.85), 4) == "▄▄▄▄"
    assert sparkline((2.0, 2.0, 2.0, 4.0), 4) == "▄▄▄▇"
    assert sparkline((1.0, 1.0, 1.0, 100.0), 4) == "▁▁▁▇"


def test_the_newest_stands_at_the_right_edge() -> None:
    """Fewer points leave room at the left, and of more the newest are shown."""
    assert sparkline((1.0, 1.0), 5) == "   ▄▄"
    assert sparkline((9.0, 1.0, 1.0), 2) == "▄▄"
    assert sparkline((), 3) == "   "
    assert sparkline((0.0, 0.0), 2) == "▁▁"
    assert sparkline((2.0, None, None, 2.0, None), 6) == " ▄  ▄ "
    assert sparkline((2.0, None, None), 2) == "  "


@given(st.lists(st.none() | st.floats(0, 1e300), max_size=60), st.integers(1, 60))
def test_any_trend_has_its_width(points: list[float | None], width: int) -> None:
    """A sparkline has its width, whatever the values."""
    assert len(sparkline(tuple(points), width)) == width


@pytest.mark.parametrize(
    ("last", "moved"), [(1.0, "steady"), (1.24, "steady"), (1.25, "risen"), (1.99, "risen"), (2.0, "jumped")]
)
def test_a_move_is_measured_by_the_median(last: float, moved: Move) -> None:
    """A trend has risen from 1.25 times its median on, and jumped from twice on.

    A single peak before changes nothing.
    """
    assert move((1.0, 1.0, 50.0, 1.0, None, 1.0, 1.0, last)) == moved


def test_at_a_limit_the_move_does_not_flicker() -> None:
    """A rise is over once a value is a tenth below the limit, so that it does not flicker.

    A jump ends in a rise.
    """
    calm = (1.0,) * 10
    assert move((*calm, 1.26, 1.2)) == "risen"
    assert move((*calm, 1.26, 1.13, 1.24)) == "risen"
    assert move((*calm, 1.26, 1.12)) == "steady"
    assert move((*calm, 2.1, 1.81)) == "jumped"
    assert move((*calm, 2.1, 1.79)) == "risen"


def test_percentages_are_drawn_from_nothing_to_a_hundred() -> None:
    """Percentages are drawn from nothing to a hundred, whatever the other values are."""
    assert sparkline((0.0, 50.0, 100.0, 20.0), 4, 100.0) == "▁▄▇▂"
    assert sparkline((-5.0, 120.0), 2, 100.0) == "▁▇"


def test_trends_below_each_other_do_not_touch() -> None:
    """Trends below each other do not touch, as no point fills its line."""
    assert "█" not in sparkline(tuple(float(point) for point in range(60)), 60)
    assert "█" not in course(tuple(float(point) for point in range(60)), 60)


def test_few_points_tell_nothing() -> None:
    """The first seconds are slow anyway."""
    assert movement((1.0, 9.0)) is None
    assert movement((0.0,) * 6) is None
    assert move((1.0, 9.0)) == "steady"


def test_a_course_is_drawn_from_the_least_to_the_greatest() -> None:
    """A course is drawn from its least to its greatest value, whatever their signs.

    Equal values are a level line, and what is no number is a gap.
    """
    assert course((-1.0, 0.0, 1.0), 3) == "▁▄▇"
    assert course((0.93, 0.94, None, 0.96), 5) == " ▁▃ ▇"
    assert course((3e-4, 3e-4), 3) == " ▄▄"
    assert course((0.1, 0.1 + 1e-16, 0.1, 0.1 + 1e-15), 4) == "▄▄▄▄", "rounding is no course"
    assert course((9.0, 1.0, 2.0), 2) == "▁▇"
    assert course((None,), 2) == course((), 2) == "  "
    assert course((-1.7e308, 1.7e308), 2) == "▁▇"


@given(st.lists(st.none() | st.floats(allow_nan=False, allow_infinity=False), max_size=60), st.integers(1, 60))
def test_any_course_has_its_width(points: list[float | None], width: int) -> None:
    """A course has its width, whatever the values."""
    assert len(course(tuple(points), width)) == width
