"""Requests of every kind: their counts by state, their failure reasons, and their durations."""

from __future__ import annotations

from typing import Final

from textual.app import ComposeResult
from textual.containers import Container

from telemetry.tui.keys import bindings
from telemetry.tui.model.grid import Line
from telemetry.tui.model.requests import requests
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.screens.base import FilterLine, ScreenContent, SeriesTable, TablesScreen, ValuesTable
from telemetry.tui.widgets.plot_view import PlotView

FRAME_LINES: Final = 8
"""Lines of the frame at most: header, tabs, the titles of both tables and a line between them, the keys."""


class RequestsScreen(TablesScreen):
    """Two tables. The upper one has counts and takes at most half of the screen.

    The lower one has series to open.
    """

    PLACE = "requests"
    MAIN = "durations"
    OTHERS = "funnels"
    AUTO_FOCUS = "SeriesTable"
    BINDINGS = bindings("requests")

    def body(self) -> ComposeResult:
        with Container(id="requests"):
            yield ValuesTable(id="funnels")
            yield SeriesTable(id="durations")
            yield PlotView(id="preview")
        yield FilterLine()

    def sort_keys(self, scene: Scene, view: View) -> tuple[str, ...]:
        """Return no keys: rows have different units and meanings, and a fixed order."""
        return ()

    def draw_body(self, shown: ScreenContent) -> Line:
        content = requests(shown.scene, shown.view, self.size.width)
        spare = self.size.height - FRAME_LINES - len(content.request_counts.rows) - len(content.series.rows)
        self.set_class(spare >= 0, "-roomy")
        request_counts = self.query_one("#funnels", ValuesTable)
        request_counts.display = bool(content.request_counts.rows)
        request_counts.show(content.request_counts, shown.now_ns)
        self.query_one("#durations", SeriesTable).show(content.series, shown.now_ns)
        self.draw_preview(shown, spare)
        return content.caption
