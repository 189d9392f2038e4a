"""The points of one curve of steps: neighbours are merged, so that their number stays bounded."""

from __future__ import annotations

import math
from copy import copy
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.hdr.layout import Floats, Integers
from telemetry.wire.pictures import StepCurve

_PLACES: Final = 6


class NewSteps(NamedTuple):
    """Values of one name in several steps."""

    steps: Integers
    times: Floats
    values: Floats
    low: Floats
    """Lowest value of a producer, as `high` is the highest."""
    high: Floats


class StepPoints:
    """A bounded number of points, each of a range of `2**n` step numbers. Not thread-safe."""

    def __init__(self, points: int) -> None:
        """Start without points. There may be 2 or more."""
        self._most = points
        self._shift = 0
        self._step: Integers = np.zeros(0, np.int64)
        """Last step of each point, ascending."""
        self._table: Floats = np.zeros((5, 0))
        """Rows by point: time of the last step, sum of finite values, number of them, lowest, highest."""
        self._count = 0
        self._producers = 1
        self._first = self._last = self._least = self._largest = (0, math.nan)
        """Step and value."""
        self._last_spread = (math.nan, math.nan)
        """Lowest and highest value of a producer in the last step."""

    def copy(self) -> StepPoints:
        """Return points to which steps can be added without changing these."""
        return copy(self)  # arrays are replaced, never changed

    def add(self, new: NewSteps, producers: int) -> None:
        """Add steps in any order. `producers` is the largest number of producers that reported one."""
        steps, (times, values, low, high) = new.steps, new[1:]
        known = np.isfinite(values)
        table = np.stack((times, np.where(known, values, 0.0), known, low, high))
        if not (steps[1:] > steps[:-1]).all():
            order = np.argsort(steps, kind="stable")
            steps, table, values, known = steps[order], table[:, order], values[order], known[order]
        self._mark(steps, np.where(known, values, np.nan), (float(table[3, -1]), float(table[4, -1])))
        self._count += steps.size
        self._producers = max(self._producers, producers)
        self._merge(np.concatenate((self._step, steps)), np.concatenate((self._table, table), axis=1))

    def curve(self, axis: str, name: str) -> StepCurve:
        """Return the curve."""
        times, totals, numbers, low, high = self._table
        with np.errstate(invalid="ignore", divide="ignore"):
            means = totals / numbers
        alone = bool(((low == means) & (high == means) | (numbers == 0)).all())
        has_values = bool(numbers.any())
        return StepCurve(
            axis=axis,
            name=name,
            steps=self._step.tolist(),
            times_s=np.round(times, _PLACES).tolist(),
            values=_finite(means),
            low=[] if alone else _finite(low),
            high=[] if alone else _finite(high),
            count=self._count,
            producers=self._producers,
            first=_number(self._first[1]),
            last=_number(self._last[1]),
            last_low=_number(self._last_spread[0]),
            last_high=_number(self._last_spread[1]),
            min=_number(self._least[1]),
            max=_number(self._largest[1]),
            min_step=self._least[0] if has_values else None,
            max_step=self._largest[0] if has_values else None,
        )

    def _mark(self, steps: Integers, values: Floats, last_spread: tuple[float, float]) -> None:
        """Take the first, last, smallest and largest value among ascending steps."""
        if not self._step.size or steps[0] < self._first[0]:
            self._first = int(steps[0]), float(values[0])
        if not self._step.size or steps[-1] >= self._last[0]:
            self._last = int(steps[-1]), float(values[-1])
            self._last_spread = last_spread
        if np.isfinite(values).any():
            least, largest = int(np.nanargmin(values)), int(np.nanargmax(values))
            if not values[least] >= self._least[1]:
                self._least = int(steps[least]), float(values[least])
            if not values[largest] <= self._largest[1]:
                self._largest = int(steps[largest]), float(values[largest])

    def _merge(self, steps: Integers, table: Floats) -> None:
        """Make points of these ranges of steps; widen the ranges until the points are few enough."""
        if not (steps[1:] >= steps[:-1]).all():
            order = np.argsort(steps, kind="stable")
            steps, table = steps[order], table[:, order]
        begins = _begins(steps >> self._shift)
        while begins.size > self._most:
            self._shift += 1
            begins = _begins(steps >> self._shift)
        ends = np.append(begins[1:], steps.size) - 1
        self._step = steps[ends]
        with np.errstate(over="ignore", invalid="ignore"):  # values may be as large as floats allow
            sums = np.add.reduceat(table[1:3], begins, axis=1)
        low, high = np.fmin.reduceat(table[3], begins), np.fmax.reduceat(table[4], begins)
        self._table = np.vstack((table[0, ends], sums, low, high))


def _begins(numbers: Integers) -> NDArray[np.intp]:
    """Return the places where a new number begins."""
    return np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))


def _finite(values: Floats) -> list[float | None]:
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
