"""The window that follows the settlements of a pool."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.statistics.hdr.layout import PAGE_SLOTS, Layout
from telemetry.statistics.hdr.pages import PagedCounts, WindowCounts


def pool_of(rows: int) -> PagedCounts:
    pool = PagedCounts(Layout.of(3))
    for row in range(rows):
        assert pool.add_row() == row
    return pool


def test_window_holds_the_last_intervals() -> None:
    """The window is the sum of the last settlements, also on pages that are new or gone quiet."""
    pool = pool_of(2)
    window = WindowCounts(pool, 2)
    generator = np.random.default_rng(2)
    history = []
    for step in range(6):
        slots = generator.integers(step * 300, step * 300 + 400, 200)
        rows = generator.integers(0, 2, 200)
        history.append((rows.copy(), slots.copy()))
        pool.add(rows, slots)
        window.push(pool.settle())
        for row in range(2):
            expected = np.zeros(pool.layout.slots, dtype=np.int64)
            for past_rows, past_slots in history[-2:]:
                np.add.at(expected, past_slots[past_rows == row], 1)
            rows_of, numbers = pool.keys_of(pool.order)
            mine = rows_of == row
            found = np.zeros((pool.layout.pages, PAGE_SLOTS), dtype=np.int64)
            found[numbers[mine]] = window.counts_of(pool.order[mine])
            assert np.array_equal(found.reshape(-1), expected)
            assert int(window.page_sums()[pool.order[mine]].sum()) == int(expected.sum())


def test_window_of_an_empty_pool_is_empty() -> None:
    """A window of an empty pool has no counts, because nothing has been settled."""
    pool = pool_of(1)
    window = WindowCounts(pool, 1)
    window.push(pool.settle())
    assert not window.page_sums().any()


def test_window_survives_totals_beyond_32_bits() -> None:
    """The past is kept modulo 2**32; the window stays right when a slot's total passes that."""
    pool = pool_of(1)
    window = WindowCounts(pool, 1)
    pool.add(np.zeros(1, dtype=np.intp), np.array([5]))
    window.push(pool.settle())
    pool.settled[1, 5] += (1 << 33) - 1
    pool.settled_sums[1] += (1 << 33) - 1
    window._past[1, 5] += np.uint32((1 << 32) - 1)
    window._past_sums[1] += (1 << 33) - 1
    for _ in range(3):
        pool.add(np.zeros(2, dtype=np.intp), np.array([5, 5]))
        window.push(pool.settle())
        assert window.counts_of(np.array([1]))[0, 5] == 2
        assert window.page_sums()[1] == 2


def test_a_restored_window_moves_on_as_the_other() -> None:
    """The past is worked out from what was settled and what is kept, also where a total passed 32 bits."""
    pool = pool_of(1)
    window = WindowCounts(pool, 2)
    generator = np.random.default_rng(4)
    for step in range(5):
        pool.add(np.zeros(900, dtype=np.intp), generator.integers(0, 300 * (step + 1), 900))
        window.push(pool.settle())
    pool.settled[1, 5] += 1 << 33
    pool.settled_sums[1] += 1 << 33
    window._past_sums[1] += 1 << 33
    other_pool = pool_of(1)
    other_pool.contents = pool.contents
    other = WindowCounts(other_pool, 2)
    other._kept.extend(window._kept)
    other.restored()
    for _ in range(4):
        pages = pool.order
        assert np.array_equal(other.counts_of(pages), window.counts_of(pages))
        assert np.array_equal(other.page_sums(), window.page_sums())
        slots = generator.integers(0, 3_000, 50)
        for one, counts in ((pool, window), (other_pool, other)):
            one.add(np.zeros(50, dtype=np.intp), slots.copy())
            counts.push(one.settle())


@pytest.mark.parametrize("intervals", [1, 3])
def test_a_window_of_other_counts_is_refused(intervals: int) -> None:
    """More intervals than it holds, or more in them than was ever counted."""
    pool = pool_of(1)
    window = WindowCounts(pool, intervals)
    pool.add(np.zeros(4, dtype=np.intp), np.arange(4))
    settled = pool.settle()
    window._kept.extend([settled, settled])
    with pytest.raises(ValueError, match="window"):
        window.restored()
