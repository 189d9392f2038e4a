"""The screen of spans."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.tui import trainings
from tests.unit.tui.cockpits import cockpit, lacks, live, press, shows, text

pytestmark = pytest.mark.slow


async def test_the_tab_is_there_where_there_are_spans() -> None:
    """The tab is there where there are spans, and its key does nothing elsewhere."""
    app = trainings.watched(cockpit(trainings.live(), title="spirals"))
    async with app.run_test() as pilot:
        await press(pilot, "6")
        await shows(pilot, "where the time goes", "backward", "48.6 %", "whole run · 4 spans")
    async with cockpit(live()).run_test() as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "6")
        await lacks(pilot, "where the time goes", "6 Spans")


async def test_enter_opens_the_durations() -> None:
    """Enter opens the durations of a span, with percentiles over time. A filter leaves some spans."""
    feed = trainings.live()
    async with cockpit(feed, title="spirals").run_test(size=(120, 40)) as pilot:
        await press(pilot, "6", "slash", *"forw", "enter")
        await lacks(pilot, "backward")
        await press(pilot, "enter")
        await shows(pilot, "span.forward", "by percentile")
        assert feed.followed == [("span.forward", ())]
        await press(pilot, "escape")
        await shows(pilot, "where the time goes")


@pytest.mark.parametrize("size", [(20, 10), (80, 24), (200, 50)])
async def test_on_a_screen_of_any_size_it_can_be_drawn(size: tuple[int, int], tmp_path: Path) -> None:
    """The screen of spans can be drawn in any size, and exported."""
    app = trainings.watched(cockpit(trainings.live(), tmp_path, title="spirals"))
    async with app.run_test(size=size) as pilot:
        for key in ("6", "u", "e"):
            await press(pilot, key)
        assert max(len(line) for line in text(app).splitlines()) <= size[0]
    assert app.failures == []
