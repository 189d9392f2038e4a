"""The overview: one line for each series, and what a glance at it tells."""

from __future__ import annotations

from dataclasses import replace

from msgspec import structs
from tests.unit.tui.model.scenes import (
    NOON,
    SECOND,
    column,
    drawn,
    producer,
    scene,
    series,
    snapshot,
    text,
    texts,
    tones,
)

from telemetry.history.intervals.figures import Figures
from telemetry.redaction import COUNTER, COUNTER_LABEL
from telemetry.tui.model.overview import label_keys, marks, overview, resized, series_of, sort_keys
from telemetry.tui.model.scene import RangeFigures, Scene, View
from telemetry.wire.snapshot import AxisStat, CounterStat, GaugeStat, MarkStat, WindowStat

FAST, SLOW, BODY = ("latency", (("route", "/fast"),)), ("latency", (("route", "/slow"),)), ("body", ())


def known() -> Scene:
    """Fast is as it was, slow has just doubled, and body has risen."""
    trends = {FAST: (4.0, 4.1) * 10, SLOW: (4.0,) * 19 + (12.0,), BODY: (4.0,) * 19 + (5.5,)}
    return replace(scene(), trends=trends)


def test_at_80_columns() -> None:
    """Names, pace, the middle, the tail, and where the tail is going."""
    assert drawn(overview(known(), View(), 80).series, 78) == [
        "series                 rate      p50      p99    p99.9     peak  p99 trend",
        "latency{route=/fast}  500/s  2.50 ms  8.00 ms  19.0 ms  80.0 ms  ▄▄▄▄▄▄▄▄▄",
        "latency{route=/slow}  500/s  7.50 ms  24.0 ms  57.0 ms  80.0 ms  ▃▃▃▃▃▃▃▃▇⇑",
        "body                  500/s   2.50 B      8 B     19 B     80 B  ▄▄▄▄▄▄▄▄▅↑",
    ]


def test_counts_of_masked_values_appear_with_a_filter_only() -> None:
    """Counts of masked values appear with a filter only: they are about telemetry, not the run."""
    masked = CounterStat(name=COUNTER, labels={COUNTER_LABEL: "jwt"}, value=2, events=2)
    seen = scene(counters=[CounterStat(name="calls", value=3, events=3), masked], gauges=[])
    assert column(overview(seen, View()).others, "name") == ["calls"]
    assert column(overview(seen, View(filter="masked")).others, "name") == ["telemetry.masked{rule=jwt}"]


def test_at_160_columns() -> None:
    """All percentiles that there are, and half a minute of trend."""
    assert drawn(overview(known(), View(), 160).series, 158) == [
        "series                count   rate      p50      p90      p99    p99.9     peak  p99 trend",
        "latency{route=/fast}  5,000  500/s  2.50 ms  5.00 ms  8.00 ms  19.0 ms  80.0 ms"
        "            ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄",
        "latency{route=/slow}  5,000  500/s  7.50 ms  15.0 ms  24.0 ms  57.0 ms  80.0 ms"
        "            ▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▃▇⇑",
        "body                  5,000  500/s   2.50 B      5 B      8 B     19 B     80 B"
        "            ▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▅↑",
    ]


def test_of_another_width() -> None:
    """A resized overview is as if it had been made for the width.

    The line of the backends stays, as it has the whole screen.
    """
    view = View(filter="latency", group="route")
    wide, narrow = overview(known(), view, 160), overview(known(), view, 80)
    assert resized(wide, known(), view, 80) == replace(narrow, backends=wide.backends)
    assert wide.series != narrow.series


def test_compared_with_a_baseline_at_80_columns() -> None:
    """The differences stay, further percentiles go."""
    compared = replace(known(), baseline=snapshot(run_id="0a1b2c3d"))
    assert drawn(overview(compared, View(compare=True), 80).series, 78) == [
        "series                 rate      p50      p99    Δp50    Δp99  p99 trend",
        "latency{route=/fast}  500/s  2.50 ms  8.00 ms  +100 %  +100 %  ▄▄▄▄▄▄▄▄▄",
        "latency{route=/slow}  500/s  7.50 ms  24.0 ms  +500 %  +500 %  ▃▃▃▃▃▃▃▃▇⇑",
        "body                  500/s   2.50 B      8 B  +100 %  +100 %  ▄▄▄▄▄▄▄▄▅↑",
    ]


def test_counters_and_gauges() -> None:
    """Counters in full with their rate, gauges with their extremes."""
    assert drawn(overview(known(), View(), 80).others, 78) == [
        "counters and gauges   value   rate  min  max",
        "requests             20,000  500/s",
        "connections              16           0   16",
    ]


def test_the_whole_run() -> None:
    """The same columns, but for the greatest value, which of a window is not known."""
    grid = overview(known(), View(figures="run")).series
    assert column(grid, "count") == ["20.0 k"] * 3
    titles = {head.key: head.title for head in grid.columns}
    assert titles["max"] == "max"
    assert column(grid, "max")[0] == "80.0 ms"


def test_raw_units() -> None:
    """Numbers to copy, with the unit in the name."""
    grid = overview(known(), View(units="raw")).series
    assert column(grid, "name")[0] == "latency{route=/fast} [ms]"
    assert column(grid, "count")[0] == "5,000"
    assert column(grid, "p50")[0] == "2.5"


def test_the_tail_that_moves_is_coloured_and_marked() -> None:
    """A tail from 1.25 times the median of the trend on is a warning, and from twice on bad.

    An arrow says so too.
    """
    grid = overview(known(), View()).series
    assert tones(grid, "p99") == ["plain", "bad", "warn"]
    assert [cell[-1] for cell in column(grid, "trend")] == [" ", "⇑", "↑"]
    assert tones(overview(known(), View(figures="run")).series, "p99") == ["plain"] * 3


def test_what_rests_on_few_values_is_dim() -> None:
    """The p99.9 of 5,000 values is dim, as it lies below five of them."""
    grid = overview(scene(), View()).series
    assert tones(grid, "p99.9") == ["dim"] * 3
    assert tones(grid, "p99") == ["plain"] * 3
    silent = series(window=WindowStat(seconds=10.0))
    quiet = overview(scene(series=[silent]), View()).series
    assert column(quiet, "p99") == ["–"]
    assert tones(quiet, "rate") == ["dim"]


def test_differences_have_a_colour_only_where_they_matter() -> None:
    """Slower than the baseline is bad; a byte more is not."""
    base = snapshot(series=[series(labels={"route": "/fast"}), series("body", unit="B", labels={})])
    grid = overview(replace(scene(), baseline=base), View(compare=True)).series
    assert column(grid, "dp99") == ["+100 %", "–", "+100 %"]
    assert tones(grid, "dp99") == ["bad", "dim", "accent"]
    assert "dp99" not in sort_keys(replace(scene(), baseline=base), View())


def test_pins_and_groups() -> None:
    """Pinned rows have a star; a heading says what the names below it no longer do."""
    view = View(group="route", pinned=frozenset({BODY}))
    rows = overview(scene(), view).series.rows
    assert [(row.heading, row.cells[0].text) for row in rows] == [
        (True, "pinned"),
        (False, "★ body"),
        (True, "route=/fast"),
        (False, "latency"),
        (True, "route=/slow"),
        (False, "latency"),
    ]
    assert all(len(row.cells) == len(overview(scene(), view).series.columns) for row in rows if not row.heading)
    assert len({row.key for row in rows}) == len(rows)


def test_rows_lead_to_their_series() -> None:
    """Headings, counters and gauges lead nowhere."""
    found = overview(scene(), View(group="route"))
    opened = [series_of(scene(), row.key) for row in found.series.rows if not row.heading]
    assert opened == [FAST, SLOW, BODY]
    closed = [row.key for row in found.series.rows if row.heading] + [row.key for row in found.others.rows]
    assert all(series_of(scene(), key) is None for key in closed)
    assert series_of(Scene(), "x") is None


def test_labels_to_group_by_tell_series_apart() -> None:
    """One that all have with the same value would make one group."""
    stats = [
        series(labels={"host": "a", "route": "/x"}),
        series(labels={"host": "a", "route": "/y", "verb": "GET"}),
    ]
    assert label_keys(scene(series=stats)) == ("route", "verb")
    assert label_keys(Scene()) == ()


def test_sorting_goes_through_the_columns_and_back() -> None:
    """The order of definition is one of them, and the grid says by what it is sorted."""
    assert sort_keys(scene(), View()) == ("", "name", "count", "rate", "p50", "p90", "p99", "p99.9", "max", "trend")
    grid = overview(scene(), View(sort="p99", descending=False)).series
    assert (grid.sorted_by, grid.descending) == ("p99", False)
    assert overview(scene(), View(sort="lag")).series.sorted_by == ""
    others = overview(
        scene(counters=[CounterStat(name="a", rate=1.0), CounterStat(name="b", rate=2.0)]), View(sort="rate")
    )
    assert column(others.others, "name") == ["b", "a", "connections"]


def test_the_past_shows_what_is_known_of_it() -> None:
    """Series with their own maximum, marks that had come; of counters and gauges the history has no figures, so
    none are made up. Nothing changes its place."""
    then = Figures(seconds=10.0, count=100, rate=10.0, max=3.0, percentiles={"50": 1.0, "99": 2.0})
    moment = RangeFigures(start_ns=NOON, end_ns=NOON + 10 * SECOND, series={FAST: then})
    marked = [MarkStat(text="load begins", time_ns=NOON), MarkStat(text="later", time_ns=NOON + 10 * SECOND)]
    run = known()
    assert run.snapshot is not None
    run = replace(run, snapshot=structs.replace(run.snapshot, marks=marked))
    now, found = overview(run, View()), overview(replace(run, moment=moment), View())
    assert column(found.series, "p99") == ["2.00 ms", "–", "–"]
    assert column(found.series, "max") == ["3.00 ms", "–", "–"]
    assert {text.strip() for text in column(found.series, "trend")} == {""}
    assert list(map(len, column(found.series, "trend"))) == list(map(len, column(now.series, "trend")))
    assert [row.key for row in found.others.rows] == [row.key for row in now.others.rows]
    assert {text.strip() for text in column(found.others, "value")} == {"–"}
    assert found.others.columns[0].title == "counters and gauges: no history"
    assert texts(found.marks) == ["12:00:00.000  load begins"]
    assert text(found.caption).startswith("12:00:00–12:00:10 UTC")


def test_the_caption_says_what_is_seen() -> None:
    """The caption has the time range, how many series of how many, and what they are compared with."""
    assert text(overview(scene(), View()).caption) == "last 10 s · 3 series"
    view = View(filter="lat", group="route", compare=True, figures="run")
    compared = replace(scene(), baseline=snapshot(run_id="0a1b2c3d"))
    assert text(overview(compared, view, 120).caption) == (
        "whole run · 2 of 3 series · filter 'lat' · by route · Δ to all of bench 0a1b2c3d"
    )
    assert text(overview(compared, view, 60).caption) == "whole run · 2 of 3 series · filter 'lat'"


def test_nothing_is_said_in_words() -> None:
    """An empty table says why it is empty."""
    assert overview(Scene(), View()).series.empty == "no series yet"
    assert overview(scene(), View(filter="x\x1b")).series.empty == r"no series matches 'x\x1b'"
    assert overview(scene(series=[]), View()).series.empty == "no series yet"
    assert overview(replace(scene(series=[]), live=False), View()).series.empty == "the run has no series"
    assert overview(scene(series=[], state="COMPLETE"), View()).series.empty == "the run has no series"
    assert overview(scene(counters=[], gauges=[]), View()).others.empty == "no counters or gauges"
    steps = overview(scene(series=[], axes=[AxisStat(name="step")]), View()).series.empty
    assert steps == "no series yet; tab 5 has the values of steps"


def test_marks_come_with_the_time_of_day() -> None:
    """Marks have the time of day, and who set them where several could have. Collectors set none."""
    assert texts(marks(scene())) == ["12:00:01.000  load begins"]
    beside = [producer("a"), producer("telemetry.collectors.1")]
    assert texts(marks(scene(producers=beside))) == ["12:00:01.000  load begins"]
    both = [producer("a", rank=0), producer("b", rank=1)]
    mark = MarkStat(text="epoch\n", labels={"n": "3"}, time_ns=NOON, producer="b")
    assert texts(marks(scene(producers=both, marks=[mark]))) == [
        r"12:00:00.000  epoch\n{n=3}  http rank 1 (node1:4711)"
    ]
    assert marks(Scene()) == ()


def test_everything_from_outside_is_printable() -> None:
    """Names, labels and units of hostile producers."""
    evil = "\x1b[31m\u202e"
    stat = series(evil, labels={evil: evil}, unit=evil)
    run = scene(
        name=evil,
        series=[stat, series("b")],
        counters=[CounterStat(name=evil, labels={evil: evil}, unit=evil)],
        gauges=[GaugeStat(name=evil, unit=evil)],
        marks=[MarkStat(text=evil, time_ns=0, labels={evil: evil})],
        run_id=evil,
    )
    found = overview(replace(run, baseline=run.snapshot), View(group=evil, compare=True, units="raw"), 400)
    cells = [cell for grid in (found.series, found.others) for row in grid.rows for cell in row.cells]
    said = "".join(cell.text for cell in cells) + "".join(map(text, (*found.marks, found.caption)))
    assert said.isprintable()


def failing() -> Scene:
    """Requests that failed in a window, for two reasons."""
    labels = ({}, {"reason": "timeout"}, {"reason": "http_503"})
    failed = [
        CounterStat(name="llm.failed", unit="requests", labels={**own, "window": "m"}, value=value, rate=value / 10)
        for own, value in zip(labels, (0, 30, 4), strict=True)
    ]
    issued = CounterStat(name="llm.issued", unit="requests", labels={"window": "m"}, value=100, rate=10.0)
    return scene(counters=[issued, *failed], gauges=[])


def test_failures_of_one_place_are_one_row() -> None:
    """Above them no 0 that says that nothing failed; with a filter the counter of a reason is found."""
    grid = overview(failing(), View()).others
    assert column(grid, "name") == ["llm.issued{window=m} [requests]", "llm.failed{window=m} [requests]"]
    assert (column(grid, "value"), column(grid, "rate")) == (["100", "34"], ["10/s", "3.40/s"])
    found = overview(failing(), View(filter="failed timeout")).others
    assert column(found, "name") == ["llm.failed{reason=timeout,window=m} [requests]"]
    assert column(found, "value") == ["30"]


def test_requests_have_no_rate_of_the_whole_run_in_rows_of_their_instruments() -> None:
    """Each would be over a time of its own, beside the rate of the requests by definition.

    Values per second of a series of tokens would be read as tokens per second.
    """
    stats = [
        series("llm.latency", unit="ns"),
        series("llm.output_tokens", unit="tokens"),
        series("body", unit="ms"),
    ]
    load = [*(failing().snapshot or snapshot()).counters, CounterStat(name="calls", value=20)]
    now, whole = (
        overview(scene(series=stats, counters=load, gauges=[]), View(figures=figures), 160)
        for figures in ("window", "run")
    )
    assert column(now.series, "rate") == ["500/s", "–", "500/s"]
    assert column(whole.series, "rate") == ["–", "–", "500/s"]
    assert column(whole.others, "rate") == ["0.5/s", "–", "–"]


def test_rates_of_counters_are_of_the_same_time_range_as_those_of_series() -> None:
    """The rate of a counter without times in a run of 40 s is its whole count by that length.

    Counters are sorted by that, too.
    """
    counters = [CounterStat(name="a", value=20, rate=3.0), CounterStat(name="b", value=80, rate=1.0)]
    now, whole = (
        overview(scene(counters=counters), View(sort="rate", figures=figures)).others
        for figures in ("window", "run")
    )
    assert (column(now, "name")[:2], column(now, "rate")[:2]) == (["a", "b"], ["3/s", "1/s"])
    assert (column(whole, "name")[:2], column(whole, "rate")[:2]) == (["b", "a"], ["2/s", "0.5/s"])
    begun = overview(scene(counters=counters, elapsed_s=0.0), View(figures="run")).others
    assert column(begun, "rate")[:2] == ["–", "–"]


def test_gauges_of_collectors_are_in_the_table_with_a_filter() -> None:
    """Gauges of collectors are in the table with a filter only, as they would fill it.

    The line of the machine has the main ones, and gauges of a job stay.
    """
    gauges = [GaugeStat(name="host.load", value=1.0), GaugeStat(name="depth", value=2.0)]
    collectors = producer("telemetry.collectors.1")
    for producers, words, expected in (
        ([], "", ["host.load", "depth"]),
        ([collectors], "", ["depth"]),
        ([collectors], "host", ["host.load"]),
    ):
        shown = scene(counters=[], gauges=gauges, producers=producers)
        rows = overview(shown, View(filter=words), 80).others.rows
        assert [row.name.text for row in rows] == expected
