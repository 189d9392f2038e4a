"""Rows of many groups come out as they went in, with the clocks of the producers they are of."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from telemetry.aggregator.batch_rows import BatchGroup, KindRows, PendingRows, RowRange, slot_of
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.producers.book import ProducerBook
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.rows import INDEX_BITS, KIND_CODES, Routes, Rows

NOW_NS = 10**18
COUNTER = KIND_CODES["counter"]


@pytest.fixture
def producer() -> Producer:
    found = ProducerBook(AggregatorConfig()).meet("p", 0)
    assert found is not None
    return found


def group(row_ranges: list[RowRange], routes: list[int]) -> BatchGroup:
    """Each row has its place as value, and the hundredfold of it as time; the first one has none."""
    places = np.arange(len(routes))
    rows = Rows(places, (100 * places).astype(np.uint64), places.astype(np.float64))
    return BatchGroup(row_ranges, rows, np.array(routes, np.intp))


def add(pending: PendingRows, rows: BatchGroup, now_ns: int, at: list[int] | None = None) -> None:
    """Rows of the group, or all of them, which are of counters."""
    part = KindRows(rows.routes, rows.rows.values, rows, None, now_ns)
    pending.add(COUNTER, part, np.arange(len(rows)) if at is None else np.array(at))


def test_slots_tell_instruments_apart() -> None:
    """Slots of instruments all differ and are small. Routes of a second kind are beyond 16 million."""
    slots = [slot_of(kind, index) for kind in KIND_CODES.values() for index in (0, 1, (1 << INDEX_BITS) - 1)]
    assert len(set(slots)) == len(slots)
    assert slots[:2] == [0, 4]
    assert slots[3] == 1
    assert min(slots) >= 0


def test_rows_of_several_groups_and_lots(producer: Producer) -> None:
    """A row uses the clock of its lot. A row without a time gets the time of its batch, or the current time."""
    pending = PendingRows()
    first = [RowRange(producer, (0, 1_000), 2), RowRange(producer, (100, 5_000), 3)]
    add(pending, group(first, [7, 8, 9, 7, 8]), NOW_NS)
    add(pending, group([RowRange(producer, (0, 0), 2)], [8, 9]), NOW_NS + 1)
    assert pending.rows == 7
    rows = pending.columns()
    assert rows.slots.tolist() == [slot_of(COUNTER, index) for index in (7, 8, 9, 7, 8, 8, 9)]
    assert rows.values.tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert rows.wall_times.tolist() == [1_000, 1_100, 5_100, 5_200, 5_300, NOW_NS + 1, 100]
    assert rows.part_ends == [5, 7]


def test_rows_of_some_lots_only(producer: Producer) -> None:
    """A lot of which nothing is kept lends its clock to nobody."""
    pending = PendingRows()
    row_ranges = [
        RowRange(producer, (0, 1_000), 2),
        RowRange(producer, (0, 5_000), 2),
        RowRange(producer, (0, 9_000), 1),
    ]
    add(pending, group(row_ranges, [7, 8, 9, 7, 8]), NOW_NS, at=[1, 4])
    rows = pending.columns()
    assert rows.slots.tolist() == [slot_of(COUNTER, 8)] * 2
    assert rows.wall_times.tolist() == [1_100, 9_400]
    assert rows.part_ends == [2]


def test_what_is_kept_is_as_large_as_its_rows(producer: Producer) -> None:
    """Rows that wait take as much memory as they need, and lots without rows take none.

    A group may have thousands of such lots.
    """
    pending = PendingRows()
    many = group([RowRange(producer, (0, number), 1) for number in range(2_000)], [7] * 2_000)
    add(pending, many, NOW_NS, at=[5])
    tracemalloc.start()
    try:
        for _ in range(100):
            add(pending, many, NOW_NS, at=[5])
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert pending.rows == 101
    assert grown < 100 * 2_000


def test_rows_of_a_part_are_those_of_its_group(producer: Producer) -> None:
    """A part has some rows of a group, of which some are kept: times and clocks are theirs."""
    rows = group([RowRange(producer, (0, 50), 2), RowRange(producer, (0, 70), 4)], [1, 2, 3, 1, 2, 3])
    of_kind = np.array([0, 2, 5])
    part = KindRows(rows.routes[of_kind], rows.rows.values[of_kind], rows, of_kind, NOW_NS)
    pending = PendingRows()
    pending.add(COUNTER, part, np.array([1, 2]))
    found = pending.columns()
    assert found.slots.tolist() == [slot_of(COUNTER, 3)] * 2
    assert found.values.tolist() == [2, 5]
    assert found.wall_times.tolist() == [270, 570]


@pytest.mark.parametrize("cut", range(1, 6))
def test_where_groups_end_changes_no_row(producer: Producer, cut: int) -> None:
    """The same rows in one group or in two."""
    routes: Routes = np.array([1, 2, 3, 1, 2, 3], np.intp)
    row_ranges = [RowRange(producer, (0, 50), cut), RowRange(producer, (0, 70), 6 - cut)]
    whole, halves = PendingRows(), PendingRows()
    add(whole, group(row_ranges, routes.tolist()), NOW_NS)
    rows = group(row_ranges, routes.tolist()).rows
    for row_range, part in zip(row_ranges, (slice(0, cut), slice(cut, 6)), strict=True):
        add(halves, BatchGroup([row_range], Rows(*(column[part] for column in rows)), routes[part]), NOW_NS)
    expected, found = whole.columns(), halves.columns()
    assert found.values.tolist() == expected.values.tolist()
    assert found.wall_times.tolist() == expected.wall_times.tolist()
    assert found.slots.tolist() == expected.slots.tolist()
