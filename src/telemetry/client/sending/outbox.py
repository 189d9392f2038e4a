"""Numbered batches made from the buffer, those without acknowledgement, and the account. No sockets, no threads."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Raw

from telemetry import limits
from telemetry.client.recorders import Buffer
from telemetry.client.records import RECORD_BYTES
from telemetry.client.redaction import REDACTION
from telemetry.client.sending.masking import RecordMasker
from telemetry.client.signal_safe import HitCounter
from telemetry.common.clock import SYSTEM_CLOCK, Clock
from telemetry.wire.codec import encode_batch
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import OutgoingBatch
from telemetry.wire.version import PROTOCOL


class Packed(NamedTuple):
    """A batch, ready to send."""

    seq: int
    events: int
    frame: bytes | bytearray


class Outbox:
    """A queue that takes events out of the buffer and numbers them.

    One thread uses it; other threads fill the buffer.

    With `row_bound` None, callers enforce the bound by waiting (policy block).
    """

    def __init__(
        self,
        producer: str,
        buffer: Buffer,
        definitions: Sequence[bytes],
        *,
        tallies: Mapping[Reason, HitCounter],
        row_bound: int | None,
        masker: RecordMasker | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.producer = producer
        self.records: deque[bytes] = buffer.new_records()
        """Encoded records, appended by any thread."""
        self.announcer = Announcer(definitions, buffer.acknowledged)
        self.next_seq = 0
        self.emitted = 0
        """Number of events numbered so far, including dropped ones."""
        self.rows_taken = self.records_taken = 0
        """Numbers of rows and of records that left the queue: in a batch, or dropped by a bound."""
        self._buffer = buffer
        self._definitions = definitions
        self._masker = masker or RecordMasker(REDACTION)
        self._masked: list[Raw] = []
        """Definitions as they are sent, which may be repeatedly."""
        self._tallies = tallies
        self.row_bound = row_bound
        self.wall_offset_ns = 0
        """Difference from the wall clock of this process to that of the aggregator, if they disagree."""
        self._clock = clock
        self._dropped: Counter[str] = Counter()
        self._weighed = self._weight = 0
        """Number of records, from the left, whose size is known, and the sum of these sizes in bytes."""
        for tally in tallies.values():
            tally.take()  # earlier counts are not losses of this producer

    @property
    def waiting(self) -> int:
        """Number of rows in the buffer."""
        return self._buffer.waiting

    @property
    def weight(self) -> int:
        """Size of the waiting records in bytes, as far as it is known."""
        return self._weight

    @property
    def empty(self) -> bool:
        return not self._buffer.waiting and not self.records and not self.announcer.due

    @property
    def full(self) -> bool:
        """True if the backlog at the last `settle` would fill a batch."""
        if self.waiting >= limits.BATCH_EVENTS or self._weight >= RECORD_BYTES:
            return True
        return len(self.records) >= limits.BATCH_RECORDS

    @property
    def dropped(self) -> dict[str, int]:
        """Number of events dropped so far, by reason."""
        return dict(self._dropped)

    def drop(self, reason: Reason, count: int) -> None:
        """Number events that will not be sent, and count them as dropped."""
        if count:
            self._dropped[reason.value] += count
            self.emitted += count

    def settle(self) -> None:
        """Add the counts of the recorders, and enforce the bounds by dropping the oldest events."""
        for reason, tally in self._tallies.items():
            self.drop(reason, tally.take())
        if self.row_bound is not None:
            self._drop_rows(Reason.BUFFER_FULL, self.waiting - self.row_bound)
        self._drop_records(Reason.BUFFER_FULL, len(self.records) - limits.RECORDS_BUFFERED)
        self._drop_heavy_records()

    def abandon(self, unsent: Sequence[Packed]) -> None:
        """Count all remaining events as unsent.

        `unsent` holds the last packed batches, which were never sent. They are counted too.
        """
        for packed in reversed(unsent):
            self.next_seq = packed.seq
            self._dropped[Reason.UNSENT_AT_EXIT.value] += packed.events
        self.settle()
        self._drop_rows(Reason.UNSENT_AT_EXIT, self.waiting)
        self._drop_records(Reason.UNSENT_AT_EXIT, len(self.records))

    def pack(self, *, definitions_only: bool = False) -> Packed | None:
        """Return the next batch of at most `limits.BATCH_EVENTS` rows, or None if there is nothing to send.

        With `definitions_only`, the batch holds only definitions that are due, and events stay in the queue.
        """
        start, stop = self.announcer.window()
        if definitions_only or not self.announcer.covers_all(stop):
            return self._batch(start, stop, [], [], 0) if self.announcer.due else None
        rows, taken = self._buffer.take(limits.BATCH_EVENTS)
        start, stop = self.announcer.window()  # read after the rows: a definition precedes its rows
        records = self._take_records(limits.BATCH_RECORDS - (stop - start))
        if not taken and not records and not self.announcer.due:
            return None
        return self._batch(start, stop, records, rows, taken)

    def _batch(self, start: int, stop: int, records: list[bytes], rows: bytes | list[float], taken: int) -> Packed:
        seq, first, events = self.next_seq, self.emitted, len(records) + taken
        self.rows_taken += taken
        self.records_taken += len(records)
        anchor = (self._clock.monotonic_ns(), self._clock.wall_ns() + self.wall_offset_ns)
        try:
            definitions = self._masked_definitions(start, stop)
            batch = OutgoingBatch(
                PROTOCOL,
                self.producer,
                seq,
                first,
                anchor,
                self.dropped,
                [*definitions, *(Raw(self._masker.masked(record)) for record in records)],
                Raw(rows) if isinstance(rows, bytes) else rows,
            )
            frame = encode_batch(batch)
        except Exception:
            self.drop(Reason.UNENCODABLE, events)
            raise
        self.announcer.carried(seq, start, stop)
        self._buffer.note_batch(seq, first, *anchor)
        self.next_seq += 1
        self.emitted += events
        self._buffer.extend(self._masker.counts())
        return Packed(seq, events, frame)

    def _masked_definitions(self, start: int, stop: int) -> list[Raw]:
        for definition in self._definitions[len(self._masked) : stop]:
            self._masked.append(Raw(self._masker.masked(definition)))
        return self._masked[start:stop]

    def _take_records(self, most: int) -> list[bytes]:
        taken: list[bytes] = []
        size = 0
        while self.records and len(taken) < most and size + len(self.records[0]) <= RECORD_BYTES:
            record = self._pop_record()
            size += len(record)
            taken.append(record)
        return taken

    def _pop_record(self) -> bytes:
        record = self.records.popleft()
        self._buffer.records_gone((record,))
        if self._weighed:
            self._weighed -= 1
            self._weight -= len(record)
        return record

    def _drop_heavy_records(self) -> None:
        """Drop the oldest records beyond the byte limit.

        Without the interpreter's lock, an iterator raises if another thread appends meanwhile. Then new records are
        read by position, which takes longer.
        """
        try:
            sizes = list(map(len, islice(self.records, self._weighed, None)))
        except RuntimeError:
            new = range(self._weighed, len(self.records))
            sizes = list(map(len, map(self.records.__getitem__, new)))
        self._weighed += len(sizes)
        self._weight += sum(sizes)
        dropped = 0
        while self._weight > limits.RECORDS_BUFFERED_BYTES:
            self._pop_record()
            dropped += 1
        self.records_taken += dropped
        self.drop(Reason.BUFFER_FULL, dropped)

    def _drop_rows(self, reason: Reason, count: int) -> None:
        if count > 0:
            self._buffer.drop(count)
            self.rows_taken += count
            self.drop(reason, count)

    def _drop_records(self, reason: Reason, count: int) -> None:
        for _ in range(count):
            self._pop_record()
        self.records_taken += max(0, count)
        self.drop(reason, max(0, count))


WINDOW_BYTES: Final = limits.MIB
_IN_FLIGHT: Final = 4_096  # batches; far more than the pipes hold


class Announcer:
    """A cursor over an append-only list of definitions. It gives one range per batch. For one thread."""

    def __init__(
        self, definitions: Sequence[bytes], on_acknowledged: Callable[[int], object] = lambda batches: None
    ) -> None:
        self._definitions = definitions
        self._on_acknowledged = on_acknowledged
        self._acknowledged = 0
        self._sent = 0
        self._in_flight: deque[tuple[int, int, int]] = deque(maxlen=_IN_FLIGHT)

    @property
    def due(self) -> bool:
        """True if a definition exists that no batch has carried yet."""
        return self._sent < len(self._definitions)

    def window(self) -> tuple[int, int]:
        """Return the range `[start, stop)` of definitions for the next batch.

        It holds all unacknowledged definitions if they fit. Otherwise unsent definitions are first.
        """
        start = self._acknowledged
        stop = self._fill(start)
        if stop < len(self._definitions) and self._sent < len(self._definitions):
            start = max(start, self._sent)
            stop = self._fill(start)
        return start, stop

    def covers_all(self, stop: int) -> bool:
        """Check that every definition is sent once a batch with definitions up to `stop` is sent."""
        return max(stop, self._sent) >= len(self._definitions)

    def carried(self, seq: int, start: int, stop: int) -> None:
        """Register that batch `seq` carries definitions `[start, stop)`."""
        if stop > start:
            self._in_flight.append((seq, start, stop))
            self._sent = max(self._sent, stop)

    def acknowledged(self, batches: int) -> None:
        """Register that all batches below `batches` have arrived."""
        self._on_acknowledged(batches)
        while self._in_flight and self._in_flight[0][0] < batches:
            _, start, stop = self._in_flight.popleft()
            if start <= self._acknowledged < stop:
                self._acknowledged = stop

    def announce_again(self) -> None:
        """Send all definitions again: a new aggregator may not have them."""
        self._in_flight.clear()
        self._acknowledged = self._sent = 0

    def _fill(self, start: int) -> int:
        size = 0
        stop = start
        end = min(len(self._definitions), start + limits.BATCH_RECORDS)
        while stop < end:
            size += len(self._definitions[stop])
            if size > WINDOW_BYTES and stop > start:
                break
            stop += 1
        return stop


Frame = bytes | bytearray


class ResendRing:
    """A store of sent batches.

    It never drops a batch by itself: its owner stops packing once it is `full`. For one thread.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self.bytes = 0
        """Memory in bytes: all frames and the overhead of each."""
        self.taken = 0
        """Number of events in acknowledged batches."""
        self._capacity_bytes = capacity_bytes
        self._frames: OrderedDict[int, tuple[Frame, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def full(self) -> bool:
        return self.bytes >= self._capacity_bytes

    def keep(self, seq: int, frame: Frame, events: int = 0) -> None:
        """Keep a frame that holds `events` events."""
        self._frames[seq] = frame, events
        self.bytes += _size(frame)

    def acknowledged(self, batches: int) -> bool:
        """Forget all batches below `batches`. Return True if there were any."""
        before = len(self._frames)
        while self._frames and next(iter(self._frames)) < batches:
            self.taken += self._forget_oldest()
        return len(self._frames) < before

    def forget(self, seq: int) -> None:
        """Forget a batch that was never sent. A batch that is not in the ring was acknowledged."""
        kept = self._frames.pop(seq, None)
        if kept is not None:
            self.bytes -= _size(kept[0])

    def give_up_oldest(self) -> None:
        """Forget the oldest batch before its acknowledgement. If it got lost, its events are lost."""
        self._forget_oldest()

    def get(self, seq: int) -> Frame | None:
        kept = self._frames.get(seq)
        return None if kept is None else kept[0]

    def kept(self, first: int = 0, last: int | None = None) -> list[int]:
        """Return the sequence numbers from `first` to `last` that are in the ring, ascending."""
        return [seq for seq in self._frames if first <= seq and (last is None or seq <= last)]

    def _forget_oldest(self) -> int:
        """Forget the oldest batch and return its number of events."""
        _, (frame, events) = self._frames.popitem(last=False)
        self.bytes -= _size(frame)
        return events


def _size(frame: Frame) -> int:
    return len(frame) + limits.RESEND_BATCH_BYTES
