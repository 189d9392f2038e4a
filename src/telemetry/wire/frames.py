"""Frames: a ZeroMQ message is one frame, an 8-byte NUL-padded topic, then one msgpack value.

CONFLATE keeps only the last frame of a multipart message, so a separate topic frame would be lost.
"""

from __future__ import annotations

from typing import Final

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
