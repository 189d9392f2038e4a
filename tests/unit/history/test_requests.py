"""Requests of a recorded run: their figures, and what a reader should know of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.unit.history.test_early_stopping import recorded
from tests.unit.test_request_model import SECOND, counter, series, snapshot

from telemetry.history import TimeRangeChoice
from telemetry.history.requests import bounded_series, of_requests, with_requests
from telemetry.wire.report import Report, TimeRange
from telemetry.wire.requests import (
    COMPLETED,
    CORRECTED,
    FAILED,
    GOOD,
    ISSUED,
    LATENCY,
    OUTPUT_TOKENS,
    QUEUE_DELAY,
    TTFT,
)
from telemetry.wire.snapshot import CounterStat, Extent, SeriesStat

EXTENT = Extent(first_ns=SECOND, last_ns=2 * SECOND, last_done_ns=3 * SECOND, end_ns=5 * SECOND, inside=8)


def report(*stats: CounterStat | SeriesStat) -> Report:
    whole = replace(snapshot(*stats), state="COMPLETE", completeness="complete")
    return Report(snapshot=whole, source="file")


def planned(raw: list[int], late: list[int], **labels: str) -> list[CounterStat | SeriesStat]:
    return [
        counter(ISSUED, len(raw), **labels),
        counter(COMPLETED, len(raw), **labels),
        series(LATENCY, raw, **labels),
        series(QUEUE_DELAY, late, **labels),
        series(CORRECTED, [value + after for value, after in zip(raw, late, strict=True)], **labels),
    ]


def test_a_report_without_requests_is_left_as_it_is() -> None:
    """The report of a run that issued no requests comes back unchanged and without findings."""
    plain = report(series(LATENCY, [1]))
    assert with_requests(plain) is plain
    assert list(of_requests(plain)) == []


def test_figures_have_what_the_funnel_has() -> None:
    """Windows in them, and bounds of each that is a series; windows together are none."""
    whole = with_requests(
        report(
            counter(ISSUED, 101, window="a"),
            counter(ISSUED, 100),
            counter(COMPLETED, 100, window="a", finish="stop"),
            counter(COMPLETED, 100),
            counter(FAILED, 1, window="a", reason="timeout"),
            series(LATENCY, [1] * 100, extent=EXTENT, window="a"),
            series(LATENCY, [2] * 100, extent=EXTENT),
            series(TTFT, [1] * 12, window="a"),
        )
    )
    (one,) = whole.requests
    assert (one.issued, one.completed, one.failed, one.finishes) == (201, 200, {"timeout": 1}, {"stop": 100})
    assert (one.in_flight, one.window, [part.window for part in one.windows]) == (0, None, ["", "a"])
    assert set(one.early_stopping) == {"ttft"}
    assert one.windows[1].early_stopping["latency"]["90"].bound == 1
    assert one.windows[1].early_stopping["ttft"]["90"].missing == 52
    assert one.windows[1].rates.while_issuing.requests_per_s == 8.0
    assert {(stat.name, stat.count) for stat in bounded_series(whole.snapshot)} >= {("llm.ttft", 12)}


def test_a_part_of_a_run_has_neither_rates_nor_requests_in_flight(tmp_path: Path) -> None:
    """The report of a part of a run has no request rates and no number of requests in flight.

    A request from before the part may end in it, and no history says when.
    """
    run = recorded(tmp_path, [5] * 90)
    (whole,) = run.report().requests
    (part,) = run.time_range(TimeRangeChoice(from_s=1.0, to_s=2.0)).requests
    assert (whole.issued, whole.in_flight) == (90, 0)
    assert (part.issued, part.completed, part.in_flight) == (30, 30, None)
    assert part.rates.overall.requests_per_s is None
    assert part.early_stopping["latency"]["90"].missing == 34


def test_coordinated_omission_is_said_where_it_is_clear() -> None:
    """The finding gives the p99 latency from the planned time beside that of the requests on time.

    A load generator that is a little late gives no finding.
    """
    stalled = planned([3_100_000] * 100, [0] * 50 + [2 * SECOND - n * SECOND // 50 for n in range(50)])
    assert list(of_requests(report(*stalled))) == [
        "requests of llm started up to 2.00 s late: counted from the planned time, p99 latency is "
        "1.98 s instead of 3.10 ms"
    ]
    assert list(of_requests(report(*planned([3_000_000] * 100, [500_000] * 100)))) == []


def test_which_of_them_were_planned_is_said() -> None:
    """The two percentiles are not of the same requests then."""
    stats = planned([1_000] * 100, [9_000] * 100, window="measured")
    stats[2] = series(LATENCY, [1_000] * 300, window="measured")
    (said,) = of_requests(report(*stats))
    assert said.startswith("requests of llm, window measured started up to 9.00 µs late")
    assert "p99 latency of the 100 of 300 that were planned is 10.0 µs instead of 1.00 µs" in said


def test_planned_requests_that_were_slower_by_themselves_were_not_late() -> None:
    """Planned requests that are slow but start on time give no finding: nothing was omitted.

    In a merged run they may come from another load.
    """
    stats = planned([1_000_000] * 100, [20_000] * 100)
    stats[2] = series(LATENCY, [100_000] * 900 + [1_000_000])
    assert list(of_requests(report(*stats))) == []


def test_requests_that_are_in_no_latency_are_named() -> None:
    """Requests in flight at the end and expired ones are named: a result without them looks better."""
    left = report(counter(ISSUED, 10), counter(COMPLETED, 7), counter("expired", 1))
    assert list(of_requests(left)) == [
        "in flight at the end: 2 of 10 requests of llm, not included in latency",
        "expired: 1 of 10 requests of llm, not included in latency",
    ]


def test_tokens_of_some_requests_alone_are_said_to_be() -> None:
    """A finding names how many requests have known output tokens: the real rate is higher.

    Without any tokens there is no rate and no finding.
    """
    counted = [counter(ISSUED, 8), counter(COMPLETED, 8)]
    assert list(of_requests(report(*counted, series(OUTPUT_TOKENS, [100] * 2)))) == [
        "output tokens are known for 2 of 8 completed requests of llm: the real tokens per second are higher"
    ]
    assert list(of_requests(report(*counted, series(OUTPUT_TOKENS, [100] * 8)))) == []
    assert list(of_requests(report(*counted))) == []


@pytest.mark.parametrize("how", ["live", "part"])
def test_what_is_still_open_is_no_finding_before_the_end(how: str) -> None:
    """Requests in flight are no finding while the run goes on, nor in a part of a run."""
    left = report(counter(ISSUED, 10), counter(COMPLETED, 7))
    if how == "live":
        left = replace(left, snapshot=replace(left.snapshot, state="LIVE"))
    else:
        left = replace(left, time_range=TimeRange(start_s=0.0, end_s=1.0, chosen="given"))
    assert list(of_requests(left)) == []


def test_one_is_singular() -> None:
    """The noun after "1 of 1" is singular: it follows the whole number, for shares too."""
    assert list(of_requests(report(counter(ISSUED, 1)))) == [
        "in flight at the end: 1 of 1 request of llm, not included in latency"
    ]


@pytest.mark.parametrize(("good", "bounds"), [(5, (0.2366, 0.7634)), (0, (0.0, 0.2775)), (10, (0.7225, 1.0))])
def test_attainment_has_an_interval(good: int, bounds: tuple[float, float]) -> None:
    """Failed requests are among those that it is a share of."""
    counters = [counter(ISSUED, 10), counter(COMPLETED, 9), counter(FAILED, 1, reason="r"), counter(GOOD, good)]
    (one,) = with_requests(report(*counters)).requests
    assert one.attainment == good / 10
    assert (one.attainment_low, one.attainment_high) == pytest.approx(bounds, abs=1e-4)


@pytest.mark.parametrize("good", [-1, 11, 10**400])
def test_counts_that_contradict_each_other_have_no_interval(good: int) -> None:
    """Attainment has no bounds where the number of good requests contradicts the others.

    A file may hold such counts.
    """
    (one,) = with_requests(report(counter(ISSUED, 10), counter(COMPLETED, 10), counter(GOOD, good))).requests
    assert (one.attainment_low, one.attainment_high) == (None, None)


def test_late_medians_are_named_if_the_slowest_were_not_late() -> None:
    """Most requests may wait while those that take longest were sent in time."""
    raw, late = [1_000] * 90 + [10_000_000] * 10, [9_000] * 90 + [0] * 10
    assert list(of_requests(report(*planned(raw, late)))) == [
        "requests of llm started up to 9.00 µs late: counted from the planned time, p50 latency is "
        "10.0 µs instead of 1.00 µs"
    ]
