"""Sparse histograms beside each other: adding them up, and the percentiles of many at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from telemetry.histogram.layout import Floats, Integers, Layout
from telemetry.histogram.ranks import Ratio, parse_percentile, ranks
from telemetry.intervals.figures import Figures

_SPARSE: Final = 8
"""Where the range of keys is no more than so many times their number, counting is faster than sorting."""


@dataclass(frozen=True, slots=True)
class Histograms:
    """One a row; all columns but the last two are as long as there are rows."""

    digits: Integers
    ticks_per_unit: Floats
    seconds: Floats
    count: Integers
    total: Floats
    min: Floats
    max: Floats
    ends: Integers
    """Where in `slots` and `counts` those of the row end; they begin with the end of the row before, or 0."""
    slots: Integers
    """Ascending in a row."""
    counts: Integers

    def figures(self, percentiles: Sequence[str]) -> list[Figures]:
        """Of each row. A percentile is the highest value of the slot that holds rank `ceil(p * n)`,
        but within `[min, max]`. Raises UsageError for a percentile outside (0, 100]."""
        found = [Figures(seconds=seconds) for seconds in self.seconds.tolist()]
        rows = np.flatnonzero(np.diff(self.ends, prepend=0))
        columns = (self.seconds, self.count, self.total, self.min, self.max)
        lines = zip(
            rows.tolist(),
            *(column[rows].tolist() for column in columns),
            self._values([parse_percentile(key) for key in percentiles], rows).tolist(),
            strict=True,
        )
        for row, seconds, count, total, least, most, values in lines:
            found[row] = Figures(
                seconds=seconds,
                count=count,
                rate=count / seconds if seconds > 0.0 else 0.0,
                total=total,
                min=least,
                max=most,
                percentiles=dict(zip(percentiles, values, strict=True)),
            )
        return found

    def _values(self, ratios: Sequence[Ratio], rows: Integers) -> Floats:
        """Percentiles in units, a line for each of some rows that are not empty."""
        cumulative = np.cumsum(self.counts, dtype=np.int64)
        ends = self.ends[rows]
        before = np.append(0, cumulative[ends - 1])
        wanted = ranks(ratios, np.diff(before)) + before[:-1, None]
        places = np.searchsorted(cumulative, wanted)
        values = self._highest(rows, self.slots[np.minimum(places, ends[:, None] - 1)])
        np.maximum(values, self.min[rows][:, None], out=values)
        np.minimum(values, self.max[rows][:, None], out=values)
        return values

    def _highest(self, rows: Integers, slots: Integers) -> Floats:
        """Highest value, in units, of some slots of each row."""
        values = np.empty(slots.shape)
        own_digits = self.digits[rows]
        for digits in np.unique(own_digits).tolist():
            lines = own_digits == digits
            values[lines] = Layout.of(digits).highest_of(slots[lines])
        values /= self.ticks_per_unit[rows][:, None]
        return values


def added_up(keys: NDArray[Any], counts: NDArray[Any]) -> tuple[Integers, Integers]:
    """Distinct keys, ascending, and the sum of the counts of each. Sums are exact below 2**53."""
    keys, counts = keys.astype(np.int64, copy=False), counts.astype(np.int64, copy=False)
    if (keys[1:] > keys[:-1]).all():
        return keys, counts
    lowest = keys.min()
    if int(keys.max()) - int(lowest) < _SPARSE * keys.size:
        sums = np.bincount(keys - lowest, weights=counts)
        places = np.flatnonzero(sums)
        return places + lowest, sums[places].astype(np.int64)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[begins], np.add.reduceat(counts[order], begins)
