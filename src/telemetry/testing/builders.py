"""Builders for batches of a producer, through the real encoder and decoder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from telemetry.wire.codec import decode_batch, encode_batch
from telemetry.wire.events import BaseRecord, EventBatch, OutgoingBatch
from telemetry.wire.request_log import EndedRequests, RequestEntry
from telemetry.wire.rows import read
from telemetry.wire.version import PROTOCOL

Row = tuple[float, int, float]
"""(id, monotonic nanoseconds, value)"""

MONO_NS = 1_000_000_000_000
WALL_NS = 1_700_000_000_000_000_000


def frame(
    producer: str = "p",
    seq: int = 0,
    first: int = 0,
    *,
    rows: Iterable[Row] = (),
    records: Sequence[BaseRecord] = (),
    dropped: Mapping[str, int] | None = None,
    anchor: tuple[int, int] = (MONO_NS, WALL_NS),
) -> bytearray:
    """Encode an `ev/1` frame. Rows are canonical if their times need more than 32 bits, like real times."""
    flat: list[float] = []
    for row_id, time_ns, value in rows:
        flat.extend((float(row_id), time_ns, float(value)))
    return encode_batch(
        OutgoingBatch(PROTOCOL, producer, seq, first, anchor, dict(dropped or {}), list(records), flat)
    )


def batch(
    producer: str = "p",
    seq: int = 0,
    first: int = 0,
    *,
    rows: Iterable[Row] = (),
    records: Sequence[BaseRecord] = (),
    dropped: Mapping[str, int] | None = None,
    anchor: tuple[int, int] = (MONO_NS, WALL_NS),
) -> EventBatch:
    """Build a decoded batch. Arguments as in `frame`."""
    return decode_batch(frame(producer, seq, first, rows=rows, records=records, dropped=dropped, anchor=anchor))


def ended(
    numbers: Iterable[int], *, chunks: int = 0, kind: str = "llm", labels: Mapping[str, str] | None = None
) -> EndedRequests:
    """Build a record of completed requests, one a millisecond, each with this many chunks of one token."""
    entries = [
        RequestEntry(
            number,
            issued_ns=MONO_NS + number * 1_000_000,
            ended_ns=MONO_NS + number * 1_000_000 + 10_000_000,
            first_ns=MONO_NS + number * 1_000_000 + 2_000_000,
            gaps_ns=[50_000] * chunks,
            output_tokens=1 + chunks,
        )
        for number in numbers
    ]
    return EndedRequests(kind, dict(labels or {}), entries)


def loose_rows(numbers: Sequence[object]) -> Raw:
    """Encode any array as msgpack, for rows that are not canonical or invalid."""
    return Raw(msgspec.msgpack.encode(numbers))


def with_raw_rows(original: EventBatch, rows: Raw) -> EventBatch:
    """Return a copy of the batch with other rows."""
    return replace(original, rows=read(rows))
