"""Writer of a leaf's intervals to its outbox. If the outbox is full, it adds them up until there is room."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from telemetry import limits
from telemetry.aggregator import StreamedRecord
from telemetry.aggregator.nodes.outgoing import OutgoingInterval
from telemetry.daemon.upstream.interval import LeafInterval, added
from telemetry.store.append_file import describe
from telemetry.store.outbox import DiskOutbox, StoredBatch
from telemetry.wire.codec import encode_batch
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import Define, OutgoingBatch
from telemetry.wire.nodes import NodeRecord, Relay
from telemetry.wire.version import PROTOCOL

RECORD_BYTES: Final = limits.UPSTREAM_BATCH_BYTES * 3 // 4
"""Size of a record of sums: with the definitions of its instruments it fits into a batch."""
_HEAD_BYTES: Final = 4 * limits.KIB  # of a batch around its records
LARGEST_BYTES: Final = limits.FRAME_BYTES - _HEAD_BYTES
"""Size of the largest record that a batch can carry."""
_ENCODER: Final = msgspec.msgpack.Encoder()


class OutboxWriter:
    """A writer for one thread at a time. It blocks on the disk.

    While the outbox is full, the sums of several intervals become one, so only resolution in time is lost. Records
    wait up to a bound. Later ones are dropped and counted, as those of any producer.
    """

    def __init__(self, outbox: DiskOutbox, producer: str) -> None:
        """Prepare the writer. `producer` is the id of the leaf at the root."""
        self.outbox = outbox
        self.failed = ""
        """Reason why the last write failed; empty if it worked."""
        self.dropped = 0
        """Number of records dropped by this writer."""
        self.added_up = 0
        """Number of intervals that wait together for room."""
        self._producer = producer
        self._sums: OutgoingInterval | None = None
        self._start_ns: int | None = None
        self._records: list[Packable] = []
        self._record_bytes = 0
        self._members: list[Packable] = []
        self._uncounted = 0
        """Number of dropped records that no batch has told yet."""

    def take(self, interval: LeafInterval) -> None:
        """Write an interval, or keep it until there is room. The closing interval is always written."""
        self._keep(interval)
        if self.outbox.full and not interval.closing:
            return
        try:
            self._write(interval)
        except OSError as error:
            self.failed = describe(error)
        else:
            self.failed = ""

    def release(self) -> None:
        """Let the batches so far be sent. Call it once the journal is on the disk."""
        self.outbox.released = self.outbox.next_seq

    def _keep(self, interval: LeafInterval) -> None:
        self._sums = added(self._sums, interval.sums)
        self._start_ns = interval.start_ns if self._start_ns is None else self._start_ns
        self.added_up += 1
        for item in interval.records:
            self._keep_record(relayed(item), is_part=item.part is not None)
        for part in interval.parts:
            self._keep_record(packable(part), is_part=True)
        members = [packable(member) for member in interval.members]
        self._members = [*self._members, *members][-limits.NODE_MEMBERS :]

    def _keep_record(self, record: Packable, *, is_part: bool) -> None:
        # a part of a step has the values of many producers, so it may take more room than other records
        room = limits.UPSTREAM_RECORDS_BYTES * (4 if is_part else 1)
        if self._record_bytes + len(record.data) > room or len(record.data) > LARGEST_BYTES:
            self._uncounted += 1
            self.dropped += 1
        else:
            self._records.append(record)
            self._record_bytes += len(record.data)

    def _write(self, interval: LeafInterval) -> None:
        outbox, sums = self.outbox, self._sums
        records: list[Packable] = []
        if sums is not None:
            start_ns = interval.start_ns if self._start_ns is None else self._start_ns
            sum_records = sums.records(interval.roll, start_ns, interval.end_ns, RECORD_BYTES)
            records = [packable(record) for record in sum_records]
        records += [*self._members, *self._records, packable(interval.account)]
        dropped = dict(outbox.dropped)
        if self._uncounted:
            reason = Reason.BUFFER_FULL.value
            dropped[reason] = dropped.get(reason, 0) + self._uncounted
        numbering = Numbering(self._producer, outbox.next_seq, outbox.emitted + self._uncounted, dropped)
        batches = pack(records, interval.anchor, interval.roll, numbering)
        outbox.append(batches, dropped, closing=interval.closing)
        self._sums, self._start_ns, self._uncounted = None, None, 0
        self._records, self._record_bytes, self._members, self.added_up = [], 0, [], 0


class Packable(NamedTuple):
    """An encoded record. A definition is no event."""

    data: bytes
    is_event: bool = True


class Numbering(NamedTuple):
    """The numbers with which the next batch begins."""

    producer: str
    seq: int
    first: int
    dropped: dict[str, int]


def packable(record: Define | NodeRecord) -> Packable:
    return Packable(_ENCODER.encode(record), not isinstance(record, Define))


def relayed(item: StreamedRecord) -> Packable:
    """Return a record of the record stream for the root: a part of a step, or the record itself."""
    if item.part is not None:
        return packable(item.part)
    return packable(Relay(item.producer, item.wall_ns, Raw(_ENCODER.encode(item.record))))


def pack(
    records: Sequence[Packable], anchor: tuple[int, int], roll: int, numbering: Numbering
) -> list[StoredBatch]:
    """Return the batches of one interval, in order."""
    batches: list[StoredBatch] = []
    seq, first = numbering.seq, numbering.first
    for part in _split(records):
        raws = [Raw(record.data) for record in part]
        events = sum(record.is_event for record in part)
        frame = encode_batch(
            OutgoingBatch(PROTOCOL, numbering.producer, seq, first, anchor, numbering.dropped, raws, [])
        )
        batches.append(StoredBatch(seq, roll, first, events, frame))
        seq, first = seq + 1, first + events
    return batches


def _split(records: Sequence[Packable]) -> Iterator[list[Packable]]:
    part: list[Packable] = []
    size = 0
    for record in records:
        full = size + len(record.data) > limits.UPSTREAM_BATCH_BYTES or len(part) == limits.BATCH_RECORDS
        if part and full:
            yield part
            part, size = [], 0
        part.append(record)
        size += len(record.data)
    if part:
        yield part
