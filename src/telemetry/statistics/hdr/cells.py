"""Display cells of `telemetry.wire.cells`, for many slots and many histograms at once."""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.statistics.hdr.layout import (
    EXPONENT_BIAS,
    MANTISSA_BITS,
    PAGE_BITS,
    PAGE_SLOTS,
    TICK_BITS,
    Integers,
    Layout,
)
from telemetry.statistics.hdr.percentiles import PageIndex
from telemetry.wire.cells import CELLS, PER_DOUBLING

_PER_DOUBLING_BITS: Final = PER_DOUBLING.bit_length() - 1
_LAST_TICK: Final = (1 << TICK_BITS) - 1
_SPREAD: Final = -1


def cells_of(ticks: Integers) -> Integers:
    """Return the cells of tick counts in [0, 2**53)."""
    exponents = (ticks.astype(np.float64).view(np.int64) >> MANTISSA_BITS) - EXPONENT_BIAS
    shifts = np.maximum(exponents - _PER_DOUBLING_BITS, 0)
    cells: Integers = (ticks >> shifts) + PER_DOUBLING * shifts
    return cells


class RowCells(NamedTuple):
    """The occupied cells by ascending row and cell; requested row i has `starts[i]:starts[i + 1]`."""

    starts: Integers
    cells: Integers
    counts: Integers


def count_cells(index: PageIndex, layout: Layout, rows: NDArray[np.intp], scales: NDArray[np.float64]) -> RowCells:
    """Return the display histograms of some rows. `scales` has the cell ticks in one tick of each row.

    A page whose slots share one cell is counted by its sum; only other pages are read slot by slot.
    """
    places = index.pages_between(rows)
    lines = np.repeat(np.arange(rows.size), _lengths(index, rows))
    occupied = index.sums[places] > 0
    places, lines = places[occupied], lines[occupied]
    numbers = index.numbers[places]
    cells = np.where(scales[lines] == 1.0, _page_cells(layout)[numbers], _SPREAD)
    spread = np.flatnonzero(cells == _SPREAD)
    keys = lines * CELLS + cells
    counts = index.sums[places]
    if spread.size:
        found_lines, found_cells, found_counts = _spread_pages(index, layout, places[spread], lines[spread], scales)
        kept = cells != _SPREAD
        keys = np.concatenate((found_lines * CELLS + found_cells, keys[kept]))
        counts = np.concatenate((found_counts, counts[kept]))
        order = np.argsort(keys, kind="stable")
        keys, counts = keys[order], counts[order]
    return _merge(keys, counts, rows.size)


def _lengths(index: PageIndex, rows: NDArray[np.intp]) -> Integers:
    lengths: Integers = index.starts[rows + 1] - index.starts[rows]
    return lengths


@cache
def _page_cells(layout: Layout) -> Integers:
    """Return the display cell of each page, or _SPREAD if the page covers more than one."""
    firsts = np.arange(layout.pages, dtype=np.int64) << PAGE_BITS
    lasts = np.minimum(firsts + PAGE_SLOTS, layout.slots) - 1
    first_cells = cells_of(layout.lowest_of(firsts))
    last_cells = cells_of(layout.highest_of(lasts))
    return np.where(first_cells == last_cells, first_cells, _SPREAD)


def _spread_pages(
    index: PageIndex, layout: Layout, places: Integers, lines: Integers, scales: NDArray[np.float64]
) -> tuple[Integers, Integers, Integers]:
    """Return (line, cell, count) of each non-empty slot of pages that cover more than one cell.

    A slot counts in the cell of its lowest tick.
    """
    counts = index.counts.counts_of(index.order[places]).reshape(-1)
    positions = np.flatnonzero(counts != 0)
    owners = positions >> PAGE_BITS
    slots = (index.numbers[places[owners]] << PAGE_BITS) + (positions & (PAGE_SLOTS - 1))
    slot_lines = lines[owners]
    ticks = np.minimum(layout.lowest_of(slots) * scales[slot_lines], float(_LAST_TICK)).astype(np.int64)
    return slot_lines, cells_of(ticks), counts[positions]


def _merge(keys: Integers, counts: Integers, rows: int) -> RowCells:
    """Add up neighbours with the same key."""
    new = np.ones(keys.size, dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=new[1:])
    firsts = np.flatnonzero(new)
    sums = np.add.reduceat(counts, firsts) if firsts.size else counts
    lines, cells = np.divmod(keys[firsts], CELLS)
    return RowCells(np.searchsorted(lines, np.arange(rows + 1)), cells, sums)
