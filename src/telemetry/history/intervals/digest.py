"""The values of one series in one time range, as far as a histogram represents them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.histograms import Histograms, added_up
from telemetry.statistics.hdr.cells import cells_of
from telemetry.statistics.hdr.layout import TICK_BITS, Layout
from telemetry.wire.control import SeriesKey
from telemetry.wire.report import Bounds
from telemetry.wire.units import ticks_per_unit

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
