"""The screen of producers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.tui import feeds
from tests.unit.tui.cockpits import cockpit, lines, live, press, shows, text

pytestmark = pytest.mark.slow


async def test_each_producer_has_a_row_and_all_have_one_line() -> None:
    """With what is the matter with them."""
    snapshot = feeds.play().last
    slow = replace(snapshot.producers[1], events_per_s=100.0, missing=7)
    producers = [snapshot.producers[0], slow, snapshot.producers[2]]
    app = cockpit(live(replace(snapshot, producers=producers)))
    async with app.run_test(size=(160, 24)) as pilot:
        await press(pilot, "2")
        await shows(pilot, "node-1:4100", "node-1:4101", "node-1:4102", "slowest", "loses most")
        assert "3/3 producers reporting" in lines(app)[-2]


async def test_producers_are_filtered() -> None:
    """By name, host and status."""
    async with cockpit(live()).run_test() as pilot:
        await press(pilot, "2")
        await shows(pilot, "node-1:4102")
        await press(pilot, "slash", *"nobody", "enter")
        await shows(pilot, "no producer matches 'nobody'")


async def test_on_a_small_screen_notes_are_cut_and_numbers_are_not() -> None:
    """The whole note of the row under the cursor stands below the table."""
    snapshot = feeds.play().last
    slow = replace(snapshot.producers[1], events_per_s=100.0, missing=7, missing_batches=[(3, 3)])
    app = cockpit(live(replace(snapshot, producers=[snapshot.producers[0], slow, snapshot.producers[2]])))
    async with app.run_test() as pilot:
        await press(pilot, "2")
        await shows(pilot, "…", "lost", "lag", "status")
        assert "slowest" not in text(app)
        await press(pilot, "down")
        await shows(pilot, "gaps, requested again, loses most, slowest")
