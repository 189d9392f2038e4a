"""Arithmetic that carries along how far figures may be off."""

from __future__ import annotations

import math

import pytest

from telemetry.judge.gates.units import PLAIN, unit_of
from telemetry.judge.gates.value import EVERYTHING, Range, Unknown, Value, beside, exactly, fits

MS, S = unit_of("ms"), unit_of("s")


def about(value: float, low: float, high: float, **more: object) -> Value:
    where = Range(low, high)
    return Value(value=value, possible=where, likely=where, **more)  # type: ignore[arg-type]


def test_ranges_hold_what_both_ends_can_come_to() -> None:
    """A range holds whatever its ends can come to, also for negative and unknown ends."""
    assert Range(1, 2).plus(Range(10, 20)) == (11, 22)
    assert Range(-1, 2).times(Range(-3, 4)) == (-6, 8)
    assert -Range(1, 2) == (-2, -1)
    assert Range(0, math.inf).times(Range(0, 0)) == (0, 0)
    assert Range(1, 2).plus(EVERYTHING) == EVERYTHING
    assert Range(2, 4).inverse() == (0.25, 0.5)
    assert Range(0, 4).inverse() == (0.25, math.inf)
    assert Range(-4, 0).inverse() == (-math.inf, -0.25)
    assert Range(-1, 1).inverse() == EVERYTHING
    assert Range(0, 0).inverse() == EVERYTHING
    assert Range(2, math.inf).inverse() == (-math.inf, 0.5)
    assert Range(-math.inf, -2).inverse() == (-0.5, math.inf)


def test_a_quotient_carries_both() -> None:
    """A quotient carries the ranges of both values and has the smaller number of samples."""
    found = about(6, 4, 8, samples=100).over(about(2, 1, 4, samples=7))
    assert (found.value, found.possible, found.samples) == (3, (1, 8), 7)
    with pytest.raises(Unknown, match="division by zero"):
        found.over(exactly(0))


def test_times_by_times_are_plain() -> None:
    """5 ms of 2 s are 0.0025."""
    found = exactly(5, MS).over(exactly(2, S))
    assert (found.value, found.unit) == (0.0025, PLAIN)


def test_sums_are_in_the_first_unit() -> None:
    """A bare number is in that of its neighbour."""
    assert exactly(5, MS).plus(exactly(2, S)).value == 2005
    found = exactly(5, bare=True).plus(exactly(2, S))
    assert (found.value, found.unit, found.bare) == (7, S, False)
    assert exactly(5, bare=True).plus(exactly(2, bare=True)).bare


def test_a_bare_factor_stays_a_factor() -> None:
    """1.05 times a time is a time."""
    found = exactly(100, MS).times(exactly(1.05, bare=True))
    assert (found.value, found.unit, found.bare) == (105, MS, False)


def test_both_beside_each_other_are_in_one_unit() -> None:
    """Two values beside each other have one unit, so that they can be compared and shown."""
    left, right = beside(exactly(5, MS), exactly(2, S))
    assert (left.value, right.value, right.unit) == (5, 2000, MS)
    assert fits(exactly(5, MS), exactly(2, bare=True))
    assert not fits(exactly(5, MS), exactly(2, PLAIN))


def test_the_negative_turns_its_ranges() -> None:
    """A negated value has its ranges turned round and stays an estimate."""
    found = about(2, 1, 4, estimate=True).negated()
    assert (found.value, found.possible, found.likely, found.estimate) == (-2, (-4, -1), (-4, -1), True)
