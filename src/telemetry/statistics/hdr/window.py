"""The counts of the last few intervals."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from telemetry.statistics.hdr.layout import PAGE_SLOTS, Integers
from telemetry.statistics.hdr.pages import PagedCounts, grown
from telemetry.statistics.hdr.sparse import SparseCounts


class WindowCounts:
    """The settled counts of `source`, minus those from before its last `intervals` settlements.

    Past counts are kept modulo 2**32: the difference to the present is right unless a slot gets more than that in
    one window.
    """

    STATE: ClassVar[Mapping[str, Any]] = {"_kept": list[SparseCounts]}
    DERIVED: ClassVar[tuple[str, ...]] = ("_source", "_intervals", "_past", "_past_sums")

    def __init__(self, source: PagedCounts, intervals: int) -> None:
        self._source = source
        self._intervals = intervals
        self._kept: deque[SparseCounts] = deque()
        self._past = np.zeros((1, PAGE_SLOTS), dtype=np.uint32)
        self._past_sums = np.zeros(1, dtype=np.int64)

    def restored(self) -> None:
        """Compute the past: the settled counts minus those in the window."""
        if len(self._kept) > self._intervals or not all(kept.fit(self._source.used) for kept in self._kept):
            raise ValueError("this is no window of these counts")
        self._past = self._source.settled.astype(np.uint32)
        self._past_sums = self._source.settled_sums.copy()
        for kept in self._kept:
            self.exclude(kept)

    def exclude(self, newest: SparseCounts) -> None:
        """Take settled counts out of the past of a restored window. Raise ValueError if they are not in it."""
        for block in newest.blocks():
            self._past.reshape(-1)[block.places()] -= block.counts.astype(np.uint32)
        self._past_sums[newest.pages] -= newest.page_sums()
        if self._past_sums.min() < 0:
            raise ValueError("a window of more than was counted")

    def postpone(self, newest: SparseCounts) -> None:
        """Keep counts that `source` just settled out of the window, until they are pushed."""
        self._follow_source()
        for block in newest.blocks():
            self._past.reshape(-1)[block.places()] += block.counts.astype(np.uint32)
        self._past_sums[newest.pages] += newest.page_sums()

    def push(self, newest: SparseCounts, postponed: Iterable[SparseCounts] = ()) -> None:
        """Add counts that `source` has settled: `newest`, of which some parts may have been postponed.

        The oldest interval is removed if there are more than `intervals`.
        """
        self._follow_source()
        for part in postponed:
            self.exclude(part)
        self._kept.append(newest)
        if len(self._kept) > self._intervals:
            oldest = self._kept.popleft()
            for block in oldest.blocks():
                np.add.at(self._past.reshape(-1), block.places(), block.counts.astype(np.uint32))
            self._past_sums[oldest.pages] += oldest.page_sums()

    def page_sums(self) -> Integers:
        """Return the count of every pool page of `source`."""
        self._follow_source()
        used = self._source.used
        sums: Integers = self._source.settled_sums[:used] - self._past_sums[:used]
        return sums

    def counts_of(self, pages: Integers) -> Integers:
        """Return the slot counts of pool pages, one row each."""
        self._follow_source()
        counts = self._source.settled.take(pages, axis=0).astype(np.uint32)
        counts -= self._past.take(pages, axis=0)
        return counts.astype(np.int64)

    def _follow_source(self) -> None:
        pages = self._source.settled_sums.size
        if pages > self._past_sums.size:
            self._past = grown(self._past, pages)
            self._past_sums = grown(self._past_sums, pages)
