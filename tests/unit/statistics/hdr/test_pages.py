"""The pool of pages, its settlements, and the window that follows them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from telemetry.statistics.hdr import pages as pages_module
from telemetry.statistics.hdr.layout import Layout
from telemetry.statistics.hdr.pages import PagedCounts, PoolCounts
from telemetry.statistics.hdr.sparse import BLOCK_PAGES, SparseCounts


def pool_of(rows: int, digits: int = 3) -> PagedCounts:
    pool = PagedCounts(Layout.of(digits))
    for row in range(rows):
        assert pool.add_row() == row
    return pool


def add(pool: PagedCounts, rows: list[int], slots: list[int]) -> None:
    pool.add(np.array(rows, dtype=np.intp), np.array(slots, dtype=np.int64))


def test_counts_add_up_before_and_after_a_settlement() -> None:
    """A count is the sum of what is fresh and what is settled."""
    pool = pool_of(2)
    add(pool, [0, 1, 0], [5, 5000, 5])
    pool.settle()
    add(pool, [0, 1], [5, 4999])
    assert pool.slot_counts(0)[5] == 3
    assert pool.slot_counts(1)[[4999, 5000]].tolist() == [1, 1]
    assert pool.row_counts().tolist() == [3, 2]


def test_pages_are_allocated_on_first_use_only() -> None:
    """Rows without values cost no page, and page 0 stays empty."""
    pool = pool_of(100)
    assert pool.used == 1
    add(pool, [3, 3, 99], [0, 255, 256])
    assert pool.used == 3
    assert not pool.fresh[0].any()


def test_settlement_is_sparse_and_in_order() -> None:
    """A settlement lists occupied slots by row and slot, whatever the order of allocation."""
    pool = pool_of(3)
    add(pool, [2, 0, 1], [700, 9000, 3])
    add(pool, [0, 0], [1, 1])
    sparse = pool.settle()
    rows, numbers = pool.keys_of(sparse.pages)
    slots = np.repeat(numbers * 256, sparse.occupied) + sparse.offsets
    assert np.repeat(rows, sparse.occupied).tolist() == [0, 0, 1, 2]
    assert slots.tolist() == [1, 9000, 3, 700]
    assert sparse.counts.tolist() == [2, 1, 1, 1]
    assert pool.settle().pages.size == 0


def test_settlement_of_many_blocks_keeps_every_count() -> None:
    """More pages than one block: all counts arrive, in the sparse form and in its blocks."""
    rows = BLOCK_PAGES + 10
    pool = pool_of(rows)
    generator = np.random.default_rng(1)
    chosen = np.concatenate((np.arange(rows), generator.integers(0, rows, 5_000)))
    slots = generator.integers(0, 512, chosen.size)
    expected = np.bincount(chosen, minlength=rows)
    pool.add(chosen, slots.copy())
    sparse = pool.settle()
    assert pool.row_counts().tolist() == expected.tolist()
    assert int(sparse.counts.sum()) == chosen.size
    assert int(sparse.page_sums().sum()) == chosen.size
    blocks = list(sparse.blocks())
    assert len(blocks) > 1
    assert np.array_equal(np.concatenate([block.places() for block in blocks]), sparse.places())


@pytest.mark.parametrize("repetitions", [1, 255, 256, 65_535, 65_536])
def test_counts_of_a_settlement_keep_their_size(repetitions: int) -> None:
    """Counts are stored in as few bytes as hold them, and no fewer."""
    pool = pool_of(1)
    add(pool, [0] * repetitions, [7] * repetitions)
    assert pool.settle().counts.tolist() == [repetitions]


def test_more_fresh_counts_than_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh count is 32 bits wide: the pool refuses events rather than wrap around."""
    monkeypatch.setattr(pages_module, "FRESH_LIMIT", 3)
    pool = pool_of(1)
    add(pool, [0, 0, 0], [1, 2, 3])
    with pytest.raises(OverflowError, match="settle"):
        add(pool, [0], [1])
    pool.settle()


def grown_pool() -> PagedCounts:
    """Pages allocated out of order, settled and fresh counts, some on the same pages; more than a block."""
    pool = pool_of(4)
    generator = np.random.default_rng(5)
    for slots in (30_000, 9_000, 45_000):
        pool.settle()
        pool.add(generator.integers(0, 4, 40_000), generator.integers(slots // 2, slots, 40_000))
    add(pool, [1] * 300, [7] * 300)
    return pool


def test_a_pool_that_is_given_the_contents_of_another_is_the_same() -> None:
    """Page by page in the same order, settled and fresh counts apart."""
    pool, other = grown_pool(), pool_of(4)
    other.contents = pool.contents
    assert other.used == pool.used > BLOCK_PAGES
    for row in range(4):
        assert np.array_equal(other.slot_counts(row), pool.slot_counts(row))
    assert np.array_equal(other.order, pool.order)
    for settled in (pool.settle(), pool.settle()):
        for ours, theirs in zip(settled, other.settle(), strict=True):
            assert np.array_equal(ours, theirs)
    add(pool, [2, 0], [1, 44_999])
    add(other, [2, 0], [1, 44_999])
    assert other.row_counts().tolist() == pool.row_counts().tolist()
    assert other.used == pool.used


def test_an_empty_pool_has_contents() -> None:
    """The contents of an empty pool are empty, and another pool accepts them."""
    other = pool_of(1)
    other.contents = pool_of(1).contents
    assert (other.used, other.row_counts().tolist()) == (1, [0])


def test_a_restored_pool_refuses_no_later_than_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events since the last settlement are counted on."""
    monkeypatch.setattr(pages_module, "FRESH_LIMIT", 5)
    pool, other = pool_of(1), pool_of(1)
    add(pool, [0] * 4, [0] * 4)
    other.contents = pool.contents
    with pytest.raises(OverflowError):
        add(other, [0] * 2, [0] * 2)


def _sparse(pages: list[int], occupied: list[int], offsets: list[int], counts: list[int]) -> SparseCounts:
    return SparseCounts(
        np.array(pages, np.int32),
        np.array(occupied, np.uint16),
        np.array(offsets, np.uint8),
        np.array(counts, np.uint64),
    )


NONE = _sparse([], [], [], [])
ONE = _sparse([1], [2], [3, 4], [5, 6])


@pytest.mark.parametrize(
    ("keys", "settled"),
    [
        ([7], NONE),  # a page without a count
        ([], ONE),  # counts without a page
        ([-1], ONE),
        ([10**6], ONE),
        ([7, 7], _sparse([1, 2], [1, 1], [3, 3], [5, 6])),
        ([7], _sparse([0], [1], [3], [5])),
        ([7], _sparse([1], [2], [3], [5])),
        ([7], _sparse([1], [1], [3], [5, 6])),
        ([7], _sparse([1], [2], [3, 3], [5, 6])),
        ([7], _sparse([1], [2], [4, 3], [5, 6])),
        ([7], _sparse([1, 1], [1, 1], [3, 4], [5, 6])),
        ([7], _sparse([1], [1], [3], [1 << 63])),
        ([7], _sparse([1, 2], [1], [3], [5])),
    ],
)
def test_contents_that_cant_be_are_refused(keys: list[int], settled: SparseCounts) -> None:
    """A pool refuses impossible contents, so that no count lands outside its page. No page is made in vain."""
    pool = pool_of(2)
    with pytest.raises(ValueError, match="no counts of this pool"):
        pool.contents = PoolCounts(np.array(keys, np.int64), NONE, settled)
    assert pool.used == 1


def columns(slots: list[int], counts: list[int]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    return np.array(slots, np.uint32), np.array(counts, np.uint32)


def test_counts_are_added_like_as_many_single_ones() -> None:
    """Counts are added in any order, on new and old pages, and twice in one slot.

    The result is the same as that of as many single counts.
    """
    weighted, single = pool_of(3), pool_of(3)
    rows, slots, counts = [0, 0, 0, 2, 2, 0], [3, 255, 256, 3, 44_999, 3], [2, 1, 4, 1, 3, 5]
    for _ in range(2):
        weighted.add_counts(np.array(rows, np.intp), *columns(slots, counts))
        add(single, np.repeat(rows, counts).tolist(), np.repeat(slots, counts).tolist())
    assert weighted.row_counts().tolist() == single.row_counts().tolist() == [24, 0, 8]
    for row in range(3):
        assert np.array_equal(weighted.slot_counts(row), single.slot_counts(row))
    assert weighted.room == single.room
    for ours, theirs in zip(weighted.settle(), single.settle(), strict=True):
        assert np.array_equal(ours, theirs)


def test_no_counts_change_nothing() -> None:
    """An interval may have no value."""
    pool = pool_of(1)
    pool.add_counts(np.zeros(0, np.intp), *columns([], []))
    assert pool.settle_counts(np.zeros(0, np.intp), *columns([], [])).pages.size == 0
    assert (pool.used, pool.row_counts().tolist()) == (1, [0])


def test_more_fresh_counts_than_32_bits_hold_are_refused() -> None:
    """The caller settles them at once instead."""
    pool = pool_of(1)
    most = columns([7], [(1 << 32) - 1])
    pool.add_counts(np.zeros(1, np.intp), *most)
    with pytest.raises(OverflowError):
        pool.add_counts(np.zeros(1, np.intp), *columns([7], [1]))


def test_counts_of_any_sum_can_be_settled_at_once() -> None:
    """`settle_counts` returns the counts as a settlement by row and slot."""
    pool = pool_of(2)
    most = (1 << 32) - 1
    first = pool.settle_counts(np.array([1, 1, 0], np.intp), *columns([300, 5, 5], [most, 1, 2]))
    second = pool.settle_counts(np.array([1, 1], np.intp), *columns([300, 300], [most, most]))
    assert first.fit(pool.used)
    joined = pool.join(first, second)
    assert joined.fit(pool.used)
    assert pool.join(SparseCounts(*(column[:0] for column in first)), second) is second
    assert joined.counts.tolist() == [2, 1, 3 * most]
    rows, numbers = pool.keys_of(joined.pages)
    assert (rows.tolist(), numbers.tolist(), joined.offsets.tolist()) == ([0, 1, 1], [0, 0, 1], [5, 5, 44])
    assert pool.row_counts().tolist() == [2, 1 + 3 * most]
    assert pool.room == (1 << 32) - 1
