"""Sums of intervals of many series, and the figures of all series between two moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.intervals.columns import Columns
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.histograms import Histograms, added_up
from telemetry.statistics.hdr.layout import PAGE_BITS, PAGE_SLOTS, Floats, Integers, Layout
from telemetry.statistics.hdr.pages import grown
from telemetry.wire.control import SeriesKey
from telemetry.wire.report import Bounds

_PENDING_SLOTS: Final = 1 << 20  # sorting up to this many is cheaper than pages; they take 16 MiB
_NARROW: Final = 1 << 32
"""Limit below which sums fit into 32 bits, which halves the pages of most runs."""
_OFFSETS: Final = PAGE_SLOTS - 1
_BLOCK_PAGES: Final = 2_048  # temporary arrays of this many pages fit into the cache


class SumRows:
    """A set of series in the order of their indices, which is the row order of all their sums. Immutable."""

    def __init__(self, keys: Sequence[SeriesKey]) -> None:
        """Sort the keys by index. Of keys with the same index, the last one counts."""
        key_by_index = {key.index: key for key in keys}
        self.keys = [key_by_index[index] for index in sorted(key_by_index)]
        self.index = np.array(sorted(key_by_index), dtype=np.int64)
        self.ids = [series_id(key) for key in self.keys]
        self.place = {series: row for row, series in enumerate(self.ids)}
        self.digits = np.array([key.digits for key in self.keys], dtype=np.int64)
        self.ticks_per_unit = np.array([key.ticks_per_unit for key in self.keys], dtype=np.float64)
        slots = max((Layout.of(key.digits).slots for key in self.keys), default=1)
        self.span = -(-slots // PAGE_SLOTS) << PAGE_BITS
        """Places of a row: whole pages of slots. `row * span + slot` is the place of a slot among all."""

    def __len__(self) -> int:
        return len(self.keys)

    def key_of(self, series: SeriesId) -> SeriesKey:
        """Return the key of a series. Raises KeyError for an unknown one."""
        return self.keys[self.place[series]]


@dataclass(frozen=True, slots=True)
class Added:
    """The result of a sum: one line for each series with values, by ascending row."""

    rows: Integers
    seconds: float
    count: Integers
    total: Floats
    min: Floats
    max: Floats
    places: Integers
    """Places of slots, ascending and unique."""
    counts: Integers

    def histograms(self, of: SumRows) -> Histograms:
        """Return the histograms. `of` has the rows that the sum was made of."""
        begins = self.rows * of.span
        ends = np.searchsorted(self.places, begins + of.span)
        return Histograms(
            digits=of.digits[self.rows],
            ticks_per_unit=of.ticks_per_unit[self.rows],
            seconds=np.full(self.rows.size, self.seconds),
            count=self.count,
            total=self.total,
            min=self.min,
            max=self.max,
            ends=ends,
            slots=self.places - np.repeat(begins, np.diff(ends, prepend=0)),
            counts=self.counts,
        )

    def some(self, chosen: NDArray[np.bool_], of: SumRows) -> Added:
        """Return the result for the chosen rows only, as far as they have values."""
        kept = chosen[self.rows]
        rows = self.rows[kept]
        begins = np.searchsorted(self.places, rows * of.span).tolist()
        ends = np.searchsorted(self.places, (rows + 1) * of.span).tolist()
        own = [slice(begin, end) for begin, end in zip(begins, ends, strict=True)] or [slice(0)]
        return Added(
            rows,
            self.seconds,
            self.count[kept],
            self.total[kept],
            self.min[kept],
            self.max[kept],
            np.concatenate([self.places[part] for part in own]),
            np.concatenate([self.counts[part] for part in own]),
        )

    def only(self, row: int, of: SumRows) -> Histograms:
        """Return the histogram of one row, even if it is empty."""
        begin, end = np.searchsorted(self.places, (row * of.span, (row + 1) * of.span))
        line = int(np.searchsorted(self.rows, row))
        own = slice(line, line + 1)
        has_row = bool((self.rows[own] == row).any())
        alone = Added(
            np.array([row]),
            self.seconds,
            self.count[own] if has_row else np.zeros(1, dtype=np.int64),
            self.total[own] if has_row else np.zeros(1),
            self.min[own] if has_row else np.full(1, np.inf),
            self.max[own] if has_row else np.full(1, -np.inf),
            self.places[begin:end],
            self.counts[begin:end],
        )
        return alone.histograms(of)


class Sum:
    """A sum of intervals. Not thread-safe.

    It holds `_PENDING_SLOTS` slots and, once it had more, pages of 256 slots for ranges with values. It needs no
    more memory than the aggregator of the run.
    """

    def __init__(self, rows: SumRows) -> None:
        size = len(rows)
        self._rows = rows
        self._seconds = 0.0
        self._count = np.zeros(size, dtype=np.int64)
        self._total = np.zeros(size)
        self._min, self._max = np.full(size, np.inf), np.full(size, -np.inf)
        self._pending: list[tuple[Integers, Integers]] = []
        self._pending_slots = 0
        self._pages: _Pages | None = None

    def add(self, columns: Columns, seconds: float) -> None:
        """Add a decoded interval. Ignores series that are not among the rows."""
        rows = np.searchsorted(self._rows.index, columns.index)
        mask = np.append(self._rows.index, -1)[rows] == columns.index
        slots, counts, occupied = columns.slots, columns.counts, columns.occupied
        if not mask.all():
            own = np.repeat(mask, occupied)
            slots, counts, occupied = slots[own], counts[own], occupied[mask]
            rows = rows[mask]
        places = np.repeat(rows * self._rows.span, occupied)
        places += np.minimum(slots, self._rows.span - 1)
        count, total = columns.count[mask], columns.total[mask]
        least, most = columns.min[mask], columns.max[mask]
        self.include(Added(rows, seconds, count, total, least, most, places, counts.astype(np.int64)))

    def include(self, other: Added) -> None:
        """Add the result of another sum of the same rows. A place may occur twice in it."""
        rows = other.rows
        self._seconds += other.seconds
        self._count[rows] += other.count
        with np.errstate(over="ignore", invalid="ignore"):  # values may be as large as floats allow
            self._total[rows] += other.total
        self._min[rows] = np.minimum(self._min[rows], other.min)
        self._max[rows] = np.maximum(self._max[rows], other.max)
        if not other.places.size:
            return
        self._pending.append((other.places, other.counts))
        self._pending_slots += other.places.size
        if self._pending_slots > _PENDING_SLOTS and len(self._pending) > 1:
            self._settle()

    def added(self, wanted: Callable[[Integers], Integers] | None = None) -> Added:
        """Return the sum so far.

        `wanted` maps the counts of all rows to the needed ranks, one line per row. With it, counts of many slots
        may be merged at the first of them, which is less work; only these ranks are valid then.
        """
        if self._pages is not None:
            self._settle()
            places, counts = (
                self._pages.occupied()
                if wanted is None
                else self._pages.around(self._rows.span >> PAGE_BITS, wanted(self._count))
            )
        elif len(self._pending) == 1:
            places, counts = added_up(*self._pending[0])
        elif self._pending:
            places, counts = added_up(*(np.concatenate(column) for column in zip(*self._pending, strict=True)))
        else:
            places, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
        ends = np.searchsorted(places, np.arange(1, len(self._rows) + 1) * self._rows.span)
        # In a damaged history, a row may have a count without slots or slots without a count.
        rows = np.flatnonzero((self._count != 0) | (np.diff(ends, prepend=0) != 0))
        count, total, least, most = self._count[rows], self._total[rows], self._min[rows], self._max[rows]
        return Added(rows, self._seconds, count, total, least, most, places, counts)

    def of_rows(self, rows: Integers) -> Added:
        """Return the sum so far of some rows, ascending, with all their slots."""
        chosen = np.zeros(len(self._rows), dtype=np.bool_)
        chosen[rows] = True
        if self._pages is not None:
            self._settle()
            places, counts = self._pages.occupied(np.repeat(chosen, self._rows.span >> PAGE_BITS))
        else:
            kept = [(places, counts, chosen[places // self._rows.span]) for places, counts in self._pending]
            places = np.concatenate([np.zeros(0, np.int64), *(places[own] for places, _, own in kept)])
            counts = np.concatenate([np.zeros(0, np.int64), *(counts[own] for _, counts, own in kept)])
            places, counts = added_up(places, counts) if places.size else (places, counts)
        rows = np.flatnonzero(chosen & (self._count != 0))
        count, total, least, most = self._count[rows], self._total[rows], self._min[rows], self._max[rows]
        return Added(rows, self._seconds, count, total, least, most, places, counts)

    def _settle(self) -> None:
        if self._pages is None:
            self._pages = _Pages(len(self._rows) * self._rows.span)
        for places, counts in self._pending:
            self._pages.add(places, counts)
        self._pending, self._pending_slots = [], 0


class _Pages:
    """Counts by place, in pages that are created on first use. Page 0 of the pool stays empty."""

    def __init__(self, places: int) -> None:
        self._table = np.zeros(places >> PAGE_BITS, dtype=np.int64)
        self._numbers = np.zeros(64, dtype=np.int64)
        self._used = 1
        self._pool: NDArray[np.uint32] | Integers = np.zeros((64, PAGE_SLOTS), dtype=np.uint32)
        self._sum = 0

    def add(self, places: Integers, counts: Integers) -> None:
        """Add counts. Places in ascending order are fastest."""
        self._sum += int(counts.sum())
        if self._sum >= _NARROW and self._pool.dtype == np.uint32:
            self._pool = self._pool.astype(np.int64)
        numbers = places >> PAGE_BITS
        begins = _changes(numbers)
        firsts = numbers.take(begins)
        own = np.repeat((self._pages(firsts) - firsts) << PAGE_BITS, np.diff(begins, append=places.size))
        own += places
        # A place may occur twice, so a plain assignment would lose counts.
        np.add.at(self._pool.reshape(-1), own, counts.astype(self._pool.dtype))

    def occupied(self, chosen: NDArray[np.bool_] | None = None) -> tuple[Integers, Integers]:
        """Return places, ascending, and their counts. `chosen` limits them to pages by number."""
        order = self._order()
        return self._spread(order if chosen is None else order[chosen[self._numbers[order]]])

    def around(self, row_pages: int, wanted: Integers) -> tuple[Integers, Integers]:
        """Return places and counts like `occupied`, but merge each page without a wanted rank at its first place.

        `wanted` has a line of ranks, from 1, for each row. Each row has `row_pages` pages.
        """
        order = self._order()
        numbers = self._numbers[order]
        # A page holds no more than the whole pool, whose sum fits into its type.
        sums = self._pool[: self._used].sum(axis=1, dtype=self._pool.dtype)
        reached = np.append(0, np.cumsum(sums[order], dtype=np.int64))
        firsts = np.searchsorted(numbers, np.arange(len(wanted)) * row_pages)
        positions = np.searchsorted(reached, wanted + reached[firsts][:, None]) - 1
        spread = np.zeros(order.size, dtype=np.bool_)
        spread[np.minimum(positions, order.size - 1)] = True
        places, counts = self._spread(order[spread])
        places = np.append(places, numbers[~spread] << PAGE_BITS)
        counts = np.append(counts, np.diff(reached)[~spread])
        ascending = np.argsort(places, kind="stable")
        return places[ascending], counts[ascending]

    def _order(self) -> Integers:
        """Return the pages in use, in the order of their numbers."""
        order: Integers = np.argsort(self._numbers[1 : self._used]) + 1
        return order

    def _spread(self, order: Integers) -> tuple[Integers, Integers]:
        """Return places and counts of some pages, in this order."""
        room = np.count_nonzero(self._pool[: self._used])
        places, counts, end = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64), 0
        for first in range(0, order.size, _BLOCK_PAGES):
            block = order[first : first + _BLOCK_PAGES]
            pages = self._pool[block]
            taken = pages != 0  # finding places takes several times as long in an array of numbers
            offsets = np.flatnonzero(taken)
            own = slice(end, end := end + offsets.size)
            counts[own] = pages.reshape(-1).take(offsets)
            offsets &= _OFFSETS
            np.add(
                np.repeat(self._numbers[block] << PAGE_BITS, np.add.reduce(taken, axis=1, dtype=np.uint16)),
                offsets,
                out=places[own],
            )
        return places[:end], counts[:end]

    def _pages(self, numbers: Integers) -> Integers:
        pages = self._table.take(numbers)
        if not pages.all():
            missing = np.sort(numbers[pages == 0])
            missing = missing[_changes(missing)]
            first, self._used = self._used, self._used + missing.size
            if self._used > len(self._pool):
                # Unused room takes no memory yet, and makes copies rare.
                room = max(self._used, len(self._pool)) * 3 // 2
                self._pool, self._numbers = grown(self._pool, room), grown(self._numbers, room)
            self._numbers[first : self._used] = missing
            self._table[missing] = np.arange(first, self._used)
            pages = self._table.take(numbers)
        return pages


def _changes(numbers: Integers) -> Integers:
    """Return the indices of numbers that differ from the one before."""
    begins = np.empty(numbers.size, dtype=np.bool_)
    begins[:1] = True
    np.not_equal(numbers[1:], numbers[:-1], out=begins[1:])
    return np.flatnonzero(begins)


@dataclass(frozen=True, kw_only=True)
class RangeTotals:
    """The figures of a time range, in seconds since the run's start. Its edges are edges of intervals."""

    start_s: float
    end_s: float
    seconds: float
    """Seconds covered by the history; less than `end_s - start_s` if there is a gap."""
    counters: Mapping[SeriesId, float] = field(default_factory=dict)
    """Increases in the time range, without zeros."""
    gauges: Mapping[SeriesId, float] = field(default_factory=dict)
    """Last values of gauges that were set in the time range."""
    percentiles: Sequence[str] = ()
    """Percentiles of the figures in `series`."""
    rows: SumRows = field(default_factory=lambda: SumRows([]), repr=False)
    """Series that were read."""
    added: Added | None = field(default=None, repr=False)
    """Sums of their values."""

    @cached_property
    def series(self) -> Mapping[SeriesId, Figures]:
        """Figures of series with values in the time range. Computed on first use."""
        return self.figures(self.added) if self.added is not None else {}

    def figures(self, of: Added) -> dict[SeriesId, Figures]:
        """Return the figures of a subset of `added`."""
        ids = (self.rows.ids[row] for row in of.rows.tolist())
        return dict(zip(ids, of.histograms(self.rows).figures(self.percentiles), strict=True))

    def bounds(self, series: SeriesId, percentiles: Sequence[str], confidence: float = 0.95) -> dict[str, Bounds]:
        """Return confidence bounds of percentiles of a series; empty without values.

        Raises UsageError for a percentile outside (0, 100].
        """
        if self.added is None or series not in self.rows.place:
            return {}
        return self.added.only(self.rows.place[series], self.rows).bounds(percentiles, confidence)[0]
