"""Units: how many ticks one is worth."""

from __future__ import annotations

import pytest

from telemetry.wire import units


@pytest.mark.parametrize(
    ("unit", "ticks"),
    [("ns", 1), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 6e10), ("h", 3.6e12)],
)
def test_time_is_counted_in_nanoseconds(unit: str, ticks: float) -> None:
    """Times of any unit share the resolution of the clock."""
    assert units.ticks_per_unit(unit) == ticks


@pytest.mark.parametrize(("unit", "ticks"), [("B", 1), ("kB", 1e3), ("KiB", 1024), ("GiB", 1 << 30)])
def test_sizes_are_counted_in_bytes(unit: str, ticks: float) -> None:
    """Sizes have no smaller part than the byte."""
    assert units.ticks_per_unit(unit) == ticks


def test_whole_things_are_counted_by_one() -> None:
    """Half a request does not exist."""
    assert {units.ticks_per_unit(unit) for unit in units.WHOLE} == {1.0}


@pytest.mark.parametrize("unit", ["", "W", "°C", "furlongs"])
def test_unknown_units_are_counted_in_millionths(unit: str) -> None:
    """A unit nobody knows still gets six decimals."""
    assert units.ticks_per_unit(unit) == 1e6


def test_low_overrides_the_unit() -> None:
    """The smallest value worth telling apart is one tick."""
    assert units.ticks_per_unit("ms", low=0.5) == 2.0
