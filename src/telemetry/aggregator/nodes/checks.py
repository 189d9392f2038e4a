"""Checks of the columns of an interval before anything is added. Each raises ValueError."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.nodes.columns import (
    CounterArrays,
    ExtentArrays,
    Floats,
    GaugeArrays,
    Integers,
    SeriesArrays,
)

_MOST: Final = 1 << 53
"""Bound of the number of events of one kind in one interval."""
_LARGEST_FRACTION: Final = 2.0**53
"""Bound of an increment that is no integer."""
_ROUNDING: Final = 1e-7
"""Bound of the relative rounding error of a sum."""


def check_series(sums: SeriesArrays) -> None:
    """Check that numbers are possible and agree with each other. Slots are checked only for their order here."""
    if not sums.id.size:
        return
    _check_counts(sums.id, sums.count, 1)
    if (sums.imprecise | sums.below | sums.above).any():
        for part in (sums.imprecise, sums.below, sums.above):
            _require((part >= 0) & (part <= sums.count))
    # total and squares are infinite after an overflow, but no NaN
    ordered = (sums.min >= 0.0) & (sums.min <= sums.mean) & (sums.mean <= sums.max) & (sums.max < np.inf)
    _require(ordered & (sums.squares >= 0.0) & np.isfinite(sums.rest) & (sums.occupied > 0))
    least, most, widest = bounds_of_sums(sums.count, sums.min, sums.max, _ROUNDING)
    _require((least <= sums.total) & (sums.total <= most) & (sums.squares <= widest))
    if not sums.counts.item(sums.counts.argmin()):
        raise ValueError("a slot without a count")
    starts = np.cumsum(sums.occupied)
    starts -= sums.occupied
    _require(np.add.reduceat(sums.counts, starts, dtype=np.int64) == sums.count)
    ascends = sums.slots[1:] >= sums.slots[:-1]  # equal ones share a count of more than 32 bits
    ascends[starts[1:] - 1] = True
    _require(ascends)
    _check_times(sums)


def bounds_of_sums(
    count: Integers, least: Floats, most: Floats, rounding: float = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Return the smallest and the largest total of values between two extremes, and their most squared deviations.

    `rounding` widens all of them by this share.
    """
    with np.errstate(over="ignore"):
        widest = count * (most - least + rounding * most) ** 2
        return (1.0 - rounding) * count * least, (1.0 + rounding) * count * most, widest


def last_slots_of(sums: SeriesArrays) -> NDArray[np.uint32]:
    """Return the last slot of each line."""
    return sums.slots[np.cumsum(sums.occupied) - 1]


def first_slots_of(sums: SeriesArrays) -> NDArray[np.uint32]:
    """Return the first slot of each line."""
    first: NDArray[np.uint32] = sums.slots[np.cumsum(sums.occupied) - sums.occupied]
    return first


def check_counters(sums: CounterArrays) -> None:
    """Check that numbers are possible."""
    _check_counts(sums.id, sums.events, 1)
    possible = (sums.imprecise >= 0) & (sums.imprecise <= sums.events) & (sums.whole >= 0)
    _require(possible & (sums.fraction >= 0.0) & (sums.fraction <= sums.events * _LARGEST_FRACTION))
    if sums.huge.any():
        _require((sums.huge >= 0.0) & (sums.huge < np.inf) & (np.floor(sums.huge) == sums.huge))
    _check_times(sums)


def _check_times(sums: SeriesArrays | CounterArrays) -> None:
    _require((sums.first_ns >= 0) & (sums.first_ns <= sums.last_ns))


def check_gauges(sums: GaugeArrays) -> None:
    """Check that numbers are possible."""
    _check_counts(sums.id, sums.events, 1)
    _require((sums.imprecise >= 0) & (sums.imprecise <= sums.events) & (sums.time_ns >= 0))
    _require((sums.min > -np.inf) & (sums.min <= sums.value) & (sums.value <= sums.max) & (sums.max < np.inf))


def check_extents(sums: ExtentArrays) -> None:
    """Check that numbers are possible, and that times are in order."""
    _check_counts(sums.id, sums.inside, 0)
    _require((sums.inside_total >= 0.0) & (sums.inside_total < np.inf))
    _require((sums.first_ns >= 0) & (sums.first_ns <= sums.last_ns))
    _require((sums.last_ns <= sums.last_done_ns) & (sums.last_done_ns <= sums.end_ns))


def _check_counts(ids: Integers, counts: Integers, least: int) -> None:
    """Check that ids ascend, and the range of counts and of their sum."""
    _require(ids[1:] > ids[:-1])
    _require((counts >= least) & (counts <= _MOST))
    if counts.sum(dtype=np.float64) > _MOST:  # a sum of integers could overflow
        raise ValueError("more events than one interval can have")


def _require(condition: NDArray[np.bool_]) -> None:
    if not condition.all():
        raise ValueError("impossible columns")
