"""Tests of the findings in a report about the feeds of its run."""

from __future__ import annotations

from telemetry.history.findings import of_feeds
from telemetry.wire.feeds import ENDED, REFUSED, SESSIONS
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot


def said(*counters: CounterStat) -> list[str]:
    snapshot = MetricsSnapshot(run_id="r", name="n", state="COMPLETE", counters=list(counters))
    return list(of_feeds(Report(snapshot=snapshot, source="file")))


def test_what_was_refused_is_named_by_reason() -> None:
    """The finding names all reasons in one line."""
    frames = CounterStat(name=REFUSED, labels={"reason": "frame"}, value=2)
    events = CounterStat(name=REFUSED, labels={"reason": "no_id"}, value=1_000)
    assert said(frames, events) == ["a feed ignored some messages: frame 2, no_id 1,000"]


def test_a_feed_that_went_well_is_not_mentioned() -> None:
    """Other counters, and counters that were never raised, are not mentioned either."""
    counts = {"errors": 3, SESSIONS: 1, ENDED: 1, REFUSED: 0}
    assert said(*(CounterStat(name=name, value=value) for name, value in counts.items())) == []
