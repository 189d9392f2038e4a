"""The common parts of all screens: header, tabs and keys, a filter, and tables with rows to open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Input

from telemetry import limits
from telemetry.common.wording import instrument
from telemetry.history.intervals.timeline import Timeline
from telemetry.tui.model.grid import BETWEEN, Cell, Line
from telemetry.tui.model.header import header
from telemetry.tui.model.overview import series_of
from telemetry.tui.model.plot import Plot
from telemetry.tui.model.scene import Opened, Scene, SeriesId, ValuesOverTime, View
from telemetry.tui.model.series import stat_of
from telemetry.tui.model.series_plots import trend_plot
from telemetry.tui.screens.bar import KeysLine, Shortcut, TabsLine
from telemetry.tui.widgets.grid_view import GridView
from telemetry.tui.widgets.lines_view import HeaderView
from telemetry.tui.widgets.plot_view import PlotView


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenContent:
    """The whole input of a screen."""

    scene: Scene
    view: View
    series: SeriesId | None = None
    """The open series."""
    timeline: Timeline | None = None
    opened: Opened | None = None
    """The open series or curve."""
    values: ValuesOverTime | None = None
    """History of the open counter or gauge."""
    frozen: bool = False
    now_ns: int = 0
    """Time on the monotonic clock."""
    tab: str = "overview"
    """The current tab, also while a series is open in it."""
    tab_keys: Mapping[str, str] = field(default_factory=dict)
    """Keys of the available tabs."""
    shortcuts: Sequence[Shortcut] = ()
    always: Sequence[Shortcut] = ()


class RunHeader(HeaderView):
    """The header. Its first piece, the state of the run, is drawn as a block."""

    def render_line(self, y: int) -> Strip:
        strip = super().render_line(y)
        if y or not strip:
            return strip
        badge, *rest = strip
        return Strip([Segment(badge.text, (badge.style or Style()) + _BLOCK), *rest], strip.cell_length)


_BLOCK: Final = Style(reverse=True, bold=True)
_MARGIN: Final = 1
"""Columns at the edges of the header."""


class CockpitScreen(Screen[None]):
    """A tab, or a screen opened from one."""

    PLACE: ClassVar[str]
    """One of `telemetry.tui.keys.PLACES`."""
    AUTO_FOCUS = "GridView, LinesView"

    class Wanted(Message):
        """A request to draw: the screen is empty or its size changed."""

    def compose(self) -> ComposeResult:
        yield RunHeader(id="header")
        yield TabsLine(id="tabs")
        yield from self.body()
        yield KeysLine(id="keys")

    def body(self) -> ComposeResult:
        raise NotImplementedError

    def draw(self, shown: ScreenContent) -> None:
        """Draw the whole state. Unchanged parts cost nothing."""
        width = self.size.width - 2 * _MARGIN
        self.query_one(RunHeader).show(header(shown.scene, shown.view, width))
        self.query_one(KeysLine).show(shown.shortcuts, shown.always)
        line = self.draw_body(shown)
        if shown.frozen:
            line = (Cell("frozen", "warn"), BETWEEN, *line) if line else (Cell("frozen", "warn"),)
        self.query_one(TabsLine).show(shown.tab, shown.tab_keys, line)

    def draw_body(self, shown: ScreenContent) -> Line:
        """Draw the body. Returns the text beside the tabs."""
        raise NotImplementedError

    def on_screen_resume(self) -> None:
        self.post_message(self.Wanted())

    def on_resize(self) -> None:
        self.post_message(self.Wanted())


class FilterLine(Input):
    """An input line that is visible only while it is open."""

    DEFAULT_CSS = "FilterLine { display: none; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "give_up", show=False),
        Binding("up,down", "submit", show=False),
    ]

    class Typed(Message):
        """The current words of the filter."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.words = text

    def __init__(self) -> None:
        super().__init__(
            placeholder="words in a name or its labels",
            compact=True,
            select_on_focus=False,
            max_length=limits.NAME_CHARS,
        )

    def open(self, text: str) -> None:
        self.display = True
        with self.prevent(Input.Changed):
            self.value = text
        self.cursor_position = len(text)
        self.screen.set_focus(self)

    def close(self) -> None:
        """Give focus back to the table at once: no other widget may get it in between."""
        if isinstance(self.screen, FilteringScreen):
            self.screen.set_focus(self.screen.query_one(f"#{self.screen.main}"))
        self.display = False

    def action_give_up(self) -> None:
        self.post_message(self.Typed(""))
        self.close()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Typed(event.value))

    async def action_submit(self) -> None:
        self.close()


class FilteringScreen(CockpitScreen):
    """A screen with a `FilterLine`."""

    MAIN: ClassVar[str]
    """Id of the table that is sorted and filtered."""

    @property
    def main(self) -> str:
        """Id of the widget that has the keyboard when the filter is closed."""
        return self.MAIN

    def ask_filter(self, text: str) -> None:
        self.query_one(FilterLine).open(text)

    def sort_keys(self, scene: Scene, view: View) -> tuple[str, ...]:
        """Return the sort keys of the table."""
        raise NotImplementedError

    @property
    def asks(self) -> bool:
        return bool(self.query_one(FilterLine).display)


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
