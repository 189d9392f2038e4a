"""Values to slots: tick size, range, and what falls outside."""

from __future__ import annotations

import math

import numpy as np
import pytest

from telemetry.aggregator.series.ticks import HIGHEST_TICK, TickColumns
from telemetry.statistics.hdr.layout import Layout


def columns(*rows: tuple[float, float, float | None]) -> TickColumns:
    made = TickColumns(Layout.of(3))
    for scale, smallest, high in rows:
        made.add_row(scale, smallest, high)
    return made


def slots(made: TickColumns, rows: list[int], values: list[float], *, count: bool = True) -> list[int]:
    found = made.slots(np.array(rows), np.array(values), min(values), max(values), count=count)
    return found.tolist()  # type: ignore[no-any-return]


def test_values_are_rounded_to_ticks() -> None:
    """The nearest tick counts, of one scale or of several."""
    assert slots(columns((1e3, 1e-3, None)), [0, 0], [0.0014, 0.0016]) == [1, 2]
    assert slots(columns((1e3, 1e-3, None), (1.0, 1.0, None)), [0, 1, 0], [0.002, 7.4, 0.0]) == [2, 7, 0]


def test_below_is_under_one_tick_and_above_zero() -> None:
    """Zero is a value of the range; what lies between it and one tick is not."""
    made = columns((1e9, 1e-9, None))
    slots(made, [0, 0, 0, 0], [0.0, 1e-10, 9.99e-10, 1e-9])
    assert made.below[0] == 2


@pytest.mark.parametrize("low", [49.0, 0.1, 3.0, 1e-7, 12345.6789])
def test_low_itself_is_not_below(low: float) -> None:
    """The value `low` itself is not below, whatever `low * (1 / low)` rounds to."""
    made = columns((1.0 / low, low, None))
    assert slots(made, [0, 0], [low, math.nextafter(low, 0.0)]) == [1, 1]
    assert made.below[0] == 1


def test_above_is_clamped_for_its_own_row() -> None:
    """Values over the ceiling fall into its slot and are counted; other rows have their own ceiling."""
    made = columns((1.0, 1.0, 100.0), (1.0, 1.0, None))
    assert slots(made, [0, 0, 1], [100.0, 101.0, 101.0]) == [100, 100, 101]
    assert made.above[:2].tolist() == [1, 0]


@pytest.mark.parametrize("values", [[5_000.0], [3_000.0, 1e300]])
def test_values_all_far_above_a_small_range_fall_into_its_last_slot(values: list[float]) -> None:
    """The last slot takes values far above a small range, where slots are one tick wide.

    This holds although no value lies in that slot.
    """
    made = columns((1.0, 1.0, 100.0))
    assert slots(made, [0] * len(values), values) == [100] * len(values)


def test_looking_up_again_counts_nothing() -> None:
    """The same slots come out with `count` off, and the counters stay."""
    made = columns((1.0, 1.0, 100.0))
    assert slots(made, [0, 0], [0.25, 500.0], count=False) == [0, 100]
    assert (made.below[0], made.above[0]) == (0, 0)


def test_range_of_a_slot_holds_what_falls_into_it() -> None:
    """The bounds of a slot enclose its values; that of the ceiling is open."""
    made = columns((1e9, 1e-9, None), (1.0, 1.0, 50.0))
    value = 0.123456789
    (slot,) = slots(made, [0], [value])
    least, most = made.range_of(0, slot)
    assert least < value < most < least * 1.002
    assert made.range_of(0, 0)[0] == 0.0
    assert made.range_of(1, 50) == (49.5, math.inf)
    last = int(Layout.of(3).slot_of(np.array([int(HIGHEST_TICK)]))[0])
    assert made.range_of(0, last)[1] == math.inf
