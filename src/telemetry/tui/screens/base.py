"""The common parts of all screens: header, tabs, keys, and drawing from one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.message import Message
from textual.screen import Screen
from textual.strip import Strip

from telemetry.history.intervals.timeline import Timeline
from telemetry.tui.model.grid import Cell, Line
from telemetry.tui.model.header import header
from telemetry.tui.model.lines import BETWEEN
from telemetry.tui.model.scene import Opened, Scene, SeriesId, ValuesOverTime, View
from telemetry.tui.screens.bar import KeysLine, Shortcut, TabsLine
from telemetry.tui.widgets.lines_view import HeaderView


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
