"""Numbers for reading: three digits, the right unit, no surprises at the borders."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.common import formatting


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 s"),
        (0.25, "0.25 ns"),
        (999, "999 ns"),
        (999.4, "999 ns"),
        (999.6, "1.00 µs"),
        (1_234, "1.23 µs"),
        (999_600, "1.00 ms"),
        (1_230_000, "1.23 ms"),
        (12_300_000_000, "12.3 s"),
        (119e9, "119 s"),
        (125.4e9, "2 min 5 s"),
        (7_199e9, "119 min 59 s"),
        (7_200e9, "2 h 0 min"),
        (-1_500_000, "-1.50 ms"),
        (None, "–"),
        (float("nan"), "–"),
    ],
)
def test_durations(ns: float | None, text: str) -> None:
    """Nanoseconds find their unit, and rounding never leaves 1000 of one."""
    assert formatting.duration_ns(ns) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (12.3 * 2**20, "12.3 MiB"),
        (3 << 40, "3.00 TiB"),
    ],
)
def test_sizes(value: float, text: str) -> None:
    """Bytes are shown in powers of 1024."""
    assert formatting.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (5, "5"),
        (5.0, "5"),
        (9_999, "9,999"),
        (12_345, "12.3 k"),
        (4_500_000, "4.50 M"),
        (0.5, "0.5"),
        (0.0000123, "1.23e-05"),
        (1e18, "1.00e+18"),
        (-2_500.5, "-2.50 k"),
        (999.96, "1.00 k"),
        (None, "–"),
        (float("inf"), "–"),
    ],
)
def test_plain_numbers(value: float | None, text: str) -> None:
    """Numbers without a unit of ours get k, M, G; small whole ones stay whole."""
    assert formatting.scaled(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.5, "ms", "1.50 ms"),
        (1_500, "ms", "1.50 s"),
        (0.002, "s", "2.00 ms"),
        (3, "GiB", "3.00 GiB"),
        (1, "MB", "977 KiB"),
        (2048, "B", "2.00 KiB"),
        (2048, "tokens", "2,048"),
        (2048, "B/s", "2.00 KiB/s"),
        (3, "MiB/s", "3.00 MiB/s"),
        (2048, "tokens/s", "2,048"),
        (None, "ms", "–"),
    ],
)
def test_quantities(value: float | None, unit: str, text: str) -> None:
    """The unit of the instrument decides how its values are written."""
    assert formatting.quantity(value, unit) == text


@pytest.mark.parametrize(
    ("value", "unit", "decimals", "text"),
    [
        (23_560_700, "ns", 3, "23.561 ms"),
        (0.25, "s", 0, "250 ms"),
        (7_205, "s", 1, "7,205.0 s"),
        (1_536, "KiB", 2, "1.50 MiB"),
        (23_560_700, "tokens", 1, "23,560,700.0"),
        (-0.5, "", 0, "-0"),
    ],
)
def test_decimals(value: float, unit: str, decimals: int, text: str) -> None:
    """A number with decimals has the unit that it has with three digits."""
    assert formatting.with_decimals(value, unit, decimals) == text


def test_counts_and_rates() -> None:
    """Counts are written in full; rates are short and keep the unit."""
    assert formatting.count(1_234_567) == "1,234,567"
    assert formatting.count(2.5) == "2.50"
    assert formatting.count(None) == "–"
    assert formatting.rate(45_000.0) == "45.0 k/s"
    assert [formatting.rate(each) for each in (1_712.0, 1_711.6, 999.0)] == ["1.71 k/s", "1.71 k/s", "999/s"]
    assert formatting.rate(2**20, "B") == "1.00 MiB/s"
    assert formatting.rate(None) == "–"
    assert formatting.percent(0.001) == "0.1 %"


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(0.1084, "+10.8 %"), (-0.02, "-2 %"), (0.0, "0 %"), (-0.0, "0 %"), (40.4, "+4,040 %"), (None, "–")],
)
def test_differences_have_a_sign(ratio: float | None, said: str) -> None:
    """A difference has a sign and three digits: `+10.8 %`. From 1,000 % on, it has all digits: `+4,040 %`."""
    assert formatting.signed_percent(ratio) == said


def test_times_of_day() -> None:
    """Wall-clock nanoseconds are shown in UTC."""
    assert formatting.timestamp(1_772_366_400_000_000_000) == "2026-03-01 12:00:00 UTC"
    assert formatting.clock_time(1_772_366_400_250_999_999) == "12:00:00.250"


def test_width_of_text() -> None:
    """East Asian characters take two columns and combining marks none."""
    assert [formatting.columns(text) for text in ("abc", "µs", "延迟", "é")] == [3, 2, 4, 1]


@given(st.text())
def test_printable_text_is_printable(text: str) -> None:
    """The output has no control characters, whatever the input. Harmless text is unchanged."""
    said = formatting.printable(text)
    assert said.isprintable()
    assert said == text or not text.isprintable()


@given(st.floats(min_value=1e-9, max_value=1e20))
def test_three_digits_are_right(value: float) -> None:
    """A scaled number read back is within the rounding of three digits."""
    text = formatting.scaled(value).replace(",", "")
    number, _, suffix = text.partition(" ")
    factor = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[suffix]
    assert float(number) * factor == pytest.approx(value, rel=0.0051)


@pytest.mark.parametrize("number", [10**400, -(10**400), 10**5_000, math.inf, -math.inf, math.nan], ids=range(6))
def test_numbers_that_no_run_has_are_a_dash(number: float) -> None:
    """A result that somebody tampered with is shown all the same."""
    forms = (formatting.count, formatting.scaled, formatting.duration_ns, formatting.duration_s, formatting.size)
    assert {form(number) for form in forms} == {formatting.NOTHING}
    assert (
        formatting.quantity(number, "ms")
        == formatting.quantity(number, "KiB")
        == formatting.quantity(number, "")
        == "–"
    )


@pytest.mark.parametrize("wall_ns", [10**21, -(10**21), 10**400], ids=range(3))
def test_moments_that_no_calendar_has_are_a_dash(wall_ns: int) -> None:
    """Years beyond 9999 among them."""
    assert formatting.timestamp(wall_ns) == formatting.clock_time(wall_ns) == formatting.NOTHING


def test_one_is_singular() -> None:
    """A whole float, too; a unit that takes no `s` says how there are many."""
    assert [formatting.number_of(number, "event") for number in (0, 1, 1.0, 2_000)] == [
        "0 events",
        "1 event",
        "1 event",
        "2,000 events",
    ]
    assert [formatting.number_of(number, "batch", "batches") for number in (1, 2)] == ["1 batch", "2 batches"]
