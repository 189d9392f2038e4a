"""The window that follows the settlements of a pool."""

from __future__ import annotations

import numpy as np

from telemetry.histogram.layout import PAGE_SLOTS, Layout
from telemetry.histogram.pages import PagedCounts
from telemetry.histogram.window import WindowCounts


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
    """Nothing settled, nothing in the window."""
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
