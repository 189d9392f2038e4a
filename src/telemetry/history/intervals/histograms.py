"""Sparse histograms side by side: their sums, percentiles of many at once, and the values of one series."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from telemetry.history.intervals.figures import Figures
from telemetry.statistics.confidence import rank_bounds
from telemetry.statistics.hdr.cells import cells_of
from telemetry.statistics.hdr.layout import TICK_BITS, Floats, Integers, Layout
from telemetry.statistics.hdr.percentiles import parse_percentile, rank, ranks
from telemetry.wire.control import SeriesKey
from telemetry.wire.report import Bounds
from telemetry.wire.units import ticks_per_unit

_SPARSE: Final = 8
"""Limit for counting: if the range of keys is at most this many times their number, counting beats sorting."""


@dataclass(frozen=True, slots=True)
class Histograms:
    """A table of histograms, one per row. Each column but the last two has one entry per row."""

    digits: Integers
    ticks_per_unit: Floats
    seconds: Floats
    count: Integers
    total: Floats
    min: Floats
    max: Floats
    ends: Integers
    """End of each row's part of `slots` and `counts`; it begins at the end of the row before, or at 0."""
    slots: Integers
    """Slots, ascending in a row."""
    counts: Integers

    def figures(self, percentiles: Sequence[str]) -> list[Figures]:
        """Return the figures of each row. Raises UsageError for a percentile outside (0, 100].

        A percentile is the highest value of the slot that holds rank `ceil(p * n)`, limited to `[min, max]`.
        """
        rows, values = self.percentiles(percentiles)
        row_figures = [Figures(seconds=seconds) for seconds in self.seconds.tolist()]
        columns = (self.seconds, self.count, self.total, self.min, self.max)
        lines = zip(rows.tolist(), *(column[rows].tolist() for column in columns), values.tolist(), strict=True)
        for row, seconds, count, total, least, most, line in lines:
            row_figures[row] = Figures(
                seconds=seconds,
                count=count,
                rate=count / seconds if seconds > 0.0 else 0.0,
                total=total,
                min=least,
                max=most,
                percentiles=dict(zip(percentiles, line, strict=True)),
            )
        return row_figures

    def percentiles(self, percentiles: Sequence[str]) -> tuple[Integers, Floats]:
        """Return the rows with values, and for each of them a line of percentiles, as `figures` has them.

        Raises UsageError for a percentile outside (0, 100].
        """
        ratios = [parse_percentile(key) for key in percentiles]
        places = _Places.of(self)
        return places.rows, self._values(places.rows, places.slots(ranks(ratios, places.held)), Layout.highest_of)

    def bounds(self, percentiles: Sequence[str], confidence: float = 0.95) -> list[dict[str, Bounds]]:
        """Return confidence bounds of each row, for percentiles of the process that produced independent values.

        A bound reaches from the lowest value of the slot that holds the lower rank to the highest value of the slot
        of the upper rank, within `[min, max]`. The percentile from `figures` lies between them. A row without
        values has none.

        Raises UsageError for a percentile outside (0, 100], ValueError for a confidence outside (0, 1).
        """
        ratios = [parse_percentile(key) for key in percentiles]
        row_bounds: list[dict[str, Bounds]] = [{} for _ in range(self.ends.size)]
        places = _Places.of(self)
        rows, counts = places.rows, places.held.tolist()
        sides = [[rank_bounds(ratio, count, confidence) for ratio in ratios] for count in counts]
        # A missing rank becomes 1: its value is not used.
        wanted = np.array([[(low or 1, high or 1) for low, high in line] for line in sides], dtype=np.int64)
        wanted = wanted.reshape(rows.size, len(ratios), 2)
        slots = places.slots(wanted[:, :, 1])
        highest = self._values(rows, slots, Layout.highest_of)
        # The last slot also counts values above the range of the histogram.
        highest = np.where(slots == places.last_slots, self.max[rows][:, None], highest)
        lowest = self._values(rows, places.slots(wanted[:, :, 0]), Layout.lowest_of)
        lines = zip(rows.tolist(), counts, sides, lowest.tolist(), highest.tolist(), strict=True)
        for row, count, line, lows, highs in lines:
            row_bounds[row] = {
                key: Bounds(
                    low=None if low is None else least,
                    high=None if high is None else most,
                    beyond=count - rank(ratio, count),
                )
                for key, ratio, (low, high), least, most in zip(percentiles, ratios, line, lows, highs, strict=True)
            }
        return row_bounds

    def _values(self, rows: Integers, slots: Integers, edge: Callable[[Layout, Integers], Integers]) -> Floats:
        """Return an edge of some slots of each row, in units and limited to `[min, max]`."""
        values = np.empty(slots.shape)
        own_digits = self.digits[rows]
        for digits in set(own_digits.tolist()):
            lines = own_digits == digits
            values[lines] = edge(Layout.of(digits), slots[lines])
        values /= self.ticks_per_unit[rows][:, None]
        np.maximum(values, self.min[rows][:, None], out=values)
        np.minimum(values, self.max[rows][:, None], out=values)
        return values


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of ranks in rows that are not empty."""

    histograms: Histograms
    rows: Integers
    cumulative: Integers
    before: Integers
    """Number of values in all rows before each row. The last entry is the total."""

    @staticmethod
    def of(histograms: Histograms) -> _Places:
        rows = np.flatnonzero(np.diff(histograms.ends, prepend=0))
        cumulative = np.cumsum(histograms.counts, dtype=np.int64)
        before = np.append(0, cumulative[histograms.ends[rows] - 1])
        return _Places(histograms, rows, cumulative, before)

    @property
    def held(self) -> Integers:
        """Number of values in the slots of each row."""
        held: Integers = np.diff(self.before)
        return held

    def slots(self, ranks: Integers) -> Integers:
        """Return the slots of some ranks of each row, counted from 1."""
        places = np.searchsorted(self.cumulative, ranks + self.before[:-1, None])
        slots: Integers = self.histograms.slots[np.minimum(places, self._lasts)]
        return slots

    @property
    def last_slots(self) -> Integers:
        """Highest slot of each row."""
        slots: Integers = self.histograms.slots[self._lasts]
        return slots

    @property
    def _lasts(self) -> Integers:
        lasts: Integers = self.histograms.ends[self.rows][:, None] - 1
        return lasts


def added_up(keys: NDArray[Any], counts: NDArray[Any]) -> tuple[Integers, Integers]:
    """Return distinct keys, ascending, and the sum of the counts of each. Sums are exact below 2**53."""
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


_LAST_TICK: Final = float((1 << TICK_BITS) - 1)


@dataclass(frozen=True, slots=True)
class Digest:
    """A histogram with its time range. Immutable, so thread-safe."""

    key: SeriesKey
    start_ns: int
    end_ns: int
    histogram: Histograms
    """A single row, each slot once."""

    @property
    def count(self) -> int:
        return int(self.histogram.count[0])

    def figures(self, percentiles: Sequence[str]) -> Figures:
        """Return the figures. Raises UsageError for a percentile outside (0, 100]."""
        return self.histogram.figures(percentiles)[0]

    def bounds(self, percentiles: Sequence[str], confidence: float = 0.95) -> dict[str, Bounds]:
        """Return the confidence bounds; empty without values.

        Raises UsageError for a percentile outside (0, 100].
        """
        return self.histogram.bounds(percentiles, confidence)[0]

    def curve(self, points: int) -> list[tuple[float, float]]:
        """Return points (fraction of the values, value that this fraction does not exceed).

        They go from (0, min) to (1, max), in the unit of the series. There are at most `points` of them, 2 or more,
        evenly spread over `log(1 / (1 - fraction))`; none without values.
        """
        reached = np.cumsum(self.histogram.counts)
        count = int(reached[-1]) if reached.size else 0
        if not count:
            return []
        least, most = float(self.histogram.min[0]), float(self.histogram.max[0])
        fractions = reached[reached < count] / count
        chosen = np.arange(fractions.size)
        if chosen.size > points - 2:
            steps = np.linspace(0.0, math.log(count), points)[1:-1]
            chosen = np.unique(np.searchsorted(-np.log1p(-fractions), steps))
            chosen = chosen[chosen < fractions.size]
        highest = Layout.of(self.key.digits).highest_of(self.histogram.slots[chosen])
        values = np.clip(highest / self.key.ticks_per_unit, least, most)
        return [(0.0, least), *zip(fractions[chosen].tolist(), values.tolist(), strict=True), (1.0, most)]

    def cells(self) -> list[tuple[int, int]]:
        """Return the display histogram as (cell, count).

        Edges of cells are those of `telemetry.wire.cells`, times `cell_unit`.
        """
        lowest = Layout.of(self.key.digits).lowest_of(self.histogram.slots)
        ticks = np.minimum(lowest * self._cells_per_tick, _LAST_TICK).astype(np.int64)
        cells, counts = added_up(cells_of(ticks), self.histogram.counts)
        return list(zip(cells.tolist(), counts.tolist(), strict=True))

    @property
    def cell_unit(self) -> float:
        """Length of one tick, in units of the series. Cell edges are whole ticks."""
        return 1.0 / ticks_per_unit(self.key.unit)

    @property
    def _cells_per_tick(self) -> float:
        """Display ticks per histogram tick."""
        of_unit = ticks_per_unit(self.key.unit)
        if self.key.ticks_per_unit == of_unit:
            return 1.0
        return of_unit * _lowest(self.key.ticks_per_unit)


def _lowest(ticks: float) -> float:
    """Return the `low` that a series was defined with, from its ticks per unit, which are `1 / low`.

    A number written with up to 15 digits is restored exactly.
    """
    written = float(f"{1.0 / ticks:.15g}")
    return written if 1.0 / written == ticks else 1.0 / ticks
