"""Tests of what can be compared with what, and by which factor."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from telemetry.judge.gates.units import LITERALS, PLAIN, Unit, converted, literal, shown, told_apart, unit_of
from telemetry.wire.units import BYTES, TIME_NS


def test_times_and_sizes_convert() -> None:
    """Exactly, as far as floats go."""
    assert converted(250, literal("ms")[0], unit_of("s")) == 0.25
    assert converted(0.25, unit_of("s"), unit_of("ms")) == 250
    assert converted(2, literal("m")[0], unit_of("s")) == 120
    assert converted(1, unit_of("MiB"), unit_of("B")) == 1 << 20
    assert converted(5, literal("%")[0], PLAIN) == 0.05
    assert converted(3, literal("MiB/s")[0], unit_of("B").per_second()) == 3 << 20
    assert converted(1.001, unit_of("s"), unit_of("ms")) == 1001
    assert converted(0.07, PLAIN, unit_of("%")) == 7
    assert converted(math.inf, unit_of("s"), unit_of("ms")) == math.inf


def test_what_no_float_holds_is_infinite() -> None:
    """Twenty-six hours multiplied, in nanoseconds."""
    hours = unit_of("h")
    for _ in range(25):
        hours = hours.times(unit_of("h"))
    assert converted(-2.0, hours, replace(hours, scale=Fraction(1))) == -math.inf
    assert converted(2.0, replace(hours, scale=Fraction(1)), hours) == 0.0


def test_only_the_same_kind_fits() -> None:
    """Only units of the same kind fit. A number of things is plain, whatever the things are called."""
    assert unit_of("tokens").fits(unit_of("requests"))
    assert not unit_of("ms").fits(unit_of("MiB"))
    assert not unit_of("ms").fits(PLAIN)
    assert not unit_of("B").per_second().fits(unit_of("B"))
    assert unit_of("percent").fits(PLAIN)


def test_multiples_are_numbers() -> None:
    """`5k` has no unit."""
    assert literal("k") == (PLAIN, 1_000)
    assert literal("M") == (PLAIN, 1_000_000)
    assert literal("") == (PLAIN, 1)


def test_products_and_quotients() -> None:
    """A time by a time is plain; a plain one leaves the other as it is."""
    ms, size = unit_of("ms"), unit_of("MiB")
    assert ms.times(unit_of("s"), -1).plain
    assert ms.times(PLAIN) == ms
    assert PLAIN.times(ms) == ms
    assert (size.times(ms, -1).size, size.times(ms, -1).time, size.times(ms, -1).name) == (1, -1, "MiB/ms")
    assert ms.times(ms).name == "ms·ms"
    assert PLAIN.times(ms, -1).name == "1/ms"
    assert unit_of("requests").times(unit_of("requests").per_second(), -1) == unit_of("s")
    assert size.times(size.per_second(), -1) == unit_of("s")


def test_every_unit_of_the_wire_is_a_literal() -> None:
    """Every unit that an instrument may have can be written in a gate."""
    assert {*TIME_NS, *BYTES, "B"} <= LITERALS


def test_kinds_have_words() -> None:
    """Each kind of unit has words for error messages."""
    units = [unit_of("ms"), unit_of("MiB"), PLAIN, unit_of("x").per_second(), unit_of("B").per_second()]
    assert [unit.kind() for unit in units] == [
        "a time (ms)",
        "a size (MiB)",
        "a plain number",
        "a rate (x/s)",
        "a size per time (B/s)",
    ]
    assert unit_of("ms").times(unit_of("ms")).kind() == "a product of units (ms·ms)"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (212.3, "ms", "212 ms"),
        (0.5, "%", "0.5 %"),
        (1200, "/s", "1.20 k/s"),
        (1 << 20, "B/s", "1.00 MiB/s"),
        (1234, "", "1,234"),
        (12.5, "tokens", "12.5 tokens"),
        (None, "ms", "–"),
    ],
)
def test_values_as_people_read_them(value: float | None, unit: str, text: str) -> None:
    """Values are shown with their unit, as people read them."""
    assert shown(value, unit) == text


@pytest.mark.parametrize(
    ("value", "other", "unit", "texts"),
    [
        (1.0, 2.0, "ms", ("1.00 ms", "2.00 ms")),
        (250.0, 250.0, "ms", ("250 ms", "250 ms")),
        (250.01, 250.02, "ms", ("250.010 ms", "250.020 ms")),
        (250.0, 250.0 + 2e-9, "ms", ("250.0000000000 ms", "250.0000000020 ms")),
        (250.0, 250.0 + 2e-13, "ms", ("250 ms", "250 ms")),
        (23_560_700, 23_600_000, "ns", ("23.561 ms", "23.600 ms")),
        (-23_560_700, -23_600_000, "ns", ("-23.561 ms", "-23.600 ms")),
        (0.999_99, 1.0, "s", ("0.999990 s", "1.000000 s")),
        (125.2, 125.4, "s", ("125.20 s", "125.40 s")),
        (7_205, 7_207, "s", ("7,205.0 s", "7,207.0 s")),
        (24_123_456, 24_153_500, "B", ("23.006 MiB", "23.035 MiB")),
        (1_200_100, 1_200_400, "B/s", ("1.14450 MiB/s", "1.14479 MiB/s")),
        (1_234.5, 1_234.6, "tokens", ("1,234.5 tokens", "1,234.6 tokens")),
        (23_560_700.5, 23_560_700.25, "", ("23,560,700.50", "23,560,700.25")),
        (1_200.25, 1_200.5, "requests/s", ("1,200.25/s", "1,200.50/s")),
        (0.499_8, 0.499_9, "%", ("0.49980 %", "0.49990 %")),
        (5, 5.001, "", ("5.0000", "5.0010")),
        (1_000, 1_000.4, "requests/s", ("1,000.00/s", "1,000.40/s")),
        (1_234_567, 1_234_568, "tokens", ("1,234,567 tokens", "1,234,568 tokens")),
        (1e-14, 1.000_1e-14, "", ("1.00e-14", "1.00e-14")),
    ],
)
def test_two_values_are_told_apart(value: float, other: float, unit: str, texts: tuple[str, str]) -> None:
    """Two values are told apart in the unit that people read.

    They have as many decimals as that takes, and no more.
    """
    assert told_apart(value, other, unit) == texts
    assert told_apart(value, other, Unit(unit)) == texts
