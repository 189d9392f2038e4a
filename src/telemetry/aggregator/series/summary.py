"""Moments of many series as columns, of a run and of one interval of a leaf."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from telemetry.aggregator.checkpoint import ArrayColumn
from telemetry.aggregator.snapshot_numbers import grown

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Indices = NDArray[np.intp]


class MomentColumns(Protocol):
    """Columns by series index."""

    @property
    def total(self) -> Floats: ...

    @property
    def total_rest(self) -> Floats: ...

    @property
    def mean(self) -> Floats: ...

    @property
    def squares(self) -> Floats: ...


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """Moments of all values of each series."""

    count: Integers
    total: Floats
    total_rest: Floats
    """Rounding errors of `total`. For integers, the sum of both is exact."""
    mean: Floats
    squares: Floats
    min: Floats
    max: Floats
    integral: NDArray[np.bool_]
    """True if all values are integers below 2**53."""
    imprecise: Integers

    def exact_totals(self, indices: Indices) -> list[int | float]:
        """Return exact totals, as integers of any size for series of integers."""
        totals, rests = self.total[indices], self.total_rest[indices]
        # always finite, except in a forged checkpoint
        integral = self.integral[indices] & np.isfinite(totals + rests)
        return [
            int(total) + int(rest) if whole else total + rest
            for total, rest, whole in zip(totals.tolist(), rests.tolist(), integral.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Addend:
    """Values to add to the columns of some series, each of which appears once."""

    touched: Indices
    count: Floats
    terms: tuple[Floats, ...]
    """Terms whose sum is the total."""
    shift: Floats
    """Mean of the values, together with `offset`: two numbers keep more digits than one."""
    offset: Floats
    squares: Floats
    """Sum of squared deviations from that mean."""

    def add_to(self, columns: MomentColumns, before: Floats) -> None:
        """Add totals by Neumaier's sum, mean and squares by Chan's formula. `before` has the counts so far."""
        for term in self.terms:
            self._add_term(columns, term)
        touched, count = self.touched, self.count
        after = before + count
        distance = (self.shift - columns.mean[touched]) + self.offset
        columns.mean[touched] += distance * (count / after)
        columns.squares[touched] += self.squares + distance * distance * (before * count / after)

    def _add_term(self, columns: MomentColumns, term: Floats) -> None:
        total = columns.total[self.touched]
        added = total + term
        rest = np.where(np.abs(total) >= np.abs(term), (total - added) + term, (term - added) + total)
        columns.total[self.touched] = added
        columns.total_rest[self.touched] += np.where(np.isfinite(rest), rest, 0.0)


class IntervalMoments:
    """Moments as columns by series index, from zero in each interval. An inactive object has no rows.

    They are sums of their own: a difference of two long sums would lose the digits of a short interval.
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "count": ArrayColumn(np.float64),
        "total": ArrayColumn(np.float64),
        "total_rest": ArrayColumn(np.float64),
        "mean": ArrayColumn(np.float64),
        "squares": ArrayColumn(np.float64),
    }
    DERIVED: ClassVar[tuple[str, ...]] = ("is_active", "_rows")

    def __init__(self, active: bool) -> None:
        self.is_active = active
        self._rows = 0
        self.count = np.zeros(0)
        self.total = np.zeros(0)
        self.total_rest = np.zeros(0)
        self.mean = np.zeros(0)
        self.squares = np.zeros(0)

    def __len__(self) -> int:
        return self._rows

    def add_series(self) -> None:
        """Add a row, if active."""
        if self.is_active:
            self._rows += 1
            for name in self.STATE:
                setattr(self, name, grown(getattr(self, name), self._rows))

    def add(self, addend: Addend) -> None:
        """Add values, if active."""
        if self.is_active:
            addend.add_to(self, self.count[addend.touched])
            self.count[addend.touched] += addend.count

    def sums(self, used: Indices) -> tuple[Floats, Floats, Floats, Floats]:
        """Return total, its rounding error, mean and squared deviations of some series."""
        return self.total[used], self.total_rest[used], self.mean[used], self.squares[used]

    def start_interval(self) -> None:
        """Forget the values of the interval."""
        for name in self.STATE:
            getattr(self, name).fill(0.0)
