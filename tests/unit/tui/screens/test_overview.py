"""The overview: where its tables stand, and the series under the cursor."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.tui import feeds
from tests.unit.tui.cockpits import cockpit, lines, live, press, shows, until

from telemetry.tui.feed.news import NewSnapshot
from telemetry.tui.model.visible_series import key_of
from telemetry.tui.screens.overview import OverviewScreen
from telemetry.tui.widgets.plot_view import PlotView
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

pytestmark = pytest.mark.slow


def many(count: int) -> MetricsSnapshot:
    """A run with so many series."""
    snapshot = feeds.play().last
    series = [replace(snapshot.series[0], labels={"n": f"{number:03}"}) for number in range(count)]
    return replace(snapshot, series=series)


async def test_at_80_by_24_both_tables_and_the_last_mark_are_there() -> None:
    """Below the figures that come first; series have most of the room."""
    app = cockpit(live())
    async with app.run_test() as pilot:
        await shows(pilot, "replica failover")
        shown = lines(app)
        assert "values/s" in shown[4]
        assert shown[5].split()[-4:] == ["9.49", "ms", "15.7", "ms"] or "9.49 ms" in shown[5]
        assert sum("/s" in line for line in shown[7:15]) == 8
        assert "counters and gauges" in shown[15]
        assert "gpu.memory" in shown[-3]
        assert "replica failover" in shown[-2]


async def test_with_room_to_spare_the_series_under_the_cursor_is_drawn() -> None:
    """A screen with room to spare draws the last minute of any series under the cursor."""
    app = cockpit(live())
    async with app.run_test(size=(120, 48)) as pilot:
        await shows(pilot, "request{model=llama-70b,route=/v1/chat}: p99 of the last minute")
        await press(pilot, "down")
        await shows(pilot, "request{model=bge-large,route=/v1/embed}: p99 of the last minute")


async def test_without_series_there_is_nothing_to_draw() -> None:
    """Without series the overview draws nothing, and nothing fails."""
    app = cockpit(live(replace(feeds.play().last, series=[], counters=[], gauges=[])))
    async with app.run_test(size=(120, 48)) as pilot:
        await shows(pilot, "no series yet")
        assert app.screen.query_one("#preview", PlotView).display
    assert app.failures == []


async def test_on_a_wide_and_low_screen_counters_stand_beside_the_series() -> None:
    """Below them they would take what little room there is."""
    app = cockpit(live())
    async with app.run_test(size=(160, 20)) as pilot:
        await shows(pilot, "queue_wait")
        (titles,) = [line for line in lines(app) if line.lstrip().startswith("series")]
        assert "counters" in titles


async def test_with_more_series_than_lines_the_cursor_scrolls() -> None:
    """The cursor scrolls where there are more series than lines, and counters keep a third."""
    app = cockpit(live(many(200)))
    async with app.run_test() as pilot:
        await shows(pilot, "counters and gauges")
        await press(pilot, "ctrl+end")
        await shows(pilot, "n=199")
        assert isinstance(app.screen, OverviewScreen)
        assert app.screen.cursor == key_of(("request", (("n", "199"),)))
        await press(pilot, "home")
        await shows(pilot, "n=000")


async def test_the_cursor_stays_on_its_series_when_others_come() -> None:
    """The cursor stays on its series when others come, also if it moves to another line."""
    feed = live(many(5))
    app = cockpit(feed)
    async with app.run_test() as pilot:
        await shows(pilot, "n=004")
        await press(pilot, "down", "down")
        later = many(5)
        more = [SeriesStat(name="new"), *later.series]
        feed.tell(NewSnapshot(replace(later, series=more), 0))
        await shows(pilot, "new")
        assert isinstance(app.screen, OverviewScreen)
        assert app.screen.cursor == key_of(("request", (("n", "002"),)))


async def test_the_newest_mark_is_shown() -> None:
    """The others are in the log."""
    feed = live()
    app = cockpit(feed)
    async with app.run_test() as pilot:
        await shows(pilot, "replica failover")
        snapshot = feeds.play().last
        feed.tell(
            NewSnapshot(replace(snapshot, marks=[*snapshot.marks, replace(snapshot.marks[-1], text="new one")]), 0)
        )
        await shows(pilot, "new one")
        await until(pilot, lambda: "replica failover" not in "".join(lines(app)))


async def test_sorting_goes_through_the_columns_that_are_seen() -> None:
    """Sorting goes through the columns that are seen. At 80 columns neither `count` nor `p90` has room."""
    app = cockpit(live())
    async with app.run_test() as pilot:
        await shows(pilot, "replica failover")
        screen = app.cockpit_screen
        assert isinstance(screen, OverviewScreen)
        keys = screen.sort_keys(app.scene, app.view)
        assert keys == ("", "name", "rate", "p50", "p99", "p99.9", "max", "trend")


async def test_frozen_is_said_without_a_dot_behind_it() -> None:
    """The word `frozen` has no dot behind it where a screen has nothing else beside the tabs."""
    app = cockpit(live())
    async with app.run_test() as pilot:
        await shows(pilot, "replica failover")
        await press(pilot, "2", "space")
        await shows(pilot, "frozen")
        assert any(line.endswith("frozen") for line in lines(app))
