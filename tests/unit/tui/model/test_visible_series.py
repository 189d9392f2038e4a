"""Tests of which series are seen, and in what order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.tui.model.scenes import NOON, SECOND, scene, series, slowed, snapshot

from telemetry.history.intervals.figures import Figures
from telemetry.tui.model.scene import RangeFigures, Scene, View
from telemetry.tui.model.visible_series import (
    VisibleSeries,
    beyond,
    few_beyond,
    figures_of,
    in_order,
    key_of,
    matches,
    percentile_keys,
    shown,
    time_range_words,
)
from telemetry.wire.snapshot import CounterStat, WindowStat

FAST, SLOW = ("latency", (("route", "/fast"),)), ("latency", (("route", "/slow"),))
BODY = ("body", ())


def members(known: Scene, view: View) -> list[VisibleSeries]:
    return [item for group in shown(known, view) for item in group.members]


def order(known: Scene, view: View) -> list[object]:
    return [item.series for item in members(known, view)]


def test_no_two_series_share_a_key() -> None:
    """Names and labels may hold what separates names and labels."""
    keys = [key_of(("a{b=c}", ())), key_of(("a", (("b", "c"),))), key_of(("a", (("b", "c"), ("d", "e")))),
            key_of(("a", (("b", "c,d=e"),)))]  # fmt: skip
    assert len(set(keys)) == len(keys)


def test_figures_are_those_of_the_chosen_time_range() -> None:
    """The window, the whole run, or a moment of the past, whatever else is chosen."""
    stat, known = series(), scene(series=[series()])
    window = figures_of(stat, known, View())
    assert (window.count, window.rate, window.percentiles["99"], window.max) == (5_000, 500.0, 8.0, None)
    run = figures_of(stat, known, View(figures="run"))
    assert (run.count, run.rate, run.percentiles["99"], run.max) == (20_000, 500.0, 4.0, 80.0)
    then = Figures(seconds=10.0, count=7, max=3.0)
    moment = RangeFigures(start_ns=NOON, end_ns=NOON + 10 * SECOND, series={("latency", ()): then})
    past = replace(known, moment=moment)
    assert figures_of(stat, past, View(figures="run")) == then
    assert figures_of(series("body"), past, View()) == Figures(seconds=10.0)


def test_the_time_range_has_a_name() -> None:
    """The time range has a name, so that nobody takes the window for the run."""
    known = scene()
    assert time_range_words(known, View()) == "last 10 s"
    assert time_range_words(replace(known, live=False), View()) == "the last 10 s"
    assert time_range_words(known, View(figures="run")) == "whole run"
    moment = RangeFigures(start_ns=NOON, end_ns=NOON + 10 * SECOND)
    assert time_range_words(replace(known, moment=moment), View()) == "12:00:00–12:00:10 UTC"
    between = RangeFigures(start_ns=NOON + SECOND // 2 - 1, end_ns=NOON + 10 * SECOND + SECOND // 2 + 1)
    assert time_range_words(replace(known, moment=between), View()) == "12:00:00–12:00:10 UTC"


def test_percentiles_ascend_and_strange_ones_come_last() -> None:
    """Percentile keys are those that any series has, ascending as numbers. Strange ones come last."""
    stats = [series(), series("b", percentiles={"100": 1.0, "x": 1.0, "75": 1.0})]
    assert percentile_keys(snapshot(series=stats)) == ("50", "75", "90", "99", "99.9", "100", "x")
    assert percentile_keys(None) == ()


@pytest.mark.parametrize(
    ("percentile", "count", "above", "few"),
    [
        ("99.9", 10_000, 10, False),
        ("99.9", 9_999, 9, True),
        ("99", 50, 0, True),
        ("50", 19, 9, True),
        ("100", 5, 0, False),
        ("99", 0, 0, False),
        ("x", 5, None, False),
    ],
)
def test_a_percentile_rests_on_what_lies_beyond_it(
    percentile: str, count: int, above: int | None, few: bool
) -> None:
    """Fewer than ten values beyond are few, in whole numbers: 99.9 % of 10,000 leaves exactly ten."""
    assert beyond(percentile, count) == above
    assert few_beyond(percentile, count) is few


def test_all_words_of_a_filter_must_be_there() -> None:
    """All words of a filter must be there, in any order and case. A filter without words lets everything pass."""
    assert matches("latency{route=/fast}", "FAST lat")
    assert not matches("latency{route=/fast}", "fast body")
    assert matches("anything", "  ")


def test_a_filter_looks_at_the_name_with_its_labels() -> None:
    """A filter looks at the name with its labels, as it is shown."""
    assert order(scene(), View(filter="route=/S")) == [SLOW]
    assert order(scene(), View(filter="nothing")) == []


def test_unsorted_series_stand_as_they_were_defined() -> None:
    """Rows that jump about can't be read."""
    assert order(scene(), View()) == [FAST, SLOW, BODY]
    assert shown(Scene(), View()) == ()


def test_series_of_requests_stand_before_others() -> None:
    """The first series of all is plotted, and it should not be the size of a body."""
    issued = CounterStat(name="http.issued", unit="requests", value=9)
    known = scene(series=[series("body"), series("http.latency")], counters=[issued])
    assert [item.series[0] for item in members(known, View())] == ["http.latency", "body"]


def test_the_newest_tracking_window_stands_first() -> None:
    """Below what no window tells apart; a column to sort by goes before it."""
    named = [("before", {}), ("ttft", {"window": "warm-up"}), ("ttft", {}), ("own", {"window": "measured"})]
    stats = [series(name, labels=labels) for name, labels in [*named, ("ttft", {"window": "measured"})]]
    known = Scene(snapshot=snapshot(series=stats))
    said = [(item.stat.name, item.stat.labels.get("window")) for item in members(known, View())]
    assert said == [
        ("before", None),
        ("own", "measured"),
        ("ttft", "measured"),
        ("ttft", "warm-up"),
        ("ttft", None),
    ]
    assert members(known, View(sort="name", descending=False))[0].stat.name == "before"


def test_a_warm_up_that_completes_late_is_no_newer() -> None:
    """A window is as old as what was issued first in it, whatever the filter leaves."""
    late = [series("llm.latency", labels={"window": window}) for window in ("measured", "warm-up")]
    issued = [CounterStat(name="llm.issued", labels={"window": window}) for window in ("warm-up", "measured")]
    known = Scene(snapshot=snapshot(counters=issued, series=late))
    for view in (View(), View(filter="latency")):
        assert [item.stat.labels["window"] for item in members(known, view)] == ["measured", "warm-up"]


@pytest.mark.parametrize(
    ("sort", "first"),
    [
        ("name", SLOW),
        ("count", FAST),
        ("rate", FAST),
        ("p99", SLOW),
        ("max", FAST),
        ("trend", BODY),
        ("nonsense", FAST),
    ],
)
def test_the_largest_comes_first(sort: str, first: object) -> None:
    """The largest comes first by any column, the trend by how much it has risen.

    An unknown column changes nothing.
    """
    known = replace(scene(), trends={BODY: (1.0,) * 9 + (5.0,), FAST: (1.0,) * 10})
    assert order(known, View(sort=sort))[0] == first


def test_values_are_compared_and_not_their_text() -> None:
    """9 ms is less than 1 s, whatever their units, and a longer number is not a larger one."""
    stats = [
        series("a", percentiles={"99": 9.0}),
        series("b", percentiles={"99": 1.0}, unit="s"),
        series("c", percentiles={"99": 10.5}),
    ]
    found = order(scene(series=stats), View(sort="p99", figures="run", descending=False))
    assert found == [("a", ()), ("c", ()), ("b", ())]


def test_without_a_value_comes_last_in_either_direction() -> None:
    """Sorting is for finding what is there."""
    silent = series("silent", window=WindowStat(seconds=10.0))
    for descending in (True, False):
        found = order(scene(series=[silent, series()]), View(sort="p99", descending=descending))
        assert found[-1] == ("silent", ())
    assert in_order([3, 1], None, descending=True) == [3, 1]


def test_pinned_series_stand_at_the_top() -> None:
    """Pinned series stand at the top, whatever the order of the others."""
    view = View(sort="p99", pinned=frozenset({BODY}))
    assert order(scene(), view) == [BODY, SLOW, FAST]
    assert [item.pinned for item in members(scene(), view)] == [True, False, False]


def test_groups_have_the_value_of_the_label_in_their_heading() -> None:
    """Groups are in the order of their label's values, with the value in the heading.

    Pinned series come first, those without the label last.
    """
    view = View(group="route", pinned=frozenset({SLOW}))
    stats = [*snapshot().series, series(labels={"route": "/a"})]
    headings = [group.heading for group in shown(scene(series=stats), view)]
    assert headings == ["pinned", "route=/a", "route=/fast", "without route"]


def test_changes_are_measured_from_the_run_of_the_baseline() -> None:
    """A series that the baseline does not have, or in another unit, is not compared."""
    base = snapshot(series=[series(labels={"route": "/fast"}), series("body", unit="ms")])
    fast, slow, body = members(replace(scene(), baseline=base), View())
    assert fast.change("99") == pytest.approx(1.0)
    assert slow.change("99") is None
    assert body.change("99") is None
    assert fast.change("75") is None


def test_the_past_has_no_trend() -> None:
    """The trend is of now, and would be taken for one of then."""
    known = replace(scene(), trends={FAST: (1.0,)})
    assert members(known, View())[0].trend == (1.0,)
    past = replace(known, moment=RangeFigures(start_ns=0, end_ns=1))
    assert members(past, View())[0].trend == ()
    assert members(past, View())[0].max is None


def test_slower_windows_are_seen_in_the_figures() -> None:
    """The builder of these tests does what it says."""
    assert slowed(series(), 2.0).window.percentiles["99"] == 16.0
