"""Tests of the phases that the time of a request is spent in."""

from __future__ import annotations

import pytest
from tests.unit.history.test_requests import report
from tests.unit.test_request_model import counter, series

from telemetry import render
from telemetry.history.request_model import request_counts
from telemetry.history.requests import with_requests
from telemetry.report.html.requests import requests_section
from telemetry.report.request_summary import phases
from telemetry.wire.report import Report
from telemetry.wire.requests import COMPLETED, ISSUED, LATENCY, OUTPUT_TOKENS, QUEUE_DELAY, TTFT

MS = 1_000_000


def run(first: list[int], queue: list[int] | None = None, tokens: int = 1) -> Report:
    """Return two requests of 40 and 60 ms."""
    stats = [
        counter(ISSUED, 2),
        counter(COMPLETED, 2),
        series(LATENCY, [40 * MS, 60 * MS]),
        series(TTFT, first),
        series(OUTPUT_TOKENS, [tokens, tokens]),
        *([series(QUEUE_DELAY, queue)] if queue is not None else []),
    ]
    return with_requests(report(*stats))


def found(of: Report) -> list[tuple[str, float]]:
    (kind,) = request_counts(of.snapshot)
    return [(phase.name, phase.mean_ns / MS) for phase in phases(kind)]


def test_phases_are_means_that_add_up() -> None:
    """The queue counts from the planned time; a token is one if there are several."""
    assert found(run([10 * MS, 30 * MS])) == [("first byte", 20.0), ("receiving", 30.0)]
    assert found(run([10 * MS, 30 * MS], [0, 10 * MS], tokens=8)) == [
        ("queue", 5.0),
        ("first token", 20.0),
        ("receiving", 30.0),
    ]


@pytest.mark.parametrize("first", [[], [10 * MS], [90 * MS, 90 * MS]])
def test_unknown_phases_are_left_out(first: list[int]) -> None:
    """Means of different requests don't add up, and no answer begins after its end."""
    assert found(run(first)) == []
    assert "mean request" not in render(run(first), "text")
    assert "mean request" not in requests_section(run(first))[1]


def test_requests_that_were_not_planned_have_no_queue() -> None:
    """Nor do requests of which only some were."""
    assert [name for name, _ in found(run([10 * MS, 30 * MS], [5 * MS]))] == ["first byte", "receiving"]


def test_reports_tell_the_phases() -> None:
    """Text in a line, the page as a bar with shares, in words for those who see no bars."""
    text = render(run([10 * MS, 30 * MS], [0, 10 * MS]), "text")
    assert "mean request  55.0 ms  queue 5.00 ms · first byte 20.0 ms · receiving 30.0 ms" in text
    assert "output tokens" not in text
    _, html = requests_section(run([10 * MS, 30 * MS], [0, 10 * MS]))
    assert "first byte 20.0 ms (36\u00a0%)" in html
    assert 'aria-label="mean request 55.0 ms: queue 5.00 ms' in html
    assert '<rect class="c2"' in html
