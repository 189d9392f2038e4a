"""Tests of what a result may lack."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace

from telemetry.judge.gates.evidence import Loss, heard_s, loss_of, seconds_of
from telemetry.wire.snapshot import Accounting, CommandFacts, Completeness, MetricsSnapshot, NodeStat, ProducerStat


def snapshot(completeness: Completeness, **account: object) -> MetricsSnapshot:
    accounting = Accounting(**account)  # type: ignore[arg-type]
    return MetricsSnapshot(run_id="r", name="n", completeness=completeness, accounting=accounting)


def test_a_complete_run_lacks_nothing() -> None:
    """A complete run has no loss, and a lossy run has the loss that it reports."""
    assert loss_of(snapshot("complete")) == Loss()
    lossy = loss_of(snapshot("lossy", dropped={"negative": 2}, dropped_by_producer={"buffer_full": 3}, missing=4))
    assert lossy == Loss(certain=9, most=9, reason="9 events are lost")
    assert loss_of(snapshot("lossy", missing=1)).reason == "1 event is lost"


def test_what_is_in_no_number_is_lost() -> None:
    """Events whose definition never came, and those of a producer that was refused, which nobody counted."""
    assert loss_of(snapshot("lossy", waiting=5)) == Loss(certain=0, most=5, reason="5 events are lost")
    turned_away = loss_of(snapshot("lossy", bad_frames={"too_many_producers": 1}))
    assert (turned_away.most, "refused" in turned_away.reason) == (math.inf, True)


@pytest.mark.parametrize("completeness", ["incomplete", "interrupted"])
def test_what_nobody_knows_has_no_end(completeness: Completeness) -> None:
    """The loss of an incomplete run is unbounded as long as the number of emitted events is unknown."""
    found = loss_of(snapshot(completeness, dropped={"negative": 2}))
    assert (found.certain, found.most) == (2, math.inf)
    assert f"the run is {completeness}" in found.reason


def test_what_is_missing_live_may_still_come() -> None:
    """Missing events of a live run may still come, but dropped ones never do.

    A run that goes on is not incomplete for that.
    """
    found = loss_of(snapshot("incomplete", dropped={"negative": 2}, missing=4), live=True)
    assert (found.certain, found.most) == (2, 6)
    assert loss_of(snapshot("incomplete"), live=True) == Loss()


def test_until_when_producers_were_heard_of() -> None:
    """The time until producers were last seen is 0 without a start or without a producer."""
    producers = [ProducerStat(producer=name, last_seen_ns=at) for name, at in (("p", 9_000_000_000), ("q", 5))]
    run = replace(snapshot("complete"), producers=producers)
    assert heard_s(replace(run, started_ns=2_000_000_000)) == 7.0
    assert heard_s(run) == heard_s(replace(run, started_ns=5, producers=[])) == 0.0
    assert heard_s(replace(run, started_ns=10_000_000_000)) == 0.0


def test_until_when_nodes_were_heard_of() -> None:
    """The newest interval of a node counts. A leaf answers its root for a while after its producers have ended."""
    node = NodeStat(node="n1", interval_ns=7_000_000_000, last_seen_ns=20_000_000_000)
    assert heard_s(replace(snapshot("complete"), nodes=[node], started_ns=2_000_000_000)) == 5.0


def test_the_bill_of_a_command() -> None:
    """Wall, and CPU of user and system."""
    assert seconds_of(CommandFacts(argv=[], wall_s=3.0, cpu_user_s=1.0, cpu_system_s=0.5)) == (3.0, 1.5)
