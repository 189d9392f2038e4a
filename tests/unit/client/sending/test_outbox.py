"""Tests of the way from the buffer to numbered batches, on which each lost event has a number."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from telemetry import limits
from telemetry.client import records
from telemetry.client.sending import outbox as outbox_module
from telemetry.wire import rows
from telemetry.wire.codec import decode_batch
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Define, Mark


def test_nothing_to_say_is_no_batch(desk: Any) -> None:
    """An idle producer sends nothing."""
    assert desk.pack() is None
    assert desk.outbox.empty


def test_a_batch_carries_definitions_records_and_rows(desk: Any, read: Any) -> None:
    """A batch carries definitions, records and rows in this order. The numbers run over records and rows."""
    desk.definitions.append(records.mark("stands for a definition", {}, 0))
    desk.outbox.records.append(records.mark("m", {}, 9))
    desk.fill(3)
    batch = desk.pack()
    assert (batch.producer, batch.seq, batch.first, batch.dropped) == ("p1", 0, 0, {})
    assert batch.anchor == (desk.clock.monotonic_ns(), desk.clock.wall_ns())
    assert read.records(batch)[1] == Mark(text="m", time_ns=9)
    assert read.values(batch) == [0.0, 1.0, 2.0]
    assert desk.outbox.emitted == 4


def test_rows_are_canonical(desk: Any) -> None:
    """27 bytes an event: the aggregator reads them in place."""
    desk.fill(50)
    batch = desk.pack()
    body = batch.rows.body
    assert body is not None
    assert len(body) == 50 * rows.ROW_BYTES
    assert {body[at] for at in range(18, len(body), rows.ROW_BYTES)} == {rows.VALUE_MARK}


def test_a_definition_alone_is_announced_once(desk: Any, read: Any) -> None:
    """An instrument shows before its first event, and silence does not repeat it."""
    desk.definitions.append(records.mark("d", {}, 0))
    assert desk.pack() is not None
    assert desk.pack() is None


def test_a_batch_is_bounded(desk: Any, make_desk: Any) -> None:
    """A batch is bounded, and the rest waits for the next batch."""
    desk = make_desk(row_bound=None)
    desk.fill(limits.BATCH_EVENTS + 5)
    for number in range(limits.BATCH_RECORDS + 7):
        desk.outbox.records.append(records.mark(str(number), {}, 1))
    first, second = desk.pack(), desk.pack()
    assert (first.rows.count, len(first.records)) == (limits.BATCH_EVENTS, limits.BATCH_RECORDS)
    assert (second.rows.count, len(second.records)) == (5, 7)
    assert second.first == limits.BATCH_EVENTS + limits.BATCH_RECORDS


def test_the_largest_batch_is_below_the_frame_limit(make_desk: Any) -> None:
    """Definitions, records and rows at their bounds together."""
    desk = make_desk(row_bound=None)
    definition = msgspec.msgpack.encode(Define(1, "n" * 180, "counter"))
    desk.definitions += [definition] * 10_000
    desk.outbox.records.extend([records.mark("é" * limits.TEXT_CHARS, {}, 1)] * 1_000)
    desk.fill(limits.BATCH_EVENTS)
    desk.outbox.settle()
    while (packed := desk.outbox.pack()) is not None:
        assert len(packed.frame) < limits.FRAME_BYTES


def test_rows_wait_until_every_definition_was_sent(desk: Any) -> None:
    """More definitions than a batch holds go ahead of the rows that need them."""
    desk.definitions += [records.mark("d", {}, 0)] * (limits.BATCH_RECORDS + 1)
    desk.fill(1)
    first, second = desk.pack(), desk.pack()
    assert (first.rows.count, len(first.records)) == (0, limits.BATCH_RECORDS)
    assert (second.rows.count, len(second.records)) == (1, 1)


def test_the_oldest_rows_go_beyond_the_bound(desk: Any, read: Any) -> None:
    """The oldest rows are dropped beyond the bound. They have numbers, so the next batch begins after them."""
    desk.fill(1_200)
    batch = desk.pack()
    assert (batch.first, batch.dropped) == (200, {"buffer_full": 200})
    assert read.values(batch)[0] == 200.0
    assert desk.outbox.emitted == 1_200


def test_the_oldest_records_go_beyond_the_bound(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same rule for marks."""
    monkeypatch.setattr(limits, "RECORDS_BUFFERED", 10)
    desk.outbox.records.extend(records.mark(str(number), {}, 1) for number in range(15))
    assert (batch := desk.pack()).first == 5
    assert len(batch.records) == 10


def test_policy_block_leaves_the_bound_to_the_callers(make_desk: Any) -> None:
    """The flusher drops nothing of what they put in."""
    desk = make_desk(row_bound=None)
    desk.fill(5_000)
    assert desk.pack().dropped == {}


def test_what_recorders_refused_has_a_number(desk: Any) -> None:
    """Events that recorders refused have a number and a reason."""
    desk.recorders.record(0.0)("text")
    desk.timed_out.hit()
    desk.timed_out.hit()
    desk.fill(1)
    batch = desk.pack()
    assert (batch.first, batch.dropped) == (3, {"not_a_number": 1, "block_timeout": 2})


def test_what_was_counted_before_belongs_to_nobody(desk: Any) -> None:
    """A producer accounts for its own life only."""
    desk.recorders.record(0.0)("text")
    again = outbox_module.Outbox(
        "p2",
        desk.recorders.buffer,
        [],
        tallies={Reason.NOT_A_NUMBER: desk.recorders.refused},
        row_bound=10,
    )
    again.settle()
    assert again.dropped == {}


def test_what_stays_behind_is_counted_as_unsent(desk: Any) -> None:
    """Rows, records, and batches that never left: their numbers are free again."""
    unsent = []
    for _ in range(2):
        desk.fill(2)
        unsent.append(desk.outbox.pack())
    desk.fill(2)
    desk.outbox.records.append(records.mark("m", {}, 1))
    desk.outbox.abandon(unsent)
    assert desk.outbox.dropped == {"unsent_at_exit": 7}
    assert (desk.outbox.emitted, desk.outbox.next_seq) == (7, 0)


def test_definitions_alone_can_be_packed(desk: Any, read: Any) -> None:
    """Definitions can be packed alone. They may have to go out when there is no room for events."""
    desk.fill(3)
    assert desk.outbox.pack(definitions_only=True) is None
    desk.definitions.append(records.mark("stands for a definition", {}, 0))
    packed = desk.outbox.pack(definitions_only=True)
    assert (len(read.records(decode_batch(packed.frame))), packed.events, desk.outbox.waiting) == (1, 0, 3)
    assert desk.outbox.pack(definitions_only=True) is None


def test_a_batch_that_cannot_be_encoded_is_counted(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The events of a batch that can't be encoded are counted, even when memory runs out."""

    def refuse(batch: object) -> bytearray:
        raise MemoryError

    desk.fill(3)
    with monkeypatch.context() as patched:
        patched.setattr(outbox_module, "encode_batch", refuse)
        with pytest.raises(MemoryError):
            desk.pack()
    desk.fill(1)
    batch = desk.pack()
    assert (batch.seq, batch.first, batch.dropped) == (0, 3, {"unencodable": 3})


def test_the_oldest_records_go_beyond_their_bytes(desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long texts must not fill the memory, however few they are; what was sent weighs nothing any more."""
    mark = len(records.mark("x" * 100, {}, 1))
    monkeypatch.setattr(limits, "RECORDS_BUFFERED_BYTES", 4 * mark)
    for _ in range(3):
        desk.outbox.records.extend(records.mark("x" * 100, {}, 1) for _ in range(4))
        batch = desk.pack()
        assert (len(batch.records), batch.dropped) == (4, {})
    desk.outbox.records.extend(records.mark("x" * 100, {}, 1) for _ in range(3))
    desk.outbox.settle()
    desk.outbox.records.extend(records.mark("x" * 100, {}, 1) for _ in range(3))
    batch = desk.pack()
    assert (len(batch.records), batch.first, batch.dropped) == (4, 14, {"buffer_full": 2})


def test_a_record_may_arrive_while_others_are_weighed(desk: Any) -> None:
    """A record that another thread adds meanwhile is weighed once.

    A free-threaded interpreter has no lock that holds it back.
    """
    outbox = desk.outbox

    class Interrupted(bytes):
        is_told = False

        def __len__(self) -> int:
            if not self.is_told:
                self.is_told = True
                outbox.records.append(b"123")
            return super().__len__()

    outbox.records.append(Interrupted(b"12345"))
    outbox.settle()
    assert (outbox.weight, len(outbox.records)) == (8, 2)
    outbox.settle()
    assert (outbox.weight, len(outbox.records)) == (8, 2)


def test_many_bytes_of_records_fill_a_batch_as_many_rows_do(desk: Any) -> None:
    """Many bytes of records make the outbox full, so the next batch may follow at once.

    Texts are not held back to one batch a period.
    """
    assert not desk.outbox.full
    mark = records.mark("x" * 4_000, {}, 1)
    desk.outbox.records.extend([mark] * (1 + records.RECORD_BYTES // len(mark)))
    desk.outbox.settle()
    assert desk.outbox.full
    desk.pack()
    assert not desk.outbox.full
    desk = type(desk)(row_bound=None)
    desk.fill(limits.BATCH_EVENTS)
    assert desk.outbox.full


def test_many_small_records_fill_a_batch_as_well(desk: Any) -> None:
    """More records than a batch takes make the outbox full.

    So a loop that logs in a flood need not wait for the next turn.
    """
    desk.outbox.records.extend([records.mark("x", {}, 1)] * (limits.BATCH_RECORDS + 1))
    desk.outbox.settle()
    assert desk.outbox.full
    desk.pack()
    assert not desk.outbox.full
