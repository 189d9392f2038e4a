"""The wire: everything a peer can send to an aggregator, and an aggregator to a peer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Raw, msgpack
from tests.fuzz import valid
from tests.fuzz.msgpack_form import Msgpack
from tests.fuzz.target import MIB, Target, refused

from telemetry import limits
from telemetry.aggregator import records as aggregator_records
from telemetry.aggregator import rows as aggregator_rows
from telemetry.aggregator.compiled import find_rows
from telemetry.aggregator.records import count_events, definition_id
from telemetry.aggregator.rows import Rows, read_rows
from telemetry.store.intervals import rollup
from telemetry.wire import codec, control, history, rows
from telemetry.wire.codec import Malformed
from telemetry.wire.drop_reasons import FRAME_REASONS, Reason
from telemetry.wire.events import EventBatch
from telemetry.wire.journal import Checkpoint, Ending

_TOPIC: Final = codec.TOPIC_BYTES
_REFUSAL_CHARS: Final = 200


def check_refusal(error: Malformed, reasons: frozenset[Reason]) -> None:
    """A refusal is one line that can be sent and shown, with a reason that is counted."""
    words = str(error)
    assert error.reason in reasons, error.reason
    assert len(words) <= _REFUSAL_CHARS, len(words)
    assert words.isprintable(), words
    refused(error)


def check_batch(data: bytes) -> EventBatch | None:
    """Reads a frame as the aggregator does; what can be read obeys every bound. C finds the same rows as Python."""
    assert find_rows(data, _TOPIC) == rows.find(data, _TOPIC)
    try:
        batch = codec.decode_batch(data, find_rows)
    except Malformed as error:
        check_refusal(error, FRAME_REASONS)
        return None
    assert len(data) <= limits.FRAME_BYTES
    assert 1 <= len(batch.producer) <= limits.PRODUCER_ID_CHARS
    assert len(batch.records) <= limits.BATCH_RECORDS
    assert len(batch.dropped) <= limits.DROP_REASONS
    assert min(batch.seq, batch.first, *batch.anchor) >= 0
    check_rows(batch.rows)
    records = sum(check_record(raw) for raw in batch.records)
    assert count_events(batch) == batch.rows.events + records
    return batch


def check_rows(array: rows.RowArray) -> None:
    if array.count is None:
        assert array.events == 1
        return
    assert array.events == array.count <= limits.BATCH_ROWS
    read: Rows = read_rows(array)
    assert len(read.ids) == len(read.times) == len(read.values) == array.count
    if array.count:
        assert read.ids.min() >= 0
        assert read.ids.max() <= limits.PRODUCER_IDS


def check_record(raw: Raw) -> bool:
    """Check a record and return whether it is an event."""
    tag = codec.record_tag(raw)
    row_id = definition_id(raw)
    assert row_id is None or 0 <= row_id < limits.PRODUCER_IDS
    try:
        record = codec.decode_record(raw)
    except Malformed as error:
        check_refusal(error, frozenset({Reason.MALFORMED_RECORD}))
        return tag != "define"
    assert tag == type(record).__struct_config__.tag
    again = msgpack.encode(record)
    assert msgpack.encode(codec.decode_record(again)) == again
    return tag != "define"


# --- targets -------------------------------------------------------------------------------------

_ONE_BATCH: Final = bytes(valid.frames()[0])


def _split_batch() -> tuple[bytes, bytes]:
    """Return the bytes before the records, and before the rows, of a valid batch without either."""
    bare = bytes(codec.encode_batch(codec.OutgoingBatch((1, 0), "p", 0, 0, (1, 2), {}, [], [])))
    assert bare.endswith(b"\x90\x90")
    return bare[:-2], bare[:-1]


_BEFORE_RECORDS, _BEFORE_ROWS = _split_batch()


def run_batch(data: bytes) -> int:
    check_batch(data)
    return 1


def run_rows(data: bytes) -> int:
    check_batch(_BEFORE_ROWS + data)
    return 1


def run_record(data: bytes) -> int:
    check_batch(_BEFORE_RECORDS + b"\x91" + data + b"\x90")
    return 1


def run_request(data: bytes) -> int:
    head = codec.control_head(data)
    try:
        request = codec.decode_request(data)
    except Malformed as error:
        check_refusal(error, FRAME_REASONS)
        return 1
    assert head.id == request.id
    again = codec.encode_control(request)
    assert codec.encode_control(codec.decode_request(again)) == again
    return 1


def run_response(data: bytes) -> int:
    codec.control_head(data)
    try:
        response = codec.decode_response(data)
    except Malformed as error:
        check_refusal(error, FRAME_REASONS)
        return 1
    again = codec.encode_control(response)
    assert codec.encode_control(codec.decode_response(again)) == again
    if isinstance(response, control.History):
        for raw in response.intervals[:8]:
            check_interval(raw)
    return 1


def check_interval(data: bytes | Raw) -> None:
    """Columns that are accepted fit together: they can be added up, and written again."""
    try:
        interval = codec.decode_interval(data)
    except Malformed as error:
        check_refusal(error, FRAME_REASONS)
        return
    for parts in ([interval], [interval, interval], [interval, valid.INTERVAL]):
        try:
            total = rollup.merge(parts)
        except Malformed as error:
            check_refusal(error, FRAME_REASONS)
            return
        assert codec.decode_interval(codec.encode_interval(total)) == total


def run_interval(data: bytes) -> int:
    check_interval(data)
    return 1


def _encoded(decode: Callable[[bytes], object], encode: Callable[..., bytes]) -> Callable[[bytes], int]:
    """A target for messages that come back as they went in."""

    def run(data: bytes) -> int:
        try:
            message = decode(data)
        except Malformed as error:
            check_refusal(error, FRAME_REASONS)
            return 1
        again = encode(message)
        assert encode(decode(again)) == again
        return 1

    return run


_COMMON: Final = (codec._payload, codec._unreadable, codec._wrong_version)
_CONTROL: Final = (codec._decode_control, codec.control_head, codec._unreadable, codec._wrong_version)

TARGETS: Final = (
    Target(
        name="batch",
        arrays=True,
        run=run_batch,
        form=Msgpack(_TOPIC),
        seeds=lambda: [*valid.frames(), *valid.golden("v1.*/batch_*.bin")],
        covers=(codec.decode_batch, codec._array_version, *_COMMON, codec.decode_record, codec.record_tag, rows),
        head=codec.EVENTS,
    ),
    Target(
        name="rows",
        arrays=True,
        run=run_rows,
        form=Msgpack(),
        seeds=lambda: [bytes(codec.decode_batch(data).rows.data) for data in valid.frames()],
        covers=(rows, aggregator_rows),
        head=b"\x93",
        bytes_each=400,
    ),
    Target(
        name="record",
        arrays=True,
        run=run_record,
        form=Msgpack(),
        seeds=valid.record_bytes,
        covers=(codec.decode_record, codec.record_tag, definition_id, aggregator_records.count_events),
        head=b"\x95",
    ),
    Target(
        name="request",
        run=run_request,
        form=Msgpack(),
        seeds=lambda: [*map(codec.encode_control, valid.requests()), *valid.golden("v1.*/request_*.bin")],
        covers=(codec.decode_request, *_CONTROL),
        head=b"\x82\xa4type",
    ),
    Target(
        name="response",
        arrays=True,
        run=run_response,
        form=Msgpack(),
        seeds=lambda: [*map(codec.encode_control, valid.responses()), *valid.golden("v1.*/response_*.bin")],
        covers=(codec.decode_response, *_CONTROL),
        head=b"\x82\xa4type",
    ),
    Target(
        name="snapshot",
        run=_encoded(codec.decode_snapshot, codec.encode_snapshot),
        form=Msgpack(_TOPIC),
        seeds=lambda: [
            codec.encode_snapshot(valid.small_snapshot()),
            codec.encode_snapshot(valid.short_snapshot()),
            *valid.golden("v1.*/snapshot.bin"),
        ],
        covers=(codec.decode_snapshot, codec._map_version, *_COMMON),
        head=codec.SNAPSHOTS,
    ),
    Target(
        name="stream_record",
        run=_encoded(codec.decode_stream_record, codec.encode_stream_record),
        form=Msgpack(_TOPIC),
        seeds=lambda: [
            *map(codec.encode_stream_record, valid.stream_records()),
            *valid.golden("v1.*/stream_record.bin"),
        ],
        covers=(codec.decode_stream_record, codec._array_version, *_COMMON),
        head=codec.RECORDS,
    ),
    Target(
        name="interval",
        arrays=True,
        run=run_interval,
        form=Msgpack(),
        seeds=lambda: [codec.encode_interval(valid.INTERVAL), *valid.golden("v1.*/interval.bin")],
        covers=(codec.decode_interval, history, rollup),
        head=b"\x95\x01\x02",
        base_bytes=2 * MIB,
    ),
    Target(
        name="note",
        run=_encoded(codec.decode_note, codec.encode_note),
        form=Msgpack(),
        seeds=lambda: [codec.encode_note(note) for note in valid.notes()],
        covers=(codec.decode_note, codec.control_head, codec._unreadable, codec._wrong_version),
        head=b"\x82\xa4type",
    ),
    Target(
        name="checkpoint",
        run=_encoded(codec.decode_checkpoint, codec.encode_checkpoint),
        form=Msgpack(),
        seeds=lambda: [
            codec.encode_checkpoint(Checkpoint(run=valid.run_state(), numbers=Raw(b"\x81\xa1a\x01"))),
            codec.encode_checkpoint(
                Checkpoint(run=valid.run_state(ending=Ending(reason="r")), numbers=Raw(b"\xc0"))
            ),
        ],
        covers=(codec.decode_checkpoint,),
        head=b"\x83",
    ),
)
