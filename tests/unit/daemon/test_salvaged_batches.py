"""Batches made again from a ring: which events are in which, and what is masked."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.hand_made_ring import BATCHES, CAPACITY, HandMadeRing

from telemetry import limits
from telemetry.aggregator.producers.producer import Budgets, Producer
from telemetry.daemon.salvaged_batches import RebuiltBatches, encode_rows
from telemetry.store.ring_file import open_ring
from telemetry.testing import batch
from telemetry.wire.codec import decode_batch, decode_record
from telemetry.wire.control import End
from telemetry.wire.events import Define, EventBatch, Mark
from telemetry.wire.request_log import EndedRequests

Made = tuple[list[EventBatch], End, RebuiltBatches]


@pytest.fixture
def ring(tmp_path: Path) -> HandMadeRing:
    """The ring of the producer `p`, with two definitions."""
    ring = HandMadeRing(tmp_path / "p.ring", "p")
    ring.defines = [Define(1, "a", "series"), Define(2, "b", "counter")]
    return ring


@pytest.fixture
def producer() -> Producer:
    """An aggregator's knowledge of the producer."""
    return Producer("p", Budgets(10), 0)


def receive(producer: Producer, *seqs: int) -> None:
    """Let batches arrive."""
    for seq in seqs:
        assert producer.admit(batch("p", seq, 0), 0, 0)
        producer.applied(seq)


def rebuild(ring: HandMadeRing, producer: Producer) -> Made:
    """Return the batches, the account, and what made them."""
    with open_ring(ring.write(), "p") as opened:
        rebuilt = RebuiltBatches(opened, producer)
        return [decode_batch(frame) for frame in rebuilt.frames()], rebuilt.end(), rebuilt


def values(one: EventBatch) -> list[float]:
    """Return the values of a batch's rows."""
    numbers = msgspec.msgpack.decode(one.rows.data)
    return list(numbers[2::3])


def texts(one: EventBatch) -> list[str]:
    """Return the texts of marks, and the names of definitions."""
    records: list[Any] = [decode_record(record) for record in one.records]
    return [record.text if isinstance(record, Mark) else record.name for record in records]


def fill(ring: HandMadeRing, rows: int, records: int = 0) -> None:
    """Record the next numbers, and marks of the next numbers."""
    ring.record(*((1.0, 100 + n, float(n)) for n in range(ring.rows, ring.rows + rows)))
    ring.keep(*(Mark(f"m{n}") for n in range(ring.records, ring.records + records)))


def test_rows_are_encoded_as_a_producer_does() -> None:
    """Arrays of each size of header."""
    import numpy as np

    from telemetry.store.ring_file import SLOT

    for count in (0, 1, 5, 6, 30_000):
        slots = np.array([(1.0, 7, float(n)) for n in range(count)], SLOT)
        flat: list[float] = []
        for n in range(count):
            flat += [1.0, 7, float(n)]
        encoded = encode_rows(slots)
        assert msgspec.msgpack.decode(encoded) == flat
        assert len(encoded) == 27 * count + (1 if count < 6 else 3 if 3 * count < 65_536 else 5)


def test_what_was_in_no_batch_gets_the_next_numbers(ring: HandMadeRing, producer: Producer) -> None:
    """The remaining events come after the definitions, and have the anchor of the last batch."""
    fill(ring, 3, 1)
    ring.pack()
    fill(ring, 2, 2)
    ring.counts[1] = 4
    receive(producer, 0)
    (definitions, rest), end, _ = rebuild(ring, producer)
    assert (definitions.seq, texts(definitions), values(definitions)) == (1, ["a", "b"], [])
    assert (rest.seq, texts(rest), values(rest)) == (2, ["m1", "m2"], [3.0, 4.0])
    assert rest.first == 12 - 4
    assert rest.anchor == (7_000, 8_000), "that of the last batch"
    assert rest.dropped == {"not_a_number": 4}
    assert end == End(producer="p", batches=3, emitted=12, dropped={"not_a_number": 4})


def test_a_producer_that_never_sent_a_batch(ring: HandMadeRing, producer: Producer) -> None:
    """The events of a producer without a batch are dated by the clocks of the ring."""
    fill(ring, 2)
    (_, rest), end, _ = rebuild(ring, producer)
    assert (rest.seq, rest.first, values(rest), rest.anchor) == (1, 0, [0.0, 1.0], ring.anchor)
    assert (end.batches, end.emitted) == (2, 2)


def test_a_batch_that_did_not_arrive_keeps_its_number(ring: HandMadeRing, producer: Producer) -> None:
    """A missing batch keeps exactly its events, first number and anchor.

    It does no harm if it arrives after all.
    """
    for _ in range(4):
        fill(ring, 2, 1)
        ring.pack()
    receive(producer, 0, 2)
    made, end, _ = rebuild(ring, producer)
    assert [(one.seq, one.first, values(one), texts(one)) for one in made] == [
        (4, 12, [], ["a", "b"]),
        (1, 3, [2.0, 3.0], ["m1"]),
        (3, 9, [6.0, 7.0], ["m3"]),
    ]
    assert [one.anchor for one in made[1:]] == [(7_001, 8_001), (7_003, 8_003)]
    assert (end.batches, end.emitted) == (5, 12)


def test_a_batch_that_was_given_up_is_found_again(ring: HandMadeRing, producer: Producer) -> None:
    """A batch that its producer could not send again is made from the ring, which still has it."""
    for _ in range(2):
        fill(ring, 1)
        ring.pack()
    receive(producer, 1)
    producer.cannot_resend(0, 0, 0)
    made, _, _ = rebuild(ring, producer)
    assert [one.seq for one in made] == [2, 0]


def test_nothing_is_made_if_everything_arrived(ring: HandMadeRing, producer: Producer) -> None:
    """A salvage makes only the account if everything arrived."""
    fill(ring, 2)
    ring.pack()
    receive(producer, 0)
    made, end, rebuilt = rebuild(ring, producer)
    assert (made, rebuilt.is_empty, end.batches, end.emitted) == ([], True, 1, 2)


def test_a_second_salvage_makes_the_same_batches(ring: HandMadeRing, producer: Producer) -> None:
    """A number stands for the same events each time, however far the first salvage got."""
    for _ in range(2):
        fill(ring, 2, 1)
        ring.pack()
    fill(ring, 2, 1)
    receive(producer, 1)
    first, end, _ = rebuild(ring, producer)
    assert [one.seq for one in first] == [2, 0, 3]
    producer.is_salvaged = True
    for done in (2, 0, 3):
        receive(producer, done)
        again, same_end, rebuilt = rebuild(ring, producer)
        assert not rebuilt.contradicts
        assert same_end == end
        by_number = {one.seq: (values(one), texts(one)) for one in first}
        assert all(by_number[one.seq] == (values(one), texts(one)) for one in again)
    assert producer.sequence.contiguous == end.batches


def test_batches_that_the_ring_knows_nothing_of(ring: HandMadeRing, producer: Producer) -> None:
    """A ring that does not know a batch can't be the ring of this producer as it is now."""
    fill(ring, 1)
    receive(producer, 0)
    assert rebuild(ring, producer)[2].contradicts


def test_a_producer_that_has_ended_gets_only_its_missing_batches(ring: HandMadeRing, producer: Producer) -> None:
    """A producer that has ended gave up the rest itself and reported it."""
    for _ in range(2):
        fill(ring, 1)
        ring.pack()
    fill(ring, 3)
    receive(producer, 1)
    producer.finish(End(producer="p", batches=2, emitted=5, dropped={"unsent_at_exit": 3}), 0)
    (missing,), _, _ = rebuild(ring, producer)
    assert (missing.seq, values(missing), texts(missing)) == (0, [0.0], ["a", "b"])


def test_events_that_were_overwritten_stay_missing(ring: HandMadeRing, producer: Producer) -> None:
    """The remaining events of a batch are in it, and the account counts all events."""
    fill(ring, 40)
    ring.pack()
    fill(ring, 60)
    made, end, _ = rebuild(ring, producer)
    assert [(one.seq, len(values(one))) for one in made] == [(1, 0), (0, 40 - 37), (2, 60)]
    assert end.emitted == 100
    assert sum(len(values(one)) for one in made) == CAPACITY - 1


def test_a_batch_whose_beginning_is_unknown_is_not_made(ring: HandMadeRing, producer: Producer) -> None:
    """The table has the end of the newest batches only."""
    for _ in range(BATCHES + 10):
        ring.pack()
    made, _, _ = rebuild(ring, producer)
    assert [one.seq for one in made[1:]] == list(range(12, BATCHES + 10))


def test_large_remains_are_split(tmp_path: Path, producer: Producer) -> None:
    """Into batches as large as those of a producer."""
    ring = HandMadeRing(tmp_path / "p.ring", "p", capacity=1 << 16)
    fill(ring, 2 * limits.BATCH_EVENTS + 1)
    ring.defines = [Define(n, f"n{n}", "series") for n in range(limits.BATCH_RECORDS + 1)]
    made, end, _ = rebuild(ring, producer)
    assert [(len(one.records), len(values(one))) for one in made] == [
        (limits.BATCH_RECORDS, 0),
        (1, 0),
        (0, limits.BATCH_EVENTS),
        (0, limits.BATCH_EVENTS),
        (0, 1),
    ]
    assert [one.first for one in made] == [0, 0, 0, limits.BATCH_EVENTS, 2 * limits.BATCH_EVENTS]
    assert end.batches == 5


def test_records_and_definitions_are_masked(ring: HandMadeRing, producer: Producer) -> None:
    """Records and definitions are masked by the producer's own rules."""
    ring.rules = {"secrets": True, "personal": True, "patterns": [r"ticket=T-\d+"]}
    ring.defines = [Define(1, "a", "series", "", {"token": "abcdef123456"})]
    ring.keep(Mark("asked by ann@example.com about T-1234 with password=hunter22"))
    (definitions, rest), _, _ = rebuild(ring, producer)
    (define,) = [decode_record(record) for record in definitions.records]
    assert isinstance(define, Define)
    assert define.labels == {"token": "***"}
    (text,) = texts(rest)
    assert not any(secret in text for secret in ("ann@", "T-1234", "hunter22"))
    assert text.startswith("asked by *** about ***")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda ring: setattr(ring, "rules", b"\xff"),
        lambda ring: setattr(ring, "rules", {"patterns": ["nonsense"]}),
        lambda ring: setattr(ring, "rules", {"patterns": 5}),
    ],
)
def test_without_rules_no_record_leaves_the_ring(
    ring: HandMadeRing, producer: Producer, spoil: Callable[[HandMadeRing], None]
) -> None:
    """Rows hold numbers only. The records are missing in the account."""
    fill(ring, 2, 1)
    spoil(ring)
    made, end, _ = rebuild(ring, producer)
    assert [one.records for one in made if one.records] == []
    assert [values(one) for one in made][-1] == [0.0, 1.0]
    assert end.emitted == 3


def test_a_record_that_no_producer_makes_is_left_out(ring: HandMadeRing, producer: Producer) -> None:
    """Broken bytes can't be masked."""
    fill(ring, 0, 1)
    ring.keep(b"\xff\xff", msgspec.msgpack.encode(["secret", "x"]), struct.pack("<I", 7))
    (_, rest), end, _ = rebuild(ring, producer)
    assert texts(rest) == ["m0"]
    assert end.emitted == 4


@pytest.mark.parametrize("packed", [True, False])
def test_requests_that_no_record_has_are_counted_as_left_out(
    ring: HandMadeRing, producer: Producer, packed: bool
) -> None:
    """Requests without a record are counted in a record at the end, as the producer would have done."""
    fill(ring, rows=3, records=1)
    ring.requests_ended, ring.requests_logged = 12, 5
    if packed:
        ring.pack()
        receive(producer, 0)
    batches, end, rebuilt = rebuild(ring, producer)
    last = decode_record(batches[-1].records[-1])
    assert isinstance(last, EndedRequests)
    assert (last.left_out, last.entries) == (7, [])
    assert (end.emitted, end.batches, rebuilt.contradicts) == (5, batches[-1].seq + 1, False)
    (count,) = (len(one.records) for one in batches[-1:])
    assert batches[-1].first + count + len(values(batches[-1])) == 5


def test_a_producer_that_has_ended_has_logged_its_requests(ring: HandMadeRing, producer: Producer) -> None:
    """The account of a producer that has ended has no further event."""
    fill(ring, rows=1)
    ring.pack()
    receive(producer, 0)
    ring.requests_ended = 3
    producer.finish(End(producer="p", batches=1, emitted=1), 0)
    batches, _, rebuilt = rebuild(ring, producer)
    assert (batches, rebuilt.is_empty) == ([], True)
