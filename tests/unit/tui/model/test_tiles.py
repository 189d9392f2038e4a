"""The figures that come first."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from msgspec.structs import replace as replace_struct
from tests.unit.tui import feeds, loads, trainings
from tests.unit.tui.model.scenes import NOON, SECOND, scene, text, texts

from telemetry.tui.model.scene import RangeFigures, Scene, View
from telemetry.tui.model.tiles import tiles
from telemetry.wire.snapshot import CounterStat, Extent, SeriesStat

COUNTERS = [
    CounterStat(name=f"chat.{word}", value=1_000, rate=24.0, unit="requests") for word in ("issued", "completed")
]
LATENCY = SeriesStat(name="chat.latency", unit="ns", count=1_000, percentiles={"50": 10**6, "99": 10**7})


@cache
def load() -> Scene:
    return Scene(snapshot=feeds.play().last)


@cache
def llm() -> Scene:
    return Scene(snapshot=loads.load("chat").last)


@cache
def training() -> Scene:
    known = trainings.training()
    return Scene(snapshot=known.last, curves=known.curves(), steps_per_s={"train": 20.0})


def test_an_llm_load_has_its_words() -> None:
    """Requests and tokens a second, limits, times to the first token and between tokens."""
    titles, values = texts(tiles(llm(), View(), 118, 24))
    for title in ("requests/s", "output tokens/s", "TTFT p99", "TPOT p99"):
        assert title in titles
    assert values.split()[0] == "39.3"


def test_a_training_run_has_its_words() -> None:
    """The step, loss and accuracy, and how fast it goes."""
    titles, values = texts(tiles(training(), View(), 78, 24))
    assert titles.split() == ["training", "step", "loss", "accuracy", "steps/s"]
    assert values.split()[:4] == ["train", "1,196", "0.117", "0.934"]


def test_a_subject_is_not_repeated_in_every_title() -> None:
    """A shared subject stands in front of the values instead of in every title."""
    titles, values = texts(tiles(load(), View(), 78, 24))
    assert titles.split()[:2] == ["metrics", "values/s"]
    assert "p99" in titles.split()
    assert values.startswith("inter_token{llama-70b}  900")


def test_titles_stand_above_their_values() -> None:
    """Titles stand above their values, in the same column."""
    for shown in (load(), llm(), training()):
        titles, values = tiles(shown, View(), 78, 24)
        assert [len(cell.text) for cell in values] == [len(cell.text) for cell in titles]


@pytest.mark.parametrize("width", [10, 20, 40, 78, 158, 300])
def test_what_does_not_fit_is_left_out(width: int) -> None:
    """Figures that do not fit are left out from the end, and the first one stays."""
    for shown in (load(), llm(), training()):
        for height in (24, 48):
            lines = tiles(shown, View(), width, height)
            assert len(lines) >= 2
            if width >= 40:
                assert all(len(text(line).rstrip()) <= width for line in lines)


def test_a_high_screen_has_two_headlines_with_notes() -> None:
    """A low one has one, in two lines."""
    assert len(tiles(training(), View(), 158, 48)) == 6
    assert len(tiles(training(), View(), 158, 24)) == 2
    assert "best 0.115 at step 1,189" in text(tiles(training(), View(), 158, 48)[2])


def test_nothing_to_show() -> None:
    """There are no tiles before the first snapshot, and none of a moment in the past."""
    assert tiles(Scene(), View(), 80, 24) == ()
    past = replace(load(), moment=RangeFigures(start_ns=NOON, end_ns=NOON + SECOND))
    assert tiles(past, View(), 80, 24) == ()


def test_failures_stay_on_a_narrow_screen() -> None:
    """Failures stay on a narrow screen, after the rate and in their colour. The median goes before the p99."""
    failed = [CounterStat(name="chat.failed", value=59, unit="requests", labels={"reason": "timeout"})]
    titles, values = tiles(scene(counters=[*COUNTERS, *failed], series=[LATENCY]), View(), 40, 24)
    assert text(titles).split() == ["requests/s", "failed", "latency", "p99"]
    assert next(cell.tone for cell in values if cell.text.split()[:1] == ["59"]) == "warn"


def test_a_rate_names_its_time_if_the_tables_have_another() -> None:
    """A rate names its time if the tables have another one.

    After the run the tables show the last seconds, unless the whole run is chosen.
    """
    stats = [replace_struct(LATENCY, labels={"route": route}, name="http.latency") for route in "ab"]
    over = replace(scene(series=stats, elapsed_s=40.0, state="COMPLETE", completeness="complete"), live=False)
    assert "requests/s over 40.0 s" in texts(tiles(over, View(), 100, 24))[0]
    assert "requests/s  " in texts(tiles(over, View(figures="run"), 100, 24))[0]
    busy = Extent(first_ns=SECOND, last_ns=2 * SECOND, end_ns=26 * SECOND)
    kind = scene(counters=COUNTERS, series=[replace_struct(LATENCY, extent=busy)], elapsed_s=40.0)
    assert "requests/s over 25.0 s" in texts(tiles(kind, View(figures="run"), 100, 24))[0]
