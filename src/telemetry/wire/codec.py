"""Frames, and the only encoders and decoders. Decoding raises `Malformed` for any bytes that can't be read."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct
from msgspec.structs import asdict

from telemetry import limits
from telemetry.wire import rows as wire_rows
from telemetry.wire.control import Request, Response
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import EventBatch, OutgoingBatch, RawBatch, StreamRecord
from telemetry.wire.history import Interval, fits_together
from telemetry.wire.journal import Checkpoint, Note
from telemetry.wire.nodes import RECORD_DECODER, BatchRecord
from telemetry.wire.request_log import LoggedRecords
from telemetry.wire.snapshot import MetricsSnapshot
from telemetry.wire.version import SCHEMA, Version, may_talk

_T = TypeVar("_T")
_Bytes = bytes | bytearray | memoryview

BAD_INPUT: Final = (msgspec.MsgspecError, RecursionError, ValueError)
"""Exceptions that msgspec raises for unreadable bytes.

RecursionError: deep nesting. UnicodeDecodeError, a ValueError: bad text.
"""
_LARGEST: Final = int(sys.float_info.max)
_DETAIL_CHARS: Final = 200  # msgspec quotes the refused value, which can be long


class ControlHead(Struct, frozen=True):
    """The readable rest of a broken control message: enough to send an error reply."""

    id: int = 0
    type: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""
    version: Version | None = None


class _IdHead(Struct, frozen=True):
    id: int = 0


class _TypeHead(Struct, frozen=True):
    type: Annotated[str, Meta(max_length=limits.NAME_CHARS)] = ""


class _VersionHead(Struct, frozen=True):
    version: Version | None = None


class _ArrayHead(Struct, array_like=True, frozen=True):
    version: Version


class _MapHead(Struct, frozen=True):
    schema_version: int = SCHEMA
    protocol: Version | None = None


class _TagHead(Struct, array_like=True, frozen=True):
    tag: str


_ENCODER: Final = msgspec.msgpack.Encoder()
_NO_ROWS: Final = _ENCODER.encode([])
_BATCH_HEAD: Final = 0x90 | len(RawBatch.__struct_fields__)  # an array with exactly its fields
_BATCH: Final = msgspec.msgpack.Decoder(RawBatch)
_SNAPSHOT: Final = msgspec.msgpack.Decoder(MetricsSnapshot)
_STREAM: Final = msgspec.msgpack.Decoder(StreamRecord)
_REQUEST: Final[msgspec.msgpack.Decoder[Request]] = msgspec.msgpack.Decoder(Request)
_RESPONSE: Final[msgspec.msgpack.Decoder[Response]] = msgspec.msgpack.Decoder(Response)
_INTERVAL: Final = msgspec.msgpack.Decoder(Interval)
_NOTE: Final[msgspec.msgpack.Decoder[Note]] = msgspec.msgpack.Decoder(Note)
_CHECKPOINT: Final = msgspec.msgpack.Decoder(Checkpoint)
_LOGGED: Final = msgspec.msgpack.Decoder(LoggedRecords)
_CONTROL_HEAD: Final = msgspec.msgpack.Decoder(ControlHead)
_ID_HEAD: Final = msgspec.msgpack.Decoder(_IdHead)
_TYPE_HEAD: Final = msgspec.msgpack.Decoder(_TypeHead)
_VERSION_HEAD: Final = msgspec.msgpack.Decoder(_VersionHead)
_ARRAY_HEAD: Final = msgspec.msgpack.Decoder(_ArrayHead)
_MAP_HEAD: Final = msgspec.msgpack.Decoder(_MapHead)
_TAG_HEAD: Final = msgspec.msgpack.Decoder(_TagHead)


class Malformed(Exception):
    """Bytes that are not a message of this protocol.

    `reason` is the reason that the ledger counts. The text is one printable line of bounded length.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__("".join(char if char.isprintable() else "\ufffd" for char in detail[:_DETAIL_CHARS]))
        self.reason = reason


def carriable(text: str) -> str:
    """Return the text in valid UTF-8. Bytes that are not UTF-8, as in a file name or argument, become U+FFFD."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# --- events --------------------------------------------------------------------------------------


def encode_batch(batch: OutgoingBatch) -> bytearray:
    """Encode one `ev/1` frame. Raises OverflowError or UnicodeEncodeError for values that msgpack can't carry."""
    frame = bytearray(EVENTS)
    _ENCODER.encode_into(batch, frame, TOPIC_BYTES)
    return frame


def decode_batch(frame: _Bytes, find_rows: wire_rows.Finder = wire_rows.find) -> EventBatch:
    """Decode one `ev/1` frame. The caller may give a faster `find_rows`.

    Records stay raw; rows are read up to their header and markers. Both keep the memory of the frame alive.
    """
    if len(frame) > limits.FRAME_BYTES:
        raise Malformed(Reason.FRAME_TOO_LARGE, f"{len(frame)} bytes")
    payload = _payload(frame, EVENTS)
    batch = _with_rows_unread(frame, find_rows) if isinstance(frame, bytes) else None
    try:
        batch = batch or _with_rows(_BATCH.decode(payload))
    except BAD_INPUT as error:
        raise _unreadable(error, _array_version(payload)) from None
    if not may_talk(batch.version):
        raise _wrong_version(batch.version)
    return batch


def _with_rows_unread(frame: bytes, find_rows: wire_rows.Finder) -> EventBatch | None:
    """Return the batch if it ends with canonical rows; msgpack would have to walk through all their numbers.

    Return None if it doesn't, or if those bytes are inside or behind its field `rows`.
    """
    rows = wire_rows.at_end(frame, TOPIC_BYTES, find_rows)
    if rows is None or frame[TOPIC_BYTES] != _BATCH_HEAD:
        return None
    try:
        batch = _BATCH.decode(frame[TOPIC_BYTES : -len(rows.data)] + _NO_ROWS)
    except BAD_INPUT:
        return None
    return _with_rows(batch, rows) if bytes(batch.rows) == _NO_ROWS else None


def _with_rows(batch: RawBatch, rows: wire_rows.RowArray | None = None) -> EventBatch:
    return EventBatch(
        batch.version,
        batch.producer,
        batch.seq,
        batch.first,
        batch.anchor,
        batch.dropped,
        batch.records,
        rows or wire_rows.read(batch.rows),
    )


def decode_record(raw: Raw | bytes) -> BatchRecord:
    """Decode one record of a batch."""
    try:
        return RECORD_DECODER.decode(raw)
    except BAD_INPUT as error:
        raise Malformed(Reason.MALFORMED_RECORD, str(error)) from None


def record_tag(raw: Raw | bytes) -> str:
    """Return the tag of a record, even of an unreadable one; empty if it has no tag.

    Every record except `define` has an event number.
    """
    try:
        return _TAG_HEAD.decode(raw).tag
    except BAD_INPUT:
        return ""


# --- what the aggregator publishes ---------------------------------------------------------------


def encode_snapshot(snapshot: MetricsSnapshot) -> bytes:
    """Encode one `sn/1` frame."""
    return SNAPSHOTS + _ENCODER.encode(snapshot)


def decode_snapshot(frame: _Bytes) -> MetricsSnapshot:
    """Decode one `sn/1` frame."""
    payload = _payload(frame, SNAPSHOTS)
    try:
        snapshot = _SNAPSHOT.decode(payload)
    except BAD_INPUT as error:
        raise _unreadable(error, _map_version(payload)) from None
    if not may_talk(snapshot.protocol):
        raise _wrong_version(snapshot.protocol)
    return snapshot


def encode_stream_record(record: StreamRecord) -> bytes:
    """Encode one `rec/1` frame."""
    return RECORDS + _ENCODER.encode(record)


def decode_stream_record(frame: _Bytes) -> StreamRecord:
    """Decode one `rec/1` frame."""
    payload = _payload(frame, RECORDS)
    try:
        record = _STREAM.decode(payload)
    except BAD_INPUT as error:
        raise _unreadable(error, _array_version(payload)) from None
    if not may_talk(record.version):
        raise _wrong_version(record.version)
    return record


def encode_interval(interval: Interval) -> bytes:
    """Encode one interval of history, as in a `history` response and, if it is short, on disk."""
    return _ENCODER.encode(interval)


def decode_interval(data: Raw | _Bytes) -> Interval:
    """Decode an interval and check that its columns fit together."""
    try:
        interval = _INTERVAL.decode(data)
    except BAD_INPUT as error:
        raise Malformed(Reason.FRAME_UNREADABLE, str(error)) from None
    if not fits_together(interval):
        raise Malformed(Reason.FRAME_UNREADABLE, "the columns of an interval don't fit together")
    return interval


# --- control -------------------------------------------------------------------------------------


def encode_control(message: Request | Response) -> bytes:
    return _ENCODER.encode(message)


def decode_request(data: _Bytes) -> Request:
    """Decode a request of a peer. After `Malformed`, `control_head` gives id and type for the error reply."""
    if len(data) > limits.FRAME_BYTES:
        raise Malformed(Reason.FRAME_TOO_LARGE, f"{len(data)} bytes")
    return _decode_control(_REQUEST, data)


def decode_response(data: _Bytes) -> Response:
    """Decode a response or push of the aggregator.

    Types of a newer minor version raise `Malformed`; callers skip them.
    """
    return _decode_control(_RESPONSE, data)


def control_head(data: _Bytes) -> ControlHead:
    """Return id, type and version of a control message as far as they can be read. Never raises."""
    try:
        return _CONTROL_HEAD.decode(data)
    except BAD_INPUT:
        return _what_is_left(data)


# --- files ---------------------------------------------------------------------------------------


def encode_note(note: Note) -> bytes:
    """Encode the content of a NOTE frame of the journal."""
    return _ENCODER.encode(note)


def decode_note(data: _Bytes) -> Note:
    try:
        return _NOTE.decode(data)
    except BAD_INPUT as error:
        raise _unreadable(error, control_head(data).version) from None


def encode_logged(logged: LoggedRecords) -> bytes:
    """Encode the content of a frame of the request log."""
    return _ENCODER.encode(logged)


def decode_logged(data: _Bytes) -> LoggedRecords:
    """Decode the content of a frame of the request log; its records stay raw."""
    try:
        return _LOGGED.decode(data)
    except BAD_INPUT as error:
        raise Malformed(Reason.FRAME_UNREADABLE, str(error)) from None


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Encode the content of a CHECKPOINT frame of the journal."""
    return _ENCODER.encode(checkpoint)


def decode_checkpoint(data: _Bytes) -> Checkpoint:
    """Decode a checkpoint; the aggregator's numbers stay raw.

    Raises `Malformed`, with WRONG_VERSION for another schema version.
    """
    try:
        head = _MAP_HEAD.decode(data)
        if head.schema_version != SCHEMA:
            raise Malformed(Reason.WRONG_VERSION, f"schema_version {head.schema_version}, not {SCHEMA}")
        return _CHECKPOINT.decode(data)
    except BAD_INPUT as error:
        raise Malformed(Reason.FRAME_UNREADABLE, str(error)) from None


def snapshot_to_json(snapshot: MetricsSnapshot) -> bytes:
    """Return the snapshot as one line of strict JSON (no NaN, no infinity), with the field names of the wire."""
    return msgspec.json.encode(snapshot)


def snapshot_from_json(data: bytes) -> MetricsSnapshot:
    """Read a snapshot from JSON. Raises `Malformed`, with WRONG_VERSION for another schema version."""
    try:
        head = msgspec.json.decode(data, type=_MapHead)
        if head.schema_version != SCHEMA:
            raise Malformed(Reason.WRONG_VERSION, f"schema_version {head.schema_version}, not {SCHEMA}")
        check_numbers(msgspec.json.decode(data))
        return msgspec.json.decode(data, type=MetricsSnapshot)
    except BAD_INPUT as error:
        raise Malformed(Reason.FRAME_UNREADABLE, str(error)) from None


def check_numbers(document: Any) -> None:
    """Raise ValueError for a whole number beyond the range of float: JSON can hold it, arithmetic fails with it."""
    left = [document]
    while left:
        value = left.pop()
        if type(value) is dict:
            left += value.values()
        elif type(value) is list:
            left += value
        elif type(value) is int and not -_LARGEST <= value <= _LARGEST:
            raise ValueError("the value does not fit in a float")


# --- common --------------------------------------------------------------------------------------


def _payload(frame: _Bytes, topic: bytes) -> memoryview:
    if not has_topic(frame, topic):
        raise Malformed(Reason.WRONG_TOPIC, repr(bytes(frame[:TOPIC_BYTES])))
    return payload(frame)


def _decode_control(decoder: msgspec.msgpack.Decoder[_T], data: _Bytes) -> _T:
    try:
        return decoder.decode(data)
    except BAD_INPUT as error:
        raise _unreadable(error, control_head(data).version) from None


def _unreadable(error: Exception, version: Version | None) -> Malformed:
    if version is not None and not may_talk(version):
        return _wrong_version(version)
    return Malformed(Reason.FRAME_UNREADABLE, str(error))


def _wrong_version(version: Version) -> Malformed:
    return Malformed(Reason.WRONG_VERSION, f"the peer speaks {version[0]}.{version[1]}")


def _array_version(payload: memoryview) -> Version | None:
    try:
        return _ARRAY_HEAD.decode(payload).version
    except BAD_INPUT:
        return None


def _what_is_left(data: _Bytes) -> ControlHead:
    """Read each field separately: one unreadable field must not hide the others."""
    fields: dict[str, Any] = {}
    for decoder in (_ID_HEAD, _TYPE_HEAD, _VERSION_HEAD):
        with suppress(*BAD_INPUT):
            fields |= asdict(decoder.decode(data))
    return ControlHead(**fields)


def _map_version(payload: memoryview) -> Version | None:
    try:
        return _MAP_HEAD.decode(payload).protocol
    except BAD_INPUT:
        return None


TOPIC_BYTES: Final = 8


def topic(name: str) -> bytes:
    """Return the fixed-width prefix for a topic name of at most 8 ASCII characters."""
    raw = name.encode("ascii")
    if len(raw) > TOPIC_BYTES:
        raise ValueError(f"topic {name!r} is longer than {TOPIC_BYTES} bytes")
    return raw.ljust(TOPIC_BYTES, b"\0")


EVENTS: Final = topic("ev/1")
SNAPSHOTS: Final = topic("sn/1")
RECORDS: Final = topic("rec/1")


def has_topic(frame: bytes | bytearray | memoryview, expected: bytes) -> bool:
    return bytes(frame[:TOPIC_BYTES]) == expected


def payload(frame: bytes | bytearray | memoryview) -> memoryview:
    """Return the bytes after the topic, without a copy."""
    return memoryview(frame)[TOPIC_BYTES:]
