"""Detection of the warm-up and the steady part of a run.

The figures of equal steps of time, such as the rate and the median of each second, are cut in two at their clearest
shift, and the parts again, until no part of sufficient length has a shift or a slope. Shifts and slopes count if
they are clear in the noise of the steps and larger than a tolerance. The longest remaining part is the steady one,
unless it is a piece of a slope: then no part was steady. Short disturbances in its middle don't end it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from telemetry.formatting import number_of
from telemetry.statistics.shifts import Floats, Shift, clearest_shift, differ, is_slope

LEAST_STEPS: Final = 10
"""Smallest number of steps of a part that can be judged."""
LEAST_SHARE: Final = 4
"""Divisor: a part shorter than this share of all steps does not represent the run."""
TOLERANCE: Final = 0.01
_LEAST_WINDOW: Final = 40
"""Smallest window: in fewer steps correlated noise can't be distinguished from changing levels."""


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
        place = self.bounds.index(begin)
        first = max(self.bounds[max(place - 1, 0)], 2 * begin - end)
        last = min(self.bounds[min(place + 2, len(self.bounds) - 1)], 2 * end - begin)
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
        found = [
            (start + shift.at, row, shift)
            for start, stop in _windows(begin, end, least)
            for row, steps in enumerate(rows[:, start:stop])
            if (shift := clearest_shift(steps, tolerance, inner=stop - start < end - begin)) is not None
        ]
        if found:
            clearest = max(found, key=lambda one: one[2].clarity)
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
