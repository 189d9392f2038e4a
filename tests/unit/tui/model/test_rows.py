"""Tests of the columns that the figures of series have, and of the cells in them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.tui.model.scenes import scene, series, snapshot

from telemetry.tui.model.rows import columns, figures, trend_seconds
from telemetry.tui.model.scene import Scene, View
from telemetry.tui.model.visible_series import passing

SERIES = ("latency", ())


def known(trend: tuple[float, ...] = ()) -> Scene:
    return replace(scene(series=[series()]), trends={SERIES: trend})


def cells(shown: Scene, view: View) -> dict[str, tuple[str, str]]:
    """Return the text and tone of each cell, by the key of its column."""
    heads = columns(shown, view, "series")[1:]
    (item,) = passing(shown, view)
    return {
        head.key: (cell.text, cell.tone) for head, cell in zip(heads, figures(item, heads, view, 5), strict=True)
    }


def test_a_cell_for_each_column() -> None:
    """Each column has a cell, of the run or of the window. The greatest value of the window is not known."""
    run = cells(known(), View(figures="run"))
    assert {key: words for key, (words, _) in run.items()} == {
        "count": "20.0 k",
        "rate": "500/s",
        "max": "80.0 ms",
        "trend": "      ",
        "p50": "1.25 ms",
        "p90": "2.50 ms",
        "p99": "4.00 ms",
        "p99.9": "9.50 ms",
    }
    heads = {head.key: head.title for head in columns(known(), View(), "series")}
    assert (heads["name"], heads["max"]) == ("series", "peak")


def test_the_trend_gives_p99_its_colour() -> None:
    """The trend gives p99 its colour only in the window, whose p99 it is of."""
    risen = known((1.0,) * 9 + (3.0,))
    assert cells(risen, View())["p99"][1] == cells(risen, View())["trend"][1] == "bad"
    assert cells(risen, View(figures="run"))["p99"][1] == "plain"


def test_a_narrow_table_keeps_what_its_screen_wants() -> None:
    """Each may have an order of its own."""
    keeps = {
        head.key: head.keep for head in columns(known(), View(), "x", {"count": 1, "rate": 2, "max": 3, "trend": 4})
    }
    assert (keeps["count"], keeps["max"], keeps["p50"], keeps["p99"]) == (1, 3, 11, 11)


def test_differences_only_against_a_baseline() -> None:
    """Differences are shown only against a baseline, and only of what both have."""
    compared = replace(known(), baseline=snapshot(series=[series(percentiles={"50": 1.0})]))
    found = cells(compared, View(figures="run", compare=True))
    assert (found["dp50"][0], found["dp99"][0]) == ("+25 %", "–")
    assert "dp50" not in cells(compared, View(figures="run"))


@pytest.mark.parametrize(("width", "seconds"), [(80, 9), (119, 9), (120, 20), (150, 30), (400, 60)])
def test_wide_screens_have_long_trends(width: int, seconds: int) -> None:
    """Wide screens have longer trends, up to a minute."""
    assert trend_seconds(known((1.0,)), width) == seconds


def test_short_trends_of_a_run_that_is_over_leave_room_for_names() -> None:
    """Short trends of a run that is over leave room for names, as such trends grow no more.

    The length is not known while the history is being read.
    """
    trends = {SERIES: (1.0,) * 3, ("body", ()): (1.0,) * 12}
    over = replace(known(), live=False, trends=trends)
    assert (trend_seconds(over, 80), trend_seconds(over, 120)) == (9, 12)
    assert trend_seconds(replace(over, trends={}), 120) == 20
