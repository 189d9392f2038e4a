"""Requests in slots, for the picture that has each of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from telemetry import limits
from telemetry.history import request_log
from telemetry.history.concurrency import slots_of, with_slots
from telemetry.history.request_log import LoggedRequest, RequestLogFacts
from telemetry.wire.pictures import Pictures
from telemetry.wire.report import Report, RequestFigures
from telemetry.wire.request_log import RequestEntry
from telemetry.wire.snapshot import MetricsSnapshot

S = 10**9
START = 1_700_000_000 * S


def logged(issued: float, ended: float, **more: Any) -> LoggedRequest:
    """Return a request whose times are seconds since the start of the run."""
    entry = RequestEntry(number=0, issued_ns=round(issued * S), ended_ns=round(ended * S), **more)
    return LoggedRequest("llm", {}, "p", entry, START, START)


def test_a_request_takes_the_lowest_free_slot() -> None:
    """A slot is free from the moment at which its request ends; a planned request takes it before its issue."""
    requests = [logged(0, 3), logged(1, 2), logged(3, 4), logged(2.5, 5, planned_ns=2 * S), logged(4.5, 6)]
    found = slots_of(requests, START)
    assert found is not None
    assert found.begin_s == [0.0, 1.0, 2.0, 3.0, 4.5]
    assert found.slots == [0, 1, 1, 0, 0]
    assert found.issued_s[2] == 2.5
    assert (found.total, found.first_s) == (5, [None] * 5)


def test_outputs_and_failures_are_kept() -> None:
    """A request that failed has its reason, one that expired says so."""
    requests = [
        logged(0, 1, first_ns=S // 2),
        logged(1, 2, outcome="failed", reason="http_503"),
        logged(2, 3, outcome="expired"),
    ]
    found = slots_of(requests, START)
    assert found is not None
    assert found.first_s == [0.5, None, None]
    assert found.reasons == ["", "http_503", "expired"]
    assert slots_of([], START) is None


def test_of_many_those_around_the_peak_are_kept() -> None:
    """The requests around the peak are kept, and long ones that began early and still go on there."""
    calm = [logged(at, at + 0.5) for at in range(1_000)]
    busy = [logged(600 + at / 100, 610) for at in range(50)]
    found = slots_of([*calm, logged(0, 999), *busy], START, most=200)
    assert found is not None
    assert found.total == 1_051
    assert 100 < len(found.slots) <= 200
    assert max(found.slots) == 51
    assert {600.0, 600.49} <= set(found.begin_s)
    assert 0.0 in found.begin_s


@example([(0, 0), (0, 0)], 1)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 20)), min_size=1, max_size=60), st.integers(1, 70))
def test_no_two_requests_share_a_slot_at_a_time(times: list[tuple[int, int]], most: int) -> None:
    """Kept requests that share a slot never overlap in time.

    There are only as many slots as requests that overlap.
    """
    found = slots_of([logged(begin, begin + long) for begin, long in times], START, most)
    assert found is not None
    assert 0 < len(found.slots) <= max(most, 1)
    rows = sorted(zip(found.slots, found.begin_s, found.end_s, strict=True))
    for (slot, _, end), (other, begin, _) in pairwise(rows):
        assert slot != other or end <= begin
    at_once = max(sum(one <= begin < max(end, one + 0.5) for _, one, end in rows) for _, begin, _ in rows)
    assert max(found.slots) < at_once


@pytest.mark.parametrize(("size", "has_slots"), [(1_000, True), (limits.READ_REQUESTS_BYTES + 1, False)])
def test_a_log_that_takes_long_to_read_is_left_out(
    size: int, has_slots: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report of a run with millions of requests would wait for it. A log that can't be read leaves it, too."""

    def read(directory: Any) -> Iterator[LoggedRequest]:
        yield logged(0, 1)

    monkeypatch.setattr(request_log, "facts", lambda directory: RequestLogFacts(1, 0, size))
    monkeypatch.setattr(request_log, "read", read)
    snapshot = MetricsSnapshot(run_id="r", name="n", started_ns=START)
    report = Report(snapshot=snapshot, source="file", requests=[RequestFigures(kind="llm")], pictures=Pictures())
    found = with_slots(report, directory=None).pictures  # type: ignore[arg-type]
    assert found is not None
    assert (found.slots is not None) is has_slots
