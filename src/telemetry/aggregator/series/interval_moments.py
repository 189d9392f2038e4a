"""Moments of the values of one interval, which a leaf sends to its root."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from telemetry.aggregator.series.summary import Addend, Floats, Indices
from telemetry.aggregator.snapshot_numbers import grown
from telemetry.aggregator.state import ArrayColumn


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
