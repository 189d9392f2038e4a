"""Detection of the warm-up and the steady part of a run.

The figures of equal steps of time, such as the rate and the median of each second, are cut in two at their clearest
shift, and the parts again, until no part of sufficient length has a shift or a slope. Shifts and slopes count if
they are clear in the noise of the steps and larger than a tolerance. The longest remaining part is the steady one,
unless it is a piece of a slope: then no part was steady. Short disturbances in its middle don't end it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.common.formatting import number_of

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
LEAST_STEPS: Final = 10
"""Smallest number of steps of a part that can be judged."""
LEAST_SHARE: Final = 4
"""Divisor: a part shorter than this share of all steps does not represent the run."""
TOLERANCE: Final = 0.01
_LEAST_WINDOW: Final = 40
"""Smallest window: in fewer steps correlated noise can't be distinguished from changing levels."""


# Figures are divided by their own noise and limited to `_FAR` around the median: an outlier then counts as one step
# that is off, however far. The noise is measured between neighbouring steps, so that a shift does not count as
# noise.


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
    row = _ScaledSteps.of(steps[places], tolerance)
    if row is None:
        return None
    size = row.scaled.size
    margin = max(size // 8, 1) if inner else 1
    left = np.arange(margin, size - margin + 1)
    sums = np.cumsum(row.scaled)
    before = sums[margin - 1 : size - margin]
    changes: Floats = np.abs((sums[-1] - before) / (size - left) - before / left)
    errors = np.where(changes > row.tolerance, changes * np.sqrt(left * (size - left) / size), 0.0)
    index = int(np.argmax(errors))
    if not errors[index]:
        return None
    at = int(left[index])
    clarity = row.clarity(at)
    clear = clarity >= (_CLEAR_INNER_SHIFT if inner else _CLEAR_SHIFT)
    if not clear and (inner or row.slope_clarity() < _CLEAR_SLOPE):
        return None
    levels = [float(np.median(side)) for side in (row.steps[:at], row.steps[at:])]
    return Shift(int(places[at]), clarity, *levels)


def differ(part: Floats, other: Floats, tolerance: float) -> bool:
    """Return whether the levels of two parts are clearly more than `tolerance` apart."""
    part, other = part[~np.isnan(part)], other[~np.isnan(other)]
    row = _ScaledSteps.of(np.concatenate((part, other)), tolerance)
    if row is None or not part.size or not other.size:
        return False
    apart = abs(row.scaled[: part.size].mean() - row.scaled[part.size :].mean())
    return bool(apart > row.tolerance) and row.clarity(part.size) >= _CLEAR_SHIFT


def is_slope(steps: Floats, cuts: Sequence[int], tolerance: float) -> bool:
    """Return whether a straight line describes the steps better than a level for each part between the cuts.

    Each parameter costs as much as in Schwarz' criterion: two for a line, two less one for levels.
    """
    places = np.flatnonzero(~np.isnan(steps))
    row = _ScaledSteps.of(steps[places], tolerance)
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
class _ScaledSteps:
    steps: Floats
    free: Floats
    """Figures minus the median, in units of the noise."""
    scaled: Floats
    """Figures like `free`, limited to `_FAR`."""
    tolerance: float
    """Tolerance in units of the noise, at most 1."""

    @staticmethod
    def of(steps: Floats, tolerance: float) -> _ScaledSteps | None:
        """Prepare the steps; return None if there are too few, or if all are equal."""
        if steps.size < _LEAST or steps.min() == steps.max():
            return None
        middle = float(np.median(steps))
        small = tolerance * abs(middle)
        unit = max(_noise(steps), small)
        free = (steps - middle) / unit
        return _ScaledSteps(steps, free, _near(free), small / unit)

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


@dataclass(frozen=True, slots=True)
class SteadyRange:
    """A range of steps from `begin` up to before `end`; false if it is empty."""

    begin: int
    end: int
    reason: str
    """Explanation: how the part was found, or why there is none."""

    def __bool__(self) -> bool:
        return self.end > self.begin


def steady_part(steps: Floats, tolerance: float = TOLERANCE, names: Sequence[str] = ()) -> SteadyRange:
    """Return the longest part without shift or slope of more than `tolerance` of its level.

    `steps` are one row of figures, or several rows that must agree; NaN is a step without values. `names` are those
    of the rows, for the reason. Raises ValueError for other shapes, infinite figures and a wrong number of names.
    """
    parts = _Parts.of(steps, tolerance, names)
    if isinstance(parts, str):
        return SteadyRange(0, 0, parts)
    begin, end = parts.longest
    if end - begin == parts.size:
        return SteadyRange(begin, end, "no shift or slope in any step")
    return SteadyRange(begin, end, f"the longest time range without shift or slope: {parts.why(begin, end)}")


def warmup_end(steps: Floats, tolerance: float = TOLERANCE, names: Sequence[str] = ()) -> SteadyRange:
    """Return all steps from the first one on where the figures are as in the longest part without shift or slope.

    The range begins at 0 if there was no warm-up. It is empty if it would begin in the second half. Arguments and
    errors as of `steady_part`.
    """
    parts = _Parts.of(steps, tolerance, names)
    if isinstance(parts, str):
        return SteadyRange(0, 0, parts)
    begin = parts.settled()
    if begin > parts.size // 2:
        return SteadyRange(0, 0, f"it settles only in the second half, after {begin:,} of {parts.size:,} steps")
    if begin == 0:
        return SteadyRange(0, parts.size, "the first steps are like the others")
    return SteadyRange(begin, parts.size, f"the first steps differ: {parts.why(begin, parts.size)}")


@dataclass(frozen=True, slots=True)
class _Parts:
    """A run cut at its shifts. There are few rows and few cuts."""

    rows: Floats
    tolerance: float
    names: Sequence[str]
    bounds: list[int]
    """Beginnings of the parts, and the end."""
    shifts: dict[int, tuple[str, Shift]]
    """Shifts by cut: the row that shifts, and how."""

    @staticmethod
    def of(steps: Floats, tolerance: float, names: Sequence[str]) -> _Parts | str:
        """Cut the steps; return the reason as a text if there is no steady part."""
        rows = np.atleast_2d(np.asarray(steps, dtype=np.float64))
        if rows.ndim != 2 or np.isinf(rows).any() or len(names) not in (0, len(rows)):
            raise ValueError("steps are rows of finite figures, with a name for each or none")
        size = rows.shape[1]
        there = int((~np.isnan(rows)).sum(axis=1).min()) if rows.size else 0
        if there < LEAST_STEPS:
            return f"{number_of(there, 'step has', 'steps have')} values, but {LEAST_STEPS} are needed"
        names = names or ["the figure", *(f"figure {number}" for number in range(2, len(rows) + 1))]
        shifts = {at: (names[row], shift) for at, row, shift in _shifts(rows, tolerance)}
        parts = _Parts(rows, tolerance, names, sorted({0, *shifts, size}), shifts)
        begin, end = parts.longest
        slope = parts.slope()
        if not slope and end - begin < _least(size):
            return f"at most {end - begin:,} of {size:,} consecutive steps have no shift or slope"
        return slope or parts

    @property
    def size(self) -> int:
        return self.bounds[-1]

    @property
    def longest(self) -> tuple[int, int]:
        return max(pairwise(self.bounds), key=lambda part: part[1] - part[0])

    def slope(self) -> str:
        """Describe the slope if the longest part is a piece of one; else return an empty text.

        The slope may cover all steps, or the longest part with its neighbours.
        """
        begin, end = self.longest
        index = self.bounds.index(begin)
        first = max(self.bounds[max(index - 1, 0)], 2 * begin - end)
        last = min(self.bounds[min(index + 2, len(self.bounds) - 1)], 2 * end - begin)
        for start, stop in ((0, self.size), (first, last), (first, end), (begin, last)):
            if 2 * (stop - start) < 3 * (end - begin):
                continue  # the tail of a warm-up is sloped too; a piece of a slope has more of it beside it
            cuts = [at - start for at in self.bounds if start < at < stop]
            for name, row in zip(self.names, self.rows, strict=True):
                if is_slope(row[start:stop], cuts, self.tolerance):
                    return f"{name} keeps {'rising' if _rises(row[start:stop]) else 'falling'}"
        return ""

    def settled(self) -> int:
        """Return the beginning of the first part whose figures are those of the longest one."""
        main = slice(*self.longest)
        for begin, end in pairwise(self.bounds):
            differing = (differ(row[begin:end], row[main], self.tolerance) for row in self.rows)
            if begin == main.start or not any(differing):
                return begin
        raise AssertionError("the longest time range is one of them")

    def why(self, begin: int, end: int) -> str:
        """Describe the shifts at both ends."""
        shifts = [(at, *self.shifts[at]) for at in (begin, end) if at in self.shifts]
        return ", ".join(
            f"{name} changes from {shift.before:.4g} to {shift.after:.4g} at step {at:,}"
            for at, name, shift in shifts
        )


def _least(size: int) -> int:
    return max(LEAST_STEPS, -(-size // LEAST_SHARE))


def _shifts(rows: Floats, tolerance: float) -> Iterator[tuple[int, int, Shift]]:
    """Yield (step, row, shift) for the parts that are long enough to be the steady one."""
    least = _least(rows.shape[1])
    waiting = [(0, rows.shape[1])]
    while waiting:
        begin, end = waiting.pop()
        candidates = [
            (start + shift.at, row, shift)
            for start, stop in _windows(begin, end, least)
            for row, steps in enumerate(rows[:, start:stop])
            if (shift := clearest_shift(steps, tolerance, inner=stop - start < end - begin)) is not None
        ]
        if candidates:
            clearest = max(candidates, key=lambda candidate: candidate[2].clarity)
            yield clearest
            waiting += [(begin, clearest[0]), (clearest[0], end)]


def _windows(begin: int, end: int, least: int) -> Iterator[tuple[int, int]]:
    """Yield a part, its halves, quarters and so on, and those between them.

    Levels that come and go can't be seen in the whole part.
    """
    length = end - begin
    if length >= least:
        yield begin, end
    while (length := length // 2) >= max(least, _LEAST_WINDOW):
        yield from ((start, start + length) for start in range(begin, end - length + 1, length // 2))


def _rises(steps: Floats) -> bool:
    values = steps[~np.isnan(steps)]
    half = values.size // 2
    return bool(np.median(values[half:]) > np.median(values[:half]))
