"""Counts of many histograms in one pool of small pages, in total and for the last few intervals."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from telemetry.statistics.hdr.layout import PAGE_BITS, PAGE_SLOTS, Integers, Layout, constant
from telemetry.statistics.hdr.sparse import (
    BLOCK_PAGES,
    NO_COUNTS,
    SparseCounts,
    narrow,
    occupied_slots,
    sparse_counts,
)

_Array = TypeVar("_Array", bound=NDArray[Any])

_OFFSET_MASK: Final = constant(PAGE_SLOTS - 1)
_PAGE_SHIFT: Final = constant(PAGE_BITS)
_ONE_FRESH: Final = np.uint32(1)
_ONE: Final = np.int64(1)
FRESH_LIMIT: Final = (1 << 32) - 1
"""Counts that may be added between two calls of `settle`: a fresh count is 32 bits wide."""


class PoolCounts(NamedTuple):
    """The complete content of a pool."""

    keys: Integers
    """Key `row * pages of a row + page number` of each page from page 1 on."""
    fresh: SparseCounts
    settled: SparseCounts


class PagedCounts:
    """A pool of 256-slot pages allocated on first use. Page 0 stays all zeros.

    `order` lists the used pages by ascending row and page number; all ordered arrays follow it.
    """

    STATE: ClassVar[Mapping[str, Any]] = {"contents": PoolCounts}
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("layout", "rows", "used", "fresh", "fresh_sums", "settled", "settled_sums"),
        *("_pages_per_row", "_table", "_keys", "_order", "_page_rows", "_fresh_events"),
    )

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rows = 0
        self.used = 1
        self._pages_per_row = constant(layout.pages)
        self._table = np.zeros(0, dtype=np.int64)
        self.fresh = np.zeros((16, PAGE_SLOTS), dtype=np.uint32)
        self.fresh_sums = np.zeros(16, dtype=np.int64)
        self.settled = np.zeros((16, PAGE_SLOTS), dtype=np.int64)
        self.settled_sums = np.zeros(16, dtype=np.int64)
        self._keys = np.zeros(16, dtype=np.int64)
        self._order: Integers | None = None
        self._page_rows: Integers | None = None
        self._fresh_events = 0

    def add_row(self) -> int:
        """Add a new empty histogram and return its row; rows count from 0."""
        row = self.rows
        self.rows += 1
        needed = self.rows * self.layout.pages
        if needed > self._table.size:
            # Filled from the keys: a copy would touch memory of empty rows.
            self._table = np.zeros(max(needed, self._table.size + (self._table.size >> 1)), dtype=np.int64)
            self._table[self._keys[1 : self.used]] = np.arange(1, self.used)
        return row

    def add(self, rows: NDArray[np.intp], slots: Integers) -> None:
        """Add one to each (row, slot). Raises OverflowError after FRESH_LIMIT events without `settle`.

        `slots` is overwritten.
        """
        if not rows.size:
            return
        self._fresh_events += rows.size
        if self._fresh_events > FRESH_LIMIT:
            raise OverflowError(f"more than {FRESH_LIMIT} events without settle()")
        keys = np.multiply(rows, self._pages_per_row)
        keys += np.right_shift(slots, _PAGE_SHIFT)
        pages = self._table.take(keys)
        if not pages.item(pages.argmin()):
            self._allocate(keys[pages == 0])
            pages = self._table.take(keys)
        if pages.size > self.used:  # one pass over the sums is cheaper than finding each
            sums = self.fresh_sums[: self.used]
            sums += np.bincount(pages, minlength=self.used)
        else:
            np.add.at(self.fresh_sums, pages, _ONE)
        np.bitwise_and(slots, _OFFSET_MASK, out=slots)
        np.left_shift(pages, _PAGE_SHIFT, out=pages)
        np.add(slots, pages, out=slots)
        np.add.at(self.fresh.reshape(-1), slots, _ONE_FRESH)

    def add_counts(self, rows: NDArray[np.intp], slots: NDArray[np.uint32], counts: NDArray[np.uint32]) -> None:
        """Add a count to each (row, slot). Raises as `add`, by the sum of the counts.

        It is fastest if neighbours lie in the same page.
        """
        if not rows.size:
            return
        places, pages, starts = self._places_of(rows, slots)
        sums = np.add.reduceat(counts, starts, dtype=np.int64)
        self._fresh_events += int(sums.sum())
        if self._fresh_events > FRESH_LIMIT:
            raise OverflowError(f"more than {FRESH_LIMIT} events without settle()")
        np.add.at(self.fresh_sums, pages, sums)
        np.add.at(self.fresh.reshape(-1), places, counts)

    def settle_counts(
        self, rows: NDArray[np.intp], slots: NDArray[np.uint32], counts: NDArray[np.uint32]
    ) -> SparseCounts:
        """Add counts of any sum to the settled ones at once, and return them as `settle` does."""
        if not rows.size:
            return NO_COUNTS
        places, pages, starts = self._places_of(rows, slots)
        wide = counts.astype(np.int64)
        np.add.at(self.settled_sums, pages, np.add.reduceat(wide, starts))
        np.add.at(self.settled.reshape(-1), places, wide)
        return self._compact(places, wide)

    def join(self, *parts: SparseCounts) -> SparseCounts:
        """Return the sums of parts that were settled. Needs at least one."""
        filled = [part for part in parts if part.pages.size]
        if len(filled) < 2:
            return filled[0] if filled else parts[-1]
        places = np.concatenate([part.places() for part in filled])
        return self._compact(
            places, np.concatenate([part.counts for part in filled], dtype=np.int64, casting="unsafe")
        )

    def _places_of(
        self, rows: NDArray[np.intp], slots: NDArray[np.uint32]
    ) -> tuple[Integers, Integers, NDArray[np.intp]]:
        """Return the positions in the flat pool; the page of each run of slots in one page, and its first slot."""
        keys = np.multiply(rows, self._pages_per_row)
        keys += slots >> np.uint32(PAGE_BITS)
        first = np.empty(keys.size, np.bool_)
        first[0] = True
        np.not_equal(keys[1:], keys[:-1], out=first[1:])
        starts = first.nonzero()[0]
        run_keys = keys.take(starts)
        pages = self._table.take(run_keys)
        if not pages.item(pages.argmin()):
            self._allocate(run_keys[pages == 0])
            pages = self._table.take(run_keys)
        lengths = np.empty_like(starts)
        np.subtract(starts[1:], starts[:-1], out=lengths[:-1])
        lengths[-1] = keys.size - starts[-1]
        places = np.repeat(pages << PAGE_BITS, lengths)
        places += slots & np.uint32(PAGE_SLOTS - 1)
        return places, pages, starts

    def _compact(self, places: Integers, counts: Integers) -> SparseCounts:
        """Return counts at positions in the flat pool by ascending row and slot, each slot once."""
        keys = (self._keys.take(places >> PAGE_BITS) << PAGE_BITS) + (places & _OFFSET_MASK)
        order = np.argsort(keys, kind="stable")
        keys = keys.take(order)
        starts = np.flatnonzero(np.diff(keys, prepend=-1))
        places = places.take(order).take(starts)
        pages = places >> PAGE_BITS
        page_starts = np.flatnonzero(np.diff(pages, prepend=-1))
        return SparseCounts(
            pages.take(page_starts).astype(np.int32),
            np.diff(page_starts, append=places.size).astype(np.uint16),
            (places & _OFFSET_MASK).astype(np.uint8),
            narrow(np.add.reduceat(counts.take(order), starts)),
        )

    @property
    def table(self) -> Integers:
        """Page of each row and page number; 0 for none."""
        return self._table

    @property
    def room(self) -> int:
        """Number of counts that may still be added before `settle`."""
        return FRESH_LIMIT - self._fresh_events

    def added(self, events: int) -> None:
        """Account for events that the caller counted into `fresh` and `fresh_sums`."""
        self._fresh_events += events

    def allocate(self, keys: list[int]) -> None:
        """Allocate the pages of some keys, as adding to them would. Existing pages stay."""
        wanted = np.array(keys, np.int64)
        missing = wanted[self._table.take(wanted) == 0]
        if missing.size:
            self._allocate(missing)

    @property
    def order(self) -> Integers:
        """Used pages by ascending row and page number."""
        if self._order is None:
            self._order = np.argsort(self._keys[1 : self.used], kind="stable") + 1
        return self._order

    def keys_of(self, pages: NDArray[np.int64] | NDArray[np.int32]) -> tuple[Integers, Integers]:
        """Return (row, page number) of each pool page."""
        rows, numbers = np.divmod(self._keys[pages], self._pages_per_row)
        return rows, numbers

    def page_sums(self) -> Integers:
        """Return the count of every pool page."""
        sums: Integers = self.settled_sums[: self.used] + self.fresh_sums[: self.used]
        return sums

    def counts_of(self, pages: Integers) -> Integers:
        """Return the slot counts of pool pages, one row each."""
        counts: Integers = self.settled[pages]
        counts += self.fresh[pages]
        return counts

    def row_counts(self) -> Integers:
        """Return the count of every histogram."""
        if self._page_rows is None:
            self._page_rows = self._keys[: self.used] // self._pages_per_row
        sums = np.bincount(self._page_rows, weights=self.page_sums(), minlength=self.rows)
        return sums.astype(np.int64)

    def counts_at(self, rows: NDArray[np.intp], slots: Integers) -> Integers:
        """Return the count of each (row, slot)."""
        pages = self._table[rows * self.layout.pages + (slots >> PAGE_BITS)]
        offsets = slots & (PAGE_SLOTS - 1)
        counts: Integers = self.settled[pages, offsets] + self.fresh[pages, offsets]
        return counts

    def slot_counts(self, row: int) -> Integers:
        """Return all slots of one histogram."""
        first = row * self.layout.pages
        pages = self._table[first : first + self.layout.pages]
        return self.counts_of(pages).reshape(-1)[: self.layout.slots]

    @property
    def contents(self) -> PoolCounts:
        """Content of the pool. It can be set once, on an empty pool with the same number of rows."""
        keys = self._keys[1 : self.used]
        return PoolCounts(
            keys, sparse_counts(self.fresh, self.fresh_sums), sparse_counts(self.settled, self.settled_sums)
        )

    @contents.setter
    def contents(self, contents: PoolCounts) -> None:
        keys, fresh, settled = contents
        pages = keys.size + 1
        possible = (
            np.unique(keys).size == keys.size
            and keys.min(initial=0) >= 0
            and keys.max(initial=-1) < self.rows * self.layout.pages
            and fresh.fit(pages)
            and settled.fit(pages)
            and fresh.counts.max(initial=0) <= FRESH_LIMIT
            and fresh.counts.sum(dtype=np.uint64) <= FRESH_LIMIT
            and np.union1d(fresh.pages, settled.pages).size == keys.size
        )
        if not possible:
            raise ValueError("these are no counts of this pool")
        if keys.size:
            self._number(keys)
        self.fresh.reshape(-1)[fresh.places()] = fresh.counts
        self.fresh_sums[fresh.pages] = fresh.page_sums()
        self._fresh_events = int(self.fresh_sums.sum())
        self.settled.reshape(-1)[settled.places()] = settled.counts
        self.settled_sums[settled.pages] = settled.page_sums()

    def settle(self) -> SparseCounts:
        """Move the fresh counts into the settled ones and return them."""
        order = self.order
        pages = order[self.fresh_sums[order] > 0]
        parts = [
            self._settle_block(pages[start : start + BLOCK_PAGES]) for start in range(0, pages.size, BLOCK_PAGES)
        ]
        self.settled_sums += self.fresh_sums
        self.fresh_sums.fill(0)
        self._fresh_events = 0
        if not parts:
            return NO_COUNTS
        occupied, offsets, counts = (np.concatenate(column) for column in zip(*parts, strict=True))
        return SparseCounts(pages.astype(np.int32), occupied, offsets, narrow(counts))

    def _settle_block(self, pages: Integers) -> tuple[NDArray[np.uint16], NDArray[np.uint8], NDArray[np.uint32]]:
        """Settle few pages at once, so that all of them stay in the cache between the steps."""
        occupied, positions, counts = occupied_slots(self.fresh.take(pages, axis=0))
        offsets = positions.astype(np.uint8)
        positions >>= PAGE_BITS
        places = pages.take(positions)
        places <<= PAGE_BITS
        places += offsets
        np.add.at(self.settled.reshape(-1), places, counts.astype(np.int64))
        self.fresh[pages] = 0
        return occupied, offsets, counts

    def _allocate(self, keys: Integers) -> None:
        self._number(np.unique(keys))

    def _number(self, new: Integers) -> None:
        """Allocate pages in the order of these keys."""
        first, self.used = self.used, self.used + new.size
        if self.used > self.fresh_sums.size:
            self._grow(max(self.used, self.fresh_sums.size + (self.fresh_sums.size >> 1)))
        self._keys[first : self.used] = new
        self._table[new] = np.arange(first, self.used, dtype=np.int64)
        self._order = None
        self._page_rows = None

    def _grow(self, pages: int) -> None:
        self.fresh = grown(self.fresh, pages)
        self.fresh_sums = grown(self.fresh_sums, pages)
        self.settled = grown(self.settled, pages)
        self.settled_sums = grown(self.settled_sums, pages)
        self._keys = grown(self._keys, pages)


def grown(array: _Array, length: int) -> _Array:
    """Return a longer copy, filled up with zeros."""
    longer = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
    longer[: len(array)] = array
    return cast(_Array, longer)


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
