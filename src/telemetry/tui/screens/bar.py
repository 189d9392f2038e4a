"""The two thin lines of every screen: tabs with the state of the view, and the keys that are live."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, NamedTuple

from rich.segment import Segment
from textual.events import Click
from textual.strip import Strip
from textual.widget import Widget

from telemetry.tui.keys import Place
from telemetry.tui.model.grid import Cell, Line
from telemetry.tui.model.lines import cut, width_of
from telemetry.tui.theme import palette


class Shortcut(NamedTuple):
    """An action that can be had here."""

    action: str
    key: str
    """As it stands on the keyboard."""
    words: str


class Entry(NamedTuple):
    """A piece of a bar, and the action that a click on it is."""

    text: Line
    action: str
    active: bool = False
    """Whether this is where one is."""


class _Placed(NamedTuple):
    begin: int
    entry: Entry

    @property
    def end(self) -> int:
        return self.begin + width_of(self.entry.text)


class Bar(Widget):
    """One line of entries, some at the left and some at the right edge; between them a note that yields to both."""

    DEFAULT_CSS = "Bar { height: 1; }"
    ALLOW_SELECT = False

    GAP: ClassVar[int] = 2
    """Columns between two entries."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._left: Sequence[Entry] = ()
        self._right: Sequence[Entry] = ()
        self._note: Line = ()

    def show_entries(self, left: Sequence[Entry], right: Sequence[Entry], note: Line = ()) -> None:
        """Of the left ones the last go where there is no room; of the right ones none."""
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
            placed.append(_Placed(last - width_of(note), Entry(note, "")))
        column = max(last + self.GAP, column)
        for entry in self._right:
            placed.append(_Placed(column, entry))
            column = placed[-1].end + self.GAP
        return placed


TABS: Final[tuple[tuple[Place, str], ...]] = (
    ("overview", "Overview"),
    ("producers", "Producers"),
    ("log", "Log"),
    ("requests", "Requests"),
    ("steps", "Steps"),
)
"""In the order of their numbers, which they keep where others are not there."""


class TabsLine(Bar):
    """Where one is, and in what state the view is."""

    GAP = 0

    def show(self, here: str, tab_keys: Mapping[str, str], status: Line) -> None:
        """`here` is a tab. `tab_keys`: of each tab that is there, its key as it stands on the keyboard."""
        tabs = []
        for number, (name, words) in enumerate(TABS, 1):
            if key := tab_keys.get(name):
                tabs.append(Entry((Cell(f" {key}", "dim"), Cell(f" {words} ")), f"tab_{number}", name == here))
        self.show_entries(tabs, (), status)


class KeysLine(Bar):
    """What can be done here, and with which key."""

    def show(self, shortcuts: Sequence[Shortcut], always: Sequence[Shortcut]) -> None:
        """Those in `always` have room first."""
        self.show_entries([_entry(each) for each in shortcuts], [_entry(each) for each in always])


def _entry(shortcut: Shortcut) -> Entry:
    return Entry((Cell(shortcut.key, "accent"), Cell(f" {shortcut.words}", "dim")), shortcut.action)
