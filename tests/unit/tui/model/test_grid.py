"""Grids and lines are values."""

from __future__ import annotations

from telemetry.tui.model.grid import Cell, Column, Grid, Row


def test_equal_contents_are_equal_grids() -> None:
    """Grids of equal contents are equal, so a widget sees that there is nothing to draw anew."""

    def grid(text: str) -> Grid:
        return Grid((Column("name", "series"),), (Row("a", Cell(text)),))

    assert grid("1") == grid("1")
    assert grid("1") != grid("2")
    assert hash(grid("1")) == hash(grid("1"))
