"""Pictures of a series, as points."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.tui.model.scenes import NOON, SECOND, scene, series, timeline

from telemetry.tui.model.plot import Plot
from telemetry.tui.model.scene import RangeFigures, View
from telemetry.tui.model.series_plots import (
    Cells,
    PercentileCurve,
    Times,
    curve_of,
    curve_plot,
    histogram_plot,
    over_time_plot,
    percentile_place,
    rate_plot,
    time_range_of,
    trend_plot,
)
from telemetry.wire.cells import cell, edge
from telemetry.wire.snapshot import SeriesStat


def times(start_s: int, end_s: int, width: int = 60, cursor_ns: int | None = None) -> Times:
    return Times(NOON + start_s * SECOND, NOON + end_s * SECOND, NOON, cursor_ns, width)


def test_each_nine_takes_the_same_room() -> None:
    """Each nine takes the same room, as in HdrHistogram's plots.

    The greatest value is half a value before infinity.
    """
    assert percentile_place(0.0, 100) == 0.0
    assert percentile_place(0.9, 100) == pytest.approx(1.0)
    assert percentile_place(0.999, 10_000) == pytest.approx(3.0)
    assert percentile_place(1.0, 100) == pytest.approx(math.log10(200))


def test_a_snapshot_has_a_curve_too() -> None:
    """The curve of a snapshot goes from the least value over the percentiles to the greatest.

    The p99.9 of 100 values is the greatest.
    """
    stat = series(count=100, percentiles={"50": 1.25, "99": 4.0, "99.9": 80.0, "x": 9.0})
    assert curve_of(stat, "run", "accent").points == [(0.0, 0.5), (0.5, 1.25), (0.99, 4.0), (1.0, 80.0)]
    assert curve_of(SeriesStat(name="a"), "run", "accent").points == ()


def test_the_curve_of_a_run_and_of_its_baseline() -> None:
    """Both on one axis of values, marked at 50 %, 90 %, 99 % and on."""
    now = PercentileCurve("now", [(0.0, 1.0), (0.5, 2.0), (0.999, 50.0), (1.0, 90.0)], 20_000, "accent")
    before = PercentileCurve("baseline", [(0.0, 1.0), (1.0, 60.0)], 1_000, "dim")
    plot = curve_plot("by percentile", [now, before, PercentileCurve("none", (), 0, "dim")], "ms", "readable", 80)
    assert [trace.name for trace in plot.traces] == ["now", "baseline"]
    assert [words for _, words in plot.x_ticks] == ["0 %", "50 %", "90 %", "99 %", "99.9 %", "99.99 %"]
    assert plot.traces[0].ys == pytest.approx([0.0, math.log10(2), math.log10(50), math.log10(90)])
    assert plot.title == "by percentile (log)"
    assert plot.x_range == (0.0, pytest.approx(math.log10(40_000)))
    narrow = curve_plot("by percentile", [now], "ms", "readable", 40)
    assert [words for _, words in narrow.x_ticks] == ["0 %", "90 %", "99 %", "99.9 %", "99.99 %"]


def test_no_values_make_no_curve() -> None:
    """The plot says so."""
    assert curve_plot("a", [], "ms", "readable", 40).traces == ()


def test_a_histogram_has_a_bar_for_each_cell() -> None:
    """Empty ones between as well, so that equal widths are equal factors."""
    cells = Cells([(72, 5_000), (74, 14_000), (80, 1_000)], 1e-6)
    plot = histogram_plot("histogram", cells, "ms", "readable", 60)
    assert plot.kind == "bars"
    assert plot.traces[0].xs == tuple(number + 0.5 for number in range(72, 81))
    assert plot.traces[0].ys == (5_000, 0, 14_000, 0, 0, 0, 0, 0, 1_000)
    assert [words for _, words in plot.y_ticks] == ["0", "5,000", "10 k", "15 k"]


def test_values_are_marked_where_their_cell_is() -> None:
    """A round value lies between the edges of its cell."""
    cells = Cells([(72, 1), (90, 1)], 1e-6)
    plot = histogram_plot("histogram", cells, "ms", "readable", 60)
    assert [words for _, words in plot.x_ticks] == ["1 ms", "2 ms", "5 ms", "10 ms"]
    for place, words in plot.x_ticks:
        ticks = round(float(words.split()[0]) * (1e6 if words.endswith("ms") else 1e3))
        assert int(place) == cell(ticks)
        assert edge(int(place)) <= ticks < edge(int(place) + 1)


def test_an_axis_of_bars_begins_at_the_first_bar() -> None:
    """A round value below all cells has no mark, rather than one at the edge."""
    ten_ms = cell(10_000_000)
    plot = histogram_plot("histogram", Cells([(ten_ms, 30), (ten_ms + 4, 1)], 1e-6), "ms", "readable", 60)
    assert plot.x_range[0] == ten_ms
    assert [words for _, words in plot.x_ticks] == ["10 ms", "15 ms", "20 ms"]


@pytest.mark.parametrize("width", [1, 3, 10, 60])
def test_a_narrow_histogram_loses_no_values(width: int) -> None:
    """Neighbours share bars until all have room."""
    counts = [(number, number) for number in range(40, 101)]
    plot = histogram_plot("histogram", Cells(counts, 1e-6), "ms", "readable", width)
    assert sum(plot.traces[0].ys) == sum(count for _, count in counts)
    assert len(plot.traces[0].xs) <= width + 1


def test_small_ticks_have_a_histogram() -> None:
    """Zero and one are cells of their own."""
    plot = histogram_plot("histogram", Cells([(0, 3), (1, 2)], 1.0), "tokens", "readable", 60)
    assert plot.traces[0].ys == (3, 2)
    assert histogram_plot("histogram", Cells([], 1.0), "tokens", "readable", 60).traces == ()


def test_zoom_halves_and_pan_moves_by_tenths() -> None:
    """Zoom halves the range and pan moves it by tenths, both from the newest end.

    The range never exceeds what there is, and is never below some seconds.
    """
    known = timeline({second: [1_000] for second in range(80)})
    ends = NOON + 80 * SECOND
    assert time_range_of(known, View()) == (NOON, ends)
    assert time_range_of(known, View(zoom=2)) == (ends - 20 * SECOND, ends)
    assert time_range_of(known, View(zoom=2, pan=5)) == (ends - 30 * SECOND, ends - 10 * SECOND)
    assert time_range_of(known, View(zoom=2, pan=1_000)) == (NOON, NOON + 20 * SECOND)
    assert time_range_of(known, View(zoom=30)) == (ends - 5 * SECOND, ends)
    assert time_range_of(known, View(zoom=-3, pan=-3)) == (NOON, ends)


def test_figures_over_time() -> None:
    """Middle, tail and maximum of each second, in the middle of it; a second without values has no point."""
    points = timeline({0: [1_000] * 99 + [2_000], 1: [], 2: [1_500]}).points(
        NOON, NOON + 3 * SECOND, 60, ("50", "99")
    )
    plot = over_time_plot(points, times(0, 3, cursor_ns=NOON + SECOND), "ms", "readable")
    assert [(trace.name, trace.xs) for trace in plot.traces] == [
        ("max", (0.5, 2.5)),
        ("p99", (0.5, 2.5)),
        ("p50", (0.5, 2.5)),
    ]
    assert plot.traces[0].ys == (2.0, 1.5)
    assert (plot.x_range, plot.cursor) == ((0.0, 3.0), 1.0)
    assert plot.title == "over 3 s, UTC"


def test_a_silence_is_a_gap() -> None:
    """A silence is a gap: no line joins values that come much later than usual.

    Values that are rare anyway are a line.
    """
    busy = (0, 1, 2, 22, 23)
    known = timeline({second: [1_000] if second in busy else [] for second in range(24)})
    points = known.points(NOON, NOON + 24 * SECOND, 60, ("50", "99"))
    for trace in over_time_plot(points, times(0, 24), "ms", "readable").traces:
        assert (trace.xs, trace.ys) == ((0.5, 1.5, 2.5, 22.5, 22.5, 23.5), (1.0, 1.0, 1.0, None, 1.0, 1.0))


def test_the_rate_shows_a_stall() -> None:
    """A second without values is a zero."""
    points = timeline({0: [1_000] * 99, 1: [], 2: [1_500]}).points(NOON, NOON + 3 * SECOND, 60, ())
    plot = rate_plot(points, times(0, 3), "readable")
    assert plot.traces[0].ys == (99.0, 0.0, 1.0)
    assert plot.y_ticks[0] == (0.0, "0/s")
    assert rate_plot([], times(0, 3), "readable").traces == ()


def test_a_moment_out_of_sight_is_not_marked() -> None:
    """A moment out of sight is not marked, as its mark would stretch the axis."""
    assert times(10, 20, cursor_ns=NOON).cursor is None
    assert times(10, 20).cursor is None
    assert over_time_plot([], times(10, 20), "ms", "readable").empty == "no values in this time range"


def test_a_trend_stands_in_for_history() -> None:
    """A trend stands in for history before any has come, and where none is kept."""

    def trend(*values: float | None, **changes: Any) -> Plot:
        return trend_plot(replace(scene(), trends={("a", ()): values}, **changes), ("a", ()), "ms", "readable")

    plot = trend(1.0, 1.5, 2.0)
    assert plot.traces[0].xs == (-2.0, -1.0, 0.0)
    assert [words for _, words in plot.x_ticks] == ["-2 s", "now"]
    silent = trend(1.0, 2.0, *[None] * 20, 1.5, None).traces[0]
    assert (silent.xs, silent.ys) == ((-23.0, -22.0, -1.0, -1.0), (1.0, 2.0, None, 1.5))
    sparse = trend(1.0, None, None, 2.0, None, None, 1.5).traces[0]
    assert (sparse.xs, sparse.ys) == ((-6.0, -3.0, 0.0), (1.0, 2.0, 1.5))
    assert trend(None, None).empty == "no values in this time range"
    assert trend(1.0).x_range == (-1.0, 0.0)
    assert trend().empty == "no history of this series yet"
    over = trend(1.0, 2.0, live=False)
    assert (over.title, over.x_ticks[1][1]) == ("p99 of its last minute", "end, 12:00:40 UTC")
    past = RangeFigures(start_ns=NOON + 28 * SECOND, end_ns=NOON + 38 * SECOND)
    assert trend(*[1.0] * 10, moment=past).cursor == -2.0
    assert trend(1.0, moment=past).empty == "this is an older time; open the series to see it"
    unread = trend_plot(replace(scene(), trends={}, live=False), ("a", ()), "ms", "readable")
    assert unread.empty == "no history yet"
