"""The tables of requests, as they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.tui import loads
from tests.unit.tui.model.scenes import NOON, SECOND, column, drawn, scene, series, snapshot, text, tones

from telemetry.common.formatting import columns
from telemetry.history.intervals.figures import Figures
from telemetry.tui.model.grid import Grid
from telemetry.tui.model.requests import by_count, requests, told
from telemetry.tui.model.scene import RangeFigures, Scene, View
from telemetry.wire.snapshot import CounterStat, SeriesStat

RUN = View(figures="run")


def counter(name: str, value: int, **labels: str) -> CounterStat:
    return CounterStat(name=name, unit="requests", labels=labels, value=value, events=value, rate=value / 10)


def durations(name: str, **labels: str) -> SeriesStat:
    return series(name, unit="ns", labels=labels)


def llm(**changes: Any) -> Scene:
    """One kind without windows."""
    known: dict[str, Any] = {
        "counters": [
            counter("llm.issued", 1_000),
            counter("llm.completed", 900, finish="stop"),
            counter("llm.completed", 20, finish="length"),
            counter("llm.failed", 30, reason="timeout"),
            counter("llm.failed", 40, reason="http_503"),
        ],
        "series": [durations("llm.failed_latency"), durations("llm.ttft"), durations("llm.latency"), series()],
    }
    return scene(**{**known, **changes})


def played() -> Scene:
    return Scene(snapshot=loads.load().last)


def said(grid: Grid) -> list[str]:
    """Return the texts of the headings between the rows."""
    return [" ".join(cell.text for cell in row.cells) for row in grid.rows if row.heading]


def test_where_the_requests_are() -> None:
    """The counts stand from left to right, as requests go.

    Counts of what went wrong stand out, and zero counts do not.
    """
    found = requests(llm(), View()).request_counts
    assert [head.title for head in found.columns[:6]] == [
        *("requests", "issued ▸", "in flight ▸", "completed", "failed", "expired")
    ]
    assert [cell.text for cell in found.rows[0].cells[:6]] == ["llm", "1,000", "10", "920", "70", "0"]
    assert (tones(found, "failed"), tones(found, "expired")) == (["bad"], ["dim"])


def test_why_they_failed_and_how_they_finished() -> None:
    """Reasons of failures, and how requests finished, are listed with the most frequent first."""
    assert said(requests(llm(), View()).request_counts) == [
        "  failed: http_503 40 · timeout 30",
        "  finished: stop 900 · length 20",
    ]


def test_what_is_odd_is_said_only_where_it_happens() -> None:
    """Headings for expired requests, late calls and times out of order appear only if there are any."""
    odd = [counter("llm.issued", 9), counter("llm.expired", 2), counter("llm.after_end", 3)]
    odd.append(counter("llm.out_of_order", 4))
    assert said(requests(llm(counters=odd), View()).request_counts) == [
        "  expired: 2 without an outcome in time",
        "  too late: 3 calls for requests that had already ended or are unknown",
        "  out of order: 4 durations ignored: the end is before the beginning",
    ]


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (60, "http_503 40 · timeout 30 · reset 2 · dns 1"),
        (41, "http_503 40 · timeout 30 · 2 others 3"),
        (25, "http_503 40 · 3 others 33"),
        (24, "htt…503 40 · 3 others 33"),
        (10, "… 40 · 3 …"),
        (0, ""),
    ],
)
def test_rare_reasons_go_where_there_is_no_room(width: int, words: str) -> None:
    """Rare reasons go where there is no room, but their number stays."""
    counts = {"dns": 1, "timeout": 30, "http_503": 40, "reset": 2}
    assert by_count(counts, width) == words
    assert columns(words) <= width


POOL = "HTTPConnectionPool(host='10.0.0.7', port=8000): Max retries exceeded with url: /v1/chat (Caused by {})"


@pytest.mark.parametrize(
    ("width", "words"),
    [
        (100, "HTTPConnection…TimeoutError) 30 · HTTPConnection…nectionError) 20 · http_503 5"),
        (64, "HTTPConn…tError) 30 · HTTPConn…nError) 20 · http_503 5"),
        (44, "HTTPConnectio…TimeoutError) 30 · 2 others 25"),
    ],
)
def test_of_long_reasons_stays_what_tells_them_apart(width: int, words: str) -> None:
    """Long reasons keep only what tells them apart, with their counts, also in a small terminal."""
    counts = {POOL.format("ReadTimeoutError"): 30, POOL.format("NewConnectionError"): 20, "http_503": 5}
    assert by_count(counts, width) == words
    assert columns(words) <= width


def test_a_reason_without_end_keeps_its_count() -> None:
    """A long reason is shortened in the middle and keeps its count."""
    assert by_count({"x" * 90 + "end": 7}, 20) == "xxxxxxxxx…xxxxxend 7"


def test_rates_of_the_last_seconds_and_of_the_whole_run() -> None:
    """The last seconds have one of each; a whole run has one by each definition."""
    now, whole = requests(llm(), View()).request_counts, requests(llm(), RUN).request_counts
    assert [head.title for head in now.columns[6:]] == ["issuing", "rate", "failing"]
    assert [column(now, key) for key in ("issuing", "completing", "failing")] == [["100/s"], ["92/s"], ["7/s"]]
    assert [head.title for head in whole.columns[6:]] == ["rate", "while issuing", "LoadGen"]
    assert column(whole, "while_issuing") == ["–"]


def test_series_have_no_rate_beside_those_by_definition() -> None:
    """The table of series has no `rate` column for a whole run.

    Its rate would be the count divided by the length of the run. The rates in the table of requests divide by
    other times, so the two tables could contradict each other.
    """
    now, whole = requests(llm(), View()).series, requests(llm(), RUN).series
    assert "rate" in [head.key for head in now.columns]
    assert "rate" not in [head.key for head in whole.columns]
    assert all(len(row.cells) == len(whole.columns) for row in whole.rows if not row.heading)
    past = replace(llm(), moment=RangeFigures(start_ns=NOON, end_ns=NOON + SECOND))
    assert "rate" in [head.key for head in requests(past, RUN).series.columns]


def test_tokens_have_columns_where_there_are_any() -> None:
    """Tokens have columns where there are any, in the whole run also by each definition."""
    stats = [durations("llm.latency"), series("llm.output_tokens", unit="tokens")]
    now, whole = requests(llm(series=stats), View()).request_counts, requests(llm(series=stats), RUN).request_counts
    assert [head.title for head in now.columns[9:]] == ["tokens"]
    assert [head.title for head in whole.columns[9:]] == ["tokens", "tokens while issuing", "LoadGen tokens"]


def test_at_80_columns_where_they_are_and_how_fast_they_complete() -> None:
    """The counts have room at 80 columns, also of a kind with a long name.

    The rate has room beside a short name.
    """
    for view in (View(), RUN):
        (head, first, *_) = drawn(requests(played(), view).request_counts, 77)
        assert head.split()[-4:] == ["completed", "failed", "SLO", "met"]
        assert first.startswith("chat{model=llama-70b}  ")
    (head, *_) = drawn(requests(llm(), View()).request_counts, 77)
    assert "rate" in head.split()


def test_limits_have_columns_where_there_are_any() -> None:
    """Goodput and the share of requests within all limits; each limit in a row of its own."""
    now, whole = (requests(played(), view, 160).request_counts for view in (View(), RUN))
    assert {"good", "attained"} <= {head.key for head in now.columns}
    assert column(whole, "attained") == ["92.8 %", "93.2 %", "92.7 %", "–"]
    assert column(now, "attained")[1] == "–"  # the warm-up has ended
    assert column(whole, "good")[0].endswith("/s")
    rows = {row.name.text.strip(): row.cells[1].text for row in whole.rows if row.heading}
    assert rows["SLO:"] == "ttft 150 ms 95.2 % · tpot 11.0 ms 95.5 %"
    assert {"good", "attained"} & {head.key for head in requests(llm(), View()).request_counts.columns} == set()


def test_tokens_and_concurrency_have_a_row() -> None:
    """Tokens have a row with those in, out and in all.

    Where few requests failed, it also has how many were in flight.
    """
    rows = requests(played(), RUN, 160).request_counts.rows
    chat, embed = (row.cells[1].text for row in rows if row.heading and row.key.startswith("load"))
    assert chat == "tokens 16.4 k/s in · 971/s out · 17.4 k/s in all · 1 a chunk"
    assert embed == "0.312 in flight on average"


def test_the_most_in_flight_is_that_of_all_windows() -> None:
    """The most in flight is that of all windows together, as far as it was watched.

    Between two snapshots there may have been more.
    """
    peaks = {("chat", (("model", "llama-70b"),)): 21.0, ("embed", ()): 3.0}
    rows = requests(replace(played(), peaks=peaks), RUN, 160).request_counts.rows
    chat, embed = (row.cells[1].text for row in rows if row.heading and row.key.startswith("load"))
    assert chat.endswith(" · 1 a chunk · peak ≥ 21 in flight")
    assert embed == "0.312 in flight on average · peak ≥ 3"


def test_windows_are_rows_of_their_kind() -> None:
    """Windows are rows of their kind, in the order in which they were opened.

    Among the series the window that is measured now comes first.
    """
    found = requests(played(), View())
    assert column(found.request_counts, "name") == ["chat{model=llama-70b}", "  warm-up", "  measured", "embed"]
    assert said(found.series) == [
        "chat{model=llama-70b}, measured",
        "chat{model=llama-70b}, warm-up",
        "embed",
    ]


def test_outside_any_window_has_a_name() -> None:
    """Requests outside any window have a name of their own if the kind has windows."""
    counters = [counter("llm.issued", 5), counter("llm.issued", 7, window="a\x1b")]
    assert column(requests(llm(counters=counters), RUN).request_counts, "name") == [
        "llm",
        "  (outside)",
        "  a\\x1b",
    ]


def test_series_stand_in_an_order_of_their_own() -> None:
    """Latency first; without what their kind says already, and without other series."""
    assert column(requests(llm(), RUN).series, "name") == ["latency", "ttft", "failed_latency"]
    assert said(requests(llm(), RUN).series) == []


def test_turns_of_conversations_come_last() -> None:
    """Turns of conversations come last among the series, in their order."""
    stats = [durations("llm.turn.latency", turn=turn) for turn in ("10", "2", "32+")]
    found = requests(llm(series=[*stats, durations("llm.latency")]), RUN).series
    assert column(found, "name") == [
        "latency",
        "turn.latency{turn=2}",
        "turn.latency{turn=10}",
        "turn.latency{turn=32+}",
    ]


def test_at_80_columns_the_tail_and_the_trend_have_room() -> None:
    """At 80 columns the tail and the trend have room, and counts do not."""
    (head, *_) = drawn(requests(llm(), RUN).series, 77)
    assert head.split() == ["series", "p50", "p90", "p99", "p99.9", "max", "p99", "trend"]


def test_raw_numbers_come_with_the_unit_of_their_row() -> None:
    """Raw numbers come with the unit of their row, so that they can be copied."""
    found = requests(llm(), View(figures="run", units="raw")).series
    assert column(found, "name") == ["latency [ns]", "ttft [ns]", "failed_latency [ns]"]
    assert column(found, "p99") == ["4", "4", "4"]


def test_the_filter_leaves_series_and_their_kinds() -> None:
    """The filter leaves series and their kinds, and the caption counts the kinds that are left."""
    found = requests(played(), View(filter="ttft measured"), 120)
    assert column(found.request_counts, "name") == ["chat{model=llama-70b}", "  warm-up", "  measured"]
    assert column(found.series, "name") == ["ttft"]
    assert text(found.caption) == "last 10 s · 1 kind · filter 'ttft measured'"
    none = requests(played(), View(filter="zzz"))
    assert (none.request_counts.rows, none.series.empty) == ((), "no request matches 'zzz'")


def test_the_past_has_what_the_history_has() -> None:
    """The past has what completed and failed then, but not what was issued or why it failed.

    Rows stay where they are.
    """
    moment = RangeFigures(
        start_ns=NOON,
        end_ns=NOON + 10 * SECOND,
        series={("llm.latency", ()): Figures(seconds=10.0, count=40, percentiles={"99": 2e6})},
    )
    found = requests(replace(llm(), moment=moment), RUN, 120)
    assert [cell.text for cell in found.request_counts.rows[0].cells] == [
        *("llm", "–", "–", "40", "0", "–", "–", "4/s", "0/s")
    ]
    assert said(found.request_counts) == ["  failed: –", "  finished: –"]
    assert column(found.series, "p99") == ["2.00 ms", "–", "–"]
    assert text(found.caption) == "12:00:00–12:00:10 UTC · 1 kind"


def test_compared_with_a_baseline() -> None:
    """The comparison with a baseline is by series, as on the overview."""
    known = replace(llm(), baseline=snapshot(series=[durations("llm.latency")]))
    found = requests(known, View(figures="run", compare=True), 120)
    assert column(found.series, "dp99") == ["0 %", "–", "–"]
    assert text(found.caption) == "whole run · 1 kind · Δ to all of bench 5ab920cc"


def test_names_from_outside_are_printable() -> None:
    """Control characters in kinds, labels and reasons are escaped."""
    counters = [counter("a\x1b.issued", 1, x="\x07"), counter("a\x1b.failed", 1, x="\x07", reason="\x1b[2J")]
    found = requests(llm(counters=counters), View()).request_counts
    assert column(found, "name") == ["a\\x1b{x=\\x07}"]
    assert said(found) == ["  failed: \\x1b[2J 1"]


def test_without_requests_it_says_so() -> None:
    """The screen says that there are no requests, before the first snapshot and in a run without any."""
    assert requests(Scene(), View()).series.empty == "no requests yet"
    assert requests(Scene(live=False, snapshot=snapshot()), RUN).series.empty == "the run has no requests"
    assert requests(llm(series=[]), View()).series.empty == "no measurements yet"


def test_each_series_is_told_once() -> None:
    """Each series comes once, whatever windows and turns there are in both kinds."""
    known = played()
    assert known.snapshot is not None
    told_of = [item.series for _, parts in told(known, View()) for part in parts for item in part.members]
    assert len(told_of) == len(set(told_of)) == len(known.snapshot.series)
