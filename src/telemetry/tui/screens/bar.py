"""The two bars of every screen: tabs with the state of the view, and the available keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from textual.events import Click
from textual.strip import Strip
from textual.widget import Widget

from telemetry.tui.model.grid import Cell, Line, cut, width_of
from telemetry.tui.tabs import TABS
from telemetry.tui.theme import palette


class Shortcut(NamedTuple):
    """An action that is available on this screen."""

    action: str
    key: str
    """Key as printed on the keyboard."""
    words: str


class BarEntry(NamedTuple):
    """A piece of a bar, and the action of a click on it."""

    text: Line
    action: str
    active: bool = False
    """True for the current tab."""


class _Placed(NamedTuple):
    begin: int
    entry: BarEntry

    @property
    def end(self) -> int:
        return self.begin + width_of(self.entry.text)


class Bar(Widget):
    """A line with entries at the left and right edges. A note between them is shortened first."""

    DEFAULT_CSS = "Bar { height: 1; }"
    ALLOW_SELECT = False

    GAP: ClassVar[int] = 2
    """Columns between two entries."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._left: Sequence[BarEntry] = ()
        self._right: Sequence[BarEntry] = ()
        self._note: Line = ()

    def show_entries(self, left: Sequence[BarEntry], right: Sequence[BarEntry], note: Line = ()) -> None:
        """Show entries. If space is short, the last left ones are left out; all right ones stay."""
        if (left, right, note) != (self._left, self._right, self._note):
            self._left, self._right, self._note = left, right, note
            self.refresh()

    def render_line(self, y: int) -> Strip:
        paint = palette(self)
        segments: list[Segment] = []
        column = 0
        for placed in self._laid_out():
            segments.append(Segment(" " * (placed.begin - column), paint.text["plain"]))
            for cell in placed.entry.text:
                style = paint.head if placed.entry.active else paint.text[cell.tone]
                segments.append(Segment(cell.text, style))
            column = placed.end
        return Strip(segments).adjust_cell_length(self.size.width, paint.text["plain"])

    def on_click(self, event: Click) -> None:
        for placed in self._laid_out():
            if placed.entry.action and placed.begin <= event.x < placed.end:
                self.app.call_later(self.app.run_action, placed.entry.action)

    def _laid_out(self) -> list[_Placed]:
        last = self.size.width - 1
        for entry in self._right:
            last -= width_of(entry.text) + self.GAP
        placed, column = [], 1
        for entry in self._left:
            if column + width_of(entry.text) > last:
                break
            placed.append(_Placed(column, entry))
            column = placed[-1].end + self.GAP
        note = cut(self._note, last - column - 1)
        if note:
            placed.append(_Placed(last - width_of(note), BarEntry(note, "")))
        column = max(last + self.GAP, column)
        for entry in self._right:
            placed.append(_Placed(column, entry))
            column = placed[-1].end + self.GAP
        return placed


class TabsLine(Bar):
    """The line of tabs and the state of the view."""

    GAP = 0

    def show(self, here: str, tab_keys: Mapping[str, str], status: Line) -> None:
        """Show the tabs. `here` is the current one. `tab_keys` maps each available tab to its key."""
        tabs = []
        for number, (name, tab) in enumerate(TABS.items(), 1):
            if key := tab_keys.get(name):
                tabs.append(
                    BarEntry((Cell(f" {key}", "dim"), Cell(f" {tab.title} ")), f"tab_{number}", name == here)
                )
        self.show_entries(tabs, (), status)


class KeysLine(Bar):
    """The line of available actions and their keys."""

    def show(self, shortcuts: Sequence[Shortcut], always: Sequence[Shortcut]) -> None:
        """Show the keys. Those in `always` get space first."""
        self.show_entries([_entry(each) for each in shortcuts], [_entry(each) for each in always])


def _entry(shortcut: Shortcut) -> BarEntry:
    return BarEntry((Cell(shortcut.key, "accent"), Cell(f" {shortcut.words}", "dim")), shortcut.action)
