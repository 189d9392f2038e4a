"""Counts of few slots of many pages: the occupied slots only."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.statistics.hdr.layout import PAGE_BITS, PAGE_SLOTS, Integers

BLOCK_PAGES: Final = 512
"""Number of pages worked on at once: half a mebibyte of fresh counts."""
_MOST: Final = 1 << 62


class SparseCounts(NamedTuple):
    """The occupied slots only, by ascending row and slot. At least eight times smaller than pages."""

    pages: NDArray[np.int32]
    """Pool pages with at least one count."""
    occupied: NDArray[np.uint16]
    """Number of occupied slots of each page."""
    offsets: NDArray[np.uint8]
    """Slot within its page."""
    counts: NDArray[np.unsignedinteger[Any]]
    """Counts in the narrowest type that holds the largest."""

    def fit(self, pages: int) -> bool:
        """Return whether these can be counts of the first `pages` pages of a pool."""
        return bool(
            self.occupied.size == self.pages.size
            and self.offsets.size == self.counts.size == self.occupied.sum(dtype=np.int64)
            and self.occupied.min(initial=1) > 0
            and self.occupied.max(initial=1) <= PAGE_SLOTS
            and self.pages.min(initial=1) > 0
            and self.pages.max(initial=0) < pages
            and self.counts.min(initial=1) > 0
            and self.counts.max(initial=0) <= _MOST
            and np.unique(self.pages).size == self.pages.size
            and self._ascending()
        )

    def _ascending(self) -> bool:
        """Return whether no page has a slot twice."""
        ascends = np.diff(self.offsets.astype(np.int16), prepend=-1) > 0
        ascends[np.cumsum(self.occupied, dtype=np.int64)[:-1]] = True  # first slot of a page
        return bool(ascends.all())

    def places(self) -> Integers:
        """Return the positions in the flat pool."""
        starts = self.pages.astype(np.int64) << PAGE_BITS
        places: Integers = np.repeat(starts, self.occupied)
        places += self.offsets
        return places

    def blocks(self) -> Iterator[SparseCounts]:
        """Yield the counts in blocks of few pages, whose temporary arrays stay in the cache."""
        ends = np.cumsum(self.occupied, dtype=np.int64)
        first = 0
        for start in range(0, self.pages.size, BLOCK_PAGES):
            pages = self.pages[start : start + BLOCK_PAGES]
            last = int(ends[start + pages.size - 1])
            occupied = self.occupied[start : start + BLOCK_PAGES]
            yield SparseCounts(pages, occupied, self.offsets[first:last], self.counts[first:last])
            first = last

    def page_sums(self) -> Integers:
        """Return the count of each of `pages`."""
        if not self.pages.size:
            return np.zeros(0, dtype=np.int64)
        starts = np.cumsum(self.occupied, dtype=np.int64) - self.occupied
        sums: Integers = np.add.reduceat(self.counts, starts, dtype=np.int64)
        return sums


NO_COUNTS: Final = SparseCounts(
    np.zeros(0, dtype=np.int32),
    np.zeros(0, dtype=np.uint16),
    np.zeros(0, dtype=np.uint8),
    np.zeros(0, dtype=np.uint8),
)


def occupied_slots(pages: NDArray[Any]) -> tuple[NDArray[np.uint16], NDArray[np.intp], NDArray[Any]]:
    """Return the number of occupied slots of each page; the place of each slot in the flat pages; its count."""
    flat = pages.reshape(-1)
    taken = flat != 0
    occupied = np.add.reduce(taken.reshape(-1, PAGE_SLOTS), axis=1, dtype=np.uint16)
    positions = np.flatnonzero(taken)
    return occupied, positions, flat.take(positions)


def sparse_counts(pool: NDArray[Any], sums: Integers) -> SparseCounts:
    """Return the pages with counts, by ascending page."""
    pages = np.flatnonzero(sums)
    parts = []
    for start in range(0, pages.size, BLOCK_PAGES):
        occupied, positions, counts = occupied_slots(pool.take(pages[start : start + BLOCK_PAGES], axis=0))
        parts.append((occupied, positions.astype(np.uint8), narrow(counts)))
    if not parts:
        return NO_COUNTS
    return SparseCounts(pages.astype(np.int32), *(np.concatenate(column) for column in zip(*parts, strict=True)))


def narrow(counts: NDArray[Any]) -> NDArray[np.unsignedinteger[Any]]:
    """Return counts in the narrowest type that holds the largest."""
    return counts.astype(np.min_scalar_type(int(counts.max(initial=0))), copy=False)
