"""Producers that ended completely and gave up their row: their sum stays, and late messages change nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS
from telemetry.wire.codec import Malformed
from telemetry.wire.control import End, Ended, Hello
from telemetry.wire.events import Define, EventBatch
from telemetry.wire.snapshot import FoldedProducers, MetricsSnapshot

T = MONO_NS
LISTED = 128


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A table that is full soon."""
    monkeypatch.setattr(limits, "PRODUCERS_LISTED", LISTED)
    monkeypatch.setattr(limits, "PRODUCERS", 2 * LISTED)
    return


def sent_by(number: int) -> EventBatch:
    """One value of the series `s`, whose row id differs between odd and even producers."""
    row_id = 1 + number % 2
    return batch(f"p{number}", records=[Define(row_id, "s", "series")], rows=[(row_id, T, number)])


def visit(aggregator: Aggregator, number: int, *, ends: bool = True) -> None:
    """A producer that comes, records one value and, mostly, ends."""
    key = f"p{number}"
    assert aggregator.hello(Hello(producer=key), T, T)
    sent = sent_by(number)
    assert aggregator.admit(sent, T)
    aggregator.apply([sent], T, T)
    if ends:
        aggregator.end(End(producer=key, batches=1, emitted=1), T)


def crowded(visitors: int) -> Aggregator:
    aggregator = Aggregator(AggregatorConfig())
    for number in range(visitors):
        visit(aggregator, number)
    return aggregator


def snapshot(aggregator: Aggregator) -> MetricsSnapshot:
    return aggregator.snapshot(SnapshotFacts(run_id="r", name="n", state="COMPLETE"), T, T)


def test_any_number_of_producers_may_come_and_go() -> None:
    """The bound is on those that have not ended; every event counts, and the run is complete."""
    aggregator = crowded(10 * LISTED)
    seen = snapshot(aggregator)
    assert seen.completeness == "complete"
    assert len(seen.producers) <= LISTED
    assert seen.folded is not None
    assert seen.folded.producers + len(seen.producers) == seen.producer_count == 10 * LISTED
    assert seen.accounting.emitted == seen.accounting.received == seen.accounting.applied == 10 * LISTED
    assert aggregator.book.counted_events == seen.series[0].count == 10 * LISTED


def test_few_producers_all_keep_their_row() -> None:
    """A small job sees every process."""
    seen = snapshot(crowded(LISTED))
    assert (len(seen.producers), seen.folded) == (LISTED, None)


def test_only_those_that_ended_completely_are_folded() -> None:
    """Producers that live or lost something stay in sight, and so do the newest that ended."""
    aggregator = Aggregator(AggregatorConfig())
    visit(aggregator, 0, ends=False)
    visit(aggregator, 1, ends=False)
    aggregator.end(End(producer="p1", batches=1, emitted=5), T)  # four events are missing
    for number in range(2, 4 * LISTED):
        visit(aggregator, number)
    names = aggregator.book.known
    assert names[:2] == ["p0", "p1"]
    assert names[-1] == f"p{4 * LISTED - 1}"


def test_late_messages_of_a_folded_producer_change_nothing() -> None:
    """A repeated hello, batch or end makes no new producer; the end is answered again."""
    aggregator = crowded(4 * LISTED)
    before = snapshot(aggregator)
    assert aggregator.hello(Hello(producer="p0", pid=7), T, T)
    assert not aggregator.admit(sent_by(0), T)
    aggregator.end(End(producer="p0", batches=9, emitted=9), T)
    assert aggregator.book.ended("p0") == Ended(emitted=1, received=1, missing=0)
    after = snapshot(aggregator)
    assert before.folded is not None
    assert after.folded == FoldedProducers(
        producers=before.folded.producers, events=before.folded.events, duplicates=1
    )
    assert (after.producers, after.series) == (before.producers, before.series)


def test_the_journal_of_a_folded_producer_can_be_read_again() -> None:
    """The exact pass finds the series of each row, whatever row ids the producer used."""
    aggregator = crowded(4 * LISTED)
    for number in (0, 1, 2, 3):
        indices, values = aggregator.series_values(sent_by(number))
        assert (indices.tolist(), values.tolist()) == ([0], [number])
    late = batch("p0", 1, rows=[(1, T, 5)])
    assert aggregator.series_values(late)[0].tolist() == [], "after its end"


def test_a_checkpoint_has_them() -> None:
    """The next aggregator knows the same, and takes the same for new."""
    aggregator = crowded(4 * LISTED)
    restored = Aggregator.restore(bytes(aggregator.checkpoint()))
    assert snapshot(restored) == snapshot(aggregator)
    for twin in (aggregator, restored):
        visit(twin, 10_000)
        assert not twin.admit(sent_by(0), T)
        assert twin.series_values(sent_by(1))[1].tolist() == [1]
    assert restored.checkpoint() == aggregator.checkpoint()


def test_salvaged_events_stay_in_the_sum() -> None:
    """The account of a killed producer is complete too."""
    aggregator = crowded(0)
    for number in range(4 * LISTED):
        aggregator.hello(Hello(producer=f"p{number}"), T, T)
        aggregator.salvage(f"p{number}")
        visit(aggregator, number)
    for shown in (snapshot(aggregator), snapshot(Aggregator.restore(bytes(aggregator.checkpoint())))):
        assert shown.folded is not None
        assert shown.folded.salvaged == shown.folded.events > 0
        assert shown.accounting.salvaged == shown.accounting.emitted == 4 * LISTED


def test_a_checkpoint_with_row_ids_of_no_instrument_is_none() -> None:
    """Bytes from anywhere can't lead to an instrument that is not there."""
    aggregator = crowded(4 * LISTED)
    aggregator.book.folded._tables[0] = (1 << 20).to_bytes(4, "little")
    with pytest.raises(Malformed, match="leads to no instrument"):
        Aggregator.restore(bytes(aggregator.checkpoint()))
    aggregator.book.folded._known["p0"] = (1, 1, 99)
    with pytest.raises(Malformed, match="can't have been saved"):
        Aggregator.restore(bytes(aggregator.checkpoint()))


def test_memory_of_them_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal row ids are kept once, and beyond the bound the oldest producer is forgotten; its events are not."""
    monkeypatch.setattr(limits, "FOLDED_IDS", 10)
    aggregator = crowded(10 * LISTED)
    folded = aggregator.book.folded
    assert (len(folded._known), len(folded._tables)) == (10, 2)
    assert "p0" not in folded
    assert snapshot(aggregator).accounting.applied == 10 * LISTED


def test_room_for_row_ids_is_given_back() -> None:
    """Jobs that start processes all day don't use up what all producers share."""
    aggregator = crowded(10 * LISTED)
    in_use = limits.ID_SLOTS - aggregator.book._budgets.ids.left
    assert in_use <= LISTED * 16
