"""Tests of the parts of a snapshot beyond the instruments: its account and its completeness."""

from __future__ import annotations

from dataclasses import replace

import pytest

from telemetry.aggregator.snapshotter import SnapshotFacts, account_for, completeness
from telemetry.wire.consistency import contradiction
from telemetry.wire.snapshot import Accounting, MetricsSnapshot, ProducerStat, State


def test_the_account_is_the_sum_over_producers() -> None:
    """Reasons are merged, and frames nobody could read stand beside them."""
    one = ProducerStat(
        producer="a",
        emitted=10,
        received=6,
        applied=4,
        dropped={"negative": 2},
        missing=4,
        repaired=3,
        unrepairable=1,
        salvaged=2,
    )
    two = ProducerStat(
        producer="b",
        emitted=9,
        received=5,
        applied=3,
        dropped={"negative": 1},
        dropped_by_producer={"buffer_full": 4},
        repaired=2,
        unrepairable=5,
        duplicates=2,
        waiting=1,
        salvaged=3,
    )
    assert account_for([one, two], {"wrong_topic": 3}) == Accounting(
        emitted=19,
        received=11,
        applied=7,
        waiting=1,
        dropped={"negative": 3},
        dropped_by_producer={"buffer_full": 4},
        missing=4,
        repaired=5,
        unrepairable=6,
        duplicates=2,
        bad_frames={"wrong_topic": 3},
        salvaged=5,
    )


def test_events_that_collectors_lost_leave_the_job_complete() -> None:
    """Events of collectors are in their own row only, also if some of them are lost."""
    job = ProducerStat(producer="a", emitted=10, received=10, applied=10)
    collectors = ProducerStat(
        producer="telemetry.collectors.1", emitted=9, received=7, applied=6, dropped={"negative": 1}, missing=2
    )
    account = account_for([job, collectors], {})
    assert account == Accounting(emitted=10, received=10, applied=10)
    assert completeness(SnapshotFacts(run_id="r", name="n", state="COMPLETE"), [], account, 0) == "complete"
    whole = MetricsSnapshot(run_id="r", name="n", accounting=account, producers=[job, collectors])
    assert contradiction(whole) == ""


CLEAN = Accounting(emitted=5, received=5, applied=5)


@pytest.mark.parametrize(
    ("state", "waiting_for", "account", "expected"),
    [
        ("LIVE", [], CLEAN, "incomplete"),
        ("DRAINING", [], CLEAN, "incomplete"),
        ("COMPLETE", [], CLEAN, "complete"),
        ("COMPLETE", ["p"], CLEAN, "incomplete"),
        ("COMPLETE", ["p"], Accounting(missing=1), "incomplete"),
        ("COMPLETE", [], Accounting(missing=1), "lossy"),
        ("COMPLETE", [], Accounting(dropped={"negative": 1}), "lossy"),
        ("COMPLETE", [], Accounting(dropped_by_producer={"buffer_full": 1}), "lossy"),
        ("COMPLETE", [], Accounting(waiting=1), "lossy"),
        ("COMPLETE", [], Accounting(bad_frames={"wrong_topic": 1}), "complete"),
        ("COMPLETE", [], Accounting(bad_frames={"too_many_producers": 1}), "lossy"),
        ("INTERRUPTED", [], CLEAN, "interrupted"),
        ("INTERRUPTED", ["p"], Accounting(missing=1), "interrupted"),
    ],
)
def test_completeness(state: State, waiting_for: list[str], account: Accounting, expected: str) -> None:
    """Known only at the end; what nobody knows outweighs what is known to be lost."""
    facts = SnapshotFacts(run_id="r", name="job", state=state)
    assert completeness(facts, waiting_for, account, 0) == expected
    unknown = "incomplete" if expected in ("complete", "lossy") else expected
    assert completeness(replace(facts, unaccounted=True), waiting_for, account, 0) == unknown
    assert completeness(replace(facts, lost_power=True), waiting_for, account, 0) == unknown
    assert completeness(facts, waiting_for, account, 1) == unknown
