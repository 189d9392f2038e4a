"""A table drawn line by line: a frame costs only what has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Blur, Click, Focus, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from telemetry.tui.model.grid import Cell, Column, Grid, Row
from telemetry.tui.model.names import fitted_names
from telemetry.tui.model.steady_tones import SteadyTones
from telemetry.tui.theme import Palette, Tones, palette
from telemetry.tui.widgets.strips import blank_strip, fitted, line_strip

MARGIN: Final = 1
"""Columns left and right of a row, so that the cursor's bar extends beyond its text."""
GAP: Final = 2
WIDE_GAP: Final = 5
"""Largest gap, for wide screens; with a wider one the eye loses the row."""
SLACK: Final = 2
"""Spare width that a column keeps before it shrinks. Otherwise every `9.99` → `10.0` would move all columns."""
FIRST: Final = 18
"""Least columns of names. With fewer, names look alike, so other columns are left out first."""
_SMALL: Final = 40
"""Width beyond which half of the additional columns go to names before more figures are shown."""
EVERY: Final = slice(None)
_HEAD = 1
"""Lines of the column titles, above the rows."""


class GridView(ScrollView, inherit_bindings=False):
    """A widget that shows one Grid after another.

    The cursor follows its row by `Row.key`. Until it is moved, and again after `home`, it stays on the top row. If
    its row disappears, it selects the row now in that place. Column titles don't scroll. The key `end` is left to
    the screen.
    """

    DEFAULT_CSS = """
    GridView {
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    """
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "cursor(-1)", show=False),
        Binding("down", "cursor(1)", show=False),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("home,ctrl+home", "top", show=False),
        Binding("ctrl+end", "bottom", show=False),
        Binding("enter", "open", show=False),
    ]

    CURSOR_RESTS: ClassVar[bool] = True
    """True if the cursor is visible while another widget has focus."""

    class Opened(Message):
        """A double click or `enter` on a row that is not a heading."""

        def __init__(self, grid: GridView, key: str) -> None:
            super().__init__()
            self.grid = grid
            self.key = key

        @property
        def control(self) -> GridView:
            return self.grid

    class HeaderClicked(Message):
        """A click on the title of a column."""

        def __init__(self, grid: GridView, key: str) -> None:
            super().__init__()
            self.grid = grid
            self.key = key

        @property
        def control(self) -> GridView:
            return self.grid

    class Moved(Message):
        """A move of the cursor to another row, by key or click."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._grid = Grid()
        self._layout = PlacedColumns()
        self._names: tuple[str, ...] = ()
        """Text of the first column, row by row; for headings, the text of the whole line."""
        self._index: int | None = None
        self._follows_top = True
        self._steady = SteadyTones()
        self._now_ns: int | None = None
        self._paint: Palette | None = None

    @property
    def cursor(self) -> str | None:
        """Key of the selected row; None without rows other than headings."""
        return None if self._index is None else self._grid.rows[self._index].key

    @property
    def columns_shown(self) -> frozenset[str]:
        """Keys of the visible columns; of all columns before the first layout."""
        places = self._layout.places
        return frozenset(self._grid.columns[slot.index].key for slot in places) or frozenset(
            column.key for column in self._grid.columns
        )

    def show(self, grid: Grid, now_ns: int | None = None) -> None:
        """Show a grid; draws only the differences. App thread only; may be called often.

        With the time on the monotonic clock, a warning goes some seconds after its reason.
        """
        self._now_ns = now_ns
        if (grid.about, grid.columns) != (self._grid.about, self._grid.columns):
            self._steady.forget()
        was, old_index, old_layout, old_names = self._grid, self._index, self._layout, self._names
        key = self.cursor
        self._grid = grid
        self._index = self._found(key, old_index)
        self._lay_out()
        self.virtual_size = Size(self._width, len(grid.rows) + _HEAD)
        if self._layout != old_layout or grid.columns != was.columns or not (grid.rows and was.rows):
            self.refresh()
        else:
            # If names are shortened, an added or removed one may change the others.
            names = zip(self._names, old_names, strict=False)
            renamed = {at for at, (new, old) in enumerate(names) if new != old}
            due = self._steady.due(now_ns) if now_ns is not None else ()
            again = {at for at, row in enumerate(grid.rows) if row.key in due} if due else set()
            self._refresh_lines(self._changed(was, old_index) | renamed | again)
        if self._index != old_index and not self._follows_top and self._in_view(old_index):
            self._scroll_to_cursor()

    def select(self, key: str) -> None:
        """Move the cursor to this row if it exists."""
        for index, row in enumerate(self._grid.rows):
            if row.key == key and not row.heading:
                self._move_to(index)
                return

    def action_cursor(self, step: int) -> None:
        self._move_to(_openable(self._grid.rows, (self._index or 0) + step, step))

    def action_page(self, direction: int) -> None:
        step = max(1, self._page - 1) * direction
        self._move_to(_openable(self._grid.rows, (self._index or 0) + step, direction))

    def action_top(self) -> None:
        self._move_to(_openable(self._grid.rows, 0, 1))
        self._follows_top = True

    def action_bottom(self) -> None:
        self._move_to(_openable(self._grid.rows, len(self._grid.rows) - 1, -1))

    def action_open(self) -> None:
        key = self.cursor
        if key is not None:
            self.post_message(self.Opened(self, key))

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        event.stop()
        if offset.y < _HEAD:
            index = self._layout.column_at(offset.x)
            if index is not None:
                self.post_message(self.HeaderClicked(self, self._grid.columns[index].key))
        elif event.chain == 2:
            # The row of the first click, even if another row is under the mouse by now.
            self.action_open()
        elif event.chain == 1:
            row = self._row_at(offset.y)
            if row is not None and not self._grid.rows[row].heading:
                self._move_to(row)

    def on_resize(self, _event: Resize) -> None:
        self._lay_out()
        self.virtual_size = Size(self._width, len(self._grid.rows) + _HEAD)
        if not self._follows_top:
            self._scroll_to_cursor()
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._lay_out()

    def on_focus(self, _event: Focus) -> None:
        self._refresh_lines({self._index})

    def on_blur(self, _event: Blur) -> None:
        self._refresh_lines({self._index})

    def render_lines(self, crop: Region) -> list[Strip]:
        self._paint = palette(self)
        if self._layout.width != self._width:
            # A grid that arrived while another screen covered this one was laid out for width 0.
            self._lay_out()
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        paint = self._paint or palette(self)
        width = self._layout.width
        if y < _HEAD:
            return self._head_strip(paint.head)
        row = self._row_at(y)
        if row is not None:
            tones = paint.text
            if row == self._index:
                resting = paint.resting if self.CURSOR_RESTS else paint.text
                tones = paint.cursor if self.has_focus else resting
            return self._row_strip(row, tones)
        if y == _HEAD + 1 and not self._grid.rows and self._grid.empty:
            text = " " + fitted(self._grid.empty, max(1, width - 1))
            return Strip([Segment(text, paint.text["dim"])], width)
        return blank_strip(width, paint.text["plain"])

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    @property
    def _page(self) -> int:
        return max(1, self.size.height - _HEAD)

    def _lay_out(self) -> None:
        top = self.scroll_offset.y
        self._layout = laid_out(self._grid, self._width, self._layout, slice(top, top + self._page))
        room = self._layout.places[0].width if self._layout.places else 0
        rows = self._grid.rows
        names = fitted_names(tuple("" if row.heading else row.name.text for row in rows), max(0, room))
        heads = fitted_names(tuple(row.name.text if _is_head(row) else "" for row in rows), max(0, self._width - 1))
        self._names = tuple(name or head for name, head in zip(names, heads, strict=True))

    def _row_at(self, y: int) -> int | None:
        index = y - _HEAD + self.scroll_offset.y
        return index if y >= _HEAD and index < len(self._grid.rows) else None

    def _in_view(self, index: int | None) -> bool:
        return index is not None and 0 <= index - self.scroll_offset.y < self._page

    def _found(self, key: str | None, old_index: int | None) -> int | None:
        rows = self._grid.rows
        if key is None or old_index is None or self._follows_top:
            return _openable(rows, 0, 1)
        if old_index < len(rows) and rows[old_index].key == key:
            return old_index
        for index, row in enumerate(rows):
            if row.key == key and not row.heading:
                return index
        return _openable(rows, old_index, 1)

    def _changed(self, was: Grid, old_index: int | None) -> set[int | None]:
        """Return the visible rows that changed; -1 stands for the titles."""
        first = self.scroll_offset.y
        new, old = self._grid.rows, was.rows
        changed: set[int | None] = {
            index
            for index in range(first, min(first + self._page, max(len(new), len(old))))
            if index >= len(new) or index >= len(old) or new[index] != old[index]
        }
        if old_index != self._index:
            changed |= {old_index, self._index}
        if (was.sorted_by, was.descending) != (self._grid.sorted_by, self._grid.descending):
            changed.add(-1)
        return changed

    def _refresh_lines(self, indices: Iterable[int | None]) -> None:
        top, width = self.scroll_offset.y, self._layout.width
        lines = (0 if index == -1 else index - top + _HEAD for index in indices if index is not None)
        regions = [Region(0, y, width, 1) for y in lines if 0 <= y < self.size.height]
        if regions:
            self.refresh(*regions)

    def _move_to(self, index: int | None) -> None:
        if index is None:
            return
        self._follows_top = False
        if index != self._index:
            self._refresh_lines({self._index, index})
            self._index = index
            self.post_message(self.Moved())
        self._scroll_to_cursor()

    def _scroll_to_cursor(self) -> None:
        index = self._index
        if index is None:
            return
        # Forced: a table that has just grown gets its scrollbar, which scrolling needs, one frame later.
        rows, top = self._grid.rows, self.scroll_offset.y
        # Scroll the headings of a row into view too: they could not be reached otherwise.
        start = index
        while start and rows[start - 1].heading:
            start -= 1
        if start < top:
            self.scroll_to(y=start, animate=False, force=True)
        elif index >= top + self._page:
            self.scroll_to(y=index - self._page + 1, animate=False, force=True)

    def _head_strip(self, style: Style) -> Strip:
        text, at = "", 0
        for slot in self._layout.places:
            column = self._grid.columns[slot.index]
            text += " " * (slot.x - at) + fitted(self._title(column), slot.width, right=column.right)
            at = slot.end
        return Strip([Segment(text, style)]).adjust_cell_length(self._layout.width, style)

    def _title(self, column: Column) -> str:
        if column.key != self._grid.sorted_by:
            return column.title
        arrow = "▾" if self._grid.descending else "▴"
        return arrow + column.title if column.right else column.title + arrow

    def _row_strip(self, index: int, tones: Tones) -> Strip:
        row = self._grid.rows[index]
        width, plain = self._layout.width, tones["plain"]
        if row.heading:
            return _heading_strip(row, self._names[index] or row.name.text, width, tones)
        segments: list[Segment] = []
        run, at = "", 0
        for slot in self._layout.places:
            cell = row.cells[slot.index]
            content = cell.text if slot.index else self._names[index]
            text = fitted(content, slot.width, right=self._grid.columns[slot.index].right)
            run += " " * (slot.x - at)
            at = slot.end
            core_text = text.strip()
            tone = cell.tone
            if self._now_ns is not None:
                tone = self._steady.tone((row.key, slot.index), tone, self._now_ns)
            if tone == "plain" or not core_text:
                run += text
                continue
            # Blanks stay plain: some tones are underlined.
            before, _, after = text.partition(core_text)
            segments += (Segment(run + before, plain), Segment(core_text, tones[tone]))
            run = after
        segments.append(Segment(run + " " * (width - at), plain))
        return Strip(segments).adjust_cell_length(width, plain)


def _is_head(row: Row) -> bool:
    """Return whether the name has the whole line."""
    return row.heading and len(row.cells) == 1


def _heading_strip(row: Row, name: str, width: int, tones: Tones) -> Strip:
    """Draw a heading across all columns."""
    cells = (Cell(name, row.name.tone), *row.cells[1:])
    parts = tuple(
        Cell(" " + cell.text, "strong" if cell.tone == "plain" else cell.tone) for cell in cells if cell.text
    )
    return line_strip(parts, width, tones)


def _openable(rows: Sequence[Row], start: int, step: int) -> int | None:
    """Return the row at `start` or the next one that is not a heading; else the nearest one before it."""
    if not rows:
        return None
    start = max(0, min(start, len(rows) - 1))
    onward = range(start, len(rows)) if step > 0 else range(start, -1, -1)
    back = range(start, -1, -1) if step > 0 else range(start, len(rows))
    return next((index for index in (*onward, *back) if not rows[index].heading), None)


@dataclass(frozen=True, slots=True)
class ColumnPlace:
    index: int
    """Index of the column in its grid."""
    x: int
    width: int

    @property
    def end(self) -> int:
        return self.x + self.width


@dataclass(frozen=True, slots=True)
class PlacedColumns:
    width: int = 0
    places: tuple[ColumnPlace, ...] = ()
    needs: Mapping[str, int] = field(default_factory=dict)
    """Width needed by the content of each column, including hidden columns."""

    def column_at(self, x: int) -> int | None:
        """Return the index of the column at or nearest left of x.

        A gap belongs to a column: a mouse is not that exact.
        """
        at = [slot.index for slot in self.places if slot.x - GAP <= x]
        return at[-1] if at else None


def laid_out(grid: Grid, width: int, before: PlacedColumns, looked_at: slice = EVERY) -> PlacedColumns:
    """Lay out the columns for a width.

    Columns with the highest `keep` are left out until the rest fits beside a readable first column, which gets the
    remaining width. Widths consider names of all rows, but figures only of visible or already computed rows.
    """
    if not grid.columns:
        return PlacedColumns(width)
    needs = _needs(grid, before.needs, looked_at)
    widths = list(needs.values())
    kept = _kept(grid, widths, width)
    others = sum(widths[index] for index in kept[1:])
    free = max(1, width - 2 * MARGIN - others - GAP * (len(kept) - 1))
    grown = min(WIDE_GAP - GAP, max(0, free - widths[0]) // max(1, len(kept) - 1))
    gap = GAP + grown
    widths[0] = free - grown * (len(kept) - 1)
    places = []
    x = MARGIN
    for index in kept:
        places.append(ColumnPlace(index, x, widths[index]))
        x += widths[index] + gap
    return PlacedColumns(width, tuple(places), needs)


def _needs(grid: Grid, before: Mapping[str, int], looked_at: slice) -> dict[str, int]:
    needs: dict[str, int] = {}
    seen = range(*looked_at.indices(len(grid.rows)))
    lines = [row.cells for at, row in enumerate(grid.rows) if (row.made or at in seen) and not row.heading]
    names = [row.name.text for row in grid.rows if not row.heading]
    for index, column in enumerate(grid.columns):
        # One more than the title: the arrow of the sorted column must not move the others.
        need = cell_len(column.title) + 1
        texts = names if index == 0 else [cells[index].text for cells in lines]
        need = max([need, *map(cell_len, texts)])
        old = before.get(column.key, 0)
        needs[column.key] = old if need <= old <= need + SLACK else need
    return needs


def _kept(grid: Grid, widths: list[int], width: int) -> list[int]:
    kept = list(range(len(widths)))
    first = min(widths[0], max(FIRST, width // 4, (width - _SMALL) // 2))
    while 2 * MARGIN + first + sum(widths[index] + GAP for index in kept[1:]) > width:
        droppable = [index for index in kept[1:] if grid.columns[index].keep]
        if not droppable:
            break
        kept.remove(max(droppable, key=lambda index: (grid.columns[index].keep, index)))
    return kept
