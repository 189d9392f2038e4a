"""Conversion of values in units to histogram slots, for the series of one layout."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.checkpoint import ArrayColumn
from telemetry.aggregator.snapshot_numbers import grown
from telemetry.statistics.hdr.layout import Floats, Integers, Layout

Indices = NDArray[np.intp]

HIGHEST_TICK: Final = float(1 << 52)
_ONE: Final = np.int64(1)


def highest_tick(scale: float, high: float | None) -> float:
    """Return the last tick of a range that ends at `high` units. All higher ticks count there."""
    return HIGHEST_TICK if high is None else min(max(round(high * scale), 1.0), HIGHEST_TICK)


def unbounded_slots(layout: Layout, scale: Floats | float, value: Floats) -> Integers:
    """Return the slots of finite values >= 0, with this number of ticks in one unit, if the range had no end."""
    with np.errstate(over="ignore"):
        return layout.slot_of_whole(np.minimum(np.rint(scale * value), HIGHEST_TICK), small=True)


class TickColumns:
    """Tick size and range of each row, and the number of values outside the range."""

    STATE: ClassVar[Mapping[str, Any]] = {"below": ArrayColumn(np.int64), "above": ArrayColumn(np.int64)}
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("layout", "rows", "scale", "_smallest", "_highest_tick", "_lowest_ceiling", "_one_scale"),
    )

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rows = 0
        self.scale = np.zeros(0)
        """Number of ticks in one unit."""
        self.below = np.zeros(0, dtype=np.int64)
        self.above = np.zeros(0, dtype=np.int64)
        self._smallest = np.zeros(0)
        self._highest_tick = np.zeros(0)
        self._lowest_ceiling = HIGHEST_TICK
        self._one_scale: float | None = None

    def __len__(self) -> int:
        return self.rows

    def add_row(self, scale: float, smallest: float, high: float | None) -> None:
        """Add a row, with bounds in units.

        `smallest` is the smallest value distinguished from 0, `high` the largest value of the range.
        """
        rows = self.rows + 1
        self.scale = grown(self.scale, rows)
        self.below = grown(self.below, rows)
        self.above = grown(self.above, rows)
        self._smallest = grown(self._smallest, rows)
        self._highest_tick = grown(self._highest_tick, rows)
        ceiling = highest_tick(scale, high)
        self.scale[self.rows] = scale
        self._smallest[self.rows] = smallest
        self._highest_tick[self.rows] = ceiling
        self._lowest_ceiling = min(self._lowest_ceiling, ceiling)
        self._one_scale = scale if self.rows == 0 or self._one_scale == scale else None
        self.rows = rows

    @property
    def highest_tick(self) -> Floats:
        """Last tick of the range of each row."""
        return self._highest_tick

    def slots(self, rows: Indices, value: Floats, smallest: float, largest: float, *, count: bool) -> Integers:
        """Return the slots of finite values >= 0 with the given minimum and maximum.

        Values above the range fall into its last slot, values below it into the first slots. With `count`, both are
        counted.
        """
        if self._one_scale is not None:
            ticks = value if self._one_scale == 1.0 else value * self._one_scale
            smallest, largest = smallest * self._one_scale, largest * self._one_scale
        else:
            ticks = self.scale.take(rows)
            np.multiply(ticks, value, out=ticks)
            smallest, largest = ticks.item(ticks.argmin()), ticks.item(ticks.argmax())
        if count and smallest < 1.0:
            self._count_below(rows, value, ticks)
        ticks = np.rint(ticks)
        if largest > self._lowest_ceiling:
            self._hold_below_ceiling(rows, ticks, count)
            smallest = min(smallest, self._lowest_ceiling)
        return self.layout.slot_of_whole(ticks, smallest < self.layout.linear)

    def range_of(self, row: int, slot: int) -> tuple[float, float]:
        """Return the bounds, up to rounding, of the values in units that fall into a slot."""
        slots = np.array([slot], dtype=np.int64)
        lowest, highest = int(self.layout.lowest_of(slots)[0]), int(self.layout.highest_of(slots)[0])
        scale = float(self.scale[row])
        unbounded = highest >= float(self._highest_tick[row])
        return max(lowest - 0.5, 0.0) / scale, math.inf if unbounded else (highest + 0.5) / scale

    def only_integer(self, row: int, slot: int) -> float | None:
        """Return the only integer, in units, that falls into a slot. Return None if none or several may."""
        if not self.scale[row].is_integer():
            return None  # an integer may lie on the border of two slots, where rounding decides
        first, last = self.range_of(row, slot)
        lowest = math.ceil(first)
        return float(lowest) if lowest <= last < lowest + 1 else None

    def _count_below(self, rows: Indices, value: Floats, ticks: Floats) -> None:
        """Count values below the range.

        Ticks under 1 are only candidates: `low * (1 / low)` may be just under 1.
        """
        positions = np.flatnonzero((ticks < 1.0) & (value > 0.0))
        positions = positions[value[positions] < self._smallest[rows[positions]]]
        np.add.at(self.below, rows[positions], _ONE)

    def _hold_below_ceiling(self, rows: Indices, ticks: Floats, count: bool) -> None:
        ceiling = self._highest_tick.take(rows)
        if count:
            np.add.at(self.above, rows[ticks > ceiling], _ONE)
        np.minimum(ticks, ceiling, out=ticks)
