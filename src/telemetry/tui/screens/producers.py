"""The producers: their rates, lags and losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from telemetry.tui.keys import bindings
from telemetry.tui.model.grid import Grid, Line, Row, elided, width_of
from telemetry.tui.model.producers import producers, sort_keys, total
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.screens.base import FilteringScreen, FilterLine, ScreenContent
from telemetry.tui.widgets.grid_view import GridView
from telemetry.tui.widgets.lines_view import HeaderView

NOTE: Final = "note"
"""Key of the column of notes on producers."""
NUMBERS_COLUMNS: Final = 60
"""Columns of the numbers. Notes are cut before a number is left out."""
LEAST_NOTE: Final = 20


class NodesTable(GridView):
    """A table of nodes and producers whose `enter` can be configured."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", show=False, id="open")]


class ProducersScreen(FilteringScreen):
    """A table of producers and nodes. Below it is the full note of the selected row if it was cut."""

    PLACE = "producers"
    MAIN = "producers"
    BINDINGS = bindings("producers")

    def body(self) -> ComposeResult:
        yield NodesTable(id="producers")
        yield HeaderView(id="total")
        yield FilterLine()

    @property
    def cursor(self) -> str | None:
        """Key of the selected row."""
        return self.query_one("#producers", NodesTable).cursor

    def open(self) -> None:
        self.query_one("#producers", NodesTable).action_open()

    def sort_keys(self, scene: Scene, view: View) -> tuple[str, ...]:
        """Return the sort keys of visible columns: users can not see the order of hidden ones."""
        seen = self.query_one("#producers", NodesTable).columns_shown
        return tuple(key for key in sort_keys(scene) if not key or key in seen)

    def on_grid_view_moved(self) -> None:
        self.post_message(self.Wanted())

    def draw_body(self, shown: ScreenContent) -> Line:
        width, table = self.size.width - 2, self.query_one("#producers", NodesTable)
        grid = producers(shown.scene, shown.view)
        most = max(LEAST_NOTE, width - NUMBERS_COLUMNS)
        table.show(cut_notes(grid, most), shown.now_ns)
        note = next((notes(grid, row) for row in grid.rows if row.key == table.cursor), ())
        long = note if width_of(note) > most else ()
        lines = (long, total(shown.scene, shown.view, width))
        self.query_one("#total", HeaderView).show(tuple(line for line in lines if line))
        return ()


def notes(grid: Grid, row: Row) -> Line:
    """Return the note on this producer."""
    return tuple(cell for cell, column in zip(row.cells, grid.columns, strict=True) if column.key == NOTE)


def cut_notes(grid: Grid, most: int) -> Grid:
    """Return the grid with notes cut to at most this many columns."""
    places = [index - 1 for index, column in enumerate(grid.columns) if column.key == NOTE]
    rows = (Row(row.key, row.name, partial(_cut, row, places, most)) for row in grid.rows)
    return replace(grid, rows=tuple(rows))


def _cut(row: Row, places: Sequence[int], most: int) -> Line:
    """Return the cells beside the name. Called for visible rows only."""
    cells = list(row.cells[1:])
    for index in places:
        cells[index] = replace(cells[index], text=elided(cells[index].text, most))
    return tuple(cells)
