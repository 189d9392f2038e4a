"""What docs/PROTOCOL.md says about ZeroMQ itself, on real sockets of the version we run on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from telemetry.wire import frames

Socket = zmq.Socket[bytes]
Open = Callable[..., Socket]
WAIT_MS = 10_000
SUBSCRIBED = b"\x01"


@pytest.fixture
def open_socket() -> Iterator[Open]:
    """`open_socket(zmq.SUB, CONFLATE=1)`; all of them are closed after the test, without waiting for anybody."""
    context: zmq.Context[Socket] = zmq.Context()
    opened: list[Socket] = []

    def make(kind: int, **options: int) -> Socket:
        made = context.socket(kind)
        opened.append(made)
        for name, value in {"RCVTIMEO": WAIT_MS, "LINGER": 0, **options}.items():
            made.setsockopt(getattr(zmq, name), value)
        return made

    yield make
    for one in opened:
        one.close()
    context.term()


def test_a_conflating_subscriber_keeps_the_newest_frame_with_its_topic(short_dir: Path, open_socket: Open) -> None:
    """One frame, topic in front: the filter works and nothing of it is lost."""
    publisher = open_socket(zmq.XPUB, XPUB_VERBOSER=1)
    publisher.bind(f"ipc://{short_dir}/s")
    slow, every = open_socket(zmq.SUB, CONFLATE=1), open_socket(zmq.SUB)
    for subscriber in (slow, every):
        subscriber.subscribe(frames.SNAPSHOTS)
        subscriber.connect(f"ipc://{short_dir}/s")
        assert publisher.recv() == SUBSCRIBED + frames.SNAPSHOTS
    for number in range(100):
        publisher.send(frames.RECORDS + bytes([number]))
        publisher.send(frames.SNAPSHOTS + bytes([number]))
    newest = frames.SNAPSHOTS + bytes([99])
    assert [every.recv() for _ in range(100)][-1] == newest
    seen = [slow.recv()]
    while seen[-1] != newest:
        seen.append(slow.recv())
    assert all(frames.has_topic(frame, frames.SNAPSHOTS) for frame in seen)
    assert not slow.poll(0)


def test_conflation_takes_the_topic_off_a_multipart_message(short_dir: Path, open_socket: Open) -> None:
    """Only its last frame is kept, which no topic subscription lets through. So multipart is never used."""
    publisher = open_socket(zmq.XPUB, XPUB_VERBOSER=1)
    publisher.bind(f"ipc://{short_dir}/s")
    to_all, to_topic = open_socket(zmq.SUB, CONFLATE=1), open_socket(zmq.SUB, CONFLATE=1)
    for subscriber, topic in ((to_all, b""), (to_topic, frames.SNAPSHOTS)):
        subscriber.subscribe(topic)
        subscriber.connect(f"ipc://{short_dir}/s")
        assert publisher.recv() == SUBSCRIBED + topic
    publisher.send_multipart((frames.SNAPSHOTS, b"body"))
    publisher.send(frames.SNAPSHOTS + b"next")
    assert to_topic.recv() == frames.SNAPSHOTS + b"next"
    publisher.send_multipart((frames.SNAPSHOTS, b"body"))
    while (received := to_all.recv_multipart()) != [b"body"]:
        assert received == [frames.SNAPSHOTS + b"next"]


def test_what_is_sent_before_the_subscription_vanishes(short_dir: Path, open_socket: Open) -> None:
    """No error and no copy, so a producer waits for the subscription frame: after it the first message arrives."""
    producer, aggregator = open_socket(zmq.XPUB, XPUB_NODROP=1), open_socket(zmq.SUB)
    producer.connect(f"ipc://{short_dir}/e")
    for _ in range(10_000):
        producer.send(frames.EVENTS + b"early", zmq.NOBLOCK)
    aggregator.subscribe(frames.EVENTS)
    aggregator.bind(f"ipc://{short_dir}/e")
    while not producer.poll(10):
        aggregator.poll(10)  # a bound SUB sends its subscription only while somebody asks it for messages
    assert producer.recv() == SUBSCRIBED + frames.EVENTS
    producer.send(frames.EVENTS + b"late")
    assert aggregator.recv() == frames.EVENTS + b"late"


@pytest.mark.parametrize("nodrop", [0, 1])
def test_only_nodrop_says_that_a_pipe_is_full(
    nodrop: int, short_dir: Path, open_socket: Open, wait_until: Callable[..., object]
) -> None:
    """Without it, sends to a stalled peer succeed and are gone."""
    producer, stalled = open_socket(zmq.XPUB, XPUB_NODROP=nodrop, SNDHWM=4), open_socket(zmq.SUB, RCVHWM=4)
    producer.bind(f"ipc://{short_dir}/e")
    stalled.subscribe(b"")
    stalled.connect(f"ipc://{short_dir}/e")
    producer.recv()

    def refused() -> bool:
        try:
            for _ in range(1_000):
                producer.send(bytes(10_000), zmq.NOBLOCK)
        except zmq.Again:
            return True
        return False

    if nodrop:
        wait_until(refused, what="EAGAIN")
    else:
        assert not any(refused() for _ in range(20))


def test_an_option_set_after_bind_changes_nothing(short_dir: Path, open_socket: Open) -> None:
    """CONFLATE after connect is ignored: every message arrives. So options come first, always."""
    publisher, late = open_socket(zmq.XPUB), open_socket(zmq.SUB)
    publisher.bind(f"ipc://{short_dir}/s")
    late.subscribe(b"")
    late.connect(f"ipc://{short_dir}/s")
    late.setsockopt(zmq.CONFLATE, 1)
    publisher.recv()
    for number in range(10):
        publisher.send(bytes([number]))
    assert [late.recv() for _ in range(10)] == [bytes([number]) for number in range(10)]
