"""Keys that come faster than they are heeded."""

from __future__ import annotations

import time

import pytest
from tests.unit.tui.cockpits import cockpit, live, shows, until
from textual.events import Key, Paste
from textual.pilot import Pilot

from telemetry.tui import viewer
from telemetry.tui.screens.base import FilterLine

pytestmark = pytest.mark.slow

BIG = (160, 48)


def burst(pilot: Pilot[None], *keys: str) -> None:
    """All of them before the first is looked at."""
    for key in keys:
        pilot.app.post_message(Key(key, key if len(key) == 1 else None))


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat no key as lost."""
    monkeypatch.setattr(viewer, "LOST_S", 3_600.0)


@pytest.mark.usefixtures("patient")
async def test_letters_after_the_key_of_the_filter_are_its_words() -> None:
    """Letters after the key of the filter are its words, none a command, `q` and `e` least of all."""
    app = cockpit(live())
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "queue_wait")
        burst(pilot, "slash", *"queue")
        await shows(pilot, "filter 'queue'")
        assert not app._exit


@pytest.mark.usefixtures("patient")
async def test_what_is_pasted_after_the_key_of_the_filter_is_its_words() -> None:
    """Text pasted after the key of the filter joins its words in the order in which it came."""
    async with cockpit(live()).run_test(notifications=True) as pilot:
        await shows(pilot, "queue_wait")
        burst(pilot, "slash", "q")
        pilot.app.post_message(Paste("ueu"))
        burst(pilot, "e")
        await shows(pilot, "filter 'queue'")


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("leaving", ["enter", "down"])
async def test_keys_after_the_end_of_the_filter_are_commands(leaving: str) -> None:
    """Keys after the end of the filter are commands, and none is lost or a letter.

    The series is opened and closed, and the next filter begins where this one ends.
    """
    feed = live()
    app = cockpit(feed)
    async with app.run_test(notifications=True, size=BIG) as pilot:
        await shows(pilot, "queue_wait")
        burst(
            pilot, "slash", *"queue_w", leaving, "enter", "v", "escape", "slash", *"ait", "enter", "question_mark"
        )
        await shows(pilot, "show all keys")
        assert app.view.filter == "queue_wait"
        assert feed.followed == [("queue_wait", ()), None]
        burst(pilot, "q", "slash", "escape", "enter", "q")
        await until(pilot, lambda: app._exit)
        assert len(feed.followed) == 3


@pytest.mark.usefixtures("patient")
async def test_keys_for_a_dialog_that_opens() -> None:
    """Keys reach a dialog that opens, so a user who knows what it asks need not wait for it."""
    feed = live()
    app = cockpit(feed)
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "queue_wait")
        burst(
            pilot, "ctrl+x", "escape", "3", "question_mark", "escape", "1", "tab", "ctrl+p", "escape", "2", "slash"
        )
        await until(pilot, lambda: isinstance(app.focused, FilterLine))
        assert app.current_mode == "producers"
        assert not feed.stops


async def test_a_key_whose_end_is_not_heard_of_holds_up_the_next_for_a_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A key whose end is not heard of holds up the next for a moment, as its receiver may be gone."""
    app = cockpit(live())
    monkeypatch.setattr(viewer, "LOST_S", 0.05)
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "queue_wait")
        monkeypatch.setattr(viewer.OrderedKeys, "on_ordered_keys_heeded", lambda *_: None)
        began = time.monotonic()
        burst(pilot, "slash", *"que")
        await shows(pilot, "filter 'que'")
        assert time.monotonic() - began > 3 * 0.05


async def test_keys_without_end_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys without end are not kept: those that are too many are dropped, the last ones first."""
    monkeypatch.setattr(viewer, "WAITING", 3)
    app = cockpit(live())
    async with app.run_test(notifications=True) as pilot:
        await shows(pilot, "queue_wait")
        burst(pilot, "slash", *"queue")
        await shows(pilot, "filter 'que'")
