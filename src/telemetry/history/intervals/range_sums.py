"""Sums of all series over one time range, made from intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from telemetry.history.intervals.columns import Columns
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.histograms import Histograms, added_up
from telemetry.statistics.hdr.layout import Integers, Layout
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval
from telemetry.wire.report import Bounds

_PENDING_SLOTS: Final = 1 << 20  # adding up many at once is cheaper; these take 16 MiB


class RangeSums:
    """A sum of decoded intervals, in any order. Single-threaded.

    Holds the sum and slots that are not yet added to it: at most as many as the sum has, or `_PENDING_SLOTS`.
    """

    def __init__(self, keys: Iterable[SeriesKey], percentiles: Sequence[str]) -> None:
        """Sort the keys by index.

        Ignores keys of other kinds than `series`; of keys with the same index, the last one counts.
        """
        key_by_index = {key.index: key for key in keys if key.kind == "series"}
        self._keys = [key_by_index[index] for index in sorted(key_by_index)]
        self._percentiles = tuple(percentiles)
        self._index = np.array(sorted(key_by_index), dtype=np.int64)
        self._span = max((Layout.of(key.digits).slots for key in self._keys), default=1)
        """Slots per row. `row * span + slot` is the place of a slot among all."""
        size = len(self._keys)
        self._seconds = 0.0
        self._count = np.zeros(size, dtype=np.int64)
        self._total = np.zeros(size)
        self._min, self._max = np.full(size, np.inf), np.full(size, -np.inf)
        none = np.zeros(0, dtype=np.int64)
        self._sum: tuple[Integers, Integers] = none, none
        """Places and counts."""
        self._pending: list[tuple[Integers, Integers]] = []
        self._pending_slots = 0

    def add(self, interval: Interval) -> bool:
        """Add an interval. Returns False if it has series without a key, which are ignored."""
        columns = Columns.of(interval)
        self._seconds += max(interval.end_ns - interval.start_ns, 0) / 1e9
        rows = np.searchsorted(self._index, columns.index)
        mask = np.append(self._index, -1)[rows] == columns.index
        kept = rows[mask]
        self._count[kept] += columns.count[mask].astype(np.int64)
        with np.errstate(over="ignore", invalid="ignore"):  # values may be as large as floats allow
            self._total[kept] += columns.total[mask]
        self._min[kept] = np.minimum(self._min[kept], columns.min[mask])
        self._max[kept] = np.maximum(self._max[kept], columns.max[mask])
        own = np.repeat(mask, columns.occupied)
        places = np.repeat(kept * self._span, columns.occupied[mask])
        places += np.minimum(columns.slots[own], self._span - 1)
        self._pending.append((places, columns.counts[own].astype(np.int64)))
        self._pending_slots += places.size
        if self._pending_slots > max(_PENDING_SLOTS, self._sum[0].size):
            self._add_up()
        return bool(mask.all())

    def figures(self) -> dict[int, Figures]:
        """Return figures by index, for every key. Raises UsageError for a percentile outside (0, 100]."""
        return dict(zip(self._index.tolist(), self._histograms().figures(self._percentiles), strict=True))

    def bounds(self, confidence: float = 0.95) -> dict[int, dict[str, Bounds]]:
        """Return confidence bounds of the percentiles by index; empty for a series without values."""
        row_bounds = self._histograms().bounds(self._percentiles, confidence)
        return dict(zip(self._index.tolist(), row_bounds, strict=True))

    def _histograms(self) -> Histograms:
        self._add_up()
        places, counts = self._sum
        size = len(self._keys)
        return Histograms(
            digits=np.array([key.digits for key in self._keys], dtype=np.int64),
            ticks_per_unit=np.array([key.ticks_per_unit for key in self._keys], dtype=np.float64),
            seconds=np.full(size, self._seconds),
            count=self._count,
            total=self._total,
            min=self._min,
            max=self._max,
            ends=np.searchsorted(places, np.arange(1, size + 1) * self._span),
            slots=places % self._span,
            counts=counts,
        )

    def _add_up(self) -> None:
        if not self._pending:
            return
        places, counts = zip(self._sum, *self._pending, strict=True)
        self._sum = added_up(np.concatenate(places), np.concatenate(counts))
        self._pending, self._pending_slots = [], 0
