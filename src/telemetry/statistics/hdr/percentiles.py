"""Percentiles as integer ratios, and the search for the slots of many ranks in many histograms at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from telemetry.errors import UsageError
from telemetry.statistics.hdr.layout import PAGE_BITS, PAGE_SLOTS, Integers
from telemetry.statistics.hdr.pages import PagedCounts
from telemetry.statistics.hdr.sparse import BLOCK_PAGES


class SearchedCounts(Protocol):
    """The counts to search: all counts of a pool, or those of its window."""

    def page_sums(self) -> Integers: ...

    def counts_of(self, pages: Integers) -> Integers: ...


class PageIndex:
    """The cumulative counts over the pages of a pool, by row and page number.

    Valid until the next count is added.
    """

    def __init__(self, pool: PagedCounts, counts: SearchedCounts) -> None:
        self.counts = counts
        self.order = pool.order
        self.rows, self.numbers = pool.keys_of(self.order)
        self.sums = counts.page_sums()[self.order]
        self.cumulative = np.cumsum(self.sums)
        self.starts = np.searchsorted(self.rows, np.arange(pool.rows + 1))
        self.before = np.concatenate(([0], self.cumulative))[self.starts]

    def row_counts(self) -> Integers:
        """Return the count of every row."""
        totals: Integers = np.diff(self.before)
        return totals

    def pages_between(self, rows: NDArray[np.intp]) -> Integers:
        """Return the places in `order` of all pages of the given rows, in the order of the rows."""
        starts = self.starts[rows]
        lengths = self.starts[rows + 1] - starts
        ends = np.cumsum(lengths)
        places: Integers = np.repeat(starts - ends + lengths, lengths) + np.arange(ends[-1] if ends.size else 0)
        return places


class RankSlots(NamedTuple):
    """The result for each requested row and rank."""

    slots: Integers
    within: Integers
    """Rank within the slot, from 1."""
    counts: Integers
    """Count of the slot."""


def find_ranks(index: PageIndex, rows: NDArray[np.intp], ranks: Integers) -> RankSlots:
    """Return the slots that hold the given ranks.

    `ranks` has a line for each row, with ranks from 1 to the row's count.
    """
    targets = (ranks + index.before[rows][:, None]).reshape(-1)
    places = np.searchsorted(index.cumulative, targets)
    rests = targets - index.cumulative[places] + index.sums[places]
    pages = index.order[places]
    offsets, counts, before = np.empty_like(rests), np.empty_like(rests), np.empty_like(rests)
    for start in range(0, pages.size, BLOCK_PAGES):
        block = slice(start, start + BLOCK_PAGES)
        running = index.counts.counts_of(pages[block])
        np.cumsum(running, axis=1, out=running)
        offsets[block], counts[block], before[block] = _first_reaching(running, rests[block])
    slots = (index.numbers[places] << PAGE_BITS) + offsets
    shape = ranks.shape
    return RankSlots(slots.reshape(shape), (rests - before).reshape(shape), counts.reshape(shape))


def _first_reaching(running: Integers, rests: Integers) -> tuple[Integers, Integers, Integers]:
    """Return the first sum in each line of 256 running sums that reaches the rest: offset, own count, sum before.

    Halves each line eight times, all lines at once.
    """
    flat = running.reshape(-1)
    starts = np.arange(0, flat.size, PAGE_SLOTS)
    below = starts - 1
    for step in (128, 64, 32, 16, 8, 4, 2, 1):
        probes = below + step
        below = np.where(flat.take(probes) < rests, probes, below)
    before = np.where(below < starts, 0, flat.take(below, mode="clip"))
    return below + 1 - starts, flat.take(below + 1) - before, before


Ratio = tuple[int, int]

DECIMALS: Final = 7
"""Decimals of a percentile. The denominator stays within 10**9, so that `ranks` can't overflow int64."""
_DECIMAL: Final = re.compile(rf"(\d{{1,3}})(?:\.(\d{{1,{DECIMALS}}}))?", re.ASCII)


def parse_percentile(key: str) -> Ratio:
    """Parse a percentile: `"99.9"` → `(999, 1000)`. Raises UsageError unless it is a decimal with 0 < p <= 100."""
    match = _DECIMAL.fullmatch(key)
    if match is None:
        hint = f"write it like 50 or 99.9, with at most {DECIMALS} decimals"
        raise UsageError(f"percentile {key!r} is not a decimal number", hint=hint)
    whole, fraction = match[1], match[2] or ""
    numerator, denominator = int(whole + fraction), 100 * 10 ** len(fraction)
    if not 0 < numerator <= denominator:
        raise UsageError(f"percentile {key!r} is outside (0, 100]")
    return numerator, denominator


def rank(ratio: Ratio, count: int) -> int:
    """Return the rank `ceil(p * count)`, at least 1."""
    numerator, denominator = ratio
    return max(-(-numerator * count // denominator), 1)


def ranks(ratios: Sequence[Ratio], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the `rank` of every count (rows) and ratio (columns)."""
    numerators = np.array([ratio[0] for ratio in ratios], dtype=np.int64)
    denominators = np.array([ratio[1] for ratio in ratios], dtype=np.int64)
    wholes, rests = np.divmod(counts[:, None], denominators)
    result: NDArray[np.int64] = wholes * numerators - (-(rests * numerators) // denominators)
    return np.maximum(result, 1, out=result)
