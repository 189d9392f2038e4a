"""Numbers in fitting units or in their own."""

from __future__ import annotations

import math

import pytest

from telemetry.tui.model import numbers


def test_a_value_is_readable_or_in_the_units_of_its_series() -> None:
    """A readable value has three digits and a unit, and a raw one, to be copied, has six and none."""
    assert numbers.value(1.875967, "ms", "readable") == "1.88 ms"
    assert numbers.value(1.875967, "ms", "raw") == "1.87597"
    assert numbers.rate(4_221.918, "", "readable") == "4.22 k/s"
    assert numbers.rate(4_221.918, "", "raw") == "4,221.92/s"
    assert numbers.counted(225_123, "readable") == "225 k"
    assert numbers.counted(225_123, "raw") == "225,123"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "–"),
        (0, "0"),
        (1_234_567, "1,234,567"),
        (1_234_567.25, "1,234,567.2"),
        (1e300, "1.00e+300"),
        (0.000123456789, "0.000123457"),
    ],
)
def test_raw_numbers_are_written_without_loss_of_order(number: float | None, words: str) -> None:
    """Whole ones in full, the others with six digits; what is no number is a dash."""
    assert numbers.plain(number) == words


def test_the_name_carries_the_unit_where_the_number_does_not() -> None:
    """The name has the unit with raw numbers, where nothing else says what they are."""
    assert numbers.instrument("a", {}, "ms", "readable") == "a"
    assert numbers.instrument("a", {"x": "1"}, "ms", "raw") == "a{x=1} [ms]"
    assert numbers.instrument("a", {}, "tokens", "readable") == "a [tokens]"
    assert numbers.instrument("a", {}, "", "raw") == "a"


def test_growing_durations_have_no_flickering_digits() -> None:
    """Whole seconds, and from two minutes on minutes."""
    assert numbers.seconds(12.34) == "12 s"
    assert numbers.seconds(-1.0) == "0 s"
    assert numbers.seconds(3_725.4) == "62 min 5 s"


@pytest.mark.parametrize(
    ("now", "before", "words"),
    [
        (1.041, 1.0, "+4.1 %"),
        (0.62, 1.0, "-38 %"),
        (12.0, 1.0, "×12"),
        (1.0001, 1.0, "0 %"),
        (None, 1.0, "–"),
        (1.0, None, "–"),
        (1.0, 0.0, "–"),
    ],
)
def test_changes_are_written_briefly(now: float | None, before: float | None, words: str) -> None:
    """A change is in percent, or a factor from ten times on. Zero or a missing value can't be compared with."""
    assert numbers.change_words(numbers.change(now, before)) == words


def test_only_times_have_a_bad_direction() -> None:
    """Slower is bad and faster good; of other units nobody knows, and small changes are noise."""
    assert numbers.change_tone(0.06, "ms") == "bad"
    assert numbers.change_tone(-0.06, "ms") == "good"
    assert numbers.change_tone(0.06, "tokens") == "accent"
    assert numbers.change_tone(0.05, "ms") == "dim"
    assert numbers.change_tone(None, "ms") == "dim"


def test_times_and_sizes_compare_across_units() -> None:
    """A second is more than 500 milliseconds."""
    assert numbers.base_units("s") > 500 * numbers.base_units("ms")
    assert numbers.base_units("MiB") == 1 << 20
    assert numbers.base_units("tokens") == 1


def test_what_comes_in_a_second() -> None:
    """A rate in no time is zero, and one that is more than a float can say is infinite."""
    assert numbers.per_s(20, 40.0) == 0.5
    assert numbers.per_s(20, 0.0) == 0.0
    assert numbers.per_s(10**400, 40.0) == float("inf")


def test_percentages_have_their_unit_once() -> None:
    """Percentages have their unit beside the number. Raw numbers have none, so the name has it."""
    assert [numbers.instrument("host.cpu", {}, "%", units) for units in ("readable", "raw")] == [
        "host.cpu",
        "host.cpu [%]",
    ]
    assert [numbers.value(12.0, "%", units) for units in ("readable", "raw")] == ["12 %", "12"]
