"""The line of the filter."""

from __future__ import annotations

import pytest
from tests.unit.tui.cockpits import cockpit, live, press, shows, until

from telemetry.tui.screens.base import FilterLine
from telemetry.tui.widgets.grid_view import GridView

pytestmark = pytest.mark.slow


async def test_it_takes_room_only_while_it_is_open() -> None:
    """Above the keys."""
    app = cockpit(live())
    async with app.run_test() as pilot:
        await shows(pilot, "queue_wait")
        line = app.screen.query_one(FilterLine)
        assert line.size.height == 0
        await press(pilot, "slash")
        await until(pilot, lambda: line.region.y == 22)
        await press(pilot, "enter")
        await until(pilot, lambda: not line.display)


async def test_it_begins_with_the_words_there_are() -> None:
    """The line of the filter begins with the words there are, so that they can be changed."""
    app = cockpit(live())
    async with app.run_test() as pilot:
        await press(pilot, "slash", *"que", "enter", "slash", *"ue")
        await shows(pilot, "1 of 12 series")
        assert app.view.filter == "queue"


async def test_arrows_lead_from_it_to_the_table() -> None:
    """The filter stays."""
    app = cockpit(live())
    async with app.run_test() as pilot:
        await press(pilot, "slash", *"db", "down")
        await until(pilot, lambda: isinstance(app.screen.focused, GridView))
        assert app.view.filter == "db"
