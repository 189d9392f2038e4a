"""Tests of the progress of a run: how far it has come."""

from __future__ import annotations

import pytest
from tests.unit.tui.model.scenes import series, snapshot, text

from telemetry.tui.model.grid import width_of
from telemetry.tui.model.header import left_s, progress, share
from telemetry.wire.snapshot import AxisStat, CounterStat, Progress


def said(width: int = 60, **changes: object) -> str:
    return text(progress(snapshot(**changes), width))


def test_a_bar_with_what_is_left() -> None:
    """The bar is proportional, and the time left is at the pace of the window, not of the whole run."""
    assert said(64) == "requests ━━━━━━━──────────── 40 % · 20,000 of 50,000 · 60 s left"
    assert text(progress(snapshot(progress=[]), 64)) == ""


def test_a_series_has_progress_too() -> None:
    """The expected number of values of a series is the sum over all its labels."""
    item = Progress(name="latency", done=20_000.0, total=40_000.0)
    twice = [series(labels={"route": "/a"}), series(labels={"route": "/b"})]
    assert left_s(snapshot(progress=[item], series=twice), item) == 20.0


def test_an_axis_has_progress_at_its_own_speed() -> None:
    """Steps per second are those that were watched; without any, no time is told."""
    item = Progress(name="train", done=120.0, total=500.0)
    found = snapshot(progress=[item], axes=[AxisStat(name="train", newest=120, closed=120)])
    assert text(progress(found, 64, steps_per_s={"train": 10.0})).endswith("24 % · 120 of 500 · 38 s left")
    assert text(progress(found, 64)).endswith("24 % · 120 of 500")


def test_a_stall_is_no_forecast() -> None:
    """A window in which nothing came is named, in place of a time that is never reached."""
    stalled = [CounterStat(name="requests", value=20_000, rate=0.0)]
    assert said(80, counters=stalled).endswith("40 % · 20,000 of 50,000 · none in the last 10 s")
    assert said(80, counters=stalled, elapsed_s=5.0).endswith("40 % · 20,000 of 50,000")


def test_the_first_that_is_not_done_has_the_bar() -> None:
    """The others are said in a word."""
    items = [
        Progress(name="warmup", done=10.0, total=10.0),
        Progress(name="requests", done=20_000.0, total=50_000.0),
    ]
    assert said(90, progress=items).startswith("requests ━")
    assert said(90, progress=items).endswith("60 s left · warmup 100 %")
    assert said(45, progress=items).startswith("requests ━")


@pytest.mark.parametrize(("done", "total", "part"), [(1, 4, 0.25), (5, 4, 1.0), (-1, 4, 0.0), (0, 0, 1.0)])
def test_shares_stay_between_nothing_and_all(done: float, total: float, part: float) -> None:
    """A share stays between nothing and all, whatever was expected."""
    assert share(Progress(name="a", done=done, total=total)) == part


def test_not_done_is_never_100_percent() -> None:
    """99.9 % is rounded down."""
    assert "99 %" in said(progress=[Progress(name="requests", done=49_999.0, total=50_000.0)])


@pytest.mark.parametrize("width", [10, 24, 40, 200])
def test_it_keeps_to_the_width(width: int) -> None:
    """The progress line keeps to its width, also with a long name from outside."""
    items = [Progress(name="long name \x07" * 9, done=1.0, total=3.0)]
    line = progress(snapshot(progress=items), width)
    assert width_of(line) <= width
    assert "\x07" not in text(line)
