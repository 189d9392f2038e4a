"""The thin lines: what has room, and what a click on them does."""

from __future__ import annotations

import pytest
from tests.unit.tui.widgets.showing import Showing, picture

from telemetry.tui.model.grid import Cell
from telemetry.tui.screens.bar import Bar, BarEntry, KeysLine, Shortcut, TabsLine

pytestmark = pytest.mark.slow

KEYS = {"overview": "1", "producers": "2", "log": "3"}
SHORTCUTS = [Shortcut("open", "⏎", "open"), Shortcut("sort", "s", "sort"), Shortcut("pin", "p", "pin")]
ALWAYS = [Shortcut("help", "?", "help"), Shortcut("quit", "q", "quit")]


class Clicked(Showing):
    """Keeps the actions that were asked for."""

    def __init__(self, bar: Bar) -> None:
        super().__init__(bar)
        self.actions: list[str] = []

    async def run_action(self, action: object, *args: object, **options: object) -> bool:
        self.actions.append(str(action))
        return True


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (60, " ⏎ open  s sort  p pin                       ? help  q quit"),
        (39, " ⏎ open  s sort  p pin  ? help  q quit"),
        (38, " ⏎ open  s sort        ? help  q quit"),
        (20, "     ? help  q quit"),
    ],
)
async def test_keys_that_have_no_room_are_left_out(width: int, line: str) -> None:
    """Help and quit stay longest."""
    bar = KeysLine(id="keys")
    async with Showing(bar).run_test(size=(width, 3)) as pilot:
        bar.show(SHORTCUTS, ALWAYS)
        await pilot.pause()
        assert picture(bar) == [line[:width]]


async def test_a_note_takes_what_the_tabs_leave() -> None:
    """A note takes what the tabs leave, and is cut rather than they are."""
    bar = TabsLine(id="tabs")
    async with Showing(bar).run_test(size=(44, 3)) as pilot:
        bar.show("overview", KEYS, (Cell("last 10 s"),))
        await pilot.pause()
        assert picture(bar) == ["  1 Overview  2 Producers  3 Log  last 10 s"]
        bar.show("overview", KEYS, (Cell("last 10 seconds"),))
        await pilot.pause()
        assert picture(bar)[0].endswith("last 10 …")


async def test_the_tab_one_is_in_looks_different() -> None:
    """The current tab looks different, and no other does."""
    bar = TabsLine(id="tabs")
    async with Showing(bar).run_test(size=(80, 3)) as pilot:
        for tab, name in (("overview", "Overview"), ("log", "Log")):
            bar.show(tab, KEYS, ())
            await pilot.pause()
            (strip,) = bar.render_lines(bar.size.region)
            bold = [segment.text for segment in strip if segment.style and segment.style.bold]
            assert name in "".join(bold)
            assert "Producers" not in "".join(bold)


async def test_there_are_as_many_tabs_as_keys() -> None:
    """There are as many tabs as keys. Some tabs are there for some runs only, and keep their numbers."""
    bar = TabsLine(id="tabs")
    async with Showing(bar).run_test(size=(80, 3)) as pilot:
        for more in ({}, {"requests": "4"}, {"steps": "5"}, {"requests": "4", "steps": "F5"}):
            bar.show("overview", {**KEYS, **more}, ())
            await pilot.pause()
            assert picture(bar)[0].split()[6:] == [word for tab, key in more.items() for word in (key, tab.title())]


async def test_a_click_does_what_stands_there() -> None:
    """A click on an entry of the line does its action, and a click between two entries does nothing."""
    bar = KeysLine(id="keys")
    app = Clicked(bar)
    async with app.run_test(size=(60, 3)) as pilot:
        bar.show(SHORTCUTS, ALWAYS)
        for column in (1, 6, 7, 9, 55):
            await pilot.click(bar, offset=(column, 0))
            await pilot.pause()
        assert app.actions == ["open", "open", "sort", "quit"]


async def test_the_same_entries_again_are_not_drawn() -> None:
    """A frame in which nothing changed costs nothing."""
    bar = Bar(id="bar")
    async with Showing(bar).run_test() as pilot:
        drawn: list[None] = []
        bar.refresh = lambda *_, **__: drawn.append(None)  # type: ignore[assignment,method-assign]
        for words in ("a", "a", "b"):
            bar.show_entries([BarEntry((Cell(words),), "")], ())
        await pilot.pause()
        assert len(drawn) == 2
