"""The table: what it shows, what of it is drawn again, and where its cursor is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.tui.widgets.showing import Showing, picture, strips
from textual.geometry import Size
from textual.screen import Screen
from textual.strip import Strip

from telemetry.tui.model.grid import Cell, Column, Grid, Row
from telemetry.tui.theme import palette
from telemetry.tui.widgets.grid_view import GridView

pytestmark = pytest.mark.slow

COLUMNS = (Column("name", "name", right=False), Column("p50", "p50", keep=1), Column("p99", "p99"))
SMALL = (40, 8)


def row(key: str, p99: str = "2 ms", *, heading: bool = False) -> Row:
    if heading:
        return Row(key, Cell(key), heading=True)
    return Row(key, Cell(key), (Cell("1 ms", "dim"), Cell(p99, "warn")))


def grid_of(*rows: Row) -> Grid:
    return Grid(COLUMNS, rows, sorted_by="p99", empty="no series match")


def numbered(number: int) -> Grid:
    return grid_of(*(row(f"row{at}") for at in range(number)))


class Counted(GridView):
    """Knows which lines it was asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[int] = []

    def render_line(self, y: int) -> Strip:
        self.drawn.append(y)
        return super().render_line(y)


async def test_titles_and_rows_stand_in_their_columns() -> None:
    """Names are left, figures right; the sorted column has an arrow that moves nothing."""
    view = GridView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(grid_of(row("decode"), row("queue", "12 ms")))
        await pilot.pause()
        assert picture(view)[:3] == [
            " name                    p50      ▾p99",
            " decode                 1 ms      2 ms",
            " queue                  1 ms     12 ms",
        ]
        view.show(replace(grid_of(row("decode")), sorted_by="name", descending=False))
        await pilot.pause()
        assert picture(view)[0] == " name▴                   p50       p99"


async def test_a_narrow_table_leaves_columns_out() -> None:
    """Rather than cutting figures; when there is room again they come back."""
    view = GridView()
    async with Showing(view).run_test(size=(80, 8)) as pilot:
        view.show(grid_of(row("http.request.latency{route=/api}")))
        await pilot.resize_terminal(28, 8)
        await pilot.pause()
        assert picture(view)[1] == " http.req…latency{…}  2 ms"
        await pilot.resize_terminal(60, 8)
        await pilot.pause()
        assert "p50" in picture(view)[0]


async def test_every_line_is_as_wide_as_the_table_even_with_wide_characters() -> None:
    """The compositor cuts by width: one column too many and all that is right of it is wrong."""
    view = GridView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(
            grid_of(row("数据库.延迟{库=主}"), row("数据库延迟" * 9), row("de\u0301code"), row("[bold]{x}[/]"))
        )
        await pilot.pause()
        assert {strip.cell_length for strip in strips(view)} == {40}
        assert {sum(segment.cell_length for segment in strip) for strip in strips(view)} == {40}
        assert picture(view)[4].startswith(" [bold]{x}[/]")


async def test_an_empty_table_says_why() -> None:
    """A filter that matches nothing is no blank screen."""
    view = GridView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(grid_of())
        await pilot.pause()
        assert picture(view)[2] == " no series match"
        assert view.cursor is None
        await pilot.press("down", "enter", "ctrl+end", "home")
        view.show(numbered(1))
        await pilot.pause()
        assert picture(view)[2] == ""
        assert view.cursor == "row0"


async def test_only_lines_that_differ_are_drawn_again() -> None:
    """One changed row costs one line; the same grid costs nothing."""
    view = Counted()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(numbered(30))
        await pilot.pause()
        view.drawn.clear()
        view.show(grid_of(*(row(f"row{at}", "3 ms" if at in (2, 20) else "2 ms") for at in range(30))))
        await pilot.pause()
        assert view.drawn == [3]
        view.drawn.clear()
        view.show(grid_of(*(row(f"row{at}", "3 ms" if at in (2, 20) else "2 ms") for at in range(30))))
        await pilot.pause()
        assert view.drawn == []
        view.show(replace(numbered(30), descending=False))
        await pilot.pause()
        assert sorted(view.drawn) == [0, 3]


async def test_lines_of_rows_that_are_gone_are_blank() -> None:
    """Lines of rows that are gone are blank: no part of a longer table stays behind a shorter one."""
    view = GridView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(numbered(5))
        await pilot.pause()
        view.show(numbered(2))
        await pilot.pause()
        assert [line[:5] for line in picture(view)[1:]] == [" row0", " row1", "", "", "", "", ""]


async def test_the_cursor_stays_on_its_row() -> None:
    """Rows move under it, and it goes along; when its row is gone it takes the one in that place."""
    view = GridView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(grid_of(row("a"), row("b"), row("c")))
        await pilot.press("down")
        assert view.cursor == "b"
        view.show(grid_of(row("c"), row("a"), row("b")))
        assert view.cursor == "b"
        view.show(grid_of(row("c"), row("a"), row("d")))
        assert view.cursor == "d"
        view.show(grid_of(row("c")))
        assert view.cursor == "c"


async def test_until_it_is_moved_the_cursor_is_on_top() -> None:
    """The cursor is on top until it is moved, as a look at the worst series chooses none of them.

    The key `home` puts the cursor there again.
    """
    view = GridView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(grid_of(row("a"), row("b"), row("c")))
        view.show(grid_of(row("b"), row("a"), row("c")))
        assert view.cursor == "b"
        await pilot.press("down", "home")
        view.show(grid_of(row("c"), row("a"), row("b")))
        assert view.cursor == "c"


async def test_a_row_can_be_selected_by_key() -> None:
    """Going back to a table finds the row one has come from, unless it is gone."""
    view = GridView()
    async with Showing(view).run_test(size=SMALL):
        view.show(numbered(30))
        view.select("row20")
        assert view.cursor == "row20"
        view.select("gone")
        assert view.cursor == "row20"


@pytest.mark.parametrize(
    ("keys", "cursor"),
    [
        (("down",), "row1"),
        (("down", "down", "up"), "row1"),
        (("up",), "row0"),
        (("pagedown",), "row6"),
        (("pagedown", "pagedown", "pageup"), "row6"),
        (("ctrl+end",), "row29"),
        (("ctrl+end", "down"), "row29"),
        (("ctrl+end", "home"), "row0"),
        (("ctrl+end", "ctrl+home"), "row0"),
    ],
)
async def test_keys_move_the_cursor_and_it_stays_in_view(keys: tuple[str, ...], cursor: str) -> None:
    """Seven rows are in view of thirty; the titles are always."""
    view = GridView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(numbered(30))
        await pilot.press(*keys)
        await pilot.pause()
        assert view.cursor == cursor
        lines = picture(view)
        assert lines[0].startswith(" name")
        assert any(line.startswith(f" {cursor} ") for line in lines)


async def test_the_cursor_skips_headings() -> None:
    """A heading can't be opened, so the cursor is never on it; above a group's first row it comes into view."""
    view = GridView()
    async with Showing(view).run_test(size=(40, 4)) as pilot:
        view.show(grid_of(row("A", heading=True), row("a"), row("B", heading=True), row("b"), row("c")))
        assert view.cursor == "a"
        await pilot.press("up")
        assert view.cursor == "a"
        await pilot.press("down")
        assert view.cursor == "b"
        await pilot.press("down", "up", "up")
        await pilot.pause()
        assert view.cursor == "a"
        assert picture(view)[1] == " A"
        view.show(grid_of(row("A", heading=True)))
        assert view.cursor is None


async def test_a_heading_is_not_cut_by_the_first_column() -> None:
    """The name of a group runs across the columns, and stands out."""
    view = GridView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        name = "route=/a/very/long/name/of/a/route"
        view.show(grid_of(row(name, heading=True), row("a")))
        await pilot.pause()
        strip = strips(view)[1]
        assert strip.text.rstrip() == f" {name}"
        assert next(iter(strip)).style == palette(view).text["strong"]


async def test_the_view_goes_along_with_a_chosen_row() -> None:
    """A row that one has chosen doesn't leave the screen by being sorted away; scrolled out of view it may."""
    view = GridView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(numbered(30))
        await pilot.press("down")
        moved = [*numbered(30).rows]
        moved.append(moved.pop(1))
        view.show(grid_of(*moved))
        await pilot.pause()
        assert picture(view)[-1].startswith(" row1 ")
        view.scroll_to(y=0, animate=False)
        view.show(numbered(30))
        await pilot.pause()
        assert view.scroll_offset.y == 0


async def test_enter_opens_the_row_under_the_cursor() -> None:
    """The screen learns the key of the row."""
    view = GridView()
    app = Showing(view)
    async with app.run_test(size=SMALL) as pilot:
        view.show(numbered(3))
        await pilot.press("down", "enter")
        await pilot.pause()
        assert app.told == [("opened", "row1")]


async def test_a_click_selects_and_two_open_the_row_of_the_first() -> None:
    """A click selects, and two open the row of the first. Another row may have come under the mouse in between."""
    view = GridView()
    app = Showing(view)
    async with app.run_test(size=SMALL) as pilot:
        view.show(grid_of(row("G", heading=True), row("a"), row("b"), row("c")))
        await pilot.pause()
        await pilot.click(view, offset=(5, 3))
        assert view.cursor == "b"
        await pilot.click(view, offset=(5, 1))
        await pilot.click(view, offset=(5, 7))
        assert view.cursor == "b"
        await pilot.double_click(view, offset=(5, 4))
        await pilot.pause()
        assert app.told == [("opened", "c")]
        view.show(grid_of(row("G", heading=True), row("c"), row("a"), row("b")))
        await pilot.click(view, offset=(5, 4), times=3)
        await pilot.pause()
        assert app.told == [("opened", "c"), ("opened", "b")]


async def test_a_click_on_a_title_names_its_column() -> None:
    """A click on a title names its column, also on its arrow and on the gap before it.

    Rows that are scrolled below do not matter.
    """
    view = GridView()
    app = Showing(view)
    async with app.run_test(size=SMALL) as pilot:
        view.show(numbered(30))
        await pilot.press("ctrl+end")
        await pilot.pause()
        for x in (2, 27, 34):
            await pilot.click(view, offset=(x, 0))
        await pilot.pause()
        assert app.told == [("header", "name"), ("header", "p50"), ("header", "p99")]


async def test_the_wheel_scrolls_and_leaves_the_cursor() -> None:
    """Looking further down chooses nothing; the next key comes back to the cursor."""
    view = GridView()
    app = Showing(view)
    async with app.run_test(size=SMALL) as pilot:
        view.show(numbered(30))
        await pilot.pause()
        view.scroll_relative(y=10, animate=False)
        await pilot.pause()
        assert view.cursor == "row0"
        assert picture(view)[1].startswith(" row10 ")
        await pilot.press("down")
        await pilot.pause()
        assert picture(view)[1].startswith(" row1 ")


async def test_a_table_that_became_short_scrolls_back() -> None:
    """A table that became short scrolls back, so a filter leaves no empty view below the last row."""
    view = GridView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(numbered(30))
        await pilot.press("ctrl+end")
        view.show(numbered(2))
        await pilot.pause()
        assert picture(view)[1].startswith(" row0 ")


async def test_the_cursor_is_seen_and_less_where_the_keyboard_is_elsewhere() -> None:
    """The bar says whom the keys go to; tones stay what they are on it."""
    view, other = GridView(), GridView()
    async with Showing(view, other).run_test(size=(40, 16)) as pilot:
        view.show(numbered(3))
        view.focus()
        await pilot.pause()
        paint = palette(view)
        assert next(iter(strips(view)[1])).style == paint.cursor["plain"]
        assert paint.cursor["warn"] in [segment.style for segment in strips(view)[1]]
        assert next(iter(strips(view)[2])).style == paint.text["plain"]
        other.focus()
        await pilot.pause()
        assert next(iter(strips(view)[1])).style == paint.resting["plain"]


async def test_another_theme_draws_it_afresh() -> None:
    """Another theme draws the table afresh, and no line keeps the colours of the old one."""
    view = GridView()
    app = Showing(view)
    async with app.run_test(size=SMALL) as pilot:
        view.show(numbered(3))
        await pilot.pause()
        dark = next(iter(strips(view)[2])).style
        app.theme = "textual-light"
        await pilot.pause()
        light = next(iter(strips(view)[2])).style
        assert light == palette(view).text["plain"] != dark


async def test_a_grid_may_come_before_the_widget_is_on_the_screen() -> None:
    """A grid may come before the widget is on the screen, so code that composes may fill it at once."""
    view = GridView()
    view.show(numbered(3))
    async with Showing(view).run_test(size=SMALL) as pilot:
        await pilot.pause()
        assert view.virtual_size == Size(39, 4)
        assert picture(view)[3].startswith(" row2 ")


async def test_a_grid_may_come_while_another_screen_is_in_front() -> None:
    """Back from a series, the table is complete."""
    view = GridView()
    app = Showing(view)
    async with app.run_test(size=SMALL) as pilot:
        view.show(numbered(3))
        await app.push_screen(Screen())
        view.show(numbered(5))
        app.pop_screen()
        await pilot.pause()
        assert [line.split() for line in picture(view)[1:6]] == [
            [f"row{at}", "1", "ms", "2", "ms"] for at in range(5)
        ]
