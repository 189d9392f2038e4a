"""Batches of a killed producer, made again from its ring.

Each batch that was packed and did not arrive gets exactly its events, under its own number, so that an event is in
one batch whatever still arrives. The rest is numbered from there on. The split depends on the file alone: after a
restart in the middle, the same numbers stand for the same events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.producers.producer import Producer
from telemetry.client.records import RECORD_BYTES
from telemetry.client.redaction import Redaction
from telemetry.client.sending.masking import FIELDS, RecordMasker
from telemetry.client.sending.outbox import WINDOW_BYTES
from telemetry.errors import UsageError
from telemetry.redaction import Redactor
from telemetry.store.ring_file import SLOT, BatchEnd, RedactionRules, RingFile
from telemetry.wire.codec import Malformed, decode_record, encode_batch, record_tag
from telemetry.wire.control import End
from telemetry.wire.events import OutgoingBatch
from telemetry.wire.request_log import EndedRequests
from telemetry.wire.rows import ID_MARK, TIME_MARK, VALUE_MARK
from telemetry.wire.sequence import SequenceTracker
from telemetry.wire.version import PROTOCOL

_ROW: Final = np.dtype(
    [("id_mark", "u1"), ("id", ">f8"), ("time_mark", "u1"), ("time", ">u8"), ("value_mark", "u1"), ("value", ">f8")]
)
_NO_ROWS: Final = np.empty(0, SLOT)
_ANY_KIND: Final = "requests"  # of those that are left out, only the number is read

Mask = Callable[[bytes], bytes | None]
"""A function that returns a record without secrets, or None for one that must not leave the ring."""


class RebuiltBatches:
    """The batches of one ring that an aggregator lacks."""

    def __init__(self, ring: RingFile, producer: Producer) -> None:
        """Find what is missing.

        A producer that has ended has given its account, which holds no events beyond its last batch.
        """
        received, has_ended = producer.sequence, producer.end is not None
        self._received = received
        self._ring = ring
        self._producer = producer.key
        self._has_ended = has_ended
        self._head = ring.head
        self._missing = _missing(ring, received)
        self._last = ring.end_of(ring.next_seq - 1) or BatchEnd(anchor=ring.head.anchor)
        self._records: list[list[bytes]] = []
        self._rows_from = self._head.rows
        self._emitted = self._head.emitted
        if not has_ended:
            records = ring.records(self._last, self._head.record_bytes, self._head.records)
            if self._head.unlogged:
                records.append(_log_without(self._head.unlogged))
                self._emitted += 1
            self._records = _split(records, limits.BATCH_RECORDS, RECORD_BYTES)
            self._rows_from = max(self._last.rows, self._head.readable_rows)
        row_batches = -(-(self._head.rows - self._rows_from) // limits.BATCH_EVENTS)
        self._rest = max(row_batches, len(self._records))
        """Number of batches for events that were in no batch."""
        self.is_empty = not (self._rest or self._missing)
        self._mask: Mask = _hide
        self._definitions: list[list[bytes]] = []
        if not self.is_empty:
            definitions = ring.definitions()
            self._mask = _mask(definitions.rules)
            self._definitions = _split(definitions.records, limits.BATCH_RECORDS, WINDOW_BYTES)
        numbered = 0 if has_ended else len(self._definitions) + self._rest
        self.next_seq = max(ring.next_seq + numbered, received.next_seq if self.is_empty else 0)
        self.contradicts = received.next_seq > (self.next_seq if producer.is_salvaged else ring.next_seq)
        """True if batches arrived that this ring knows nothing of."""

    def frames(self) -> Iterator[bytes]:
        """Yield the frames: first all definitions, then the missing batches, then the rest."""
        if self.is_empty:
            return
        seq, rest_events = self._ring.next_seq, self._head.rows - self._rows_from + sum(map(len, self._records))
        first, anchor = self._emitted - rest_events, self._last.anchor
        ahead = iter(self._definitions)
        if not self._has_ended:
            for definitions in ahead:
                if _lacks(self._received, seq):
                    yield self._frame(seq, first, anchor, definitions, _NO_ROWS)
                seq += 1
        for missing in self._missing:
            yield from self._missing_batch(missing, next(ahead, []))
        for at in range(self._rest):
            begin = self._rows_from + at * limits.BATCH_EVENTS
            rows = self._ring.rows(begin, begin + limits.BATCH_EVENTS)
            records = self._records[at] if at < len(self._records) else []
            if _lacks(self._received, seq):
                yield self._frame(seq, first, anchor, records, rows)
            first += len(rows) + len(records)
            seq += 1

    def end(self) -> End:
        """Return the account that the producer would have given."""
        dropped = self._head.counts
        return End(producer=self._producer, batches=self.next_seq, emitted=self._emitted, dropped=dropped)

    def _missing_batch(self, seq: int, definitions: Sequence[bytes]) -> Iterator[bytes]:
        """Yield a batch again, with those of its events that can still be read, after definitions if they fit."""
        before, end = self._ring.end_of(seq - 1), self._ring.end_of(seq)
        assert before is not None
        assert end is not None
        rows = self._ring.rows(before.rows, end.rows)
        records = self._ring.records(before, end.record_bytes, end.records)
        if len(rows) <= limits.BATCH_EVENTS and len(records) <= limits.BATCH_RECORDS:
            if len(definitions) + len(records) <= limits.BATCH_RECORDS:
                records = [*definitions, *records]
            yield self._frame(seq, end.first, end.anchor, records, rows)

    def _frame(
        self, seq: int, first: int, anchor: tuple[int, int], records: Sequence[bytes], rows: NDArray[np.void]
    ) -> bytes:
        masked = [Raw(record) for record in map(self._mask, records) if record is not None]
        flat = Raw(encode_rows(rows))
        batch = OutgoingBatch(PROTOCOL, self._producer, seq, first, anchor, self._head.counts, masked, flat)
        return bytes(encode_batch(batch))


def _log_without(requests: int) -> bytes:
    """Return the record that the producer would have made of requests, without its knowledge of them."""
    return msgspec.msgpack.encode(EndedRequests(kind=_ANY_KIND, labels={}, entries=[], left_out=requests))


def encode_rows(slots: NDArray[np.void]) -> bytes:
    """Return rows of a ring as a canonical msgpack array."""
    rows = np.empty(len(slots), _ROW)
    rows["id_mark"], rows["time_mark"], rows["value_mark"] = ID_MARK, TIME_MARK, VALUE_MARK
    for name in SLOT.names or ():
        rows[name] = slots[name]
    return _array_header(3 * len(rows)) + rows.tobytes()


def _array_header(elements: int) -> bytes:
    if elements < 16:
        return bytes([0x90 | elements])
    return b"\xdc" + elements.to_bytes(2, "big") if elements < 1 << 16 else b"\xdd" + elements.to_bytes(4, "big")


def _missing(ring: RingFile, received: SequenceTracker) -> list[int]:
    """Return the batches that did not arrive and whose beginning and end are known."""
    return [seq for seq in sorted(ring.ends) if ring.end_of(seq - 1) is not None and _lacks(received, seq)]


def _lacks(received: SequenceTracker, seq: int) -> bool:
    lost = [*received.gaps, *received.given_up]
    return seq >= received.next_seq or any(first <= seq <= last for first, last in lost)


def _mask(rules: RedactionRules | None) -> Mask:
    """Return the mask for these rules. Without rules no record leaves the ring."""
    if rules is None:
        return _hide
    redaction = Redaction()
    try:
        redaction.redactor = Redactor(secrets=rules.secrets, personal=rules.personal, patterns=rules.patterns)
    except UsageError:
        return _hide
    masker = RecordMasker(redaction)

    def masked(record: bytes) -> bytes | None:
        try:
            decode_record(record)
        except Malformed:
            return None
        return masker.masked(record) if record_tag(record) in FIELDS else None

    return masked


def _hide(record: bytes) -> None:
    """Keep a record in the ring."""


def _split(records: Sequence[bytes], most: int, most_bytes: int) -> list[list[bytes]]:
    """Return the records in groups of at most so many, and so many bytes if they are more than one."""
    groups: list[list[bytes]] = []
    size = 0
    for record in records:
        if not groups or len(groups[-1]) == most or size + len(record) > most_bytes:
            groups.append([])
            size = 0
        groups[-1].append(record)
        size += len(record)
    return groups
