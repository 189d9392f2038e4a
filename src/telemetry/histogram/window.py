"""Counts of the last few intervals."""

from __future__ import annotations

from collections import deque

import numpy as np

from telemetry.histogram.layout import PAGE_SLOTS, Integers
from telemetry.histogram.pages import PagedCounts, SparseCounts, grown


class WindowCounts:
    """The settled counts of `source`, less what they were before its last `intervals` settlements.

    Counts of the past are kept modulo 2**32: the difference to the present is right as long as no slot takes more
    than that in one window.
    """

    def __init__(self, source: PagedCounts, intervals: int) -> None:
        self._source = source
        self._intervals = intervals
        self._kept: deque[SparseCounts] = deque()
        self._past = np.zeros((1, PAGE_SLOTS), dtype=np.uint32)
        self._past_sums = np.zeros(1, dtype=np.int64)

    def push(self, newest: SparseCounts) -> None:
        """Takes in what `source` just settled; the oldest interval leaves when there are more than `intervals`."""
        self._follow_source()
        self._kept.append(newest)
        if len(self._kept) > self._intervals:
            oldest = self._kept.popleft()
            for block in oldest.blocks():
                np.add.at(self._past.reshape(-1), block.places(), block.counts.astype(np.uint32))
            self._past_sums[oldest.pages] += oldest.page_sums()

    def page_sums(self) -> Integers:
        """Count of every pool page of `source`."""
        self._follow_source()
        used = self._source.used
        sums: Integers = self._source.settled_sums[:used] - self._past_sums[:used]
        return sums

    def counts_of(self, pages: Integers) -> Integers:
        """Slot counts of pool pages, one row each."""
        self._follow_source()
        counts = self._source.settled.take(pages, axis=0).astype(np.uint32)
        counts -= self._past.take(pages, axis=0)
        return counts.astype(np.int64)

    def _follow_source(self) -> None:
        pages = self._source.settled_sums.size
        if pages > self._past_sums.size:
            self._past = grown(self._past, pages)
            self._past_sums = grown(self._past_sums, pages)
