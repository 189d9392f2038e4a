"""Spans: where the time goes."""

from __future__ import annotations

from textual.app import ComposeResult

from telemetry.common.formatting import number_of
from telemetry.tui.keys import bindings
from telemetry.tui.model.grid import Line, Piece, fitted
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.spans import spans_table
from telemetry.tui.model.visible_series import WHOLE_RUN
from telemetry.tui.screens.base import FilteringScreen, FilterLine, ScreenContent, SeriesTable


class SpansScreen(FilteringScreen):
    """A table of spans. `enter` opens the durations of the selected one."""

    PLACE = "spans"
    MAIN = "span-table"
    BINDINGS = bindings("spans")

    def body(self) -> ComposeResult:
        yield SeriesTable(id="span-table")
        yield FilterLine()

    def sort_keys(self, scene: Scene, view: View) -> tuple[str, ...]:
        """Return no keys: the largest self time is first."""
        return ()

    def open(self) -> None:
        self.query_one("#span-table", SeriesTable).action_open()

    def draw_body(self, shown: ScreenContent) -> Line:
        table = spans_table(shown.scene, shown.view, self.size.width)
        self.query_one("#span-table", SeriesTable).show(table, shown.now_ns)
        return fitted([Piece(WHOLE_RUN, "strong"), Piece(number_of(len(table.rows), "span"), keep=1)], 40)
