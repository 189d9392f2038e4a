"""Screens with a table of series to open, a second table, and a plot of the selected series."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from textual.binding import Binding, BindingType

from telemetry.common.wording import instrument
from telemetry.tui.model.overview import series_of
from telemetry.tui.model.plot import Plot
from telemetry.tui.model.series import stat_of
from telemetry.tui.model.series_plots import trend_plot
from telemetry.tui.screens.base import ScreenContent
from telemetry.tui.screens.filter import FilteringScreen
from telemetry.tui.widgets.grid_view import GridView
from telemetry.tui.widgets.plot_view import PlotView

PREVIEW_FROM: Final = 10
"""Spare lines from which the plot of the selected series is shown."""


class SeriesTable(GridView):
    """A table of series whose `enter` can be configured."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", show=False, id="open")]


class ValuesTable(GridView):
    """A table without rows to open, so its cursor is visible only while it has focus."""

    CURSOR_RESTS = False


class OthersTable(SeriesTable):
    """A second table whose rows can be opened. Its cursor is visible only while it has focus."""

    CURSOR_RESTS = False


class TablesScreen(FilteringScreen):
    """A screen with two tables. MAIN is a SeriesTable. The plot `#preview` needs PREVIEW_FROM spare lines."""

    OTHERS: ClassVar[str]
    """Id of the other table."""

    @property
    def cursor(self) -> str | None:
        """Key of the selected row in the table of series."""
        return self.query_one(f"#{self.MAIN}", SeriesTable).cursor

    def open(self) -> None:
        """Open the selected row of the table with focus, or of the table of series."""
        table = (
            self.focused if isinstance(self.focused, SeriesTable) else self.query_one(f"#{self.MAIN}", SeriesTable)
        )
        table.action_open()

    def next_pane(self) -> None:
        """Give focus to the other table."""
        series, others = self.query_one(f"#{self.MAIN}"), self.query_one(f"#{self.OTHERS}")
        (others if series.has_focus else series).focus()

    def on_grid_view_moved(self) -> None:
        if self.query_one("#preview", PlotView).display:
            self.post_message(self.Wanted())

    def draw_preview(self, shown: ScreenContent, spare: int) -> None:
        """Draw the last minute of the selected series. `spare` is the number of lines left by the tables."""
        plot = self.query_one("#preview", PlotView)
        plot.display = spare >= PREVIEW_FROM
        if plot.display:
            plot.show(self._preview(shown))

    def _preview(self, shown: ScreenContent) -> Plot:
        series = series_of(shown.scene, self.cursor) if self.cursor is not None else None
        stat = stat_of(shown.scene.snapshot, series) if series is not None else None
        if series is None or stat is None:
            return Plot(empty="")
        plot = trend_plot(shown.scene, series, stat.unit, shown.view.units)
        return replace(plot, title=f"{instrument(stat.name, stat.labels)}: {plot.title}")
