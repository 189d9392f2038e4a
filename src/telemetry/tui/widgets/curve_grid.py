"""A grid of small curves in sections, which scrolls and has a cursor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final, NamedTuple

from rich.segment import Segment
from textual.binding import Binding, BindingType
from textual.events import Blur, Click, Focus, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from telemetry.tui.model.grid import Cell, Line
from telemetry.tui.model.steady_tones import SteadyTones
from telemetry.tui.model.step_grid import AxisSection, Card, CurveId, StepGrid, drawn
from telemetry.tui.theme import Palette, Tones, palette
from telemetry.tui.widgets.strips import blank_strip, fitted, line_strip

LEAST_WIDTH: Final = 24
USUAL_WIDTH: Final = 36
"""Columns of a curve on a narrow and on a wide screen."""
_WIDE_FROM: Final = 120
LEAST_HEIGHT: Final = 6
"""Lines of a curve, with those of its texts."""
_MOST_HEIGHT: Final = 20
_GAP: Final = 2
_MARGIN: Final = 1


class _CurveRow(NamedTuple):
    """A row of curves, or the heading of a section."""

    top: int
    """Its first line, from the top of the content."""
    section: int
    first: int = -1
    """Place of its first curve, counted over all sections; -1 for a heading."""
    curves: int = 0


@dataclass(frozen=True, slots=True)
class _Layout:
    width: int = 0
    """Columns of a curve."""
    height: int = LEAST_HEIGHT
    rows: tuple[_CurveRow, ...] = ()
    lines: tuple[int, ...] = ()
    """Row of each line."""


class CurveGrid(ScrollView, inherit_bindings=False):
    """A widget that shows one StepGrid after another.

    The cursor follows its curve by name. Curves are as high as the screen allows, and drawn when they are in view.
    The key `end` is left to the screen.
    """

    DEFAULT_CSS = """
    CurveGrid {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    """
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1, 0)", show=False),
        Binding("right", "move(1, 0)", show=False),
        Binding("up", "move(0, -1)", show=False),
        Binding("down", "move(0, 1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,ctrl+home", "go(0)", show=False),
        Binding("ctrl+end", "go(-1)", show=False),
        Binding("enter", "open", show=False, id="open"),
    ]

    class Opened(Message):
        """A double click or `enter` on a curve."""

        def __init__(self, key: CurveId) -> None:
            super().__init__()
            self.key = key

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._grid = StepGrid()
        self._cards: tuple[Card, ...] = ()
        self._layout = _Layout()
        self._at = 0
        self._now_ns = 0
        self._steady = SteadyTones()
        self._drawn: dict[CurveId, tuple[Card, tuple[int, int, str], tuple[Line, ...]]] = {}
        self._paint: Palette | None = None

    @property
    def cursor(self) -> CurveId | None:
        """The selected curve; None without curves."""
        return self._cards[self._at].key if self._cards else None

    def show(self, grid: StepGrid, now_ns: int = 0) -> None:
        """Show a grid. Draws nothing if it is unchanged. App thread only; may be called often."""
        before, key = self._grid, self.cursor
        self._grid, self._cards, self._now_ns = grid, grid.cards, now_ns
        places = {card.key: at for at, card in enumerate(self._cards)}
        self._at = places.get(key, min(self._at, max(0, len(self._cards) - 1))) if key is not None else 0
        if _counts(before) != _counts(grid) or key != self.cursor:
            self._arrange()
        if self._steady.due(now_ns) or not _same(before, grid):
            self.refresh()

    def select(self, key: CurveId) -> None:
        """Move the cursor to this curve if it exists."""
        self._go(next((at for at, card in enumerate(self._cards) if card.key == key), self._at))

    def action_move(self, across: int, down: int) -> None:
        """Move the cursor. Up and down keep the column as far as the row has it."""
        if not down:
            self._go(self._at + across)
            return
        rows = [row for row in self._layout.rows if row.curves]
        here = next((at for at, row in enumerate(rows) if row.first <= self._at < row.first + row.curves), None)
        if here is not None and 0 <= here + down < len(rows):
            column, row = self._at - rows[here].first, rows[here + down]
            self._go(row.first + min(column, row.curves - 1))

    def action_page(self, direction: int) -> None:
        for _ in range(max(1, self.size.height // self._layout.height)):
            self.action_move(0, direction)

    def action_go(self, index: int) -> None:
        self._go(index if index >= 0 else len(self._cards) - 1)

    def action_open(self) -> None:
        key = self.cursor
        if key is not None:
            self.post_message(self.Opened(key))

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        event.stop()
        row = self._row_at(offset.y)
        column = (offset.x - _MARGIN) // (self._layout.width + _GAP)
        if row is not None and 0 <= column < row.curves:
            self._go(row.first + column)
            if event.chain == 2:
                self.action_open()

    def on_resize(self, _event: Resize) -> None:
        self._arrange()
        self.refresh()

    def on_focus(self, _event: Focus) -> None:
        self.refresh()

    def on_blur(self, _event: Blur) -> None:
        self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        self._paint = palette(self)
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        paint = self._paint or palette(self)
        width = self.scrollable_content_region.width
        row = self._row_at(y)
        if row is None:
            if not self._cards and y == len(self._layout.lines) + 1 and self._grid.empty:
                return Strip([Segment(" " + fitted(self._grid.empty, max(1, width - 1)), paint.text["dim"])], width)
            return blank_strip(width, paint.text["plain"])
        if not row.curves:
            return self._heading(row.section, width, paint)
        line = y + self.scroll_offset.y - row.top
        strips: list[Strip] = [blank_strip(_MARGIN, paint.text["plain"])]
        for at in range(row.first, row.first + row.curves):
            strips.append(self._card_strip(at, line, paint))
            strips.append(blank_strip(_GAP, paint.text["plain"]))
        return Strip.join(strips).adjust_cell_length(width, paint.text["plain"])

    def _heading(self, section: int, width: int, paint: Palette) -> Strip:
        group = self._grid.sections[section]
        key = f"heading {section}"
        tones = (self._steady.tone((key, at), cell.tone, self._now_ns) for at, cell in enumerate(group.heading))
        cells = (Cell(cell.text, tone) for cell, tone in zip(group.heading, tones, strict=True))
        return line_strip((Cell(" "), *cells), width, paint.text)

    def _card_strip(self, at: int, line: int, paint: Palette) -> Strip:
        card, width = self._cards[at], self._layout.width
        lines = self._lines_of(card)
        tones: Tones = paint.text
        content = lines[line] if line < len(lines) else ()
        if line:
            return line_strip(content, width, tones)
        if at == self._at:
            return line_strip(content, width, paint.cursor if self.has_focus else paint.resting)
        strip = line_strip(content, width, tones)
        return Strip([Segment(segment.text, paint.head) for segment in strip], width)

    def _lines_of(self, card: Card) -> tuple[Line, ...]:
        """Return the lines of a curve, drawn once for each of its states."""
        form = self._layout.width, self._layout.height, self._grid.units
        entry = self._drawn.get(card.key)
        if entry is not None and entry[1] == form and _alike(entry[0], card):
            return entry[2]
        lines = drawn(card, self._layout.width, self._layout.height, self._grid.units)
        self._drawn[card.key] = card, form, lines
        return lines

    def _row_at(self, y: int) -> _CurveRow | None:
        line = y + self.scroll_offset.y
        return self._layout.rows[self._layout.lines[line]] if 0 <= line < len(self._layout.lines) else None

    def _go(self, index: int) -> None:
        if not self._cards:
            return
        self._at = min(max(index, 0), len(self._cards) - 1)
        self._scroll_to_cursor()
        self.refresh()

    def _scroll_to_cursor(self) -> None:
        rows = self._layout.rows
        at = next((at for at, row in enumerate(rows) if row.first <= self._at < row.first + row.curves), None)
        if at is None:
            return
        row, top, height = rows[at], self.scroll_offset.y, self._layout.height
        # The heading of a section is scrolled into view with its first row.
        start = row.top if rows[at - 1].curves else rows[at - 1].top
        if start < top:
            self.scroll_to(y=start, animate=False, force=True)
        elif row.top + height > top + self.size.height:
            self.scroll_to(y=row.top + height - self.size.height, animate=False, force=True)

    def _arrange(self) -> None:
        region = self.scrollable_content_region
        self._layout = arranged(_counts(self._grid), region.width, self.size.height)
        self.virtual_size = Size(region.width, len(self._layout.lines))
        there = {card.key for card in self._cards}
        self._drawn = {key: entry for key, entry in self._drawn.items() if key in there}
        self._scroll_to_cursor()
        self.refresh()


def arranged(counts: list[int], width: int, height: int) -> _Layout:
    """Lay out sections of so many curves: as many columns as are readable, as high as the screen allows."""
    wanted = USUAL_WIDTH if width >= _WIDE_FROM else LEAST_WIDTH
    room = max(width - 2 * _MARGIN, 1)
    columns = max(1, min((room + _GAP) // (wanted + _GAP), max(counts, default=1)))
    curve_width = max(1, (room + _GAP) // columns - _GAP)
    lines = sum(-(-count // columns) for count in counts)
    free = height - len(counts)
    curve_height = min(max(free // max(1, lines), LEAST_HEIGHT), max(_MOST_HEIGHT, curve_width // 4))
    rows: list[_CurveRow] = []
    top = first = 0
    for section, count in enumerate(counts):
        rows.append(_CurveRow(top, section))
        top += 1
        for begin in range(0, count, columns):
            rows.append(_CurveRow(top, section, first + begin, min(columns, count - begin)))
            top += curve_height
        first += count
    flat = [at for at, row in enumerate(rows) for _ in range(curve_height if row.curves else 1)]
    return _Layout(curve_width, curve_height, tuple(rows), tuple(flat))


def _counts(grid: StepGrid) -> list[int]:
    return [len(section.cards) for section in grid.sections]


def _same(before: StepGrid, now: StepGrid) -> bool:
    """Return whether two grids look alike. Curves are compared by identity: new ones are new objects."""
    if (before.units, before.empty, len(before.sections)) != (now.units, now.empty, len(now.sections)):
        return False
    return all(_same_section(*pair) for pair in zip(before.sections, now.sections, strict=True))


def _same_section(section: AxisSection, other: AxisSection) -> bool:
    if section.heading != other.heading or len(section.cards) != len(other.cards):
        return False
    return all(_alike(*pair) for pair in zip(section.cards, other.cards, strict=True))


def _alike(card: Card, other: Card) -> bool:
    return card.curve is other.curve and card.behind is other.behind
