"""Packing of an interval into batches, with numbers that continue those before. Uses no files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec import Raw

from telemetry import limits
from telemetry.aggregator import StreamedRecord
from telemetry.store.outbox import StoredBatch
from telemetry.wire.codec import encode_batch
from telemetry.wire.events import Define, OutgoingBatch
from telemetry.wire.nodes import NodeRecord, Relay
from telemetry.wire.version import PROTOCOL

RECORD_BYTES: Final = limits.UPSTREAM_BATCH_BYTES * 3 // 4
"""Size of a record of sums: with the definitions of its instruments it fits into a batch."""
_HEAD_BYTES: Final = 4 * limits.KIB  # of a batch around its records
LARGEST_BYTES: Final = limits.FRAME_BYTES - _HEAD_BYTES
"""Size of the largest record that a batch can carry."""

_ENCODER: Final = msgspec.msgpack.Encoder()


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
