"""Tests of what the screens with two tables have in common."""

from __future__ import annotations

import pytest
from tests.unit.tui import loads
from tests.unit.tui.cockpits import cockpit, press, shows, until

from telemetry.common.wording import instrument
from telemetry.tui.model.overview import series_of
from telemetry.tui.screens.base import SeriesTable, TablesScreen, ValuesTable

pytestmark = pytest.mark.slow

TABS = pytest.mark.parametrize("tab", ["1", "4"], ids=["overview", "requests"])


async def test_the_keyboard_goes_to_the_other_table_and_back() -> None:
    """The keyboard goes to the other table and back. A table of counts by state has nothing to open."""
    app = cockpit(feed := loads.live())
    async with app.run_test(size=(120, 40)) as pilot:
        await shows(pilot, "4 Requests")
        await press(pilot, "4")
        await until(pilot, lambda: isinstance(app.focused, SeriesTable))
        await press(pilot, "shift+tab", "enter")
        assert isinstance(app.focused, ValuesTable)
        assert not app.is_live("open")
        assert feed.followed == []
        await press(pilot, "shift+tab", "enter")
        await until(pilot, lambda: feed.followed)


@TABS
async def test_the_series_under_the_cursor_is_drawn_where_there_is_room(tab: str) -> None:
    """The series under the cursor is drawn where there is room, and no other is."""
    app = cockpit(loads.live())
    async with app.run_test(size=(120, 70)) as pilot:
        await shows(pilot, "4 Requests")
        await press(pilot, tab)
        await shows(pilot, ": p99 of the last minute")
        screen = app.cockpit_screen
        assert isinstance(screen, TablesScreen)
        first = screen.cursor
        await press(pilot, "down")
        await until(pilot, lambda: screen.cursor != first)
        series = series_of(app.scene, screen.cursor or "")
        assert series is not None
        await shows(pilot, f"{instrument(series[0], dict(series[1]))}: p99 of the last minute")
    assert app.failures == []
