"""The figures that come first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.tui import feeds, loads, trainings
from tests.unit.tui.model.scenes import NOON, SECOND, text, texts

from telemetry.tui.model.scene import RangeFigures, Scene, View
from telemetry.tui.model.tiles import tiles

LOAD, LLM = Scene(snapshot=feeds.play().last), Scene(snapshot=loads.load("chat").last)
TRAINING = Scene(snapshot=trainings.training().last, curves=trainings.training().curves())


def test_an_llm_load_has_its_words() -> None:
    """Requests and tokens a second, limits, times to the first token and between tokens."""
    values, titles = texts(tiles(LLM, View(), 118, 24))
    for title in ("requests/s", "output tokens/s", "TTFT p99", "TPOT p99"):
        assert title in titles
    assert values.split()[0] == "39.3"


def test_a_training_run_has_its_words() -> None:
    """The step, loss and accuracy, and how fast it goes."""
    values, titles = texts(tiles(TRAINING, View(), 78, 24))
    assert titles.split() == ["training", "step", "loss", "accuracy", "steps/s"]
    assert values.split()[:4] == ["train", "1,196", "0.117", "0.934"]


def test_a_subject_is_not_repeated_in_every_title() -> None:
    """It stands in front instead."""
    values, titles = texts(tiles(LOAD, View(), 78, 24))
    assert titles.split()[:4] == ["metrics", "values/s", "p50", "p99"]
    assert values.startswith("inter_token…llama-70b}  900")


def test_values_stand_above_their_titles() -> None:
    """In the same column."""
    for shown in (LOAD, LLM, TRAINING):
        values, titles = tiles(shown, View(), 78, 24)
        assert [len(cell.text) for cell in values] == [len(cell.text) for cell in titles]


@pytest.mark.parametrize("width", [10, 20, 40, 78, 158, 300])
def test_what_does_not_fit_is_left_out(width: int) -> None:
    """From the end; the first figure stays."""
    for shown in (LOAD, LLM, TRAINING):
        for height in (24, 48):
            lines = tiles(shown, View(), width, height)
            assert len(lines) >= 2
            if width >= 40:
                assert all(len(text(line).rstrip()) <= width for line in lines)


def test_a_high_screen_has_two_headlines_with_notes() -> None:
    """A low one has one, in two lines."""
    assert len(tiles(TRAINING, View(), 158, 48)) == 6
    assert len(tiles(TRAINING, View(), 158, 24)) == 2
    assert "best 0.115 at step 1,189" in text(tiles(TRAINING, View(), 158, 48)[2])


def test_nothing_to_show() -> None:
    """Before the first snapshot, and of a moment in the past."""
    assert tiles(Scene(), View(), 80, 24) == ()
    past = replace(LOAD, moment=RangeFigures(start_ns=NOON, end_ns=NOON + SECOND))
    assert tiles(past, View(), 80, 24) == ()
