"""The messages of an endpoints benchmark, byte by byte from the description of their format."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any


def pack(value: Any) -> bytes:
    """Encode a value as msgpack, in the forms that a benchmark uses."""
    if value is None:
        return b"\xc0"
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, str):
        text = value.encode()
        return _head(len(text), 0xA0, 32, (0xD9, 0xDA, 0xDB)) + text
    if isinstance(value, bytes):
        return _head(len(value), 0, 0, (0xC4, 0xC5, 0xC6)) + value
    if isinstance(value, list | tuple):
        return _head(len(value), 0x90, 16, (None, 0xDC, 0xDD)) + b"".join(map(pack, value))
    assert isinstance(value, dict)
    body = b"".join(pack(key) + pack(one) for key, one in value.items())
    return _head(len(value), 0x80, 16, (None, 0xDE, 0xDF)) + body


def _integer(value: int) -> bytes:
    if value < 0:
        return struct.pack(">bq", -45, value)  # 0xD3
    return bytes([value]) if value < 128 else struct.pack(">BQ", 0xCF, value)


def _head(length: int, fixed: int, below: int, wide: tuple[int | None, int, int]) -> bytes:
    if length < below:
        return bytes([fixed | length])
    if wide[0] is not None and length < 1 << 8:
        return bytes([wide[0], length])
    if length < 1 << 16:
        return struct.pack(">BH", wide[1], length)
    return struct.pack(">BI", wide[2], length)


def event(kind: str, at_ns: int, sample: str = "", data: Any = None, **more: Any) -> bytes:
    """One event as it stands in a message: every field but those that are unset."""
    fields = {
        "event_type": kind,
        "timestamp_ns": at_ns,
        "sample_uuid": sample,
        "conversation_id": more.pop("conversation", ""),
        "turn": more.pop("turn", None),
        "data": data,
    }
    return pack(fields | more)


def topic(name: str) -> bytes:
    return name.encode().ljust(40, b"\0")


def single(kind: str, *words: Any, **more: Any) -> bytes:
    """A message of one event, under its own topic."""
    return topic(kind) + event(kind, *words, **more)


def batch(events: Iterable[bytes]) -> bytes:
    """A message of several."""
    return topic("batch") + pack(list(events))


def prompt(text: str | None = None, ids: list[int] | None = None) -> list[Any]:
    return ["PromptData", text, ids]


def output(*chunks: str) -> list[Any]:
    """Return the output of a model that was streamed in chunks."""
    return ["TextModelOutput", list(chunks)]


def error(kind: str, message: str = "") -> list[Any]:
    return ["ErrorData", kind, message]
