"""Tests of what all screens share."""

from __future__ import annotations

import pytest
from tests.unit.tui.cockpits import cockpit, lines, live, shows

from telemetry.tui.screens.base import CockpitScreen

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("width", [20, 40, 80, 300])
async def test_a_screen_of_any_width_has_a_header_tabs_and_keys(width: int) -> None:
    """A screen of any width has a header, tabs and keys, and none is wider than the screen."""
    app = cockpit(live())
    async with app.run_test(size=(width, 24)) as pilot:
        await shows(pilot, "LIVE")
        shown = lines(app)
        assert "Overview" in shown[3]
        assert max(len(line) for line in shown) <= width
    assert app.failures == []


@pytest.mark.parametrize("height", [1, 2, 5, 10])
async def test_a_screen_of_any_height_can_be_drawn(height: int) -> None:
    """A screen of any height can be drawn, even if nothing can be read on it."""
    app = cockpit(live())
    async with app.run_test(size=(80, height)) as pilot:
        await pilot.pause()
        for key in ("enter", "2", "3", "question_mark"):
            await pilot.press(key)
            await pilot.pause()
    assert app.failures == []


async def test_the_state_of_the_run_stands_out() -> None:
    """The state of the run stands out as a block, which is one without colour, too."""
    app = cockpit(live())
    async with app.run_test() as pilot:
        await shows(pilot, "LIVE")
        header = app.screen.query_one("#header")
        first, second = (header.render_lines(header.size.region)[y] for y in (0, 1))
        assert [segment.text for segment in first if segment.style and segment.style.reverse] == [" LIVE "]
        assert not any(segment.style and segment.style.reverse for segment in second)


async def test_each_tab_is_drawn_when_it_is_entered() -> None:
    """A tab is drawn when it is entered, and not before: what nobody sees costs nothing."""
    app = cockpit(live())
    async with app.run_test() as pilot:
        await shows(pilot, "LIVE")
        assert [screen.PLACE for screen in app.screen_stack if isinstance(screen, CockpitScreen)] == ["overview"]
        await pilot.press("2")
        await shows(pilot, "LIVE", "node-1:4100")
