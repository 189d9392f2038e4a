"""Writer of a leaf's intervals to its outbox. If the outbox is full, it adds them up until there is room."""

from __future__ import annotations

from telemetry import limits
from telemetry.aggregator.nodes.outgoing import OutgoingInterval
from telemetry.daemon.upstream.interval import LeafInterval, added
from telemetry.daemon.upstream.packing import (
    LARGEST_BYTES,
    RECORD_BYTES,
    Numbering,
    Packable,
    pack,
    packable,
    relayed,
)
from telemetry.drop_reasons import Reason
from telemetry.store.append_file import describe
from telemetry.store.outbox import DiskOutbox


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
            found = sums.records(interval.roll, start_ns, interval.end_ns, RECORD_BYTES)
            records = [packable(record) for record in found]
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
