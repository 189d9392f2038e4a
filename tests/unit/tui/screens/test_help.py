"""The help."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.unit.tui import loads, trainings
from tests.unit.tui.cockpits import cockpit, lacks, lines, live, press, shows, text

from telemetry.tui import keys
from telemetry.tui.feed.news import CurvesOf
from telemetry.tui.screens.dialogs import HelpScreen

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("opening", "place"),
    [
        ([], "overview"),
        (["2"], "producers"),
        (["3"], "log"),
        (["4"], "requests"),
        (["5"], "steps"),
        (["6"], "spans"),
        (["enter"], "series"),
        (["5", "enter"], "curve"),
    ],
    ids=keys.PLACES,
)
async def test_all_keys_of_a_screen_fit_on_a_small_one(opening: list[str], place: str) -> None:
    """Each that does something now, in one line, at 80 by 24."""
    spans = [stat for stat in trainings.training().last.series if stat.name.startswith("span.")]
    everything = replace(
        loads.load().last, axes=trainings.training().last.axes, series=[*loads.load().last.series, *spans]
    )
    feed = loads.live(everything)
    app = cockpit(feed)
    async with app.run_test() as pilot:
        await shows(pilot, "latency")
        feed.tell(CurvesOf(trainings.training().curves()))
        await shows(pilot, "5 Steps")
        await press(pilot, *opening, "question_mark")
        await shows(pilot, "quit; the run continues")
        second = {key.beside for key in keys.TABLE}
        for key in keys.TABLE:
            if place in key.on and key.id not in second:
                assert (key.help in text(app)) == app.is_live(key.id), key.id
        assert "Only stop" in text(app)


async def test_what_does_nothing_now_is_left_out() -> None:
    """The overview has no time range but in the past."""
    async with cockpit(live()).run_test() as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "question_mark")
        await shows(pilot, "quit; the run continues")
        await lacks(pilot, "shorter or longer range", "return to live data")
        await press(pilot, "escape", "comma", "question_mark")
        await shows(pilot, "shorter or longer range", "return to live data")


@pytest.mark.parametrize("size", [(60, 15), (79, 20), (40, 12)])
async def test_on_a_narrow_screen_there_is_one_column(size: tuple[int, int]) -> None:
    """On a narrow screen the help has one column and no broken entry. Entries without room are scrolled to."""
    app = cockpit(live())
    async with app.run_test(size=size) as pilot:
        await press(pilot, "question_mark")
        await shows(pilot, "⏎  open what is selected")
        begins = [line.index("  sort by the next") for line in lines(app) if "sort by" in line]
        assert begins == [line.index("  open what is") for line in lines(app) if "open what" in line]
        await pilot.resize_terminal(80, 24)
        await shows(pilot, "quit; the run continues")


async def test_all_keys_of_an_action_are_shown() -> None:
    """The footer has room for the first."""
    async with cockpit(live(), keys={"freeze": "ctrl+f,f5"}).run_test() as pilot:
        await shows(pilot, "^f freeze")
        await press(pilot, "question_mark")
        await shows(pilot, "^f f5  freeze the screen", "? f1  show all keys")


@pytest.mark.parametrize("key", ["escape", "q", "question_mark", "space", "enter"])
async def test_most_keys_close_it(key: str) -> None:
    """Most keys close the help and do nothing else."""
    app = cockpit(live())
    async with app.run_test() as pilot:
        await press(pilot, "question_mark")
        assert isinstance(app.screen, HelpScreen)
        await press(pilot, key)
        assert app.screen is app.cockpit_screen
        assert not app._exit
