"""The account of this producer in a report that ends before the producer did."""

from __future__ import annotations

from typing import Any

import pytest

from telemetry.client.own_account import with_acknowledged, with_own_account
from telemetry.client.sending.flusher import ProducerEnding
from telemetry.wire.control import Hello
from telemetry.wire.report import Report
from telemetry.wire.snapshot import Accounting, MetricsSnapshot, NodeStat, ProducerStat


@pytest.mark.parametrize(("source", "missing"), [("last_live", 4), ("journal", 4), ("file", 1), ("pubsub", 1)])
def test_what_was_emitted_since_is_missing(source: Any, missing: int) -> None:
    """A source that is older than the producer that asks can't know of it."""
    snapshot = MetricsSnapshot(
        run_id="r",
        name="job",
        accounting=Accounting(emitted=7, received=6, applied=6, missing=1),
        producers=[ProducerStat(producer="p", emitted=7, received=6, applied=6, missing=1)],
    )
    report = with_own_account(Report(snapshot=snapshot, source=source), "p", 10)
    assert report.snapshot.accounting.missing == report.snapshot.producers[0].missing == missing


def test_what_was_acknowledged_is_received_and_the_rest_is_not_known() -> None:
    """Unacknowledged events of a silent aggregator may be in its journal, so none counts as lost."""
    report = Report(snapshot=MetricsSnapshot(run_id="r", name="job"), source="last_live")
    ending = ProducerEnding(None, "gone", sent=10, taken=7)
    hello = Hello(producer="p", name="part", host="h", pid=5, rank=2)
    found = with_acknowledged(report, hello, {"buffer_full": 2, "unsent_at_exit": 3}, ending).snapshot
    account = found.accounting
    assert (account.emitted, account.received, account.applied, account.missing) == (9, 7, 7, 0)
    assert account.dropped_by_producer == {"buffer_full": 2}
    (own,) = found.producers
    assert (own.producer, own.name, own.host, own.pid, own.rank, own.received) == ("p", "part", "h", 5, 2, 7)
    assert found.warnings == ["3 events of this program were not acknowledged and may be lost"]
    assert (
        with_acknowledged(report, hello, {}, ProducerEnding(None, "gone", sent=7, taken=7)).snapshot.warnings == []
    )


def test_a_report_that_has_nodes_is_left_alone() -> None:
    """A report with nodes has numbers of other producers, even if no producer has a row."""
    snapshot = MetricsSnapshot(run_id="r", name="job", nodes=[NodeStat(node="n1")])
    report = Report(snapshot=snapshot, source="last_live")
    assert with_acknowledged(report, Hello(), {}, ProducerEnding(None, "gone", sent=10, taken=7)) == report


@pytest.mark.parametrize("source", ["file", "journal", "status", "pubsub"])
def test_an_account_that_the_aggregator_gave_is_left_alone(source: Any) -> None:
    """An account from the aggregator is left alone, since the aggregator knows better."""
    report = Report(snapshot=MetricsSnapshot(run_id="r", name="job"), source=source)
    assert with_acknowledged(report, Hello(), {}, ProducerEnding(None, "gone", sent=10, taken=7)) == report
