"""A log that follows its end, and a header that is as high as it has to be."""

from __future__ import annotations

import pytest
from tests.unit.tui.widgets.showing import Showing, picture, strips
from textual.strip import Strip

from telemetry.tui.model.grid import Cell, Line
from telemetry.tui.theme import palette
from telemetry.tui.widgets.lines_view import HeaderView, LinesView

pytestmark = pytest.mark.slow

SMALL = (30, 5)


def lines_of(*numbers: int) -> tuple[Line, ...]:
    return tuple((Cell(f"line {number}"),) for number in numbers)


def numbered(number: int) -> tuple[Line, ...]:
    return lines_of(*range(number))


async def test_the_end_of_a_log_stays_in_view() -> None:
    """New lines come, and one sees them without a key."""
    view = LinesView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(numbered(3))
        await pilot.pause()
        assert picture(view) == ["line 0", "line 1", "line 2", "", ""]
        view.show(numbered(50))
        await pilot.pause()
        assert picture(view) == [f"line {number}" for number in range(45, 50)]
        assert view.following


async def test_scrolled_up_one_can_read() -> None:
    """Lines in view stay while others come at the end and go at the start; one key goes back to the end."""
    view = LinesView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(numbered(50))
        await pilot.press("up", "up")
        await pilot.pause()
        assert not view.following
        assert picture(view)[0] == "line 43"
        view.show(lines_of(*range(10, 70)))
        await pilot.pause()
        assert picture(view)[0] == "line 43"
        await pilot.press("ctrl+end")
        await pilot.pause()
        assert picture(view)[-1] == "line 69"
        assert view.following


async def test_reading_goes_on_nearby_where_the_lines_are_gone() -> None:
    """There is no jump to the end or the start when what one read is no longer kept."""
    view = LinesView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(numbered(50))
        await pilot.press("home")
        view.show(lines_of(*range(100, 150)))
        await pilot.pause()
        assert picture(view)[0] == "line 100"


@pytest.mark.parametrize(
    ("keys", "first"),
    [(("up",), 44), (("pageup",), 41), (("home",), 0), (("home", "down", "pagedown"), 5), (("up", "down"), 45)],
)
async def test_keys_scroll(keys: tuple[str, ...], first: int) -> None:
    """A page leaves one line to find the place again."""
    view = LinesView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(numbered(50))
        await pilot.press(*keys)
        await pilot.pause()
        assert picture(view)[0] == f"line {first}"


async def test_long_lines_are_broken_for_the_width_there_is() -> None:
    """Long lines are broken before the edge, also after the terminal has become narrower."""
    view = LinesView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(((Cell("12:00 ", "dim"), Cell("12 events were lost in rank 3", "bad")),))
        await pilot.pause()
        assert picture(view)[:2] == ["12:00 12 events were lost in", "rank 3"]
        await pilot.resize_terminal(20, 5)
        await pilot.pause()
        assert picture(view)[:3] == ["12:00 12 events", "were lost in rank 3", ""]


async def test_a_smaller_window_still_shows_the_end() -> None:
    """Following survives a resize."""
    view = LinesView()
    async with Showing(view).run_test(size=(30, 10)) as pilot:
        view.show(numbered(50))
        await pilot.pause()
        await pilot.resize_terminal(30, 4)
        await pilot.pause()
        assert picture(view)[-1] == "line 49"


async def test_tones_are_styles() -> None:
    """A warning looks like one."""
    view = LinesView()
    async with Showing(view).run_test(size=SMALL) as pilot:
        view.show(((Cell("lost", "bad"), Cell(" [b]0[/b]")),))
        await pilot.pause()
        first, second, *_ = strips(view)[0]
        assert (first.text, first.style) == ("lost", palette(view).text["bad"])
        assert second.text == " [b]0[/b]"


async def test_the_header_is_as_high_as_it_has_lines() -> None:
    """The header is as high as it has lines, and one more line moves what is below.

    Lines that are too long are cut.
    """
    header, below = HeaderView(), LinesView()
    async with Showing(header, below).run_test(size=SMALL) as pilot:
        header.show(lines_of(1, 2))
        await pilot.pause()
        assert (header.size.height, below.size.height) == (2, 3)
        header.show((*lines_of(1, 2), (Cell("trouble " * 9, "bad"),)))
        await pilot.pause()
        assert (header.size.height, below.size.height) == (3, 2)
        assert picture(header)[2] == "trouble trouble trouble troubl"


async def test_only_header_lines_that_differ_are_drawn() -> None:
    """The clock ticks in one line, and the others cost nothing."""
    drawn: list[int] = []

    class Counted(HeaderView):
        def render_line(self, y: int) -> Strip:
            drawn.append(y)
            return super().render_line(y)

    header = Counted()
    async with Showing(header).run_test(size=SMALL) as pilot:
        header.show(lines_of(1, 2, 3))
        await pilot.pause()
        drawn.clear()
        header.show(lines_of(1, 9, 3))
        await pilot.pause()
        header.show(lines_of(1, 9, 3))
        await pilot.pause()
        assert drawn == [1]
        assert picture(header) == ["line 1", "line 9", "line 3"]
