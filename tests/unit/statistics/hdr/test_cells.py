"""Display cells against their definition on the wire."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.statistics.hdr.cells import cells_of, count_cells
from telemetry.statistics.hdr.layout import Layout
from telemetry.statistics.hdr.pages import PagedCounts
from telemetry.statistics.hdr.percentiles import PageIndex
from telemetry.wire.cells import CELLS, cell, edge

EDGES = sorted({0, (1 << 53) - 1} | {(1 << bit) + step for bit in range(53) for step in (-1, 0, 1)} - {-1})


def test_cells_are_those_of_the_wire() -> None:
    """Around each power of two and each edge, the cell is the one the wire defines."""
    ticks = sorted(
        {*EDGES, *(edge(index) for index in range(CELLS)), *(edge(index) - 1 for index in range(1, CELLS))}
    )
    assert cells_of(np.array(ticks, dtype=np.int64)).tolist() == [cell(tick) for tick in ticks]


@pytest.mark.parametrize("digits", range(1, 6))
def test_each_slot_counts_in_the_cell_of_its_lowest_tick(digits: int) -> None:
    """All precisions give the histogram that one value at a time would give."""
    layout = Layout.of(digits)
    pool = PagedCounts(layout)
    generator = np.random.default_rng(digits)
    ticks = generator.lognormal(7.0, 3.0, (4, 500)).astype(np.int64)
    expected = []
    for row in range(4):
        pool.add_row()
        slots = layout.slot_of(ticks[row])
        lowest = layout.lowest_of(slots).tolist()
        found, counts = np.unique([cell(tick) for tick in lowest], return_counts=True)
        expected.append(list(zip(found.tolist(), counts.tolist(), strict=True)))
        pool.add(np.full(500, row), slots)
    rows = np.array([3, 0, 2])
    result = count_cells(PageIndex(pool, pool), layout, rows, np.ones(3))
    pairs = list(zip(result.cells.tolist(), result.counts.tolist(), strict=True))
    spans = [pairs[start:end] for start, end in zip(result.starts[:-1], result.starts[1:], strict=True)]
    assert spans == [expected[row] for row in rows]


def test_a_row_with_its_own_tick_is_scaled_to_cell_ticks() -> None:
    """A slot of a coarser histogram falls into the cell of its lowest value in cell ticks."""
    layout = Layout.of(3)
    pool = PagedCounts(layout)
    pool.add_row()
    pool.add(np.zeros(3, dtype=np.intp), np.array([0, 1, 5]))
    result = count_cells(PageIndex(pool, pool), layout, np.array([0]), np.array([1000.0]))
    assert result.cells.tolist() == [cell(0), cell(1000), cell(5000)]
    assert result.counts.tolist() == [1, 1, 1]
