"""The only encoders and decoders. Decoding raises `Malformed`, whatever was wrong with the bytes."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from telemetry import limits
from telemetry.ledger import Reason
from telemetry.wire import frames
from telemetry.wire.control import Request, Response
from telemetry.wire.events import RECORD_DECODER, EventBatch, EventRecord, OutgoingBatch, StreamRecord
from telemetry.wire.snapshot import MetricsSnapshot
from telemetry.wire.version import may_talk

_T = TypeVar("_T")

_BAD_INPUT: Final = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError, ValueError)
"""msgspec raises RecursionError for deep nesting and UnicodeDecodeError for bad text, neither of them its own."""

_ENCODER: Final = msgspec.msgpack.Encoder()
_BATCH: Final = msgspec.msgpack.Decoder(EventBatch)
_SNAPSHOT: Final = msgspec.msgpack.Decoder(MetricsSnapshot)
_STREAM: Final = msgspec.msgpack.Decoder(StreamRecord)
_REQUEST: Final[msgspec.msgpack.Decoder[Request]] = msgspec.msgpack.Decoder(Request)
_RESPONSE: Final[msgspec.msgpack.Decoder[Response]] = msgspec.msgpack.Decoder(Response)


class Malformed(Exception):
    """Bytes that are no message of ours. `reason` is what the ledger counts."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def encode_batch(batch: OutgoingBatch) -> bytearray:
    """One `ev/1` frame."""
    frame = bytearray(frames.EVENTS)
    _ENCODER.encode_into(batch, frame, frames.TOPIC_BYTES)
    return frame


def decode_batch(frame: bytes | bytearray | memoryview) -> EventBatch:
    """One `ev/1` frame; records and rows stay raw."""
    if len(frame) > limits.FRAME_BYTES:
        raise Malformed(Reason.FRAME_TOO_LARGE, f"{len(frame)} bytes")
    if not frames.has_topic(frame, frames.EVENTS):
        raise Malformed(Reason.WRONG_TOPIC, repr(bytes(frame[: frames.TOPIC_BYTES])))
    try:
        batch = _BATCH.decode(frames.payload(frame))
    except _BAD_INPUT as error:
        raise Malformed(Reason.FRAME_UNREADABLE, str(error)) from None
    if not may_talk(batch.version):
        raise Malformed(Reason.WRONG_VERSION, f"{batch.version}")
    return batch


def decode_record(raw: Raw | bytes) -> EventRecord:
    """One record of a batch."""
    try:
        return RECORD_DECODER.decode(raw)
    except _BAD_INPUT as error:
        raise Malformed(Reason.MALFORMED_RECORD, str(error)) from None


def encode_snapshot(snapshot: MetricsSnapshot) -> bytes:
    """One `sn/1` frame."""
    return frames.SNAPSHOTS + _ENCODER.encode(snapshot)


def decode_snapshot(frame: bytes | memoryview) -> MetricsSnapshot:
    return _decode_published(_SNAPSHOT, frame, frames.SNAPSHOTS)


def encode_stream_record(record: StreamRecord) -> bytes:
    """One `rec/1` frame."""
    return frames.RECORDS + _ENCODER.encode(record)


def decode_stream_record(frame: bytes | memoryview) -> StreamRecord:
    return _decode_published(_STREAM, frame, frames.RECORDS)


def encode_control(message: Request | Response) -> bytes:
    return _ENCODER.encode(message)


def decode_request(data: bytes | memoryview) -> Request:
    return _decode_control(_REQUEST, data)


def decode_response(data: bytes | memoryview) -> Response:
    return _decode_control(_RESPONSE, data)


def snapshot_to_json(snapshot: MetricsSnapshot) -> bytes:
    """Strict JSON (no NaN, no infinity), one line, the names of the wire."""
    return msgspec.json.encode(snapshot)


def snapshot_from_json(data: bytes) -> MetricsSnapshot:
    try:
        return msgspec.json.decode(data, type=MetricsSnapshot)
    except _BAD_INPUT as error:
        raise Malformed(Reason.FRAME_UNREADABLE, str(error)) from None


def _decode_published(decoder: msgspec.msgpack.Decoder[_T], frame: bytes | memoryview, topic: bytes) -> _T:
    if not frames.has_topic(frame, topic):
        raise Malformed(Reason.WRONG_TOPIC, repr(bytes(frame[: frames.TOPIC_BYTES])))
    try:
        return decoder.decode(frames.payload(frame))
    except _BAD_INPUT as error:
        raise Malformed(Reason.FRAME_UNREADABLE, str(error)) from None


def _decode_control(decoder: msgspec.msgpack.Decoder[_T], data: bytes | memoryview) -> _T:
    if len(data) > limits.FRAME_BYTES:
        raise Malformed(Reason.FRAME_TOO_LARGE, f"{len(data)} bytes")
    try:
        return decoder.decode(data)
    except _BAD_INPUT as error:
        raise Malformed(Reason.FRAME_UNREADABLE, str(error)) from None
