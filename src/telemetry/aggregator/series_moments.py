"""Count, total, minimum, maximum and spread of every series, updated for many values at once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.histogram.pages import grown

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]

_ONE: Final = np.int64(1)
_HALF_WORD: Final = 2.0**27
"""Splits a 53-bit integer into two halves whose sums stay exact."""
_VELTKAMP: Final = _HALF_WORD + 1.0
_SPLITTABLE: Final = 2.0**990
_COLUMNS: Final = (
    *("_sums", "_high_sums", "_shift", "interval_min", "interval_max", "count", "total", "total_rest"),
    *("mean", "squares", "min", "max", "integral", "imprecise", "changed"),
)
FOLD_EVENTS: Final = 1 << 24
"""Events between two folds. A count of fewer than 26 bits times half a float is exact."""


class Moments:
    """Columns by series index.

    Values are collected as deviations from a shift near the mean of their series, and folded into the running
    columns from time to time: squares of deviations stay small, so that the spread of 1e9-sized values survives,
    and the sum of deviations of integers stays an exact integer. How many values there are is known by the
    histograms already, whose `counts` are asked at each fold.
    """

    def __init__(self, counts: Callable[[], Integers]) -> None:
        self.size = 0
        self._counts = counts
        # collected since the last fold
        self._sums = np.zeros(0, dtype=np.complex128)
        """Deviations, and their squares as imaginary parts: one scattered addition for both."""
        self._high_sums = np.zeros(0)
        self._shift = np.zeros(0)
        self._reach = 0.0
        self._events = 0
        self._terms = np.zeros(limits.CHUNK_EVENTS, dtype=np.complex128)
        # of the current interval
        self.interval_min = np.zeros(0)
        self.interval_max = np.zeros(0)
        # running
        self.count = np.zeros(0, dtype=np.int64)
        self.total = np.zeros(0)
        self.total_rest = np.zeros(0)
        """What `total` lost to rounding; for integers, the sum of both is exact."""
        self.mean = np.zeros(0)
        self.squares = np.zeros(0)
        self.min = np.zeros(0)
        self.max = np.zeros(0)
        self.integral = np.zeros(0, dtype=np.bool_)
        """All values are integers below 2**53."""
        self.imprecise = np.zeros(0, dtype=np.int64)
        self.changed = np.zeros(0, dtype=np.bool_)
        """Folded something since whoever reads this column cleared it."""
        self._seek_fractions = True

    def add_series(self) -> None:
        if self.size == self.count.size:
            self._grow(max(16, 2 * self.size))
        self.size += 1
        self._seek_fractions = True

    def record(self, index: Indices, value: Floats, largest: float) -> None:
        """Adds finite values >= 0, at most CHUNK_EVENTS; `largest` is their maximum. Histograms take them next."""
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
        terms = self._terms[: index.size]
        deviation = terms.real
        np.subtract(value, shift, out=deviation)
        np.multiply(deviation, deviation, out=terms.imag)
        if split:
            high = np.rint(deviation / _HALF_WORD) * _HALF_WORD
            np.add.at(self._high_sums, index, high)
            np.subtract(deviation, high, out=deviation)
        np.add.at(self._sums, index, terms)
        np.minimum.at(self.interval_min, index, value)
        np.maximum.at(self.interval_max, index, value)

    def fold(self) -> None:
        """Brings the running columns up to date."""
        counts = self._counts()
        added = counts - self.count[: self.size]
        touched = np.flatnonzero(added)
        if not touched.size:
            return
        count = added[touched].astype(np.float64)
        sums, high_sums, shift = self._sums[touched], self._high_sums[touched], self._shift[touched]
        with np.errstate(over="ignore", invalid="ignore"):
            shift_high = _upper_half(shift)
            self._add_total(touched, count * shift_high)
            self._add_total(touched, count * (shift - shift_high))
            self._add_total(touched, high_sums)
            self._add_total(touched, sums.real)
            self._merge_spread(touched, count, sums.real + high_sums, sums.imag)
        self.count[: self.size] = counts
        self.min[touched] = np.minimum(self.min[touched], self.interval_min[touched])
        self.max[touched] = np.maximum(self.max[touched], self.interval_max[touched])
        self.changed[touched] = True
        self._sums[touched] = 0.0
        self._high_sums[touched] = 0.0
        self._reach = 0.0
        self._events = 0

    def start_interval(self) -> None:
        """Forgets the minimum and maximum of the interval that ends. Call after `fold`."""
        self.interval_min.fill(np.inf)
        self.interval_max.fill(-np.inf)

    def exact_totals(self, indices: Indices) -> list[int | float]:
        """Totals as of the last fold: integers of any size where all values were integers."""
        totals, rests = self.total[indices].tolist(), self.total_rest[indices].tolist()
        integral = self.integral[indices].tolist()
        return [
            int(total) + int(rest) if whole else total + rest
            for total, rest, whole in zip(totals, rests, integral, strict=True)
        ]

    def _find_fractions(self, index: Indices, value: Floats, largest: float) -> None:
        """Clears `integral` where a value is no integer below 2**53; stops looking once no used series is left."""
        fractions = np.rint(value) != value
        if largest >= limits.EXACT_INTEGER:
            fractions |= value >= limits.EXACT_INTEGER
        if np.count_nonzero(fractions):
            self.integral[index[fractions]] = False
            used = ~np.isnan(self._shift[: self.size])
            self._seek_fractions = bool((self.integral[: self.size] & used).any())

    def _shifts(self, index: Indices, value: Floats) -> tuple[Floats, float]:
        """The shift of each value, and the largest of them. A series without one gets its first value."""
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
        """Whether a sum of so many deviations, `reach` in all, stays below 2**53 in what is collected already."""
        fits = self._reach + min(reach, events * _HALF_WORD) < limits.EXACT_INTEGER
        return fits and self._events + events <= FOLD_EVENTS

    def _add_total(self, touched: Indices, term: Floats) -> None:
        """Neumaier's compensated sum."""
        total = self.total[touched]
        added = total + term
        rest = np.where(np.abs(total) >= np.abs(term), (total - added) + term, (term - added) + total)
        self.total[touched] = added
        self.total_rest[touched] += np.where(np.isfinite(rest), rest, 0.0)

    def _merge_spread(self, touched: Indices, count: Floats, deviation: Floats, squares: Floats) -> None:
        """Chan's pairwise merge of mean and squared deviations; moves the shift to the new mean."""
        shift = self._shift[touched]
        offset = deviation / count
        squares = np.maximum(squares - deviation * offset, 0.0)
        before = self.count[touched].astype(np.float64)
        after = before + count
        distance = (shift - self.mean[touched]) + offset
        mean = self.mean[touched] + distance * (count / after)
        self.squares[touched] += squares + distance * distance * (before * count / after)
        self.mean[touched] = mean
        shift = np.where(self.integral[touched], np.rint(mean), _few_bits(mean))
        self._shift[touched] = np.where(np.isfinite(shift), shift, 0.0)

    def _grow(self, length: int) -> None:
        old = self.size
        for name in _COLUMNS:
            setattr(self, name, grown(getattr(self, name), length))
        self._shift[old:] = np.nan
        self.interval_min[old:] = self.min[old:] = np.inf
        self.interval_max[old:] = self.max[old:] = -np.inf
        self.integral[old:] = True


def _few_bits(value: Floats) -> Floats:
    """Each number rounded to 11 significant bits, so that the difference to a number nearby is exact."""
    mantissa, exponent = np.frexp(value)
    rounded: Floats = np.ldexp(np.rint(mantissa * 2_048.0), exponent - 11)
    return rounded


def _upper_half(value: Floats) -> Floats:
    """The upper 26 bits of each number, so that their product with a count is exact."""
    scaled = value * _VELTKAMP
    return np.where(np.abs(value) < _SPLITTABLE, scaled - (scaled - value), value)
