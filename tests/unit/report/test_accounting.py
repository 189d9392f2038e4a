"""Tests of what was lost, and of how producers fared."""

from __future__ import annotations

from msgspec.structs import replace

from telemetry.report.accounting import losses, producers
from telemetry.wire.report import Report
from telemetry.wire.snapshot import Accounting, MetricsSnapshot, ProducerStat


def snapshot(**changes: object) -> MetricsSnapshot:
    return MetricsSnapshot(run_id="r", name="job", state="COMPLETE", **changes)  # type: ignore[arg-type]


def test_losses_are_told_by_reason() -> None:
    """Each reason of a loss has its number and its words. A run without losses has no such section."""
    assert not losses(snapshot())
    account = Accounting(dropped={"negative": 2}, dropped_by_producer={"buffer_full": 1}, missing=3)
    table = losses(snapshot(accounting=account)).table
    assert table is not None
    assert [row[:2] for row in table.rows] == [
        ["buffer_full", "1 event"],
        ["negative", "2 events"],
        ["missing", "3 events"],
    ]


def test_producers_without_trouble_are_one_line() -> None:
    """Producers without trouble are one line, and only those that are not complete have a row."""
    well, ill = ProducerStat(producer="a", completeness="complete"), ProducerStat(producer="b")
    assert producers(Report(snapshot=snapshot(producers=[well]), source="file")).lines == ["1, all complete"]
    table = producers(Report(snapshot=snapshot(producers=[well, ill]), source="file")).table
    assert table is not None
    assert [row[0] for row in table.rows] == ["b"]


def test_a_live_producer_that_lacks_nothing_is_complete_so_far() -> None:
    """A live producer that lacks no event is complete so far.

    Until its end the wire calls it incomplete, which reads as trouble.
    """
    well = ProducerStat(producer="a", completeness="incomplete", emitted=7, applied=7)
    late = replace(well, status="late")
    lacking = [
        replace(well, **fact) for fact in ({"missing": 1}, {"dropped": {"negative": 1}}, {"unrepairable": 1})
    ]
    live = Report(snapshot=replace(snapshot(producers=[well, late, *lacking]), state="LIVE"), source="status")
    table = producers(live).table
    assert table is not None
    assert [row[2] for row in table.rows] == ["complete so far", *["incomplete"] * 4]
    table = producers(replace(live, source="last_live")).table
    assert table is not None
    assert table.rows[0][2] == "incomplete"
