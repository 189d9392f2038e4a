"""Frames: a fixed-width topic before the payload."""

from __future__ import annotations

import itertools

import pytest

from telemetry.wire import codec

TOPICS = (codec.EVENTS, codec.SNAPSHOTS, codec.RECORDS)


def test_topics_are_eight_bytes_and_none_begins_another() -> None:
    """A prefix subscription to one topic can't catch another."""
    assert [len(topic) for topic in TOPICS] == [codec.TOPIC_BYTES] * 3
    for one, other in itertools.permutations(TOPICS, 2):
        assert not other.startswith(one.rstrip(b"\0"))


def test_a_topic_that_does_not_fit_is_refused() -> None:
    """Nine characters can't be padded to eight bytes."""
    with pytest.raises(ValueError, match="longer than 8"):
        codec.topic("snapshot1")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_topic_and_payload_of_any_buffer(kind: type) -> None:
    """Frames come as bytes from tests and as memory from sockets."""
    frame = kind(codec.EVENTS + b"abc")
    assert codec.has_topic(frame, codec.EVENTS)
    assert not codec.has_topic(frame, codec.SNAPSHOTS)
    assert bytes(codec.payload(frame)) == b"abc"


@pytest.mark.parametrize("frame", [b"", b"ev/1", codec.EVENTS[:-1]])
def test_a_short_frame_has_no_topic(frame: bytes) -> None:
    """A prefix of a topic is no topic."""
    assert not codec.has_topic(frame, codec.EVENTS)


def test_the_payload_is_not_copied() -> None:
    """Four megabytes need not move to be read."""
    frame = bytearray(codec.EVENTS + b"abc")
    view = codec.payload(frame)
    frame[-1] = ord("d")
    assert bytes(view) == b"abd"
