"""Tests of how news come onto the screen."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.tui import feeds
from tests.unit.tui.cockpits import cockpit, live, press, shows, text, until

from telemetry.errors import ConfigError
from telemetry.testing.clock import FakeClock
from telemetry.tui.feed.news import CommandOutput, NewSnapshot, Trouble, ViewerNote
from telemetry.wire.snapshot import MetricsSnapshot

pytestmark = pytest.mark.slow

FRAMES_PER_S = 5.0
ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def stamped(number: int) -> MetricsSnapshot:
    return replace(feeds.play().last, name=f"run-{number}", seq=number)


async def test_what_is_known_of_a_run_is_on_the_screen() -> None:
    """State, name, series, counters, marks."""
    app = cockpit(live())
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "LIVE", "serve-bench", "queue_wait", "connections", "replica failover")
    assert app.failures == []


async def test_before_the_first_snapshot_it_says_so() -> None:
    """The screen says that the first snapshot has not come, and what is wrong, if something is."""
    feed = feeds.FakeFeed()
    async with cockpit(feed).run_test(notifications=True) as pilot:
        await shows(pilot, "CONNECTING", "waiting for the first snapshot")
        feed.tell(Trouble("nobody answers at ipc:///tmp/x"))
        await shows(pilot, "nobody answers at ipc:///tmp/x")


async def test_a_flood_of_news_costs_no_more_frames_than_allowed() -> None:
    """The newest is shown, and those before it never are."""
    feed, clock = live(), FakeClock()
    app = cockpit(feed, clock=clock, frames_per_s=FRAMES_PER_S)
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "serve-bench")
        drawn: list[str] = []
        draw = app.draw
        app.draw = lambda: (drawn.append(""), draw())[1]  # type: ignore[method-assign]
        for number in range(200):
            feed.tell(NewSnapshot(stamped(number), clock.monotonic_ns()))
        await shows(pilot, "run-199")
        assert len(drawn) == 1
        clock.advance(1)
        feed.tell(NewSnapshot(stamped(200), clock.monotonic_ns()))
        await shows(pilot, "run-200")
        assert len(drawn) == 2


async def test_without_news_nothing_is_drawn() -> None:
    """A run that is over costs nothing to look at."""
    feed, clock = live(feeds.ended(feeds.play().last)), FakeClock()
    app = cockpit(feed, clock=clock)
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "COMPLETE")
        drawn: list[str] = []
        app.draw = lambda: drawn.append("")  # type: ignore[method-assign]
        clock.advance(100)
        app._watch()
        assert drawn == []


async def test_silence_is_shown_and_ends_with_the_next_snapshot() -> None:
    """Silence is shown with its age, which grows without any news, and ends with the next snapshot."""
    feed, clock = live(), FakeClock()
    app = cockpit(feed, clock=clock)
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "LIVE")
        clock.advance(3.2)
        await shows(pilot, "last snapshot 3.2 s ago")
        feed.tell(Trouble("the aggregator does not answer"))
        await shows(pilot, "the aggregator does not answer")
        clock.advance(1)
        feed.tell(Trouble(""), NewSnapshot(stamped(7), clock.monotonic_ns()))
        await shows(pilot, "run-7", "complete so far")
        assert "ago" not in text(app)


async def test_a_snapshot_that_cant_be_drawn_does_not_end_the_viewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure to draw a snapshot is shown once and kept, and the next snapshot is drawn."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("no width")

    feed, clock = live(), FakeClock()
    app = cockpit(feed, clock=clock)
    async with app.run_test(notifications=True, size=(120, 40)) as pilot:
        await shows(pilot, "LIVE")
        with monkeypatch.context() as patched:
            patched.setattr("telemetry.tui.screens.overview.overview", fail)
            for number in range(3):
                clock.advance(1)
                feed.tell(NewSnapshot(stamped(number), clock.monotonic_ns()))
                await until(pilot, lambda: app.failures)
        assert app.failures == ["overview: ZeroDivisionError: no width"]
        await shows(pilot, "This screen failed to draw.")
        clock.advance(1)
        feed.tell(NewSnapshot(stamped(9), clock.monotonic_ns()))
        await shows(pilot, "run-9")


async def test_what_a_feed_notes_is_said_as_it_is() -> None:
    """A note of a feed is shown as it is, also with what looks like markup, and control characters."""
    feed = live()
    async with cockpit(feed).run_test(notifications=True, size=(120, 40)) as pilot:
        feed.tell(ViewerNote("asked [b]x[/b]\x1b to stop"), ViewerNote("no", bad=True))
        await shows(pilot, r"asked [b]x[/b]\x1b to stop")


async def test_names_that_look_like_markup_are_shown_as_they_are() -> None:
    """A name that looks like markup is shown as it is. Text from outside is not read as markup anywhere."""
    snapshot = feeds.play().last
    odd = replace(snapshot.series[0], name="[bold]x[/nope]", labels={"a": "[/]\x1b[31m"})
    feed = live(replace(snapshot, name="[red]run", series=[odd], warnings=["[blink]"]))
    feed.tell(CommandOutput(("[link=x]y",)))
    app = cockpit(feed)
    async with app.run_test(notifications=True, size=(160, 48)) as pilot:
        feed.tell(CommandOutput(("[link=x]y[/link]",)))
        await shows(pilot, "[red]run", r"[bold]x[/nope]{a=[/]\x1b[31m}")
        await press(pilot, "enter")
        await shows(pilot, r"[bold]x[/nope]{a=[/]\x1b[31m}", "by percentile")
        await press(pilot, "3")
        await shows(pilot, "[link=x]y[/link]", "[blink]")
    assert app.failures == []


async def test_of_a_finished_run_the_whole_is_shown() -> None:
    """The whole of a finished run is shown, also if it ends while one looks on.

    A window that was chosen by hand stays.
    """
    feed, clock = live(), FakeClock()
    app = cockpit(feed, clock=clock)
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "last 10 s")
        clock.advance(1)
        feed.tell(NewSnapshot(feeds.ended(feeds.play().last), clock.monotonic_ns()))
        await shows(pilot, "COMPLETE", "whole run")
        await press(pilot, "w")
        await shows(pilot, "last 10 s")
    chosen = live()
    app = cockpit(chosen, clock=clock)
    async with app.run_test(notifications=True) as pilot:
        await press(pilot, "w", "w")
        chosen.tell(NewSnapshot(feeds.ended(feeds.play().last), clock.monotonic_ns()))
        await shows(pilot, "COMPLETE", "last 10 s")


async def test_the_feed_is_closed_when_the_viewer_is_left() -> None:
    """The feed is closed when the viewer is left, and news that come afterwards disturb nobody."""
    feed = live()
    async with cockpit(feed).run_test(notifications=True) as pilot:
        await shows(pilot, "LIVE")
        assert not feed.closed
    assert feed.closed
    feed.tell(Trouble("late"))


@pytest.fixture
def handlers() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
@pytest.mark.parametrize("number", ENDING)
async def test_a_signal_leaves_the_viewer_in_good_order(number: signal.Signals) -> None:
    """A signal leaves the viewer in good order, so that the terminal is put back.

    The exit code says which signal it was.
    """
    feed = live()
    app = cockpit(feed)
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "LIVE")
        os.kill(os.getpid(), number)
        await until(pilot, lambda: app._exit)
    assert feed.closed
    assert app.return_code == 128 + number
    for each in ENDING:
        asyncio.get_running_loop().remove_signal_handler(each)


def test_an_unknown_theme_is_refused() -> None:
    """An unknown theme is refused, with the one that was probably meant."""
    with pytest.raises(ConfigError, match="did you mean textual-light"):
        cockpit(live(), theme="textual-ligth")


def test_a_key_that_cant_be_is_refused() -> None:
    """A key of an unknown action is refused before anything is drawn."""
    with pytest.raises(ConfigError, match="did you mean figures"):
        cockpit(live(), keys={"figurs": "f"})


@pytest.mark.parametrize(
    ("environment", "theme"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "textual-light"),
        ({"TERM": "xterm"}, "ansi-light"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, "ansi-light"),
    ],
    ids=["truecolor", "16", "none"],
)
def test_the_theme_fits_the_terminal(
    environment: dict[str, str], theme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The theme fits the terminal. Where there are few colours or none, those of the terminal itself are used."""
    for name in ("TERM", "COLORTERM", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    app = cockpit(live(), theme="textual-light")
    assert app.theme == theme
    assert app.native_ansi_color == (theme == "ansi-light")


def test_nothing_is_animated(tmp_path: Path) -> None:
    """A frame is drawn because something is new, not because time passes."""
    assert cockpit(live(), tmp_path).animation_level == "none"
