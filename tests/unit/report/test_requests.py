"""Tests of the sections of a report about requests."""

from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from tests.golden.report.renderings import requests_report
from tests.unit.history.test_requests import EXTENT, planned, report
from tests.unit.test_request_model import SECOND, counter, series

from telemetry import render
from telemetry.common.formatting import columns
from telemetry.history.findings import alone
from telemetry.history.requests import with_requests
from telemetry.report.request_summary import request_sections
from telemetry.report.requests import KINDS_SHOWN
from telemetry.report.table import Section
from telemetry.wire.report import Report, TimeRange
from telemetry.wire.requests import COMPLETED, CORRECTED, FAILED, ISSUED, LATENCY, TTFT
from telemetry.wire.snapshot import CounterStat, Extent, SeriesStat


def requests(of: Report) -> list[Section]:
    return list(request_sections(of, full=True))


def sections(*stats: CounterStat | SeriesStat) -> list[Section]:
    return [section for section in requests(with_requests(report(*stats))) if section]


def judged(*stats: CounterStat | SeriesStat) -> list[Section]:
    """Return the sections of requests of a report with bounds and findings."""
    return [section for section in requests(alone(report(*stats))) if section]


def test_a_run_without_requests_says_nothing_of_them() -> None:
    """A run without requests has no section of them, not even an empty one."""
    assert sections(series(LATENCY, [1])) == []


def test_outcomes_of_all_requests() -> None:
    """The most frequent reasons are first; outcomes that no request has are left out."""
    (one, *_) = sections(
        counter(ISSUED, 20),
        counter(COMPLETED, 9, finish="stop"),
        counter(COMPLETED, 2),
        counter(FAILED, 1, reason="refused"),
        counter(FAILED, 3, reason="time\nout"),
        counter("expired", 4),
        series(LATENCY, [1] * 11, extent=EXTENT),
    )
    assert one.title == "Requests: llm, percentiles exact"
    assert one.lines == [
        r"11 of 20 completed (9 stop) · 4 (21.1 %) failed (3 time\nout, 1 refused) · 4 (21.1 %) expired · "
        "1 in flight",
    ]
    assert sections(counter(ISSUED, 0))[0].lines == ["0 of 0 completed"]


def test_many_reasons_share_a_line() -> None:
    """The most frequent are named, the others counted."""
    failed = [counter(FAILED, 10 + number, reason=f"r{number}") for number in range(20)]
    (one,) = sections(counter(ISSUED, 500), *failed)
    assert "390 (100 %) failed (29 r19, 28 r18, 27 r17, 26 r16, 25 r15, 24 r14, 14 more reasons)" in one.lines[0]
    completed = [counter(COMPLETED, 10 + number, finish=f"r{number}") for number in range(7)]
    (one,) = sections(counter(ISSUED, 500), *completed)
    assert "91 of 500 completed (16 r6, 15 r5, 14 r4, 13 r3, 12 r2, 11 r1, 1 more finish reason)" in one.lines[0]


def test_series_and_counters_of_requests_stand_nowhere_else() -> None:
    """Text and Markdown have each of them once."""
    for form in ("text", "md"):
        said = render(requests_report(), form, width=140)  # type: ignore[arg-type]
        assert "Series" in said
        assert "render" in said
        assert said.count("sent") == 1
        assert "llm.latency{" not in said.partition("Warnings")[0]
        assert "llm.issued" not in said


def test_windows_are_beside_each_other_and_apart() -> None:
    """All together are estimates, which is said; one window alone needs no comparison."""
    both = [counter(ISSUED, 2), series(LATENCY, [1, 2]), counter(ISSUED, 1, window="a")]
    last = series(LATENCY, [5], window="a")
    together, outside, *_ = sections(*both, last)
    assert together.table is not None
    assert [row[0] for row in together.table.rows] == ["(outside)", "a", "all windows"]
    assert together.table.rows[-1][-2:] == ["≈3.00 ns", "≈5.00 ns"]
    assert together.notes == [
        "≈ is an upper bound: percentiles of several windows together are not known more precisely"
    ]
    assert outside.title == "Requests: llm, outside any window, percentiles exact"
    assert "Requests: llm, window a, early stopping" in [section.title for section in sections(*both, last)]
    assert "Requests: llm, outside any window, early stopping" not in [one.title for one in sections(*both, last)]
    alone = sections(counter(ISSUED, 1, window="a"), counter("after_end", 3))
    assert [section.title for section in alone] == ["Requests: llm, window a"]
    assert alone[0].lines[1] == "3 calls for requests that had already ended or are unknown"
    odd = sections(counter(ISSUED, 1, window="a"), counter("out_of_order", 2, window="a"))
    assert odd[0].lines[1] == "2 durations ignored: the end is before the beginning"


def test_early_stopping_says_the_bound_or_what_it_takes() -> None:
    """The table of early stopping shows bounds in the unit of the series, or what is missing."""
    *_, early = sections(counter(ISSUED, 70), series(LATENCY, [1_000] * 70), series(TTFT, [], extent=None))
    assert early.table is not None
    assert early.title == "Requests: llm, early stopping"
    assert early.table.rows == [["latency", "1.00 µs", "1.00 µs", "592 more"]]


def test_bounds_that_are_cells_of_the_display_histogram_are_marked() -> None:
    """Bounds from a display histogram are marked, because they look as exact as those from values.

    The greatest value needs no mark, since both ways give the same.
    """
    known = with_requests(report(counter(ISSUED, 70), series(LATENCY, [1_000] * 60 + [9_000] * 10)))
    (figures,) = known.requests
    stops = figures.early_stopping["latency"]
    assert stops["50"].bound == 1_024
    closer = replace(figures, early_stopping={"latency": {**stops, "50": replace(stops["50"], bound=1_001)}})
    of_cells, of_values = (
        next(one for one in requests(made) if one.title.endswith("early stopping"))
        for made in (known, replace(known, requests=[closer]))
    )
    assert len(of_cells.notes) == 2
    assert of_cells.notes[1].startswith("bounds are from display histograms and may be up to 25 % too high")
    assert len(of_values.notes) == 1
    *_, alike = sections(counter(ISSUED, 70), series(LATENCY, [1_000] * 70))
    assert len(alike.notes) == 1


def test_one_request_has_no_rate() -> None:
    """However fast it was; its tokens have."""
    extent = Extent(first_ns=0, last_ns=0, last_done_ns=2 * SECOND, end_ns=2 * SECOND)
    tokens = series("output_tokens", [30], extent=extent)
    for number, said in ((1, ["–", "– as LoadGen counts"]), (2, ["1", "0.5 as LoadGen counts"])):
        stats = [counter(ISSUED, number), counter(COMPLETED, number), series(LATENCY, [5] * number, extent=extent)]
        one, *_ = sections(*stats, tokens)
        assert one.table is not None
        rows = {name: cells for name, *cells in one.table.rows}
        assert rows["requests/s"] == said
        assert rows["output tokens/s"][0] == "15"


def test_turns_are_in_order() -> None:
    """Both of their series in a row."""
    found = sections(
        counter(ISSUED, 3),
        series("turn.latency", [30], turn="10"),
        series("turn.latency", [20, 20], turn="2"),
        series("turn.ttft", [5, 5], turn="2"),
    )
    assert found[-1].title == "Requests: llm, by turn"
    assert found[-1].table is not None
    assert [row[:3] for row in found[-1].table.rows] == [["2", "2", "5.00 ns"], ["10", "1", "–"]]


def test_conversations_belong_to_no_window() -> None:
    """Conversations have one section, whatever windows their requests were in."""
    found = sections(
        counter(ISSUED, 1), counter(ISSUED, 1, window="a"), series("conversation.turns", [4]), series(LATENCY, [1])
    )
    assert found[-1].title == "Requests: llm, conversations, percentiles exact"
    assert found[-1].table is not None
    assert [row[:2] for row in found[-1].table.rows] == [["conversation.turns", "1"]]


def test_a_part_of_a_run_does_not_know_what_was_in_flight() -> None:
    """A part of a run shows no requests in flight, and rates over its length.

    A kind without requests in the part has no section.
    """
    whole = report(counter(ISSUED, 3), counter(COMPLETED, 1))
    part = with_requests(replace(whole, time_range=TimeRange(start_s=0.0, end_s=1.0, chosen="given")), part=True)
    (one,) = (section for section in requests(part) if section)
    assert one.lines == ["1 of 3 completed"]
    idle = report(counter(ISSUED, 3), counter(ISSUED, 0, "idle"))
    shown = with_requests(replace(idle, time_range=part.time_range), part=True)
    assert not any("idle" in section.title for section in requests(shown))
    apart = with_requests(report(counter(ISSUED, 3), counter(ISSUED, 2, window="a")), part=True)
    table = requests(apart)[0].table
    assert table is not None
    assert [column.title for column in table.columns] == ["window", "issued", "completed", "latency p50", "p99"]


def test_the_number_of_sections_is_bounded() -> None:
    """The busiest kinds have theirs, the others are named."""
    found = sections(*(counter(ISSUED, number, f"kind{number}") for number in range(1, 41)))
    assert len(found) == KINDS_SHOWN + 2
    assert [one.title for one in found[:2]] == ["Requests: all 40 kinds", "Requests: kind40"]
    assert found[-1].lines[0].startswith("kind32, kind31, ")
    many = sections(*(counter(ISSUED, 1, window=f"w{number}") for number in range(30)))
    assert many[0].notes == ["22 more windows are in the JSON form"]
    assert len(many) == KINDS_SHOWN + 1


def test_too_few_values_are_marked_by_turn_and_by_window() -> None:
    """Tables by turn and by window mark percentiles of too few values and explain the mark.

    Windows together are not marked, because their bounds are not worked out.
    """
    values = list(range(100, 200))
    stats = [
        counter(ISSUED, 100, window="a"),
        counter(ISSUED, 100, window="b"),
        *(series(word, values, window=window) for word in (LATENCY, CORRECTED) for window in "ab"),
        series("turn.latency", values[:30], turn="1", window="a"),
        series("turn.latency", values, turn="2", window="a"),
    ]
    found = [one for one in judged(*stats) if one.table is not None and "window b" not in one.title]
    beside, turns = found[0], next(one for one in found if one.title.endswith("by turn"))
    assert beside.table is not None
    assert turns.table is not None
    assert [row[-3:] for row in beside.table.rows[:2]] == [["149 ns", "*198 ns", "*198 ns"]] * 2
    assert beside.table.rows[2][-3:] == ["≈149 ns", "≈198 ns", "≈198 ns"]
    assert [row[-4:] for row in turns.table.rows] == [
        ["114 ns", "*126 ns", "*129 ns", "129 ns"],
        ["149 ns", "189 ns", "*198 ns", "199 ns"],
    ]
    said = "* rests on too few values for 95 % confidence bounds"
    assert turns.notes == [said]
    assert beside.notes == [
        "≈ is an upper bound: percentiles of several windows together are not known more precisely",
        said,
    ]


def test_turns_without_values_have_no_row() -> None:
    """Turns without values have no row, as is common in a part of a run. Without any row there is no table."""
    part = [counter(ISSUED, 3), series("turn.latency", [], turn="1"), series("turn.ttft", [], turn="1")]
    assert [section.title for section in sections(*part)] == ["Requests: llm"]
    found = sections(*part, series("turn.latency", [30], turn="2"))[-1]
    assert found.table is not None
    assert [row[0] for row in found.table.rows] == ["2"]


def test_a_stall_is_seen_among_the_windows() -> None:
    """A column shows p99 from the planned start if any request was planned.

    A window without planned requests has none.
    """
    late = planned([3_100_000] * 100, [2 * SECOND - n * SECOND // 50 for n in range(100)], window="stalled")
    table = judged(*late, counter(ISSUED, 9, window="calm"), series(LATENCY, [1_000_000] * 9, window="calm"))[
        0
    ].table
    assert table is not None
    assert [column.title for column in table.columns][-2:] == ["p99", "p99 corrected"]
    assert [row[-2:] for row in table.rows] == [
        ["*3.10 ms", "*1.98 s"],
        ["*1.00 ms", "–"],
        ["≈3.10 ms", "*1.98 s"],
    ]
    plain = sections(*(counter(ISSUED, 1, window=window) for window in "ab"))[0].table
    assert plain is not None
    assert plain.columns[-1].title == "p99"


def test_how_late_requests_were_is_said_above_their_figures() -> None:
    """The lateness of requests appears once for a kind, beside the windows or above the only figures.

    A report without that finding does not show it.
    """
    late = planned([3_100_000] * 100, [2 * SECOND - n * SECOND // 50 for n in range(100)], window="a")
    (first, *others) = judged(*late)
    assert [text.partition(":")[0] for text in first.cautions] == [
        "requests of llm, window a started up to 2.00 s late"
    ]
    assert [one.cautions for one in others] == [[]] * len(others)
    (first, *others) = judged(*late, counter(ISSUED, 9, window="b"))
    assert first.table is not None
    assert first.table.columns[0].title == "window"
    assert len(first.cautions) == 1
    assert [one.cautions for one in others] == [[]] * len(others)
    assert [one.cautions for one in sections(*late)] == [[]] * len(sections(*late))


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        ("", "without a reason"),
        (" \t", "(blank)"),
        ("x" * 40, "x" * 40),
        ("x" * 65, "x" * 32 + "…" + "x" * 31),
        ("\x1b" * 30, r"\x1b" * 8 + "…x1b" + r"\x1b" * 7),
        ("日本" * 30, "日本" * 8 + "…本" + "日本" * 7),
    ],
)
def test_reasons_are_cut(reason: str, said: str) -> None:
    """A reason is cut to a width that leaves room for others. A reason of white space only is shown as blank."""
    (one,) = sections(counter(ISSUED, 2), counter(FAILED, 2, reason=reason))
    assert one.lines == [f"0 of 2 completed · 2 (100 %) failed (2 {said})"]


def test_of_long_reasons_stays_what_tells_them_apart() -> None:
    """A cut reason keeps its end, because the reasons of one library differ there and begin alike."""
    pool = "HTTPConnectionPool(host='10.0.0.7', port=8000): Max retries exceeded (Caused by {})"
    reasons = [pool.format("ReadTimeoutError"), pool.format("NewConnectionError"), "http_503"]
    failed = [counter(FAILED, 30 - number, reason=reason) for number, reason in enumerate(reasons)]
    (one,) = sections(counter(ISSUED, 99), *failed)
    shown = r"\(30 HTTP.*ReadTimeoutError\), 29 HTTP.*NewConnectionError\), 28 http_503\)"
    assert re.search(shown, " ".join(one.lines))


def test_any_reason_leaves_the_text_in_its_width() -> None:
    """However long, wide or odd it is, all figures are there."""
    reasons = ["x" * 400, "a b " * 90, "日本" * 90, "\x1b[2J\r\n", " ", "<b>|`*"]
    failed = [counter(FAILED, 9 - number, reason=reason) for number, reason in enumerate(reasons)]
    text = render(report(counter(ISSUED, 99), *failed, series(LATENCY, [5] * 9)), width=80)
    assert max(columns(line) for line in text.splitlines()) <= 80
    assert "5 (blank), 4 <b>|`*)" in " ".join(text.split())


def test_one_is_singular() -> None:
    """One call, one window, one reason."""
    failed = [counter(FAILED, 1, reason=f"r{number}") for number in range(7)]
    (one,) = sections(counter(ISSUED, 9), counter("after_end", 1), *failed)
    assert one.lines[0].endswith(", 1 more reason) · 2 in flight")
    assert one.lines[1] == "1 call for requests that had already ended or are unknown"
    many = sections(*(counter(ISSUED, 1, window=f"w{number}") for number in range(KINDS_SHOWN + 1)))
    assert many[0].notes == ["1 more window is in the JSON form"]
