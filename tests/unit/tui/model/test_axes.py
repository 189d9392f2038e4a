"""Axes are marked at round values."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.tui.model.scenes import NOON, SECOND

from telemetry.tui.model.plot import MOST_TICKS, axis_of, spaced, tick_words, time_ticks, value_axis


def words(values: list[float], unit: str) -> list[str]:
    return [said for _, said in value_axis(values, unit, "readable").ticks]


@pytest.mark.parametrize(
    ("values", "unit", "marks"),
    [
        ([0.0, 950.0], "ms", ["0 s", "500 ms", "1 s"]),
        ([1.2, 2.9], "ms", ["1 ms", "1.5 ms", "2 ms", "2.5 ms", "3 ms"]),
        ([0.265, 88.0], "ms", ["300 µs", "1 ms", "3 ms", "10 ms", "30 ms"]),
        ([1.9, 6.5], "ms", ["2 ms", "3 ms", "5 ms"]),
        ([1e-6, 1e5], "ms", ["1 ns", "1 µs", "1 ms", "1 s"]),
        ([200.0, 70_000.0], "B", ["256 B", "1 KiB", "4 KiB", "16 KiB", "64 KiB"]),
        ([5.0, 5.0], "tokens", ["4", "6"]),
        ([0.0], "tokens", ["0", "0.5"]),
    ],
)
def test_marks_are_round_in_the_unit(values: list[float], unit: str, marks: list[str]) -> None:
    """Logarithmic from three times apart on, where there is no zero; bytes by powers of two."""
    assert words(values, unit) == marks


@given(st.lists(st.floats(0, 1.7e308), min_size=1, max_size=8), st.booleans())
def test_any_values_have_an_axis(values: list[float], binary: bool) -> None:
    """Any values have a finite axis with few marks, all of them on it.

    Equal or different values all have a place in its range.
    """
    axis = axis_of(values, str, binary=binary)
    assert math.isfinite(axis.low)
    assert math.isfinite(axis.high)
    assert axis.low < axis.high
    assert len(axis.ticks) <= MOST_TICKS + 1
    assert all(axis.low - 1e-9 * abs(axis.low) <= place <= axis.high * (1 + 1e-9) for place, _ in axis.ticks)
    for value in values:
        place = axis.at(min(value, 1e300))
        assert axis.low - 1e-9 * abs(axis.low) <= place <= axis.high + 1e-9 * abs(axis.high)


def test_a_logarithmic_axis_has_no_zero() -> None:
    """A logarithmic axis has no zero, and values below its least one are drawn there."""
    axis = axis_of([1.0, 100.0], str)
    assert axis.log
    assert axis.at(0.0) == axis.low == 0.0
    assert not axis_of([0.0, 100.0], str).log


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("2.00 ms", "2 ms"),
        ("1.50 k/s", "1.5 k/s"),
        ("0 s", "0 s"),
        ("1.00e+20", "1.00e+20"),
        ("2,000/s", "2,000/s"),
    ],
)
def test_marks_have_no_idle_zeros(text: str, short: str) -> None:
    """Three digits say how exact a figure is; a mark is exact."""
    assert tick_words(text) == short


def test_marks_that_would_overlap_are_left_out() -> None:
    """Marks that would overlap are left out, and those at the left stay."""
    ticks = [(0.0, "0 %"), (0.3, "50 %"), (1.0, "90 %"), (2.0, "99 %")]
    assert [said for _, said in spaced(ticks, 0.0, 2.0, 60)] == ["0 %", "50 %", "90 %", "99 %"]
    assert [said for _, said in spaced(ticks, 0.0, 2.0, 20)] == ["0 %", "90 %", "99 %"]
    assert len(spaced(ticks, 1.0, 1.0, 20)) == 1


@pytest.mark.parametrize(
    ("span_s", "width", "said"),
    [
        (26, 48, ["12:00:00", "12:00:10", "12:00:20"]),
        (60, 80, ["12:00:00", "12:00:10", "12:00:20", "12:00:30", "12:00:40", "12:00:50", "12:01:00"]),
        (7_200, 40, ["12:00:00", "13:00:00", "14:00:00"]),
        (3 * 86_400, 40, ["03-02 00:00", "03-03 00:00", "03-04 00:00"]),
    ],
)
def test_times_are_those_of_the_clock(span_s: int, width: int, said: list[str]) -> None:
    """A time axis has as many round clock times as have room, placed in seconds from the origin."""
    ticks = time_ticks(NOON, NOON + span_s * SECOND, NOON - SECOND, width)
    assert [words for _, words in ticks] == said
    assert all(1.0 <= place <= span_s + 1 for place, _ in ticks)
