"""Peaks of requests: exact from the request log, else by time steps of the history."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry import limits
from telemetry.history import concurrency, request_log
from telemetry.history.concurrency import InFlightHistory, with_peaks
from telemetry.history.request_log import LoggedRequest, RequestLogFacts
from telemetry.wire.report import Report, RequestFigures
from telemetry.wire.request_log import RequestEntry
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot

S = 10**9
OFFSET = 1_700_000_000 * S


def entry(issued: int, ended: int, **more: Any) -> RequestEntry:
    return RequestEntry(number=0, issued_ns=issued, ended_ns=ended, **more)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts requests into the log of the run."""

    def put(*logged: tuple[RequestEntry, dict[str, str]], left_out: int = 0, size: int = 1_000) -> None:
        def read(directory: Any) -> Iterator[LoggedRequest]:
            for one, labels in logged:
                yield LoggedRequest("llm", labels, "p", one, OFFSET, OFFSET)

        facts = RequestLogFacts(len(logged), left_out, size)
        monkeypatch.setattr(request_log, "facts", lambda directory: facts)
        monkeypatch.setattr(request_log, "read", read)

    return put


def peaks(*figures: RequestFigures) -> list[tuple[Any, bool, float | None]]:
    report = Report(snapshot=MetricsSnapshot(run_id="r", name="n"), source="file", requests=list(figures))
    found = with_peaks(report, directory=None).requests  # type: ignore[arg-type]
    return [
        (each.concurrency_peak, each.concurrency_peak_exact, each.peak_output_tokens_per_s)
        for one in found
        for each in (one, *one.windows)
    ]


def figures(completed: int, **more: Any) -> RequestFigures:
    return RequestFigures(kind="llm", issued=completed, completed=completed, **{"in_flight": 0, **more})


def test_the_peak_counts_requests_that_overlap(log: Any) -> None:
    """One that ends as another is issued does not."""
    log(*[(entry(begin, end), {}) for begin, end in ((0, 10), (10, 20), (5, 12), (11, 11), (30, 40))])
    assert peaks(figures(5)) == [(2, True, None)]


def test_failed_and_expired_requests_are_in_flight_too(log: Any) -> None:
    """The tokens of failed and expired requests are in no rate."""
    failed = entry(0, 9, outcome="failed", first_ns=1, gaps_ns=[1, 1])
    log((failed, {}), (entry(5, 20, outcome="expired"), {}), (entry(6, 8, output_tokens=4), {}))
    assert peaks(figures(1, failed={"x": 1}, expired=1)) == [(3, True, 4.0)]


def test_the_best_second_is_by_the_times_of_chunks(log: Any) -> None:
    """Whole seconds since the first issue. Without tokens per chunk, those of the answer are spread evenly."""
    told = entry(
        7 * S, 10 * S, first_ns=8 * S, first_tokens=2, gaps_ns=[S // 2, S], chunk_tokens=[1, 9], output_tokens=12
    )
    spread = entry(7 * S, 10 * S, first_ns=8 * S, gaps_ns=[S // 2, S], output_tokens=30)
    plain = entry(7 * S, 9 * S + 1, output_tokens=5)
    log((told, {}), (spread, {}), (plain, {}))
    assert peaks(figures(3)) == [(3, True, 9 + 10 + 5)]
    log((told, {}), (plain, {}))
    assert peaks(figures(2)) == [(2, True, 9 + 5)]


@pytest.mark.parametrize("more", [{"output_tokens": None}, {"output_tokens": 9, "chunks_left_out": 4}])
def test_without_all_tokens_there_is_no_best_second(log: Any, more: dict[str, Any]) -> None:
    """The concurrency is known all the same."""
    log((entry(0, 5, first_ns=1, **more), {}), (entry(0, 5, output_tokens=3), {}))
    assert peaks(figures(2)) == [(2, True, None)]


def test_each_window_has_its_own_peak(log: Any) -> None:
    """The total is not their sum."""
    window = {"window": "measured"}
    log((entry(0, 10), {}), (entry(5, 20), window), (entry(6, 30), window), (entry(40, 50), {}))
    parts = [figures(2, window=""), figures(2, window="measured")]
    assert [peak for peak, *_ in peaks(figures(4, windows=parts))] == [3, 1, 2]


def test_labels_tell_kinds_apart(log: Any) -> None:
    """Labels tell kinds apart, whatever their order."""
    log((entry(0, 10), {"b": "1", "a": "2"}), (entry(0, 10), {}))
    assert peaks(figures(1, labels={"a": "2", "b": "1"}), figures(1), figures(1, labels={"a": "3"})) == [
        (1, True, None),
        (1, True, None),
        (None, False, None),
    ]


def test_a_log_that_lacks_requests_tells_no_peak(log: Any) -> None:
    """Requests in flight at the end, left out, or more than are read for a report."""
    log((entry(0, 10), {}))
    unknown = [(None, False, None)]
    assert peaks(figures(2)) == unknown
    assert peaks(figures(1, in_flight=1)) == unknown
    log((entry(0, 10), {}), left_out=1)
    assert peaks(figures(1)) == unknown
    log((entry(0, 10), {}), size=limits.READ_REQUESTS_BYTES + 1)
    assert peaks(figures(1)) == unknown


def test_the_log_tells_the_offered_load_whatever_became_of_it(log: Any) -> None:
    """A server that answers for a second and then fails for three: ten requests a second, half of one in flight."""
    for begin, known in ((0, 9.95), (7, None)):
        calls = [entry(begin + at * S // 10, begin + at * S // 10 + S // 20) for at in range(10)]
        calls += [
            entry(begin + at * S // 10, begin + at * S // 10 + S // 20, outcome="failed") for at in range(10, 40)
        ]
        log(*((call, {}) for call in calls))
        report = Report(
            snapshot=MetricsSnapshot(run_id="r", name="n"),
            source="file",
            requests=[figures(10, failed={"x": 30}, offered_per_s=known, concurrency_mean=known)],
        )
        (one,) = with_peaks(report, directory=None).requests  # type: ignore[arg-type]
        assert one.offered_per_s == pytest.approx(39 / 3.9)
        assert one.concurrency_mean == pytest.approx(40 * 0.05 / 3.95)


def test_a_single_moment_has_no_rates(log: Any) -> None:
    """A single moment has no rate of issues and none of requests in flight."""
    log((entry(5, 5), {}), (entry(5, 5), {}))
    report = Report(snapshot=MetricsSnapshot(run_id="r", name="n"), source="file", requests=[figures(2)])
    (one,) = with_peaks(report, directory=None).requests  # type: ignore[arg-type]
    assert (one.offered_per_s, one.concurrency_mean, one.concurrency_peak) == (None, None, 1)


def test_a_log_with_impossible_times_tells_no_peak(log: Any) -> None:
    """A log with impossible times, such as a file written by hand, gives no peak."""
    log((entry(0, (1 << 63) - 1), {}))
    assert peaks(figures(1)) == [(None, False, None)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), min_size=1))
def test_the_peak_is_that_of_every_moment(spans: list[tuple[int, int]]) -> None:
    """Counted nanosecond by nanosecond."""
    group = concurrency._PlaceRequests()
    for begin, length in spans:
        group.add(entry(begin, begin + length), OFFSET)
    changes = [0] * 50
    for begin, length in spans:
        changes[begin] += 1
        changes[begin + length] -= 1
    assert concurrency._peak([group]) == max(accumulate(changes))


def test_the_history_tells_requests_in_flight_at_the_end_of_steps() -> None:
    """The history's peak is not exact. It is unknown if no step ended with requests in flight."""

    def window(**counters: float) -> Any:
        return SimpleNamespace(counters={(f"llm.{word}", ()): value for word, value in counters.items()})

    words = ("issued", "completed", "failed", "expired")
    stats = [CounterStat(name=f"llm.{word}", unit="requests", value=9) for word in words]
    in_flight = InFlightHistory(MetricsSnapshot(run_id="r", name="n", counters=stats))
    for each in (window(issued=5, completed=2), window(issued=4, failed=1, expired=1), window(completed=5)):
        in_flight.add(each)
    (one,) = in_flight.filled_in([figures(7)])
    assert (one.concurrency_peak, one.concurrency_peak_exact) == (5.0, False)
    (other,) = InFlightHistory(MetricsSnapshot(run_id="r", name="n", counters=stats)).filled_in([figures(7)])
    assert other.concurrency_peak is None
