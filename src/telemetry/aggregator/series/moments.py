"""Count, total, minimum, maximum and spread of every series, updated for many values at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.checkpoint import PART, ArrayColumn
from telemetry.aggregator.nodes.columns import SeriesArrays
from telemetry.aggregator.series.summary import Addend, Floats, Indices, Integers, IntervalMoments, SeriesSummary
from telemetry.statistics.hdr.pages import grown

_ONE: Final = np.int64(1)
_HALF_WORD: Final = 2.0**27
"""Factor that splits a 53-bit integer into two halves whose sums stay exact."""
_VELTKAMP: Final = _HALF_WORD + 1.0
_SPLITTABLE: Final = 2.0**990
_COLUMNS: Final = (
    *("_sums", "_high_sums", "_shift", "interval_min", "interval_max", "count", "total", "total_rest"),
    *("mean", "squares", "min", "max", "integral", "imprecise"),
)
SQUARABLE: Final = 1e100
"""Bound below which squares of values and their ticks do not overflow."""
FOLD_EVENTS: Final = 1 << 24
"""Number of events between two folds. A count of fewer than 26 bits times half a float is exact."""


class Moments:
    """Moments as columns by series index.

    Values are collected as deviations from a shift near the mean of their series, and folded into the running
    columns from time to time. Squares of deviations stay small, so the spread of values around 1e9 is kept, and the
    sum of deviations of integers stays an exact integer. The histograms already count the values: `counts` is read
    at each fold.

    The time of a fold determines how sums round. So only recorded values and `fold` cause one, and `summary` may be
    called at any time.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "_sums": ArrayColumn(np.complex128),
        "_high_sums": ArrayColumn(np.float64),
        "_shift": ArrayColumn(np.float64),
        "_reach": float,
        "_events": int,
        "interval_min": ArrayColumn(np.float64),
        "interval_max": ArrayColumn(np.float64),
        "count": ArrayColumn(np.int64),
        "total": ArrayColumn(np.float64),
        "total_rest": ArrayColumn(np.float64),
        "mean": ArrayColumn(np.float64),
        "squares": ArrayColumn(np.float64),
        "min": ArrayColumn(np.float64),
        "max": ArrayColumn(np.float64),
        "integral": ArrayColumn(np.bool_),
        "imprecise": ArrayColumn(np.int64),
        "interval": PART,
    }
    ADDED: ClassVar[tuple[str, ...]] = ("interval",)
    DERIVED: ClassVar[tuple[str, ...]] = ("size", "_counts", "_terms", "_seek_fractions")

    def __init__(self, counts: Callable[[], Integers], *, leaf: bool = False) -> None:
        self.size = 0
        self._counts = counts
        # collected since the last fold
        self._sums = np.zeros(0, dtype=np.complex128)
        """Deviations, with their squares as imaginary parts: one scattered addition for both."""
        self._high_sums = np.zeros(0)
        self._shift = np.zeros(0)
        self._reach = 0.0
        self._events = 0
        self._terms = np.zeros(limits.CHUNK_EVENTS, dtype=np.complex128)
        # of the current interval
        self.interval = IntervalMoments(leaf)
        self.interval_min = np.zeros(0)
        self.interval_max = np.zeros(0)
        # running
        self.count = np.zeros(0, dtype=np.int64)
        self.total = np.zeros(0)
        self.total_rest = np.zeros(0)
        self.mean = np.zeros(0)
        self.squares = np.zeros(0)
        self.min = np.zeros(0)
        self.max = np.zeros(0)
        self.integral = np.zeros(0, dtype=np.bool_)
        self.imprecise = np.zeros(0, dtype=np.int64)
        self._seek_fractions = True
        """True if a used series may still have only integers."""

    def __len__(self) -> int:
        return self.size

    def add_series(self) -> None:
        if self.size == self.count.size:
            self._grow(max(16, 2 * self.size))
        self.size += 1
        self.interval.add_series()

    def record(self, index: Indices, value: Floats, largest: float) -> None:
        """Add at most CHUNK_EVENTS finite values >= 0 with maximum `largest`. Update the histograms afterwards."""
        if largest >= limits.EXACT_INTEGER:
            np.add.at(self.imprecise, index[value >= limits.EXACT_INTEGER], _ONE)
        shift, highest_shift = self._shifts(index, value)
        if self._seek_fractions:
            self._find_fractions(index, value, largest)
        if not self._room_for(index.size, index.size * max(largest, highest_shift)):
            self.fold()
            shift, highest_shift = self._shifts(index, value)
        reach = index.size * max(largest, highest_shift)
        split = reach >= limits.EXACT_INTEGER
        self._reach += index.size * _HALF_WORD if split else reach
        self._events += index.size
        if highest_shift < SQUARABLE:
            self._collect(index, value, shift, split)
        else:  # the caller knows the size of the values, but not of the shifts
            with np.errstate(over="ignore", invalid="ignore"):
                self._collect(index, value, shift, split)

    @property
    def reach(self) -> float:
        """Upper bound of the sums of collected deviations. They are exact below 2**53."""
        return self._reach

    def has_room_for(self, events: int) -> bool:
        """Check that so many more events may be collected, provided that their sums stay small enough."""
        return self._events + events <= FOLD_EVENTS

    @property
    def collecting(self) -> tuple[Floats, NDArray[np.complex128], Floats, Floats, NDArray[np.bool_]]:
        """The columns for rows without special cases: shift, sums, minimum, maximum, integral."""
        return self._shift, self._sums, self.interval_min, self.interval_max, self.integral

    def collected(self, events: int, reach: float) -> None:
        """Register rows that were added to the columns, and the new bound of their sums."""
        self._events += events
        self._reach = reach

    def _collect(self, index: Indices, value: Floats, shift: Floats, split: bool) -> None:
        terms = self._terms[: index.size]
        deviation = terms.real
        np.subtract(value, shift, out=deviation)
        np.multiply(deviation, deviation, out=terms.imag)
        if split:
            high = np.rint(deviation / _HALF_WORD) * _HALF_WORD
            np.add.at(self._high_sums, index, high)
            np.subtract(deviation, high, out=deviation)
        np.add.at(self._sums, index, terms)
        lower = value < self.interval_min.take(index)
        if lower.item(lower.argmax()):  # few values set a new minimum, so this is cheaper than a full update
            np.minimum.at(self.interval_min, index[lower], value[lower])
        higher = value > self.interval_max.take(index)
        if higher.item(higher.argmax()):
            np.maximum.at(self.interval_max, index[higher], value[higher])

    def fold(self) -> None:
        """Update the running columns, and move the shifts to the new means."""
        summary, addend = self._summary()
        touched = addend.touched
        if not touched.size:
            return
        with np.errstate(over="ignore", invalid="ignore"):
            self.interval.add(addend)
        for field in fields(summary):
            getattr(self, field.name)[: self.size] = getattr(summary, field.name)
        mean = self.mean[touched]
        with np.errstate(over="ignore", invalid="ignore"):
            deviation = np.sqrt(self.squares[touched] / self.count[touched])
        shift = np.where(self.integral[touched], np.rint(mean), _near(mean, deviation))
        self._shift[touched] = np.where(np.isfinite(shift), shift, 0.0)
        self._sums[touched] = 0.0
        self._high_sums[touched] = 0.0
        self._reach = 0.0
        self._events = 0

    def summary(self) -> SeriesSummary:
        """Return the running columns as a fold would leave them. Changes no state."""
        return self._summary()[0]

    def _summary(self) -> tuple[SeriesSummary, Addend]:
        """Return the columns after a fold, and the collected values that are added by it."""
        size = self.size
        summary = SeriesSummary(
            count=self._counts(),
            total=self.total[:size].copy(),
            total_rest=self.total_rest[:size].copy(),
            mean=self.mean[:size].copy(),
            squares=self.squares[:size].copy(),
            min=self.min[:size].copy(),
            max=self.max[:size].copy(),
            integral=self.integral[:size].copy(),
            imprecise=self.imprecise[:size].copy(),
        )
        added = summary.count - self.count[:size]
        touched = np.flatnonzero(added)
        with np.errstate(over="ignore", invalid="ignore"):
            addend = self._collected(touched, added[touched].astype(np.float64))
            if touched.size:
                addend.add_to(summary, self.count[touched].astype(np.float64))
                summary.min[touched] = np.minimum(summary.min[touched], self.interval_min[touched])
                summary.max[touched] = np.maximum(summary.max[touched], self.interval_max[touched])
        return summary, addend

    def _collected(self, touched: Indices, count: Floats) -> Addend:
        """Return the values of some series since the last fold."""
        sums, high_sums, shift = self._sums[touched], self._high_sums[touched], self._shift[touched]
        shift_high = _upper_half(shift)
        deviation = sums.real + high_sums
        offset = deviation / count
        return Addend(
            touched,
            count,
            (count * shift_high, count * (shift - shift_high), high_sums, sums.real),
            shift,
            offset,
            np.maximum(sums.imag - deviation * offset, 0.0),
        )

    def merge(self, index: Indices, sums: SeriesArrays) -> None:
        """Add values that another aggregator has counted. No series appears twice.

        Update the histograms afterwards. Collected values are folded first, because a fold reads their number from
        the histograms.
        """
        if self._events:
            self.fold()
        count = sums.count.astype(np.float64)
        addend = Addend(index, count, (sums.total, sums.rest), sums.mean, np.zeros(index.size), sums.squares)
        with np.errstate(over="ignore", invalid="ignore"):
            addend.add_to(self, self.count[index].astype(np.float64))
            self.interval.add(addend)
        self.count[index] += sums.count
        for name in ("min", "interval_min"):
            column = getattr(self, name)
            column[index] = np.minimum(column[index], sums.min)
        for name in ("max", "interval_max"):
            column = getattr(self, name)
            column[index] = np.maximum(column[index], sums.max)
        self.integral[index] &= sums.integral
        self.imprecise[index] += sums.imprecise

    def start_interval(self) -> None:
        """Reset the minimum and maximum of the interval. Call it after `fold`."""
        self.interval_min.fill(np.inf)
        self.interval_max.fill(-np.inf)

    def _find_fractions(self, index: Indices, value: Floats, largest: float) -> None:
        """Clear `integral` for series with a value that is no integer below 2**53.

        Stop once no used series is left.
        """
        fractions = np.rint(value) != value
        if largest >= limits.EXACT_INTEGER:
            fractions |= value >= limits.EXACT_INTEGER
        if not fractions.item(fractions.argmax()):
            return
        fractions &= self.integral.take(index)
        if fractions.item(fractions.argmax()):
            self.integral[index[fractions]] = False
            used = ~np.isnan(self._shift[: self.size])
            self._seek_fractions = bool((self.integral[: self.size] & used).any())

    def _shifts(self, index: Indices, value: Floats) -> tuple[Floats, float]:
        """Return the shift of each value, and the largest shift. A new series gets its first value as shift."""
        shift = self._shift.take(index)
        highest = shift.item(shift.argmax())
        if math.isnan(highest):
            new = np.flatnonzero(np.isnan(shift))[::-1]
            self._shift[index[new]] = value[new]
            self._seek_fractions = True
            shift = self._shift.take(index)
            highest = shift.item(shift.argmax())
        return shift, highest

    def _room_for(self, events: int, reach: float) -> bool:
        """Check that sums of collected deviations stay below 2**53 after further events.

        `reach` is the bound of the further sums. If it is too large by itself, only the lower halves of the
        deviations are checked.
        """
        added = reach if reach < limits.EXACT_INTEGER else events * _HALF_WORD
        return self._reach + added < limits.EXACT_INTEGER and self.has_room_for(events)

    def _grow(self, length: int) -> None:
        old = self.size
        for name in _COLUMNS:
            setattr(self, name, grown(getattr(self, name), length))
        self._shift[old:] = np.nan
        self.interval_min[old:] = self.min[old:] = np.inf
        self.interval_max[old:] = self.max[old:] = -np.inf
        self.integral[old:] = True


def _near(mean: Floats, deviation: Floats) -> Floats:
    """Round each number to 11 significant bits, or to as many more as its values need that lie close together.

    Differences to few bits are exact. But a distance from the mean that is much larger than the deviation of the
    values would take the digits of their squares.
    """
    _, exponent = np.frexp(mean)
    _, of_deviation = np.frexp(deviation)
    least = exponent - 53
    step = np.clip(np.where(deviation > 0.0, of_deviation - 1, least), least, exponent - 11)
    rounded: Floats = np.ldexp(np.rint(np.ldexp(mean, -step)), step)
    return rounded


def _upper_half(value: Floats) -> Floats:
    """Return the upper 26 bits of each number, so that their product with a count is exact."""
    scaled = value * _VELTKAMP
    return np.where(np.abs(value) < _SPLITTABLE, scaled - (scaled - value), value)
