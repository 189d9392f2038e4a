"""The screen of one series: its figures, the percentile curve, the histogram, and the values over time."""

from __future__ import annotations

from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, ScrollableContainer

from telemetry.common.formatting import columns
from telemetry.common.wording import instrument
from telemetry.tui.keys import bindings
from telemetry.tui.model.grid import Cell, Line
from telemetry.tui.model.scene import SeriesId
from telemetry.tui.model.series import detail
from telemetry.tui.screens.base import CockpitScreen, ScreenContent
from telemetry.tui.widgets.lines_view import HeaderView
from telemetry.tui.widgets.plot_view import PlotView

PLOTS: Final = ("over_time", "curve", "histogram", "rate")
_FROM_THE_TOP: Final = ("over_time", "rate", "curve", "histogram")
REDRAWN_NS: Final = 1_000_000_000
"""Time between redraws. Figures of a window and a history change once a second, and plots cost 10 ms each."""
WIDE_FROM: Final = 120
"""Columns from which the figures are in a few long lines above the plots instead of beside them."""
TALL_FROM: Final = 36
"""Lines from which several plots are shown below each other, a dozen lines each."""
FACTS_COLUMNS: Final = 30
"""Columns of the facts: names, the chosen time range, and the run."""
MOMENT_COLUMNS: Final = 7
"""Further columns if the title of the chosen time range has its begin and end."""
COMPARED_COLUMNS: Final = 16
"""Further columns for the baseline and the differences from it."""


def visible(width: int, height: int, chosen: int) -> tuple[str, ...]:
    """Return the plots that fit on a screen of this size; if only one does, the chosen one."""
    if height >= TALL_FROM:
        return PLOTS if width >= WIDE_FROM else ("over_time", "curve", "histogram")
    return ("over_time", "curve", "histogram") if width >= WIDE_FROM else (PLOTS[chosen],)


def _facts_columns(shown: ScreenContent) -> int:
    """Return the columns of figures that are listed below each other."""
    compared = shown.view.compare and shown.scene.baseline is not None
    return FACTS_COLUMNS + (MOMENT_COLUMNS if shown.scene.moment else 0) + (COMPARED_COLUMNS if compared else 0)


class Facts(ScrollableContainer, inherit_bindings=False):
    """The figures, scrollable on low screens. Leaves the keys `left`, `right` and `end` to the screen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll_up", show=False),
        Binding("down", "scroll_down", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
        Binding("home", "scroll_home", show=False),
        Binding("ctrl+end", "scroll_end", show=False),
    ]


class SeriesScreen(CockpitScreen):
    PLACE = "series"
    BINDINGS = bindings("series")
    AUTO_FOCUS = "Facts"

    def __init__(self) -> None:
        super().__init__()
        self._chosen = 0
        self._drawn: tuple[object, ...] = ()
        self._drawn_ns = 0
        self._heading: Line = ()

    def body(self) -> ComposeResult:
        with Horizontal(id="detail"):
            with Facts(id="facts"):
                yield HeaderView(id="figures")
            with Container(id="plots"):
                for name in _FROM_THE_TOP:
                    yield PlotView(id=name)

    @property
    def shows_one(self) -> bool:
        """True if only one plot fits."""
        return len(self._visible()) == 1

    def next_plot(self) -> None:
        self._chosen = (self._chosen + 1) % len(PLOTS)
        self.post_message(self.Wanted())

    def draw_body(self, shown: ScreenContent) -> Line:
        scene = shown.scene
        drawn = (shown.view, shown.series, shown.timeline, scene.moment, scene.baseline, self.size, self._chosen)
        # A new history arrives once a second, as a new object.
        if drawn != self._drawn or shown.now_ns - self._drawn_ns >= REDRAWN_NS:
            self._drawn, self._drawn_ns = drawn, shown.now_ns
            if shown.series is not None:
                self._draw(shown, shown.series)
        return self._heading

    def _draw(self, shown: ScreenContent, series: SeriesId) -> None:
        width, height = self.size
        wide = width >= WIDE_FROM
        self.set_class(wide, "-wide")
        self.set_class(height >= TALL_FROM, "-tall")
        narrow = _facts_columns(shown)
        self.query_one("#facts").styles.width = "1fr" if wide else narrow + 2
        facts_width = width - 2 if wide else narrow
        plot_width = width // 2 if wide else width - narrow - 3
        content = detail(shown.scene, shown.view, series, shown.timeline, facts_width, plot_width=plot_width)
        self.query_one("#figures", HeaderView).show(content.facts)
        plots = {
            "over_time": content.over_time,
            "curve": content.curve,
            "histogram": content.histogram,
            "rate": content.rate,
        }
        visible = self._visible()
        for name, plot in plots.items():
            view = self.query_one(f"#{name}", PlotView)
            view.display = name in visible
            if view.display:
                view.show(plot)
        name = instrument(series[0], dict(series[1]))
        # The tabs line has the name if the facts are too narrow for it.
        self._heading = () if columns(name) <= facts_width else (Cell(name, "strong"),)

    def _visible(self) -> tuple[str, ...]:
        return visible(self.size.width, self.size.height, self._chosen)
