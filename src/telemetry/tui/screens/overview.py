"""The overview: series, counters and gauges of a run, the state of its backends, and its last mark."""

from __future__ import annotations

from typing import Final

from textual.app import ComposeResult
from textual.containers import Container

from telemetry.tui.keys import bindings
from telemetry.tui.model.grid import Line
from telemetry.tui.model.overview import machine_line, overview, resized, sort_keys
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.tiles import tiles
from telemetry.tui.screens.base import FilterLine, OthersTable, ScreenContent, SeriesTable, TablesScreen
from telemetry.tui.widgets.grid_view import GridView
from telemetry.tui.widgets.lines_view import HeaderView
from telemetry.tui.widgets.plot_view import PlotView

BESIDE_FROM: Final = 140
"""Columns of the screen from which counters and gauges move beside the series if they do not fit below.

The series with their trends take 90.
"""
BESIDE_COLUMNS: Final = 52
"""Columns of counters and gauges beside the series."""
OTHERS_SHARE: Final = 4
"""Counters and gauges get at least one in this many lines of the screen."""
FRAME_LINES: Final = 9
"""Lines of the frame at most: header, tabs, the titles of both tables, a mark, the keys."""


class OverviewScreen(TablesScreen):
    PLACE = "overview"
    MAIN = "series"
    OTHERS = "others"
    BINDINGS = bindings("overview")

    def body(self) -> ComposeResult:
        yield HeaderView(id="tiles")
        with Container(id="overview"):
            yield SeriesTable(id="series")
            yield OthersTable(id="others")
            yield PlotView(id="preview")
        yield HeaderView(id="marks")
        yield FilterLine()

    def sort_keys(self, scene: Scene, view: View) -> tuple[str, ...]:
        """Return the sort keys of visible columns: users can not see the order of hidden ones."""
        seen = self.query_one("#series", GridView).columns_shown
        return tuple(key for key in sort_keys(scene, view) if not key or key in seen)

    def draw_body(self, shown: ScreenContent) -> Line:
        width, content = self.size.width, overview(shown.scene, shown.view, self.size.width)
        machine = machine_line(shown.scene, shown.view, width - 2)
        headline = tiles(shown.scene, shown.view, width - 2, self.size.height)
        self.query_one("#tiles", HeaderView).show(headline, shown.now_ns)
        bottom = tuple(line for line in (machine, content.spans, content.backends) if line)
        frame = FRAME_LINES + len(headline) + len(bottom)
        spare = self.size.height - frame - len(content.series.rows) - len(content.others.rows)
        beside = width >= BESIDE_FROM and spare < 0
        self.set_class(beside, "-beside")
        self.set_class(spare >= 0, "-roomy")
        if beside:
            content = resized(content, shown.scene, shown.view, width - BESIDE_COLUMNS)
        self.query_one("#series", GridView).show(content.series, shown.now_ns)
        others = self.query_one("#others", GridView)
        others.display = bool(content.others.rows)
        # What the series do not need belongs to the others.
        left = self.size.height - frame + 1 - len(content.series.rows)
        others.styles.max_height = "100%" if beside or spare >= 0 else max(left, self.size.height // OTHERS_SHARE)
        others.show(content.others, shown.now_ns)
        self.query_one("#marks", HeaderView).show((*bottom, *content.marks[-1:]))
        self.draw_preview(shown, spare)
        return content.caption
