"""The screen of what was said."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.tui import feeds
from tests.unit.tui.cockpits import cockpit, live, press, shows, text

from telemetry.tui.feed.news import CommandOutput

pytestmark = pytest.mark.slow


async def test_warnings_marks_and_output_are_there() -> None:
    """The end of the output is in view, and the rest a key away."""
    snapshot = replace(feeds.play().last, warnings=["something is odd"])
    feed = live(snapshot)
    app = cockpit(feed)
    async with app.run_test() as pilot:
        feed.tell(CommandOutput(tuple(f"\x1b[31mline {number}\x1b[0m" for number in range(100))))
        await press(pilot, "3")
        await shows(pilot, "line 99")
        assert "something is odd" not in text(app)
        await press(pilot, "home")
        await shows(pilot, "something is odd", "warm-up over")
