"""Bytes of an endpoints benchmark → events. Pure: no socket, no clock, no run.

A message is a topic of 40 bytes, padded with NUL, and one msgpack value: an event, or under the topic `batch` a
list of events that are encoded already. An event is a map; what it carries is an array that begins with its type.
Fields and types that are not known here are passed over, for the other side has no version numbers.
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
"""Known, and of no meaning here."""
TOOL_FINISHES: Final = frozenset({"tool_calls", "function_call"})
"""Finish reasons of answers that call tools. Versions that publish no calls give such answers an empty text."""
KNOWN: Final = (
    frozenset({STARTED, ENDED, INTERRUPTED, TRACKING_BEGINS, TRACKING_ENDS, ISSUED, FIRST, CHUNK, COMPLETE})
    | ERRORS
    | SILENT
)

Reason = Literal["frame", "batch", "event", "unknown_event", "data"]
_NIL: Final = Raw(b"\xc0")
_NOTHING: Final = (b"\xc0", b"\x90")
"""nil and an empty array."""
_Id = Annotated[str, Meta(max_length=limits.FEED_ID_CHARS)]


class Event(Struct, frozen=True, gc=False):
    """One event. `timestamp_ns` is monotonic, of the machine that the benchmark runs on."""

    event_type: Annotated[str, Meta(max_length=TOPIC_BYTES)]
    timestamp_ns: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
    sample_uuid: _Id = ""
    """Empty for what is about no request."""
    conversation_id: _Id = ""
    turn: int | None = None
    data: Raw = _NIL
    """Undecoded: see `data_of`."""
    finish_reason: str | None = None


class Refused(NamedTuple):
    """Bytes that are no event."""

    reason: Reason


class Prompt(Struct, tag="PromptData", array_like=True, frozen=True, gc=False):
    text: str | None = None
    token_ids: Raw = _NIL

    @property
    def tokens(self) -> int | None:
        """How many ids there are; None if the prompt is not given as ids."""
        return _array_length(self.token_ids)


class Output(Struct, tag="TextModelOutput", array_like=True, frozen=True):
    output: str | list[str] = ""
    """A list if it was streamed: the chunks."""
    reasoning: str | list[str] | None = None
    tool_calls: Raw = _NIL
    """An array: the calls, or the chunks of them."""

    @property
    def calls_tools(self) -> bool:
        """Whether there is more to the answer than its text."""
        return bytes(self.tool_calls) not in _NOTHING

    @property
    def text(self) -> str:
        """All that was generated, in order."""
        return _joined(self.reasoning or "") + _joined(self.output)


class Failure(Struct, tag="ErrorData", array_like=True, frozen=True, gc=False):
    error_type: str = ""
    error_message: str = ""


Data = Prompt | Output | Failure

_BATCH: Final = msgspec.msgpack.Decoder(Annotated[list[bytes], Meta(max_length=limits.FEED_BATCH_EVENTS)])
_EVENT: Final = msgspec.msgpack.Decoder(Event)
_DATA: Final[msgspec.msgpack.Decoder[Data | None]] = msgspec.msgpack.Decoder(Data | None)


def decode(frame: bytes) -> Iterator[Event | Refused]:
    """The events of a message in order, and what is none of them in its place. Never raises.

    A batch whose list can't be read is refused as one, whatever it held.
    """
    if len(frame) <= TOPIC_BYTES:
        yield Refused("frame")
        return
    payload = memoryview(frame)[TOPIC_BYTES:]
    if not frame.startswith(BATCH):
        yield _event(payload)
        return
    try:
        parts = _BATCH.decode(payload)
    except BAD_INPUT:
        yield Refused("batch")
        return
    for part in parts:
        yield _event(part)


def data_of(event: Event) -> Data | Refused | None:
    """What the event carries; None for nothing. Never raises."""
    try:
        return _DATA.decode(event.data)
    except BAD_INPUT:
        return Refused("data")


def _event(payload: bytes | memoryview) -> Event | Refused:
    try:
        event = _EVENT.decode(payload)
    except BAD_INPUT:
        return Refused("event")
    return event if event.event_type in KNOWN else Refused("unknown_event")


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _array_length(raw: Raw) -> int | None:
    """Elements of an encoded array, read off its head; None if it is no array."""
    head = memoryview(raw)
    kind = head[0]
    if kind >> 4 == 0x9:
        return kind & 0x0F
    width = {0xDC: 2, 0xDD: 4}.get(kind)
    return None if width is None else int.from_bytes(head[1 : 1 + width], "big")
