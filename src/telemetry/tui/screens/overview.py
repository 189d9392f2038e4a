"""All series, counters and gauges of a run, and its last mark."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from telemetry.phrases import instrument
from telemetry.tui.keys import bindings
from telemetry.tui.model.grid import Line
from telemetry.tui.model.overview import overview, series_of, sort_keys
from telemetry.tui.model.plot import Plot
from telemetry.tui.model.plots import trend_plot
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.series import stat_of
from telemetry.tui.screens.base import Shown
from telemetry.tui.screens.filtering import FilteringScreen, FilterLine
from telemetry.tui.widgets.grid_view import GridView
from telemetry.tui.widgets.lines_view import HeaderView
from telemetry.tui.widgets.plot_view import PlotView

BESIDE_FROM: Final = 140
"""Columns from which counters and gauges stand beside the series if they have no room below: the series and
their trends take 90."""
BESIDE_COLUMNS: Final = 52
"""That counters and gauges take there."""
FRAME_LINES: Final = 9
"""At most, of a screen: header, tabs, the titles of both tables, a mark, the keys."""
PREVIEW_FROM: Final = 10
"""Lines to spare from which the course of the series under the cursor is drawn in them."""


class SeriesTable(GridView):
    """Its `enter` can be another key."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", show=False, id="open")]


class ValuesTable(GridView):
    """Nothing in it can be opened, so its cursor is seen only while it is moved."""

    CURSOR_RESTS = False


class OverviewScreen(FilteringScreen):
    PLACE = "overview"
    MAIN = "series"
    BINDINGS = bindings("overview")

    def body(self) -> ComposeResult:
        with Container(id="overview"):
            yield SeriesTable(id="series")
            yield ValuesTable(id="others")
            yield PlotView(id="preview")
        yield HeaderView(id="marks")
        yield FilterLine()

    @property
    def cursor(self) -> str | None:
        """Key of the row of the table of series that the keyboard acts on."""
        return self.query_one("#series", SeriesTable).cursor

    def open(self) -> None:
        self.query_one("#series", SeriesTable).action_open()

    def next_pane(self) -> None:
        """The keyboard goes to the other table."""
        series, others = self.query_one("#series", GridView), self.query_one("#others", GridView)
        (others if series.has_focus else series).focus()

    def on_grid_view_moved(self) -> None:
        if self.query_one("#preview", PlotView).display:
            self.post_message(self.Wanted())

    def sort_keys(self, scene: Scene, view: View) -> tuple[str, ...]:
        """Of the columns that have room: nobody sees what others are sorted by."""
        seen = self.query_one("#series", GridView).columns_shown
        return tuple(key for key in sort_keys(scene, view) if not key or key in seen)

    def draw_body(self, shown: Shown) -> Line:
        width, found = self.size.width, overview(shown.scene, shown.view, self.size.width)
        spare = self.size.height - FRAME_LINES - len(found.series.rows) - len(found.others.rows)
        beside = width >= BESIDE_FROM and spare < 0
        self.set_class(beside, "-beside")
        self.set_class(spare >= 0, "-roomy")
        if beside:
            found = overview(shown.scene, shown.view, width - BESIDE_COLUMNS)
        self.query_one("#series", GridView).show(found.series)
        others = self.query_one("#others", GridView)
        others.display = bool(found.others.rows)
        others.show(found.others)
        self.query_one("#marks", HeaderView).show(found.marks[-1:])
        plot = self.query_one("#preview", PlotView)
        plot.display = spare >= PREVIEW_FROM
        if plot.display:
            plot.show(self._preview(shown))
        return found.caption

    def _preview(self, shown: Shown) -> Plot:
        """The last minute of the series under the cursor."""
        series = series_of(shown.scene, self.cursor) if self.cursor is not None else None
        stat = stat_of(shown.scene.snapshot, series) if series is not None else None
        if series is None or stat is None:
            return Plot(empty="")
        plot = trend_plot(shown.scene, series, stat.unit, shown.view.units)
        return replace(plot, title=f"{instrument(stat.name, stat.labels)}: {plot.title}")
