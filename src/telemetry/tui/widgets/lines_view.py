"""Lines of text: a log that follows its end, and the header."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Resize
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from telemetry.tui.model.grid import Cell, Line
from telemetry.tui.model.steady_tones import SteadyTones
from telemetry.tui.theme import Palette, palette
from telemetry.tui.widgets.strips import blank_strip, line_strip, wrapped

_ALIKE = 3
"""Number of equal rows that identify the reading position; single lines may repeat."""


class LinesView(ScrollView, inherit_bindings=False):
    """A widget that shows lines, long ones in several rows.

    The end stays in view unless the user scrolled up. Then the visible rows stay in place while lines are added and
    removed. The key `end` is left to the screen, which may call `follow`.
    """

    DEFAULT_CSS = """
    LinesView {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    """
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,ctrl+home", "top", show=False),
        Binding("ctrl+end", "follow", show=False),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: tuple[Line, ...] = ()
        self._rows: list[Line] = []
        self._broken: dict[Line, tuple[Line, ...]] = {}
        self._following = True
        self._paint: Palette | None = None

    @property
    def following(self) -> bool:
        """True if the end stays in view."""
        return self._following

    def show(self, lines: tuple[Line, ...]) -> None:
        """Show all lines. Draws nothing if they are unchanged. App thread only."""
        if lines != self._lines:
            self._lines = lines
            self._arrange()

    def follow(self) -> None:
        """Scroll to the end and stay there."""
        self._following = True
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)

    def action_follow(self) -> None:
        self.follow()

    def action_scroll(self, rows: int) -> None:
        self.scroll_to(y=self.scroll_offset.y + rows, animate=False, force=True)

    def action_page(self, direction: int) -> None:
        self.action_scroll(direction * max(1, self.size.height - 1))

    def action_top(self) -> None:
        self.scroll_to(y=0, animate=False, force=True)

    def on_resize(self, _event: Resize) -> None:
        self._broken.clear()
        self._arrange()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._following = round(new_value) >= self.max_scroll_y

    def render_lines(self, crop: Region) -> list[Strip]:
        self._paint = palette(self)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        tones = (self._paint or palette(self)).text
        index = y + self.scroll_offset.y
        if index < len(self._rows):
            return line_strip(self._rows[index], self._width, tones)
        return blank_strip(self._width, tones["plain"])

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _arrange(self) -> None:
        width, top, before = self._width, self.scroll_offset.y, self._rows
        following = self._following
        self._broken = {line: self._broken.get(line) or wrapped(line, width) for line in self._lines}
        self._rows = [row for line in self._lines for row in self._broken[line]]
        self.virtual_size = Size(width, len(self._rows))
        if following:
            self.follow()
        else:
            offset = _place(self._rows, before[top : top + _ALIKE], top)
            self.scroll_to(y=offset, animate=False, force=True)
        self.refresh()


class HeaderView(Widget):
    """A widget as high as its lines; long lines are cut."""

    DEFAULT_CSS = """
    HeaderView {
        height: auto;
        width: 1fr;
    }
    """
    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._lines: tuple[Line, ...] = ()
        self._steady = SteadyTones()
        self._paint: Palette | None = None

    def show(self, lines: tuple[Line, ...], now_ns: int | None = None) -> None:
        """Show lines; draws only those that differ. App thread only.

        With the time on the monotonic clock, a warning goes some seconds after its reason.
        """
        if now_ns is not None:
            if [len(line) for line in lines] != [len(line) for line in self._lines]:
                self._steady.forget()
            lines = tuple(self._steadied(row, line, now_ns) for row, line in enumerate(lines))
        was, self._lines = self._lines, lines
        if len(was) != len(lines):
            self.refresh(layout=True)
            return
        changed = [y for y, (old, new) in enumerate(zip(was, lines, strict=True)) if old != new]
        if changed:
            self.refresh(*(Region(0, y, self.size.width, 1) for y in changed))

    def _steadied(self, row: int, line: Line, now_ns: int) -> Line:
        tones = (self._steady.tone((row, at), cell.tone, now_ns) for at, cell in enumerate(line))
        return tuple(Cell(cell.text, tone) for cell, tone in zip(line, tones, strict=True))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._lines)

    def render_lines(self, crop: Region) -> list[Strip]:
        self._paint = palette(self)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        tones = (self._paint or palette(self)).text
        line = self._lines[y] if y < len(self._lines) else ()
        return line_strip(line, self.size.width, tones)


def _place(rows: list[Line], alike: list[Line], near: int) -> int:
    """Return the present place of these rows nearest to `near`, or `near` if they are gone."""
    if alike:
        for distance in range(len(rows)):
            for at in (near - distance, near + distance):
                if at >= 0 and rows[at : at + len(alike)] == alike:
                    return at
    return near
