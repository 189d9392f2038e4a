"""The overview: series, counters and gauges of a run, the state of its backends, and its last mark."""

from __future__ import annotations

from typing import Final

from textual.app import ComposeResult
from textual.containers import Container

from telemetry.tui.keys import bindings
from telemetry.tui.model.grid import Line
from telemetry.tui.model.overview import overview, resized, sort_keys
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.screens.base import ScreenContent
from telemetry.tui.screens.filter import FilterLine
from telemetry.tui.screens.tables import SeriesTable, TablesScreen, ValuesTable
from telemetry.tui.widgets.grid_view import GridView
from telemetry.tui.widgets.lines_view import HeaderView
from telemetry.tui.widgets.plot_view import PlotView

BESIDE_FROM: Final = 140
"""Columns of the screen from which counters and gauges move beside the series if they do not fit below.

The series with their trends take 90.
"""
BESIDE_COLUMNS: Final = 52
"""Columns of counters and gauges beside the series."""
FRAME_LINES: Final = 9
"""Lines of the frame at most: header, tabs, the titles of both tables, a mark, the keys."""


class OverviewScreen(TablesScreen):
    PLACE = "overview"
    MAIN = "series"
    OTHERS = "others"
    BINDINGS = bindings("overview")

    def body(self) -> ComposeResult:
        with Container(id="overview"):
            yield SeriesTable(id="series")
            yield ValuesTable(id="others")
            yield PlotView(id="preview")
        yield HeaderView(id="marks")
        yield FilterLine()

    def sort_keys(self, scene: Scene, view: View) -> tuple[str, ...]:
        """Return the sort keys of visible columns: users can not see the order of hidden ones."""
        seen = self.query_one("#series", GridView).columns_shown
        return tuple(key for key in sort_keys(scene, view) if not key or key in seen)

    def draw_body(self, shown: ScreenContent) -> Line:
        width, found = self.size.width, overview(shown.scene, shown.view, self.size.width)
        frame = FRAME_LINES + bool(found.backends) + bool(found.spans)
        spare = self.size.height - frame - len(found.series.rows) - len(found.others.rows)
        beside = width >= BESIDE_FROM and spare < 0
        self.set_class(beside, "-beside")
        self.set_class(spare >= 0, "-roomy")
        lines = (*(line for line in (found.spans, found.backends) if line), *found.marks[-1:])
        if beside:
            found = resized(found, shown.scene, shown.view, width - BESIDE_COLUMNS)
        self.query_one("#series", GridView).show(found.series)
        others = self.query_one("#others", GridView)
        others.display = bool(found.others.rows)
        others.show(found.others)
        self.query_one("#marks", HeaderView).show(lines)
        self.draw_preview(shown, spare)
        return found.caption
