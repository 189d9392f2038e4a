"""Tests of what each key does, on each screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.tui import feeds, loads
from tests.unit.tui.cockpits import RUNS, STOP_WORDS, cockpit, lacks, lines, live, press, shows, text, until

from telemetry.errors import RunNotFoundError
from telemetry.testing.clock import FakeClock
from telemetry.tui.app import Cockpit
from telemetry.tui.feed.news import NewSnapshot
from telemetry.tui.screens.overview import OverviewScreen
from telemetry.tui.widgets.grid_view import GridView
from telemetry.wire.snapshot import MetricsSnapshot

pytestmark = pytest.mark.slow

BIG = (160, 48)
FIRST = ("request", (("model", "llama-70b"), ("route", "/v1/chat")))
S = feeds.SECOND_NS


async def test_enter_opens_the_series_and_escape_goes_back() -> None:
    """The history of a series is asked for when it opens, and no longer after escape."""
    feed = live()
    app = cockpit(feed)
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "enter")
        await shows(pilot, "request{model=llama-70b,route=/v1/chat}", "by percentile", "histogram", "over 75 s")
        assert feed.followed == [FIRST]
        await press(pilot, "escape")
        await shows(pilot, "queue_wait")
        assert feed.followed == [FIRST, None]
    assert app.failures == []


async def test_a_double_click_opens_a_series() -> None:
    """A single one only selects it."""
    feed = live()
    async with cockpit(feed).run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "queue_wait")
        await pilot.click("#series", offset=(3, 6))
        await pilot.pause()
        assert feed.followed == []
        await pilot.click("#series", offset=(3, 6), times=2)
        await until(pilot, lambda: feed.followed == [("queue_wait", ())])


async def test_a_counter_opens_as_its_rate_and_a_gauge_as_its_value() -> None:
    """A counter opens as its rate over time and a gauge as its value, with the figure at the cursor.

    Escape goes back to the table with the keyboard.
    """
    feed = live()
    async with cockpit(feed).run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "connections")
        await press(pilot, "shift+tab", "enter")
        await shows(pilot, "rate over time, UTC", "34.9 k in all", "▏22:14:35 UTC · 465/s", "0/s")
        assert feed.followed == [("requests", ())]
        await press(pilot, "left", "left")
        await shows(pilot, "▏22:14:33 UTC")
        await press(pilot, "escape", "down", "down", "down", "enter")
        await shows(pilot, "value over time, UTC", "▏22:14:35 UTC · 128", "64 to 128")
        await press(pilot, "home", "right")
        await shows(pilot, "· 64 ·")
        await press(pilot, "escape", "shift+tab", "enter")
        await until(pilot, lambda: feed.followed[-1] == FIRST)


async def test_reasons_of_failures_open_together() -> None:
    """Reasons of failures open together: their row is a sum, and so is their curve."""
    feed = loads.live()
    async with cockpit(feed).run_test(size=(160, 60)) as pilot:
        await shows(pilot, "chat.failed{model=llama-70b,window=measured}")
        await press(pilot, "shift+tab")
        for _ in range(20):
            table = pilot.app.screen.query_one("#others", GridView)
            if (table.cursor or "").startswith('counter ["chat.failed"') and "measured" in (table.cursor or ""):
                break
            await press(pilot, "down")
        await press(pilot, "enter")
        await shows(pilot, "rate over time, UTC", "36 in all")


async def test_a_filter_is_typed_kept_and_cleared() -> None:
    """Rows go with every character; enter keeps it, escape clears it."""
    async with cockpit(live()).run_test(notifications=True) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "slash", *"query")
        await shows(pilot, "db.query", "filter 'query'")
        await lacks(pilot, "queue_wait")
        await press(pilot, "enter", "down", "enter")
        await shows(pilot, "db.query{pool=replica}", "over")
        await press(pilot, "escape")
        await shows(pilot, "filter 'query'")
        await press(pilot, "escape")
        await shows(pilot, "queue_wait")


async def test_escape_in_the_line_of_the_filter_gives_it_up() -> None:
    """Escape in the line of the filter gives it up, and the keyboard is the table's again."""
    feed = live()
    async with cockpit(feed).run_test(notifications=True) as pilot:
        await press(pilot, "slash", *"zzz")
        await shows(pilot, "no series matches")
        await press(pilot, "escape")
        await shows(pilot, "queue_wait")
        await press(pilot, "enter")
        await until(pilot, lambda: feed.followed)


async def test_letters_are_no_commands_while_a_filter_is_typed() -> None:
    """`q` is a letter there."""
    app = cockpit(live())
    async with app.run_test(notifications=True) as pilot:
        await press(pilot, "slash", *"queue")
        await shows(pilot, "filter 'queue'")
        assert not app._exit


async def test_sorting_by_key_and_by_click() -> None:
    """The column is marked, and clicking it again turns it round."""
    async with cockpit(live()).run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "s")
        await shows(pilot, "series▴")
        await press(pilot, "s")
        await shows(pilot, "▾count")
        await press(pilot, "r")
        await shows(pilot, "▴count")
        title = lines(pilot.app)[6].index("p99 ")  # type: ignore[arg-type]
        await pilot.click("#series", offset=(title, 0))
        await shows(pilot, "▾p99")
        await pilot.click("#series", offset=(title, 0))
        await shows(pilot, "▴p99")


async def test_the_titles_of_counters_sort_no_series() -> None:
    """The titles of counters sort no series, as counters have columns of their own."""
    app = cockpit(live())
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "connections")
        await pilot.click("#others", offset=(3, 0))
        await pilot.pause()
        assert app.view.sort == ""


async def test_figures_of_the_window_and_of_the_run() -> None:
    """The key shows the other ones."""
    async with cockpit(live()).run_test(notifications=True) as pilot:
        await shows(pilot, "last 10 s", "w run")
        await press(pilot, "w")
        await shows(pilot, "whole run · 12 series", "w window")


async def test_units_change_on_all_screens() -> None:
    """Raw numbers are those to copy."""
    app = cockpit(live())
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "242 µs")
        await press(pilot, "u")
        await shows(pilot, "242.047", "queue_wait [us]")
        await press(pilot, "2")
        assert app.view.units == "raw"


async def test_series_are_grouped_by_one_label_after_the_other() -> None:
    """Series are grouped by one label after the other, and at last by none."""
    app = cockpit(live())
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "queue_wait")
        for label in ("model", "pool", "rank", "route"):
            await press(pilot, "g")
            await shows(pilot, f"by {label}")
        await press(pilot, "g")
        await lacks(pilot, "by route")


async def test_a_pinned_series_comes_first() -> None:
    """A pinned series comes first, whatever the order of the others, until it is unpinned."""
    async with cockpit(live()).run_test(notifications=True) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, *["down"] * 5, "p")
        await until(pilot, lambda: "queue_wait" in lines(pilot.app)[7])  # type: ignore[arg-type]
        await press(pilot, "p")
        await until(pilot, lambda: "queue_wait" not in lines(pilot.app)[7])  # type: ignore[arg-type]


async def test_a_frozen_screen_stands_still_and_goes_on() -> None:
    """The run goes on meanwhile, and what is wrong with it is still said."""
    feed, clock = live(), FakeClock()
    app = cockpit(feed, clock=clock)
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "75 s", "space freeze")
        await press(pilot, "space")
        await shows(pilot, "frozen · last 10 s")
        clock.advance(1)
        feed.tell(NewSnapshot(feeds.ended(feeds.play().last), clock.monotonic_ns()))
        await until(pilot, lambda: app._known.ended)
        assert "LIVE" in text(app)
        await press(pilot, "space")
        await shows(pilot, "COMPLETE")
        await lacks(pilot, "frozen")


async def test_the_past_is_looked_at_window_by_window() -> None:
    """The past is looked at window by window, with longer and shorter time ranges, and back to now."""
    feed = live()
    now_ns = feeds.play().last.time_ns
    app = cockpit(feed)
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "LIVE")
        await press(pilot, "comma")
        await shows(pilot, "showing 22:14:15–22:14:25 UTC", "10 s ago", "end now")
        await press(pilot, "comma", "minus")
        assert feed.looked_at == [(now_ns - 10 * S, 10.0), (now_ns - 20 * S, 10.0), (now_ns - 20 * S, 30.0)]
        await press(pilot, "plus", "full_stop")
        assert feed.looked_at[-1] == (now_ns - 10 * S, 10.0)
        await press(pilot, "full_stop")
        await lacks(pilot, "back at")
        await press(pilot, "comma", "end")
        await lacks(pilot, "back at")
        await press(pilot, "comma", "escape")
        await lacks(pilot, "back at")
    assert app.failures == []


async def test_plots_over_time_are_zoomed_and_panned() -> None:
    """Plots over time are zoomed and panned, only on the screen of a series."""
    app = cockpit(live())
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "plus", "left")
        assert (app.view.zoom, app.view.pan) == (0, 0)
        await press(pilot, "enter")
        await shows(pilot, "over 75 s")
        await press(pilot, "plus")
        await lacks(pilot, "over 75 s")
        await press(pilot, "left", "left", "right")
        assert (app.view.zoom, app.view.pan) == (1, 2)
        await press(pilot, "minus")
        await shows(pilot, "over 75 s")
        await press(pilot, "plus", "escape", "enter")
        assert app.view.zoom == 0


async def test_on_a_small_screen_plots_take_turns() -> None:
    """The key is offered only there."""
    async with cockpit(live()).run_test(notifications=True, size=(80, 24)) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "enter")
        await shows(pilot, "over 75 s", "v next plot")
        for title in ("by percentile", "histogram", "rate", "over 75 s"):
            await press(pilot, "v")
            await shows(pilot, title)


async def test_tabs_by_number_by_tab_and_by_click() -> None:
    """A series that is open stays open in its tab."""
    app = cockpit(live())
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "enter", "2")
        await shows(pilot, "node-1:4100")
        await press(pilot, "tab")
        await shows(pilot, "Marks")
        await press(pilot, "tab")
        await shows(pilot, "over 75 s")
        await press(pilot, "1")
        await shows(pilot, "queue_wait")
        await pilot.click("#tabs", offset=(20, 0))
        await shows(pilot, "node-1:4100")
        await press(pilot, "escape")
        await shows(pilot, "queue_wait")
        await press(pilot, "3")
        await shows(pilot, "Marks")
    assert app.failures == []


async def test_the_tab_of_requests_is_there_where_there_are_any() -> None:
    """The tab of requests comes with the first of them, and stays while it is the open one."""
    app = cockpit(feed := live())
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "4")
        assert app.current_mode == "overview"
        feed.tell(NewSnapshot(loads.load().last, 0))
        await shows(pilot, "4 Requests")
        await press(pilot, "3", "tab")
        await shows(pilot, "issued ▸")
        feed.tell(NewSnapshot(feeds.play().last, 0))
        await shows(pilot, "no requests yet", "4 Requests")
        await press(pilot, "tab")
        await shows(pilot, "queue_wait")
        await lacks(pilot, "4 Requests")
    assert app.failures == []


async def test_two_tabs_have_a_series_open_each() -> None:
    """The history that is asked for is that of the one that is seen."""
    chat = ("chat.latency", (("model", "llama-70b"), ("window", "measured")))
    app = cockpit(feed := loads.live())
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "embed.latency")
        await press(pilot, "slash", *"embed", "enter", "enter")
        await shows(pilot, "embed.latency", "over 60 s")
        await press(pilot, "4")
        await shows(pilot, "issued ▸")
        await press(pilot, "enter")
        await shows(pilot, "chat.latency", "over 60 s")
        await press(pilot, "space", "tab")
        await shows(pilot, "embed.latency", "over 60 s")
        assert app.timeline is not None
        assert app.timeline.key.name == "embed.latency"
        await press(pilot, "4")
        await shows(pilot, "chat.latency", "over 60 s")
        await press(pilot, "4")
        await shows(pilot, "issued ▸")
        assert feed.followed == [("embed.latency", ()), chat, ("embed.latency", ()), chat, None]
        await press(pilot, "1")
        await shows(pilot, "embed.latency", "over 60 s")
        assert feed.followed[-1] == ("embed.latency", ())
        await press(pilot, "escape")
        await shows(pilot, "1 of 19 series")
    assert app.failures == []


async def test_each_tab_has_a_filter_of_its_own() -> None:
    """Words that leave some series would leave no producer."""
    app = cockpit(live())
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "slash", *"query", "enter", "2")
        await shows(pilot, "node-1:4100")
        await press(pilot, "slash", *"4101", "enter")
        await lacks(pilot, "node-1:4100")
        await press(pilot, "escape")
        await shows(pilot, "node-1:4100")
        assert app.current_mode == "producers"


async def test_producers_are_sorted() -> None:
    """Producers are sorted by their own columns."""
    async with cockpit(live()).run_test(notifications=True) as pilot:
        await press(pilot, "2", "s")
        await shows(pilot, "producer▴")
        await press(pilot, "r")
        await shows(pilot, "producer▾")


async def test_the_run_is_stopped_only_when_confirmed() -> None:
    """The question has the words of the caller; enter alone means no."""
    feed = live()
    async with cockpit(feed).run_test(notifications=True) as pilot:
        await shows(pilot, "LIVE")
        for keys in (["enter"], ["escape"], ["n"], ["q"]):
            await press(pilot, "ctrl+x")
            await shows(pilot, STOP_WORDS)
            await press(pilot, *keys)
            await lacks(pilot, STOP_WORDS)
        assert feed.stops == 0
        await press(pilot, "ctrl+x", "y")
        await shows(pilot, "The run has been asked to stop.")
        assert feed.stops == 1


async def test_a_run_that_is_over_can_not_be_stopped() -> None:
    """Nor is the key shown."""
    feed = live(feeds.ended(feeds.play().last))
    async with cockpit(feed).run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "COMPLETE")
        await press(pilot, "ctrl+x")
        assert STOP_WORDS not in text(pilot.app)  # type: ignore[arg-type]
        assert "stop" not in lines(pilot.app)[-1]  # type: ignore[arg-type]


async def test_leaving_touches_nothing() -> None:
    """`q` ends the viewer with code 0 and asks the feed for nothing."""
    feed = live()
    app = cockpit(feed)
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "LIVE")
        await press(pilot, "q")
    assert app.return_code == 0
    assert (feed.stops, feed.looked_at, feed.followed) == (0, [], [])


async def test_ctrl_c_does_nothing_and_says_what_would() -> None:
    """The key ctrl+c only shows which keys quit the viewer and end the run.

    In a terminal it would end the job, and fingers know that.
    """
    app = cockpit(live())
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "LIVE")
        await press(pilot, "ctrl+c")
        await shows(pilot, "q quits the viewer, ^x ends the run.")


async def test_beside_a_command_ctrl_c_says_how_to_answer_it() -> None:
    """Beside a command, ctrl+c says how to answer the command.

    Questions of the command are seen in the log, and the keyboard is not its own yet.
    """
    app = cockpit(live(), beside_command=True)
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "LIVE")
        await press(pilot, "ctrl+c")
        await shows(pilot, "q quits the viewer, then keys go to the command.")


async def test_a_baseline_is_chosen_loaded_hidden_and_changed() -> None:
    """Each `b` asks which; what `enter` alone chooses turns the last one off and on again."""
    asked: list[str] = []

    def load(spec: str) -> MetricsSnapshot:
        asked.append(spec)
        return feeds.baseline()

    async with cockpit(live(), load_baseline=load).run_test(notifications=True) as pilot:
        await shows(pilot, "LIVE")
        await press(pilot, "b")
        await shows(pilot, RUNS[0][1], RUNS[1][1])
        await press(pilot, "down", "enter")
        await shows(pilot, "Δp99", "+25 %")
        assert asked == ["other"]
        await press(pilot, "b")
        await shows(pilot, "compare with none", RUNS[0][1])
        await press(pilot, "enter")
        await lacks(pilot, "Δp99")
        await press(pilot, "b")
        await shows(pilot, "serve-bench-20231113T090000Z-0c0d again", RUNS[0][1])
        await press(pilot, "enter")
        await shows(pilot, "Δp99")
        assert asked == ["other"]
        await press(pilot, "b")
        await shows(pilot, RUNS[0][1])
        await press(pilot, "down", "enter")
        await until(pilot, lambda: asked == ["other", "earlier"])


async def test_no_baseline_is_chosen() -> None:
    """Escape closes the choice."""
    async with cockpit(live()).run_test(notifications=True) as pilot:
        await press(pilot, "b")
        await shows(pilot, RUNS[0][1])
        await press(pilot, "escape")
        await lacks(pilot, RUNS[0][1])
        await lacks(pilot, "Δp99")


async def test_a_baseline_given_at_the_start_is_compared_with() -> None:
    """A baseline given at the start is compared with, on the screen of a series, too."""
    async with cockpit(live(), baseline=feeds.baseline()).run_test(notifications=True) as pilot:
        await shows(pilot, "Δp50", "+25 %")
        await press(pilot, "enter")
        await shows(pilot, "baseline", "+25 %")


async def test_a_baseline_from_elsewhere_is_hidden_and_shown_again() -> None:
    """A baseline from elsewhere is hidden and shown again, also without others to choose."""
    app = cockpit(live(), baseline=feeds.baseline(), baselines=list)
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "Δp50")
        await press(pilot, "b")
        await shows(pilot, "compare with none")
        await press(pilot, "enter")
        await lacks(pilot, "Δp50")
        await press(pilot, "b")
        await shows(pilot, "again")
        await press(pilot, "enter")
        await shows(pilot, "Δp50")


async def test_without_a_finished_run_there_is_nothing_to_compare_with() -> None:
    """Without a finished run there is nothing to compare with, and a note says so."""
    async with cockpit(live(), baselines=list).run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "LIVE")
        await press(pilot, "b")
        await shows(pilot, "There is no finished run to compare with.")


async def test_a_baseline_that_cant_be_read_is_said() -> None:
    """The screen stays as it was."""

    def fail(spec: str) -> MetricsSnapshot:
        raise RunNotFoundError(f"no run {spec}", hint="look again")

    async with cockpit(live(), load_baseline=fail).run_test(notifications=True) as pilot:
        await press(pilot, "b")
        await shows(pilot, RUNS[0][1])
        await press(pilot, "enter")
        await shows(pilot, "no run earlier (look again)")


@pytest.mark.parametrize(
    ("keys", "screen"),
    [((), "overview"), (("enter",), "series"), (("2",), "producers"), (("3",), "log")],
    ids=["overview", "series", "producers", "log"],
)
async def test_what_is_on_the_screen_is_exported(keys: tuple[str, ...], screen: str, tmp_path: Path) -> None:
    """The screen is exported as a picture and as numbers, and a note says where they lie."""
    app = cockpit(live(), tmp_path)
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "LIVE")
        await press(pilot, *keys, "e")
        await shows(pilot, "Saved")
    (picture,) = tmp_path.glob("*.svg")
    (numbers,) = tmp_path.glob("*.json")
    assert "serve-bench" in picture.read_text()
    assert "http" not in picture.read_text().replace("http://www.w3.org/2000/svg", "").replace(
        "https://www.textua", ""
    )
    document = json.loads(numbers.read_bytes())
    assert document["screen"] == screen
    assert document["run"]["name"] == "serve-bench"


async def test_what_was_said_is_not_part_of_the_picture(tmp_path: Path) -> None:
    """A second export has nothing of the first one's words."""
    clock = FakeClock()
    app = cockpit(live(), tmp_path, clock=clock)
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "LIVE")
        await press(pilot, "e")
        await shows(pilot, "Saved")
        clock.advance(1)
        await press(pilot, "e")
        await until(pilot, lambda: len(list(tmp_path.glob("*.json"))) == 2)
    assert [path.name for path in tmp_path.glob("*.svg") if "Written" in path.read_text()] == []


async def test_an_export_that_fails_is_said(tmp_path: Path) -> None:
    """An export that fails has a note, and nothing else happens."""
    (tmp_path / "file").write_text("")
    async with cockpit(live(), tmp_path / "file").run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "LIVE")
        await press(pilot, "e")
        await shows(pilot, "can't write")


async def test_help_lists_the_keys_of_the_screen() -> None:
    """Help lists the keys of the screen as they are now, and any of its keys closes it."""
    async with cockpit(live(), keys={"figures": "f"}).run_test(notifications=True) as pilot:
        await shows(pilot, "LIVE")
        await press(pilot, "question_mark")
        await shows(pilot, "f  last seconds / whole run", "quit; the run continues")
        await press(pilot, "q")
        await lacks(pilot, "quit; the run continues")
        await press(pilot, "f")
        await shows(pilot, "whole run")


async def test_keys_are_remapped_by_action() -> None:
    """Keys are remapped by action, and their old keys do nothing then."""
    feed = live()
    app = cockpit(feed, keys={"figures": "f", "open": "o", "next_tab": "t"})
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "last 10 s", "o open", "f run")
        await press(pilot, "w")
        assert app.view.figures == "window"
        await press(pilot, "f")
        await shows(pilot, "whole run ·")
        await press(pilot, "enter")
        assert feed.followed == []
        await press(pilot, "o")
        await until(pilot, lambda: feed.followed == [FIRST])
        await press(pilot, "tab")
        assert app.current_mode == "overview"
        await press(pilot, "t")
        assert app.current_mode == "producers"


async def test_the_footer_shows_what_can_be_done_here() -> None:
    """The footer shows what can be done here, and a click on an entry does it."""
    async with cockpit(live()).run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "queue_wait")
        footer = lines(pilot.app)[-1]  # type: ignore[arg-type]
        assert "⏎ open" in footer
        assert "zoom" not in footer
        await pilot.click("#keys", offset=(footer.index("w run"), 0))
        await shows(pilot, "w window")
        await press(pilot, "2")
        await shows(pilot, "node-1:4100")
        footer = lines(pilot.app)[-1]  # type: ignore[arg-type]
        assert "open" not in footer
        assert "q quit" in footer


async def test_commands_are_in_the_palette() -> None:
    """Commands are in the palette by their names."""
    app = cockpit(live())
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "ctrl+p", *"basel")
        await shows(pilot, "Compare with a baseline")
        await press(pilot, "enter")
        await shows(pilot, RUNS[0][1])
        await press(pilot, "escape", "ctrl+p", *"whole run")
        await shows(pilot, "Last seconds / whole run")
        await press(pilot, "enter")
        await shows(pilot, "w window")


async def test_a_screen_that_shrinks_and_grows_is_drawn_anew() -> None:
    """Counters move below the series or beside them, and plots come where there is room."""
    app = cockpit(live())
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "p99 of the last minute", "p99.99")
        await pilot.resize_terminal(80, 24)
        await lacks(pilot, "p99 of the last minute", "p99.99")
        await pilot.resize_terminal(160, 24)
        await until(pilot, lambda: app.screen.has_class("-beside"))
        await pilot.resize_terminal(*BIG)
        await shows(pilot, "p99 of the last minute")
        assert isinstance(app.screen, OverviewScreen)
        assert isinstance(app, Cockpit)
    assert app.failures == []
