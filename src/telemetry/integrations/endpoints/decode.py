"""The decoder for messages of an endpoints benchmark. Pure: no socket, no clock, no run.

A message is a topic of 40 bytes, padded with NUL, and one msgpack value: an event, or for the topic `batch` a list
of encoded events. An event is a map; its data is an array that begins with its type. Unknown fields and types are
skipped, because the benchmark's messages have no version number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta, Raw, Struct

from telemetry import limits
from telemetry.wire.codec import BAD_INPUT

TOPIC_BYTES: Final = 40
BATCH: Final = b"batch".ljust(TOPIC_BYTES, b"\0")

STARTED: Final = "session.started"
ENDED: Final = "session.ended"
INTERRUPTED: Final = "session.interrupted"
TRACKING_BEGINS: Final = "session.start_performance_tracking"
TRACKING_ENDS: Final = "session.stop_performance_tracking"
ISSUED: Final = "sample.issued"
FIRST: Final = "sample.recv_first"
CHUNK: Final = "sample.recv_non_first"
COMPLETE: Final = "sample.complete"
ERRORS: Final = frozenset({"error.generic", "error.loadgen", "error.session", "error.client"})
SILENT: Final = frozenset({"session.stop_loadgen"})
"""Known event types without a meaning for a run."""
TOOL_FINISHES: Final = frozenset({"tool_calls", "function_call"})
"""Finish reasons of answers that call tools.

Versions that omit the calls publish such answers with an empty text.
"""
KNOWN: Final = (
    frozenset({STARTED, ENDED, INTERRUPTED, TRACKING_BEGINS, TRACKING_ENDS, ISSUED, FIRST, CHUNK, COMPLETE})
    | ERRORS
    | SILENT
)

Reason = Literal["frame", "batch", "event", "unknown_event", "data"]
_NIL: Final = Raw(b"\xc0")
_NOTHING: Final = (b"\xc0", b"\x90")
"""Encodings of nil and of an empty array."""
_Id = Annotated[str, Meta(max_length=limits.FEED_ID_CHARS)]


class Event(Struct, frozen=True, gc=False):
    """An event of the benchmark. `timestamp_ns` is the monotonic clock of the benchmark's machine."""

    event_type: Annotated[str, Meta(max_length=TOPIC_BYTES)]
    timestamp_ns: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    sample_uuid: _Id = ""
    """Id of the request; empty for an event without a request."""
    conversation_id: _Id = ""
    turn: int | None = None
    data: Raw = _NIL
    """Encoded data. See `data_of`."""
    finish_reason: str | None = None


class EventRejection(NamedTuple):
    """A rejection of bytes that are not an event."""

    reason: Reason


class Prompt(Struct, tag="PromptData", array_like=True, frozen=True, gc=False):
    text: str | None = None
    token_ids: Raw = _NIL

    @property
    def tokens(self) -> int | None:
        """Number of token ids, or None if the prompt has no ids."""
        return _array_length(self.token_ids)


class ModelOutput(Struct, tag="TextModelOutput", array_like=True, frozen=True):
    output: str | list[str] = ""
    """Text, or a list of chunks if it was streamed."""
    reasoning: str | list[str] | None = None
    tool_calls: Raw = _NIL
    """Encoded array of the calls, or of their chunks."""

    @property
    def calls_tools(self) -> bool:
        """True if the answer contains tool calls."""
        return bytes(self.tool_calls) not in _NOTHING

    @property
    def text(self) -> str:
        """The whole generated text, in order."""
        return _joined(self.reasoning or "") + _joined(self.output)


class EndpointFailure(Struct, tag="ErrorData", array_like=True, frozen=True, gc=False):
    error_type: str = ""
    error_message: str = ""


Data = Prompt | ModelOutput | EndpointFailure

_BATCH: Final = msgspec.msgpack.Decoder(Annotated[list[bytes], Meta(max_length=limits.FEED_BATCH_EVENTS)])
_EVENT: Final = msgspec.msgpack.Decoder(Event)
_DATA: Final[msgspec.msgpack.Decoder[Data | None]] = msgspec.msgpack.Decoder(Data | None)


def decode(frame: bytes) -> Iterator[Event | EventRejection]:
    """Yield the events of a message in order, with a Refused in place of each invalid one. Never raises.

    An unreadable batch yields a single Refused.
    """
    if len(frame) <= TOPIC_BYTES:
        yield EventRejection("frame")
        return
    payload = memoryview(frame)[TOPIC_BYTES:]
    if not frame.startswith(BATCH):
        yield _event(payload)
        return
    try:
        parts = _BATCH.decode(payload)
    except BAD_INPUT:
        yield EventRejection("batch")
        return
    for part in parts:
        yield _event(part)


def data_of(event: Event) -> Data | EventRejection | None:
    """Decode the data of an event, or return None without data. Never raises."""
    try:
        return _DATA.decode(event.data)
    except BAD_INPUT:
        return EventRejection("data")


def _event(payload: bytes | memoryview) -> Event | EventRejection:
    try:
        event = _EVENT.decode(payload)
    except BAD_INPUT:
        return EventRejection("event")
    return event if event.event_type in KNOWN else EventRejection("unknown_event")


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _array_length(raw: Raw) -> int | None:
    """Return the length of an encoded array from its header, or None if it is not an array."""
    head = memoryview(raw)
    kind = head[0]
    if kind >> 4 == 0x9:
        return kind & 0x0F
    width = {0xDC: 2, 0xDD: 4}.get(kind)
    return None if width is None else int.from_bytes(head[1 : 1 + width], "big")
