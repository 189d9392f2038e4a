"""Finding ranks in many histograms at once."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.statistics.hdr.layout import Layout
from telemetry.statistics.hdr.pages import PagedCounts
from telemetry.statistics.hdr.percentiles import PageIndex, find_ranks
from telemetry.statistics.hdr.sparse import BLOCK_PAGES


@pytest.mark.parametrize("digits", range(1, 6))
def test_every_rank_is_found_in_its_slot(digits: int) -> None:
    """`find_ranks` gives the slot, the rank within the slot and its count for each rank of each row."""
    layout = Layout.of(digits)
    pool = PagedCounts(layout)
    generator = np.random.default_rng(digits)
    rows, values = 7, 300
    slots = np.minimum(generator.lognormal(8.0, 2.0, (rows, values)).astype(np.int64), layout.slots - 1)
    for row in range(rows):
        pool.add_row()
        pool.add(np.full(values, row), slots[row].copy())
    ordered = np.sort(slots, axis=1)
    ranks = np.tile(np.arange(1, values + 1), (rows, 1))
    index = PageIndex(pool, pool)
    found = find_ranks(index, np.arange(rows), ranks)
    assert ranks.size > BLOCK_PAGES
    assert np.array_equal(found.slots, ordered)
    firsts = np.array([np.searchsorted(line, line) for line in ordered])
    assert np.array_equal(found.within, ranks - firsts)
    lasts = np.array([np.searchsorted(line, line, side="right") for line in ordered])
    assert np.array_equal(found.counts, lasts - firsts)
    assert index.row_counts().tolist() == [values] * rows


def test_rows_may_be_chosen_and_empty_rows_do_not_matter() -> None:
    """Ranks are looked up for the rows asked for, between rows that hold nothing."""
    pool = PagedCounts(Layout.of(3))
    for _ in range(5):
        pool.add_row()
    pool.add(np.array([3, 1, 3]), np.array([10, 20_000, 30_000]))
    found = find_ranks(PageIndex(pool, pool), np.array([1, 3]), np.array([[1, 1], [1, 2]]))
    assert found.slots.tolist() == [[20_000, 20_000], [10, 30_000]]


def test_no_rows_find_nothing() -> None:
    """An empty pool and an empty question are answered."""
    pool = PagedCounts(Layout.of(3))
    found = find_ranks(PageIndex(pool, pool), np.zeros(0, dtype=np.intp), np.zeros((0, 3), dtype=np.int64))
    assert found.slots.shape == (0, 3)
