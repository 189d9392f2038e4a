"""Cells: the fixed edges of display histograms."""

from __future__ import annotations

from telemetry.wire import cells


def test_first_edges_are_those_of_the_document() -> None:
    """Four cells to each doubling, exact below four."""
    assert [cells.edge(index) for index in range(17)] == [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32]


def test_every_edge_opens_its_own_cell() -> None:
    """The tick below an edge still belongs to the cell before."""
    for index in range(1, cells.CELLS):
        assert cells.cell(cells.edge(index)) == index
        assert cells.cell(cells.edge(index) - 1) == index - 1


def test_cells_reach_the_largest_exact_integer() -> None:
    """The last cell holds the largest tick a float64 counts exactly."""
    assert cells.cell((1 << 53) - 1) == cells.CELLS - 1
    assert cells.edge(cells.CELLS) == 1 << 53


def test_a_cell_is_never_wider_than_a_quarter_of_its_lower_edge() -> None:
    """The relative width is bounded, so the picture is as fine for seconds as for microseconds."""
    for index in range(cells.PER_DOUBLING, cells.CELLS):
        assert cells.edge(index + 1) - cells.edge(index) <= cells.edge(index) / 4
