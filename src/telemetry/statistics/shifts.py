"""Detection of shifts and slopes in one row of figures, with one figure per step.

Figures are divided by their own noise and limited to `_FAR` around the median: an outlier then counts as one step
that is off, however far. The noise is measured between neighbouring steps, so that a shift does not count as noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_FAR: Final = 5.0
_CLEAR_SHIFT: Final = 4.5
"""Standard errors. Thousands of places are tested, so chance alone makes three."""
_CLEAR_INNER_SHIFT: Final = 6.0
"""Standard errors for a piece of a part: fewer steps tell less about the noise, and there are many pieces."""
_CLEAR_SLOPE: Final = 3.5
_MOST_ALIKE: Final = 0.7
"""Correlation of neighbours above which it is not noise but the effect that is searched."""
_LEAST: Final = 4


@dataclass(frozen=True, slots=True)
class Shift:
    at: int
    """First step after the shift."""
    clarity: float
    """Size of the shift in standard errors."""
    before: float
    """Median of the steps before the shift; `after` is that of the steps from `at` on."""
    after: float


def clearest_shift(steps: Floats, tolerance: float, *, inner: bool = False) -> Shift | None:
    """Return the place where the level changes most clearly by more than `tolerance` of itself.

    NaN is a step without a figure. Return None if no change is clear. A slope counts too, at the place where it
    looks most like a shift. For the `inner` steps of a part, slopes don't count, nor shifts of less than an eighth
    of the steps.
    """
    places = np.flatnonzero(~np.isnan(steps))
    row = _Row.of(steps[places], tolerance)
    if row is None:
        return None
    size = row.scaled.size
    margin = max(size // 8, 1) if inner else 1
    left = np.arange(margin, size - margin + 1)
    sums = np.cumsum(row.scaled)
    before = sums[margin - 1 : size - margin]
    changes: Floats = np.abs((sums[-1] - before) / (size - left) - before / left)
    errors = np.where(changes > row.tolerance, changes * np.sqrt(left * (size - left) / size), 0.0)
    place = int(np.argmax(errors))
    if not errors[place]:
        return None
    at = int(left[place])
    clarity = row.clarity(at)
    clear = clarity >= (_CLEAR_INNER_SHIFT if inner else _CLEAR_SHIFT)
    if not clear and (inner or row.slope_clarity() < _CLEAR_SLOPE):
        return None
    levels = [float(np.median(side)) for side in (row.steps[:at], row.steps[at:])]
    return Shift(int(places[at]), clarity, *levels)


def differ(one: Floats, other: Floats, tolerance: float) -> bool:
    """Return whether the levels of two parts are clearly more than `tolerance` apart."""
    one, other = one[~np.isnan(one)], other[~np.isnan(other)]
    row = _Row.of(np.concatenate((one, other)), tolerance)
    if row is None or not one.size or not other.size:
        return False
    apart = abs(row.scaled[: one.size].mean() - row.scaled[one.size :].mean())
    return bool(apart > row.tolerance) and row.clarity(one.size) >= _CLEAR_SHIFT


def is_slope(steps: Floats, cuts: Sequence[int], tolerance: float) -> bool:
    """Return whether a straight line describes the steps better than a level for each part between the cuts.

    Each parameter costs as much as in Schwarz' criterion: two for a line, two less one for levels.
    """
    places = np.flatnonzero(~np.isnan(steps))
    row = _Row.of(steps[places], tolerance)
    if row is None:
        return False
    ends = np.searchsorted(places, cuts).tolist()
    parts = [part for part in np.split(row.free, ends) if part.size]
    levels = [float(np.median(part)) for part in parts]
    if abs(levels[-1] - levels[0]) <= row.tolerance:
        return False
    rests = (_near(part - level) for part, level in zip(parts, levels, strict=True))
    off_levels = sum(float((rest * rest).sum()) for rest in rests)
    rest = _near(row.free - _line_through(row.free))
    extra = 2 * len(parts) - 3
    return float((rest * rest).sum()) <= off_levels * math.pow(row.free.size, extra / row.free.size)


@dataclass(frozen=True, slots=True)
class _Row:
    steps: Floats
    free: Floats
    """Figures minus the median, in units of the noise."""
    scaled: Floats
    """Figures like `free`, limited to `_FAR`."""
    tolerance: float
    """Tolerance in units of the noise, at most 1."""

    @staticmethod
    def of(steps: Floats, tolerance: float) -> _Row | None:
        """Prepare the steps; return None if there are too few, or if all are equal."""
        if steps.size < _LEAST or steps.min() == steps.max():
            return None
        middle = float(np.median(steps))
        small = tolerance * abs(middle)
        unit = max(_noise(steps), small)
        free = (steps - middle) / unit
        return _Row(steps, free, _near(free), small / unit)

    def clarity(self, at: int) -> float:
        """Return the difference between the levels before and after `at`, in standard errors."""
        left, right = self.scaled[:at], self.scaled[at:]
        change = abs(float(left.mean() - right.mean()))
        rest = np.concatenate((left - left.mean(), right - right.mean()))
        return change * math.sqrt(left.size * right.size / self.scaled.size) / _spread(rest)

    def slope_clarity(self) -> float:
        """Return the slope in standard errors."""
        line = _line(self.scaled)
        size = self.scaled.size
        slope = float(line[-1] - line[0]) / (size - 1)
        return abs(slope) * math.sqrt(size * (size * size - 1) / 12.0) / _spread(self.scaled - line)


def _near(values: Floats) -> Floats:
    near: Floats = np.clip(values, -_FAR, _FAR)
    return near


def _line(values: Floats) -> Floats:
    """Return the straight line with the least squares."""
    times = np.arange(values.size) - (values.size - 1) / 2.0
    line: Floats = values.mean() + (times * values).sum() / (times * times).sum() * times
    return line


def _line_through(values: Floats) -> Floats:
    """Return that line, with outliers moved closer to it."""
    line = _line(values)
    for _ in range(5):
        line = _line(line + _near(values - line))
    return line


def _noise(steps: Floats) -> float:
    """Return the standard deviation of normal noise whose neighbours differ this much."""
    apart = np.abs(np.diff(steps))
    typical = 1.4826 * float(np.median(apart)) / math.sqrt(2.0)
    return typical or float(apart.mean()) * math.sqrt(math.pi) / 2.0


def _spread(rest: Floats) -> float:
    """Return the deviation of a step, for use in the error of a mean.

    It is larger than the deviation of the steps if neighbours are correlated.
    """
    square = float((rest * rest).mean())
    if square < 1e-18:
        return 1e-9
    alike = min(max(float((rest[1:] * rest[:-1]).mean()) / square, 0.0), _MOST_ALIKE)
    return math.sqrt(square * (1.0 + alike) / (1.0 - alike))
