"""The screen of steps: what has room, what its keys do, and what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.report.test_stragglers import report
from tests.unit.tui import feeds, loads, trainings
from tests.unit.tui.cockpits import cockpit, lacks, live, press, shows, text, until

from telemetry.tui.app import Cockpit
from telemetry.tui.feed.news import CurvesOf, NewSnapshot, StragglersOf
from telemetry.tui.screens.steps import TABLES
from telemetry.tui.widgets.curve_grid import CurveGrid
from telemetry.tui.widgets.grid_view import GridView
from telemetry.wire.snapshot import MetricsSnapshot

pytestmark = pytest.mark.slow


def training(snapshot: MetricsSnapshot | None = None, export_dir: Path = Path("nowhere")) -> Cockpit:
    return trainings.watched(cockpit(trainings.live(snapshot), export_dir, title="spirals"))


async def test_the_tab_is_there_where_there_are_steps_or_backends() -> None:
    """The tab is there with steps or backends, under its own number, with or without requests."""
    for changes in ({"axes": []}, {"backends": []}):
        app = training(replace(trainings.training().last, **changes))  # type: ignore[arg-type]
        async with app.run_test() as pilot:
            await shows(pilot, "3 Log  5 Steps  6 Spans")
            await press(pilot, "5")
            await shows(pilot, "tensorboard" if "axes" in changes else "learning_rate")
            await lacks(pilot, "learning_rate" if "axes" in changes else "tensorboard")
            await press(pilot, "1")
            await shows(pilot, "step.time")
        assert app.failures == []
    async with cockpit(live()).run_test() as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "5")
        await lacks(pilot, "5 Steps", "backends")
        await shows(pilot, "queue_wait")


async def test_a_run_with_steps_opens_on_their_curves() -> None:
    """The whole history, an axis below the other; the newest value and where it came from."""
    app = training()
    async with app.run_test() as pilot:
        await shows(pilot, "train · step 1,196 · 20 steps/s · step 1,197 waits for rank 1")
        await shows(pilot, "0.117", "from 1.11", "best 0.115", "mlflow failed")
        assert app.current_mode == "steps"
        assert "⠒" in text(app) or "⠉" in text(app)


async def test_a_run_with_requests_too_opens_on_the_overview() -> None:
    """A run with requests and steps opens on the overview.

    A run in which a key was pressed before the first step stays there.
    """
    both = replace(loads.load().last, axes=trainings.training().last.axes)
    app = cockpit(loads.live(both))
    async with app.run_test() as pilot:
        await shows(pilot, "5 Steps", "chat.ttft")
        assert app.current_mode == "overview"
    feed = live()
    app = cockpit(feed)
    async with app.run_test() as pilot:
        await shows(pilot, "queue_wait")
        await press(pilot, "down")
        feed.tell(NewSnapshot(trainings.training().last, 0))
        await shows(pilot, "5 Steps")
        assert app.current_mode == "overview"


async def test_the_cursor_goes_from_curve_to_curve() -> None:
    """Along rows and columns; rows of another axis are scrolled to."""
    app = training()
    async with app.run_test() as pilot:
        await shows(pilot, "learning_rate")
        grid = app.screen.query_one(CurveGrid)
        await press(pilot, "right", "right", "down")
        assert grid.cursor == ("train", "learning_rate")  # the second row has two
        await press(pilot, "down", "down")
        assert grid.cursor == ("eval", "loss")
        await shows(pilot, "eval · step 1,200")
        await press(pilot, "home")
        assert grid.cursor == ("train", "loss")
        await press(pilot, "ctrl+end")
        assert grid.cursor == ("eval", "loss")
        await press(pilot, "pageup")
        assert grid.cursor != ("eval", "loss")
        await pilot.click("#curves", offset=(30, 1))
        await until(pilot, lambda: grid.cursor is not None and grid.cursor[0] == "train")


async def test_enter_enlarges_a_curve_and_escape_goes_back() -> None:
    """A large curve has a cursor that reads step and value. Up and down go to the curves beside it."""
    app = training()
    async with app.run_test(size=(120, 36)) as pilot:
        await shows(pilot, "learning_rate")
        await press(pilot, "enter")
        await shows(
            pilot, "loss · 1.11 → 0.117 · best 0.115 at step 1,189", "▏steps 1,192–1,196", "by step of train"
        )
        await press(pilot, "left", "left")
        await shows(pilot, "▏steps 1,1")
        await lacks(pilot, "▏steps 1,192–1,196")
        await press(pilot, "plus")
        zoomed = text(app)
        await press(pilot, "minus")
        assert zoomed != text(app)
        await press(pilot, "home")
        await shows(pilot, "after the start")
        await lacks(pilot, "▏steps 1,1")
        await press(pilot, "end")
        await shows(pilot, "▏steps 1,192–1,196")
        await press(pilot, "down")
        await shows(pilot, "accuracy · 0.451 → 0.934")
        await press(pilot, "escape")
        await shows(pilot, "train · step 1,196")
        assert app.screen.query_one(CurveGrid).cursor == ("train", "accuracy")
    assert app.failures == []


async def test_an_earlier_run_is_behind_the_curves() -> None:
    """Chosen by a key or an option, and read at the cursor."""
    app = trainings.watched(
        cockpit(trainings.live(), title="spirals", load_baseline=lambda spec: trainings.earlier())
    )
    async with app.run_test(size=(120, 36)) as pilot:
        await shows(pilot, "learning_rate")
        await lacks(pilot, "behind:")
        await press(pilot, "b")
        await shows(pilot, "Compare with which run?")
        await press(pilot, "enter")
        await shows(pilot, "behind: spirals-old")
        await press(pilot, "enter")
        await shows(pilot, "━━ spirals-old", "· spirals-old mean 0.2")
    assert app.failures == []


async def test_without_curves_the_tables_are_there() -> None:
    """The records of a run may be unreadable; the newest values are known anyway."""
    feed = trainings.live()
    app = cockpit(feed, title="spirals")
    async with app.run_test() as pilot:
        await shows(pilot, "from 1.11")
        feed.tell(CurvesOf(()))
        await shows(pilot, "values of train")
        await lacks(pilot, "v curves")
        assert isinstance(app.focused, GridView)


async def test_a_key_shows_the_tables_and_the_curves_again() -> None:
    """The key `v` shows the tables, with all backends and their errors, and the curves again.

    A table has nothing to open.
    """
    app = training()
    async with app.run_test() as pilot:
        await shows(pilot, "v table", "⏎ open")
        await press(pilot, "v")
        await shows(pilot, "values of train", "v curves")
        await lacks(pilot, "⏎ open")
        await press(pilot, "v")
        await shows(pilot, "from 1.11", "v table")
        assert app.focused is app.screen.query_one("#curves")


async def test_at_80_by_24_all_three_tables_are_there() -> None:
    """At 80 by 24 all three tables are there, with all backends and their errors."""
    app = training()
    async with app.run_test() as pilot:
        await press(pilot, "5", "v")
        await shows(pilot, "step 1,197: rank 1", "learning_rate", "hanging for 29 s", "mlflow is not installed")


@pytest.mark.parametrize("size", [(20, 10), (40, 15), (100, 30), (200, 50), (300, 12)])
async def test_on_a_screen_of_any_size_it_can_be_drawn(size: tuple[int, int], tmp_path: Path) -> None:
    """Whichever table has the keyboard."""
    app = training(export_dir=tmp_path)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for key in ("5", "enter", "e", "escape", "v", "w", "shift+tab", "shift+tab", "u", "e"):
            await press(pilot, key)
        assert max(len(line) for line in text(app).splitlines()) <= size[0]
    assert app.failures == []


async def test_the_row_under_the_cursor_says_whose_values_are_shown() -> None:
    """The row under the cursor selects whose values are shown, and the cursor stays on its axis."""
    app = training()
    async with app.run_test() as pilot:
        await press(pilot, "5", "v")
        await shows(pilot, "values of train")
        await press(pilot, "down")
        await shows(pilot, "values of rollout", "episode/length")
        await press(pilot, "down")
        await shows(pilot, "values of eval")


async def test_the_keyboard_goes_from_table_to_table() -> None:
    """The keyboard goes from table to table. The place of the data is shown with the keyboard on the backends."""
    app = training()
    async with app.run_test() as pilot:
        await press(pilot, "5", "v")
        await lacks(pilot, "where:")
        for name in ("values", "backends", "axes"):
            await press(pilot, "shift+tab")
            assert app.focused is app.screen.query_one(f"#{name}")
            if name == "backends":
                await shows(pilot, "where: /data/runs/")
        await lacks(pilot, "where:")


async def test_a_filter_leaves_values() -> None:
    """Curves, or rows of the table; the keyboard is at them then."""
    app = training()
    async with app.run_test() as pilot:
        await shows(pilot, "learning_rate")
        await press(pilot, "slash", *"loss", "enter")
        await shows(pilot, "filter 'loss'")
        await lacks(pilot, "learning_rate")
        assert app.focused is app.screen.query_one("#curves")
        await press(pilot, "escape", "v", "slash", *"loss", "enter")
        await shows(pilot, "filter 'loss'", "values of train")
        await lacks(pilot, "learning_rate")
        assert app.focused is app.screen.query_one("#values")


async def test_the_whole_run_and_the_frozen_screen() -> None:
    """A frozen screen keeps its rates and courses."""
    app = cockpit(feed := trainings.live(trainings.training().snapshots[-2]), title="spirals")
    trainings.watched(app)
    async with app.run_test(size=(160, 40)) as pilot:
        await press(pilot, "5", "v")
        await shows(pilot, "last 10 s", "step 1,177: rank 1")
        await press(pilot, "space")
        before = text(app)
        feed.tell(NewSnapshot(trainings.training().last, 0))
        await pilot.pause(0.1)
        assert text(app).splitlines()[4:] == before.splitlines()[4:]
        await press(pilot, "space")
        await shows(pilot, "step 1,197: rank 1")
        await press(pilot, "w")
        await shows(pilot, "whole run")


async def test_without_news_nothing_is_drawn() -> None:
    """The same snapshot again costs no line."""
    app = cockpit(feed := trainings.live(), title="spirals")
    trainings.watched(app)
    async with app.run_test() as pilot:
        await press(pilot, "5", "v")
        await shows(pilot, "hanging for 29 s")
        drawn: list[str] = []
        for name in TABLES:
            table = app.screen.query_one(f"#{name}", GridView)
            table.refresh = lambda *_, name=name, **__: drawn.append(name)  # type: ignore[assignment,method-assign]
        for _ in range(3):
            feed.tell(NewSnapshot(trainings.training().last, 0))
            await pilot.pause(0.05)
        assert drawn == []


async def test_the_overview_says_how_backends_are() -> None:
    """The overview has a line of backends above the last mark, with those in trouble by name."""
    app = cockpit(feed := trainings.live(), title="spirals")
    async with app.run_test() as pilot:
        await press(pilot, "1")
        await shows(pilot, "backends  1 ✓ · wandb retrying · otlp hanging for 29 s · mlflow failed")
        assert "learning rate halved" in text(app).splitlines()[-2]
        feed.tell(NewSnapshot(feeds.ended(trainings.well(trainings.training().last)), 0))
        await shows(pilot, "backends  tensorboard ✓ 1,625 · wandb ✓ 945 · otlp ✓ 810")


async def test_slow_ranks_are_above_the_values() -> None:
    """The sentence, and the map as far as there is room; on the selected axis only."""
    found = replace(report().stragglers[0], axis="train")
    for size in ((80, 24), (160, 48)):
        feed = trainings.live()
        app = trainings.watched(cockpit(feed, title="spirals"))
        async with app.run_test(size=size) as pilot:
            await press(pilot, "5", "v")
            await shows(pilot, "values of train")
            await lacks(pilot, "rank 3 costs")
            feed.tell(StragglersOf((found,)))
            await shows(pilot, "rank 3 costs", "█", "tensorboard")
            if size[0] > 80:
                await shows(pilot, "longer than the median rank", "learning_rate")
            await press(pilot, "down")
            await shows(pilot, "values of rollout")
            await lacks(pilot, "rank 3 costs")
        assert app.failures == []
