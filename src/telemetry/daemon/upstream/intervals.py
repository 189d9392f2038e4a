"""Intervals that a leaf sends to its root: collected, written to the outbox, and restored from the journal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from telemetry import limits
from telemetry.aggregator import StreamedRecord
from telemetry.aggregator.nodes.outgoing import OutgoingInterval, add_up
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery.rebuild import EntryEffects, Fold
from telemetry.store.append_file import describe
from telemetry.store.outbox import DiskOutbox, StoredBatch
from telemetry.wire.codec import encode_batch
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import ClosedStep, Define, OutgoingBatch, Span
from telemetry.wire.history import Interval
from telemetry.wire.nodes import Member, NodeAccount, NodeRecord, Relay, StepPart
from telemetry.wire.version import PROTOCOL


@dataclass(frozen=True)
class LeafInterval:
    """An interval of a leaf: sums, records, producers and the account at its end."""

    roll: int
    start_ns: int
    end_ns: int
    anchor: tuple[int, int]
    """Monotonic and wall clock at its end."""
    account: NodeAccount
    sums: OutgoingInterval | None = None
    records: tuple[StreamedRecord, ...] = ()
    parts: tuple[StepPart, ...] = ()
    """Parts of steps for the root, besides those in `records`."""
    members: tuple[Member, ...] = ()
    closing: bool = False
    """True for the last interval, which `IntervalCollector.close` returns."""


def joined(earlier: LeafInterval, later: LeafInterval) -> LeafInterval:
    """Return one interval that means the same as two."""
    return replace(
        later,
        start_ns=earlier.start_ns,
        sums=added(earlier.sums, later.sums),
        records=earlier.records + later.records,
        parts=earlier.parts + later.parts,
        members=earlier.members + later.members,
    )


def added(earlier: OutgoingInterval | None, later: OutgoingInterval | None) -> OutgoingInterval | None:
    """Return the sums of two intervals together."""
    if earlier is None or later is None:
        return earlier or later
    return add_up([earlier, later])


class IntervalCollector:
    """A collector of the records of an interval, until its end. For one thread."""

    def __init__(self, *, spans: bool) -> None:
        """Prepare the collector. With `spans`, spans go to the root like other records."""
        self._spans = spans
        self._records: list[StreamedRecord] = []

    def add(self, streamed: Sequence[StreamedRecord]) -> None:
        """Add records of the record stream. Steps go to the root as parts, never as closed steps."""
        self._records += [item for item in streamed if self._is_wanted(item)]

    def end(self, numbers: Numbers, interval: Interval, roll: int, account: NodeAccount) -> LeafInterval:
        """Return the interval that `numbers` has just ended, with the records collected for it."""
        aggregator = numbers.aggregator
        return LeafInterval(
            roll=roll,
            start_ns=interval.start_ns,
            end_ns=interval.end_ns,
            anchor=anchor_of(numbers),
            account=account,
            sums=aggregator.leaf.take_interval(),
            records=self._take(),
            parts=tuple(aggregator.steps.take_parts()),
            members=tuple(aggregator.leaf.new_members()),
        )

    def skip(self, numbers: Numbers) -> None:
        """Drop the interval that `numbers` has just ended, because it is on disk already."""
        numbers.aggregator.leaf.take_interval()
        numbers.aggregator.steps.take_parts()
        numbers.aggregator.leaf.new_members()
        self._take()

    def close(self, numbers: Numbers, account: NodeAccount) -> LeafInterval:
        """Return the closing interval. Call this when the leaf takes no more events.

        The closing interval covers no time. It has the records and steps that were left after the last interval,
        and the final event counts as its account.
        """
        run = numbers.run
        return LeafInterval(
            roll=max(0, run.rolls - 1),
            start_ns=run.rolled_wall_ns,
            end_ns=run.rolled_wall_ns,
            anchor=anchor_of(numbers),
            account=account,
            records=self._take(),
            parts=tuple(numbers.aggregator.steps.take_parts()),
            closing=True,
        )

    def _take(self) -> tuple[StreamedRecord, ...]:
        records, self._records = tuple(self._records), []
        return records

    def _is_wanted(self, item: StreamedRecord) -> bool:
        if isinstance(item.record, ClosedStep):
            return item.part is not None
        return self._spans or not isinstance(item.record, Span)


def anchor_of(numbers: Numbers) -> tuple[int, int]:
    """Return the clocks at the end of the last interval. The wall clock is the one that dates records."""
    run = numbers.run
    return run.rolled_mono_ns, numbers.aggregator.clock.wall_at(run.rolled_mono_ns, run.rolled_wall_ns)


RECORD_BYTES: Final = limits.UPSTREAM_BATCH_BYTES * 3 // 4
"""Size of a record of sums: with the definitions of its instruments it fits into a batch."""
_HEAD_BYTES: Final = 4 * limits.KIB  # of a batch around its records
LARGEST_BYTES: Final = limits.FRAME_BYTES - _HEAD_BYTES
"""Size of the largest record that a batch can carry."""
_ENCODER: Final = msgspec.msgpack.Encoder()


class OutboxWriter:
    """A writer of intervals to the outbox, for one thread at a time. It blocks on the disk.

    While the outbox is full, the writer adds up the sums of several intervals. Only resolution in time is lost.
    Records wait up to a limit. Later records are dropped and counted, like those of any producer.
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
    """The producer of the next batch, its sequence number, the number of its first event, and the drops so far."""

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


class Refill:
    """A writer of intervals that the outbox lacks, while a fold reads the journal.

    Each step of the fold also goes to `telemetry.daemon.recovery.backfill.Backfill`.
    """

    def __init__(self, outbox: DiskOutbox, producer: str, *, spans: bool) -> None:
        """Prepare the refill. `producer` is the id of the leaf at the root."""
        self.collector = IntervalCollector(spans=spans)
        self.writer = OutboxWriter(outbox, producer)
        self.lost = 0
        """Number of intervals that are in neither the outbox nor the journal."""
        self._outbox = outbox
        self._is_sealed = outbox.closing

    def begin(self, fold: Fold) -> None:
        """Prepare for a fold. If it begins too late, definitions are missing as well, so all are sent again."""
        if fold.numbers.run.rolls >= max(1, self._outbox.rolls):
            fold.numbers.aggregator.leaf.define_again()

    def take(self, step: EntryEffects, fold: Fold) -> None:
        self.collector.add(step.streamed)
        if step.interval is None:
            return
        if self._is_sealed or step.roll < self._outbox.rolls:
            self.collector.skip(fold.numbers)
            return
        if not self.writer.added_up:
            self.lost += step.roll - self._outbox.rolls
        account = fold.numbers.aggregator.node_account(step.roll)
        self.writer.take(self.collector.end(fold.numbers, step.interval, step.roll, account))

    def end(self, fold: Fold) -> None:
        """Drop batches of intervals that the journal lost in a power cut. May raise OSError.

        Definitions were lost with them, so all are sent again.
        """
        if not self._is_sealed:
            self._outbox.cut(fold.numbers.run.rolls)
            fold.numbers.aggregator.leaf.define_again()
        self.writer.release()
