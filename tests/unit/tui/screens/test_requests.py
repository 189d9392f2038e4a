"""The screen of requests: what has room, and what its keys do."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.tui import feeds, loads
from tests.unit.tui.cockpits import cockpit, lacks, lines, press, shows, until

from telemetry.tui.feed.news import NewSnapshot
from telemetry.tui.screens.requests import RequestsScreen
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot

pytestmark = pytest.mark.slow

OPENED = "chat.latency{model=llama-70b,window=measured}"


def many(kinds: int) -> MetricsSnapshot:
    """A run with so many kinds of request."""
    counters = [CounterStat(name=f"kind{number:02}.issued", unit="requests", value=9) for number in range(kinds)]
    return replace(loads.load().last, counters=[*loads.load().last.counters, *counters])


async def test_at_80_by_24_both_tables_are_there() -> None:
    """At 80 by 24 both tables are there, with reasons, windows, and all series of the open window."""
    app = cockpit(loads.live())
    async with app.run_test() as pilot:
        await press(pilot, "4")
        await shows(pilot, "issued ▸", "failed: timeout", "finished: stop", "measured", "p99 trend")
        shown = lines(app)
        assert [line.split()[0] for line in shown[15:23]] == [
            *("latency", "latency_corrected", "queue_delay", "ttft", "itl"),
            *("tpot", "input_tokens", "output_tokens"),
        ]
    assert app.failures == []


@pytest.mark.parametrize("size", [(20, 10), (40, 15), (100, 30), (200, 50), (300, 12)])
async def test_on_a_screen_of_any_size_it_can_be_drawn(size: tuple[int, int], tmp_path: Path) -> None:
    """The screen can be drawn in any size, with the window, the whole run and the past."""
    app = cockpit(loads.live(), tmp_path)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for key in ("4", "w", "comma", "end", "u", "e"):
            await press(pilot, key)
        assert max(len(line) for line in lines(app)) <= size[0]
    assert app.failures == []


async def test_many_kinds_leave_half_of_the_screen_to_series() -> None:
    """The upper table scrolls."""
    app = cockpit(loads.live(many(40)))
    async with app.run_test() as pilot:
        await press(pilot, "4")
        await shows(pilot, "42 kinds", "latency_corrected")
        await lacks(pilot, "kind39")
        await press(pilot, "shift+tab", "ctrl+end")
        await shows(pilot, "kind39", "latency_corrected")


async def test_enter_opens_a_series_and_escape_comes_back() -> None:
    """Escape comes back from a series to requests, whose tab is marked meanwhile.

    A second one goes to the overview.
    """
    app = cockpit(feed := loads.live())
    async with app.run_test(size=(120, 40)) as pilot:
        await press(pilot, "4")
        await shows(pilot, "issued ▸")
        await press(pilot, "enter")
        await shows(pilot, OPENED, "by percentile", "over 60 s")
        assert feed.followed == [("chat.latency", (("model", "llama-70b"), ("window", "measured")))]
        await press(pilot, "escape")
        await shows(pilot, "issued ▸")
        assert isinstance(app.screen, RequestsScreen)
        await press(pilot, "escape")
        await lacks(pilot, "issued ▸")
        assert app.current_mode == "overview"


async def test_figures_of_the_window_of_the_run_and_of_the_past() -> None:
    """Each says of what time range it is."""
    app = cockpit(loads.live(), frames_per_s=30.0)
    async with app.run_test(size=(160, 40)) as pilot:
        await press(pilot, "4")
        await shows(pilot, "last 10 s", "issuing", "failing")
        await press(pilot, "w")
        await shows(pilot, "whole run", "LoadGen", "while issuing")
        await press(pilot, "comma")
        await shows(pilot, "UTC · 2 kinds", "failed: –")
        await press(pilot, "end")
        await shows(pilot, "LoadGen")


async def test_a_run_that_is_over_shows_all_of_it() -> None:
    """A run that is over shows all of its time, by each definition of a rate."""
    app = cockpit(loads.live(feeds.ended(loads.load().last)))
    async with app.run_test(size=(160, 40)) as pilot:
        await press(pilot, "4")
        await shows(pilot, "COMPLETE", "whole run", "LoadGen")


async def test_tokens_a_second_come_with_the_snapshots() -> None:
    """The second of them tells a rate."""
    feed = loads.live(loads.load().snapshots[-8])
    app = cockpit(feed)
    async with app.run_test(size=(160, 40)) as pilot:
        await press(pilot, "4")
        await shows(pilot, "tokens")
        feed.tell(NewSnapshot(loads.load().last, 0))

        def rates() -> list[str]:
            return [line.split()[-1] for line in lines(app) if line.split()[:1] == ["measured"]]

        await until(pilot, lambda: [rate.endswith("/s") for rate in rates()] == [True])


async def test_a_filter_leaves_kinds_and_series() -> None:
    """Words of both are looked for."""
    app = cockpit(loads.live())
    async with app.run_test() as pilot:
        await press(pilot, "4", "slash", *"embed", "enter")
        await shows(pilot, "last 10 s · filter 'embed'")
        await lacks(pilot, "chat")


async def test_titles_of_columns_sort_nothing() -> None:
    """The series have an order of their own."""
    app = cockpit(loads.live())
    async with app.run_test() as pilot:
        await press(pilot, "4")
        await shows(pilot, "p99 trend")
        await pilot.click("#durations", offset=(40, 0))
        await pilot.pause()
        assert app.view.sort == ""
