"""The summary of requests: outcomes, load, rates, goodput, percentiles and sizes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.golden.report.renderings import requests_report
from tests.unit.history.test_requests import planned, report
from tests.unit.test_request_model import SECOND, counter, series

from telemetry.history.findings import alone
from telemetry.report.request_summary import request_sections
from telemetry.report.table import Section
from telemetry.wire.report import EarlyRule, Report, RequestFigures, TimeRange
from telemetry.wire.requests import (
    COMPLETED,
    FAILED,
    INPUT_TOKENS,
    ISSUED,
    ITL,
    LATENCY,
    OUTPUT_TOKENS,
    QUEUE_DELAY,
    TPOT,
    TTFT,
)
from telemetry.wire.snapshot import Extent

EXTENT = Extent(
    first_ns=0, last_ns=3 * SECOND, last_done_ns=4 * SECOND, end_ns=4 * SECOND, inside=90, inside_total=3_600
)
LLM = alone(
    report(
        counter(ISSUED, 110),
        counter(COMPLETED, 100, finish="stop"),
        counter(FAILED, 8, reason="timeout"),
        series(LATENCY, [SECOND // 2] * 100, extent=EXTENT),
        series(TTFT, [SECOND // 10] * 100),
        series(TPOT, [SECOND // 100] * 100),
        series(ITL, [SECOND // 50] * 500),
        series(INPUT_TOKENS, [80] * 100),
        series(OUTPUT_TOKENS, [40] * 100, extent=EXTENT),
    )
)


def sections(of: Report, *, full: bool = False) -> list[Section]:
    return [section for section in request_sections(of, full=full) if section]


def figures(section: Section) -> dict[str, tuple[str, str]]:
    assert section.table is not None
    return {name: (value, note) for name, value, note in section.table.rows}


def known(of: Report, **fields: object) -> Report:
    """The report with these figures of its only kind."""
    (one,) = of.requests
    return replace(of, requests=[replace(one, **fields)])


def test_the_summary_of_an_llm_load() -> None:
    """The summary shows whether all requests succeeded, their rates, times and sizes, each once."""
    whole = known(LLM, peak_output_tokens_per_s=1_234.0, concurrency_peak=21, concurrency_peak_exact=True)
    first, second = sections(whole)
    assert first.title == "Requests: llm, percentiles exact"
    assert first.lines == ["100 of 110 completed (100 stop) · 8 (7.41 %) failed (8 timeout) · 2 in flight"]
    found = figures(first)
    assert found["requests/s"] == ("25", "30 while issuing · 24.8 as LoadGen counts")
    assert found["output tokens/s"] == ("1,000", "input 2,000 · total 3,000 · best second 1,234")
    assert found["tokens/s per user"] == ("100", "median · 100 at p90 of tpot · 100 at p99 of tpot")
    value, note = found["time"]
    assert value == "4.00 s"
    assert note.endswith("peak 21")
    assert "goodput/s" not in found
    assert second.table is not None
    assert second.continues
    assert [row[0] for row in second.table.rows] == [
        "ttft",
        "tpot",
        "itl",
        "latency",
        "input tokens",
        "output tokens",
    ]
    assert [head.title for head in second.table.columns] == ["", "mean", "p50", "p90", "p99", "95 % bounds", "max"]
    assert second.table.rows[0] == ["ttft", "100 ms", "100 ms", "100 ms", "*100 ms", "≥ 100 ms", "100 ms"]


def test_goodput_has_its_limits_its_interval_and_each_limit() -> None:
    """The share is of all that ended, and never rounded to all or none."""
    limits = {"slo": "ttft:200ms tpot:50ms", "good": 99_999, "goodput_per_s": 21.5, "attainment": 0.99999}
    whole = known(LLM, **limits, attainment_low=0.9, attainment_high=1.0, met={"ttft": 108, "tpot": 54})
    assert figures(sections(whole)[0])["goodput/s"] == (
        "21.5",
        "99.999 % (95 %: 90.0 to 100.0) of 108 within ttft 200 ms, tpot 50 ms · ttft 100.0 %, tpot 50.0 %",
    )
    other = known(LLM, **{**limits, "slo": "made by another version"}, met={"ttft": 1})
    assert figures(sections(other)[0])["goodput/s"][1] == "99.999 % of 108 within made by another version"


def test_a_load_without_tokens_has_no_lines_about_them() -> None:
    """The summary leaves out figures without data, such as those of tokens."""
    plain = alone(report(counter(ISSUED, 10), counter(COMPLETED, 10), series(LATENCY, [5] * 10, extent=EXTENT)))
    first, second = sections(plain)
    assert set(figures(first)) == {"time", "requests/s"}
    assert second.table is not None
    assert [row[0] for row in second.table.rows] == ["latency"]
    bare = alone(report(counter(ISSUED, 3)))
    assert [(one.lines, one.table and one.table.rows) for one in sections(bare)] == [
        (["0 of 3 completed · 3 in flight"], [])
    ]


def test_planned_requests_are_offered_and_the_others_issued() -> None:
    """The rate is called offered only for planned requests, with their lateness beside it.

    The server has no part in an offered rate.
    """
    late = known(alone(report(*planned([9] * 100, [2_000_000] * 100))), offered_per_s=25.0)
    extent = replace(late.snapshot.series[0], extent=EXTENT)
    timed = replace(late, snapshot=replace(late.snapshot, series=[extent, *late.snapshot.series[1:]]))
    assert figures(sections(timed)[0])["time"][1].startswith("25 requests/s offered (2.00 ms late at p99)")
    assert figures(sections(known(LLM, offered_per_s=27.5))[0])["time"][1].startswith("27.5 requests/s issued")


def test_a_lateness_of_completed_requests_says_so() -> None:
    """The offered rate counts the failed ones, too, whose lateness is in no series."""
    timed = known(LLM, offered_per_s=27.5)
    delay = series(QUEUE_DELAY, [2_000_000] * 100)
    late = replace(timed, snapshot=replace(timed.snapshot, series=[*timed.snapshot.series, delay]))
    said = figures(sections(late)[0])["time"][1]
    assert said.startswith("27.5 requests/s offered (2.00 ms late at p99 of completed requests)")


def test_a_full_report_has_tokens_per_second_by_each_definition() -> None:
    """Gates have each of them."""
    value, note = figures(sections(LLM, full=True)[0])["output tokens/s"]
    assert value == "1,000"
    assert note.startswith("1,200 while issuing · 1,000 as LoadGen counts · input 2,000")


def test_a_peak_by_seconds_is_a_lower_bound() -> None:
    """A peak that is known only by seconds is marked as a lower bound."""
    assert "peak ≥ 7" in figures(sections(known(LLM, concurrency_peak=7))[0])["time"][1]


def test_only_the_main_window_has_its_figures_in_a_short_report() -> None:
    """The one with the most requests, beside a table of all; a full report has each."""
    stats = [counter(ISSUED, number, window=window) for window, number in (("a", 5), ("b", 50), ("c", 7))]
    whole = alone(report(counter(ISSUED, 90), *stats))
    titles = [section.title for section in sections(whole)]
    assert titles == ["Requests: llm", "Requests: llm, window b"]
    assert [section.title for section in sections(whole, full=True)] == [
        "Requests: llm",
        "Requests: llm, outside any window",
        *(f"Requests: llm, window {window}" for window in "abc"),
    ]


def test_early_stopping_is_shown_where_it_was_asked_for() -> None:
    """The section appears in full reports, with a setting that is not the default, or on request.

    A condition to stop requests it.
    """

    def shown(of: Report, *, full: bool) -> bool:
        return any("early stopping" in section.title for section in sections(of, full=full))

    assert not shown(LLM, full=False)
    assert shown(LLM, full=True)
    assert shown(replace(LLM, early_rule=EarlyRule(confidence=0.95)), full=False)
    stops = {"stop_when.llm": "p99 known"}
    assert shown(replace(LLM, snapshot=replace(LLM.snapshot, params=stops)), full=False)
    others = {"stop_when.llm{model=m}": "p99 known", "stop_when.other": "p99 known"}
    assert not shown(replace(LLM, snapshot=replace(LLM.snapshot, params=others)), full=False)


def test_a_time_range_has_the_rates_of_its_length() -> None:
    """Rates of a time range are over its length. Its first issue and last completion are not known."""
    stats = [series(LATENCY, [5] * 50, extent=None), series(OUTPUT_TOKENS, [40] * 50, extent=None)]
    whole = alone(report(counter(ISSUED, 60), counter(COMPLETED, 50), counter("good", 30), *stats))
    part = replace(known(whole, in_flight=None), time_range=TimeRange(start_s=1.0, end_s=6.0, chosen="given"))
    shown = figures(sections(part)[0])
    assert shown["requests/s"] == ("10", "completed in the time range")
    assert shown["output tokens/s"] == ("400", "")
    assert shown["goodput/s"][0] == "6"


def test_one_request_has_no_rate() -> None:
    """However fast it was."""
    one = alone(report(counter(ISSUED, 1), counter(COMPLETED, 1), series(LATENCY, [5], extent=EXTENT)))
    assert figures(sections(one)[0])["requests/s"][0] == "–"


def test_what_is_listed_is_bounded() -> None:
    """The busiest kinds and the first turns; the others are counted."""
    kinds = alone(report(*(counter(ISSUED, number, f"kind{number}") for number in range(1, 11))))
    *shown, others = sections(kinds)
    assert [one.title for one in shown] == [
        "Requests: all 10 kinds",
        "Requests: kind10",
        "Requests: kind9",
        "Requests: kind8",
    ]
    assert others.lines == ["kind7, kind6, kind5, kind4, kind3, kind2, kind1: see the full report"]
    turns = [series("turn.latency", [5], turn=str(number)) for number in range(1, 9)]
    by_turn = sections(alone(report(counter(ISSUED, 9), *turns)))[-1]
    assert by_turn.table is not None
    assert len(by_turn.table.rows) == 5
    assert by_turn.notes[-1] == "3 more turns are in the full report"


@pytest.mark.parametrize("full", [False, True])
def test_figures_of_a_report_without_them_are_left_out(full: bool) -> None:
    """A report that nobody worked out has the outcomes and the distributions."""
    bare = replace(requests_report(), requests=list[RequestFigures]())
    assert any("completed" in " ".join(section.lines) for section in sections(bare, full=full))
