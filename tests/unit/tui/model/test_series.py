"""All of one series."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.tui.model.scenes import NOON, SECOND, scene, series, snapshot, texts, timeline

from telemetry.history.intervals.figures import Figures
from telemetry.tui.model.plot import Plot
from telemetry.tui.model.scene import RangeFigures, Scene, View
from telemetry.tui.model.series import detail, digest_of, figures_shown, points_of, stat_of

LATENCY = ("latency", ())
HISTORY = timeline({second: [1_000 + 10 * second] * 10 for second in range(40)})
"""Ten values a second, from 1 ms to 1.39 ms."""


def known() -> Scene:
    return scene(series=[series()])


def said(shown: Scene, view: View, width: int = 30) -> list[str]:
    return texts(detail(shown, view, LATENCY, HISTORY, width).facts)


def test_in_a_pane_of_30_columns() -> None:
    """The window beside the run, from the history: so the window has extremes too."""
    assert said(known(), View()) == [
        "latency · percentiles ±0.1 %",
        "        last 10 s      run",
        "count         100   20,000",
        "rate         10/s    500/s",
        "mean      1.34 ms  1.50 ms",
        "stddev          –   750 µs",
        "min       1.30 ms   500 µs",
        "p50       1.34 ms  1.25 ms",
        "p90       1.38 ms  2.50 ms",
        "p99       1.39 ms  4.00 ms",
        "p99.9     1.39 ms  9.50 ms",
        "max       1.39 ms  80.0 ms",
        "! p99 and higher rest on few",
        "  values: 1 of 100 values lies",
        "  beyond p99",
    ]


def test_on_a_line_of_160_columns() -> None:
    """The same beside each other."""
    assert said(known(), View(), 158) == [
        "latency · percentiles ±0.1 %",
        "            count   rate     mean  stddev      min      p50      p90      p99    p99.9      max",
        "last 10 s     100   10/s  1.34 ms       –  1.30 ms  1.34 ms  1.38 ms  1.39 ms  1.39 ms  1.39 ms",
        "run        20,000  500/s  1.50 ms  750 µs   500 µs  1.25 ms  2.50 ms  4.00 ms  9.50 ms  80.0 ms",
        "! p99 and higher rest on few values: 1 of 100 values lies beyond p99",
    ]


def test_without_history_the_snapshot_is_all_there_is() -> None:
    """Without history, the trend stands in for the plot over time.

    The window has no extremes, and the run has a curve and a histogram.
    """
    shown = replace(known(), trends={LATENCY: (1.0, 1.1, 1.2)})
    found = detail(shown, View(), LATENCY, None, 80)
    assert texts(found.facts)[1:3] == ["        last 10 s      run", "count       5,000   20,000"]
    assert (found.curve.title, found.histogram.title) == ("by percentile, whole run (log)", "histogram, whole run")
    assert found.over_time.title == "p99 of the last minute"
    assert found.rate.empty == "no history of this series yet"


def test_figures_of_the_window_are_those_of_its_seconds() -> None:
    """Ten intervals for ten seconds, also if a tick is a little early or late."""
    figures = figures_shown(known(), View(), series(), digest_of(known(), View(), HISTORY))
    assert (figures.count, figures.min, figures.max) == (100, 1.3, 1.39)
    assert figures_shown(
        known(), View(figures="run"), series(), digest_of(known(), View(figures="run"), HISTORY)
    ) == (figures_shown(known(), View(figures="run"), series(), None))


def test_a_moment_of_the_past() -> None:
    """A moment of the past has the figures of the history, and its place is marked over time.

    The run beside it is that of now.
    """
    moment = RangeFigures(
        start_ns=NOON + 10 * SECOND,
        end_ns=NOON + 20 * SECOND,
        series={LATENCY: Figures(seconds=10.0, count=100, rate=10.0, min=1.1, max=1.19, percentiles={"50": 1.14})},
    )
    found = detail(replace(known(), moment=moment), View(), LATENCY, HISTORY, 60)
    assert "12:00:10–12:00:20" in texts(found.facts)[1]
    assert found.over_time.cursor == 20.0
    assert found.rate.cursor == 20.0
    assert found.histogram.title == "histogram, 12:00:10–12:00:20 UTC"
    assert sum(found.histogram.traces[0].ys) == 100


def test_compared_with_a_baseline() -> None:
    """A baseline has its curve and its figures beside those of the run, and its name."""
    shown = replace(known(), baseline=snapshot(run_id="0a1b2c3d", series=[series()]))
    found = detail(shown, View(compare=True, figures="run"), LATENCY, HISTORY, 60)
    assert [trace.name for trace in found.curve.traces] == ["whole run", "baseline"]
    assert texts(found.facts)[0] == "latency · percentiles ±0.1 % · Δ to all of bench 0a1b2c3d"
    assert texts(found.facts)[1].split() == ["run", "baseline", "Δ"]
    other = replace(shown, baseline=snapshot(series=[series(unit="s")]))
    assert len(detail(other, View(compare=True), LATENCY, HISTORY, 60).curve.traces) == 1


def test_percentiles_of_windows_are_never_called_exact() -> None:
    """Percentiles of windows are never called exact. Only those of the whole run are order statistics."""
    exact = scene(series=[series(exact=True, error_bound=0.0, resolution=0.0)])
    assert said(exact, View(figures="run"), 60)[0] == "latency · percentiles exact"
    assert said(exact, View(), 60)[0] == "latency · percentiles ±0.1 %"


def test_a_result_says_why_it_is_not_exact() -> None:
    """A result says why it is not exact, and a live run does not, as nobody expects it there."""
    reason = "the journal is disabled"
    assert (
        said(replace(known(), snapshot=snapshot(series=[series()], exact_reason=reason)), View(), 60)[-1] != reason
    )
    over = scene(state="COMPLETE", completeness="complete", exact_reason=reason, series=[series()])
    assert said(over, View(), 60)[-1] == "not exact: the journal is disabled"


def test_zoom_and_pan_move_the_plots_over_time_together() -> None:
    """Both show the same time range."""
    found = detail(known(), View(zoom=1, pan=5), LATENCY, HISTORY, 80)
    assert found.over_time.x_range == found.rate.x_range == (10.0, 30.0)
    assert found.over_time.x_ticks == found.rate.x_ticks


def test_plots_have_a_width_of_their_own() -> None:
    """Plots have a width of their own, so that ticks fit where facts and plots stand side by side."""
    wide = detail(known(), View(), LATENCY, HISTORY, 30, plot_width=120)
    assert len(wide.over_time.x_ticks) > len(detail(known(), View(), LATENCY, HISTORY, 30).over_time.x_ticks)


def test_a_series_that_is_not_there() -> None:
    """An overflowing registry or another run: it says so."""
    found = detail(known(), View(), ("other", ()), None, 80)
    assert texts(found.facts) == ["the run has no such series"]
    assert found.curve == Plot(empty="the run has no such series")
    assert stat_of(None, LATENCY) is None


def test_what_was_added_up_is_not_added_up_again() -> None:
    """The screen is drawn several times before more history comes."""
    assert digest_of(known(), View(), HISTORY) is digest_of(known(), View(), HISTORY)
    assert points_of(HISTORY, NOON, NOON + SECOND, 10) is points_of(HISTORY, NOON, NOON + SECOND, 10)


@pytest.mark.parametrize("width", [10, 20, 60, 200])
def test_facts_keep_to_their_width(width: int) -> None:
    """Facts keep to their width and are printable, whatever the name."""
    stat = series("\x1b[31mname" * 9, above=3)
    found = detail(scene(series=[stat]), View(), (stat.name, ()), None, width)
    assert all(len(line) <= width for line in texts(found.facts))
    assert "".join(texts(found.facts)).isprintable()
