"""The screen of a series: which plots have room, and how often they are drawn."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.tui import feeds
from tests.unit.tui.cockpits import cockpit, live, press, shows, text, until

from telemetry.testing.clock import FakeClock
from telemetry.tui.feed.news import NewSnapshot, TimelineOf
from telemetry.tui.screens.series import PLOTS, SeriesScreen, visible
from telemetry.tui.widgets.plot_view import PlotView

pytestmark = pytest.mark.slow

FIRST = ("request", (("model", "llama-70b"), ("route", "/v1/chat")))


@pytest.mark.parametrize(
    ("width", "height", "shown"),
    [
        (80, 24, ("curve",)),
        (80, 48, ("over_time", "curve", "histogram")),
        (160, 24, ("over_time", "curve", "histogram")),
        (160, 48, PLOTS),
    ],
)
def test_as_many_plots_as_can_be_read(width: int, height: int, shown: tuple[str, ...]) -> None:
    """The screen shows as many plots as can be read, and the chosen one where only one has room."""
    assert visible(width, height, PLOTS.index("curve")) == shown


@pytest.mark.parametrize("size", [(80, 24), (80, 48), (160, 24), (160, 48)])
async def test_every_plot_on_the_screen_has_room(size: tuple[int, int]) -> None:
    """Two dozen columns and five lines at least, and the figures beside or above them."""
    app = cockpit(live(), baseline=feeds.baseline())
    async with app.run_test(size=size) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "enter")
        await shows(pilot, "p99.99", "baseline")
        await until(
            pilot, lambda: all(view.size.height >= 5 for view in app.screen.query(PlotView) if view.display)
        )
        assert all(view.size.width >= 24 for view in app.screen.query(PlotView) if view.display)
    assert app.failures == []


async def test_before_its_history_comes_the_last_minute_is_shown() -> None:
    """Before its history comes, a series shows the last minute and the distribution of the snapshot."""
    feed = live(answers=False)
    async with cockpit(feed).run_test(size=(160, 48)) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "enter")
        await shows(pilot, "p99 of the last minute", "histogram, whole run")
        feed.tell(TimelineOf(FIRST, feeds.play().timeline(FIRST)))
        await shows(pilot, "over 75 s", "histogram, last 10 s")


async def test_plots_are_drawn_once_a_second_and_at_every_key() -> None:
    """A snapshot that comes earlier waits."""
    feed, clock = live(), FakeClock()
    app = cockpit(feed, clock=clock)
    async with app.run_test(size=(160, 48)) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "enter")
        await shows(pilot, "over 75 s")
        snapshot = feeds.play().last
        first = replace(snapshot.series[0], count=123_456)
        clock.advance(0.5)
        feed.tell(NewSnapshot(replace(snapshot, name="half", series=[first]), clock.monotonic_ns()))
        await shows(pilot, "half")
        assert "123,456" not in text(app)
        clock.advance(0.5)
        feed.tell(NewSnapshot(replace(snapshot, name="whole", series=[first]), clock.monotonic_ns()))
        await shows(pilot, "whole", "123,456")
        await press(pilot, "u")
        await shows(pilot, "[ms]")


async def test_a_series_that_is_gone_is_said_to_be() -> None:
    """A series that is gone is noted on its screen, as a run may have others after a restart."""
    feed, clock = live(), FakeClock()
    app = cockpit(feed, clock=clock)
    async with app.run_test() as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "enter")
        await shows(pilot, "over 75 s")
        clock.advance(1)
        feed.tell(NewSnapshot(replace(feeds.play().last, series=[]), clock.monotonic_ns()))
        await shows(pilot, "the run has no such series")
        assert isinstance(app.screen, SeriesScreen)
    assert app.failures == []


async def test_a_name_that_is_too_long_for_the_figures_stands_beside_the_tabs() -> None:
    """A name that is too long for the figures stands beside the tabs, in full if it can."""
    async with cockpit(live()).run_test() as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "enter")
        await shows(pilot, "request{model=llama-70b,route=/v1/chat}")


async def test_figures_that_have_no_room_are_scrolled_to() -> None:
    """Figures that have no room are scrolled to by the arrow keys."""
    app = cockpit(live())
    async with app.run_test(size=(80, 14)) as pilot:
        await shows(pilot, "/v1/chat")
        await press(pilot, "enter")
        await shows(pilot, "count")
        assert "p99.99" not in text(app)
        await press(pilot, *["down"] * 12)
        await shows(pilot, "p99.99")
