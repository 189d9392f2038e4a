"""The messages of a socket that somebody else has bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zmq

from telemetry import limits
from telemetry.errors import EndpointError
from telemetry.transport.subscription import ForeignSubscription

WaitUntil = Callable[..., object]


class Publisher:
    """A PUB socket of a program that is not ours."""

    def __init__(self, address: str) -> None:
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.socket.bind(address)

    def await_subscriber(self) -> bytes:
        assert self.socket.poll(10_000)
        return self.socket.recv()

    def close(self) -> None:
        self.context.destroy(0)


@pytest.fixture
def address(short_dir: Path) -> str:
    return f"ipc://{short_dir}/p"


@pytest.fixture
def publisher(address: str) -> Iterator[Publisher]:
    made = Publisher(address)
    yield made
    made.close()


def test_messages_come_as_they_are(publisher: Publisher, address: str) -> None:
    """Messages come in order, whole, and with their topics."""
    with ForeignSubscription(address) as messages:
        publisher.await_subscriber()
        sent = [b"topic".ljust(40, b"\0") + bytes([number]) * number for number in range(50)]
        for message in sent:
            publisher.socket.send(message)
        assert [messages.recv(10.0) for _ in sent] == sent
        assert messages.recv(0.0) is None


def test_only_the_topics_that_were_asked_for(publisher: Publisher, address: str) -> None:
    """The other side filters by prefix."""
    with ForeignSubscription(address, (b"a",)) as messages:
        assert publisher.await_subscriber() == b"\x01a"
        publisher.socket.send(b"b1")
        publisher.socket.send(b"a1")
        assert messages.recv(10.0) == b"a1"


def test_the_other_side_may_come_later_and_go(address: str, wait_until: WaitUntil) -> None:
    """The subscription knows whether the publisher is there, and whether it ever was."""
    with ForeignSubscription(address) as messages:
        assert messages.recv(0.0) is None
        assert not messages.ever_connected
        publisher = Publisher(address)
        wait_until(lambda: messages.recv(0.01) is None and messages.connected, what="the connection")
        publisher.close()
        wait_until(lambda: messages.recv(0.01) is None and not messages.connected, what="the end of it")
        assert messages.ever_connected


def test_what_is_no_address_is_said() -> None:
    """An invalid address is an error at once, and not a long silence."""
    with pytest.raises(EndpointError, match="can't connect to"):
        ForeignSubscription("nonsense")


def test_sizes_are_bounded(address: str) -> None:
    """Both the message and how many of them wait."""
    with ForeignSubscription(address) as messages:
        assert messages._socket.getsockopt(zmq.MAXMSGSIZE) == limits.FEED_FRAME_BYTES
        assert messages._socket.getsockopt(zmq.RCVHWM) == limits.FEED_RCVHWM


def test_closing_twice_is_harmless(address: str) -> None:
    """A second close is harmless, as with every other socket of ours."""
    messages = ForeignSubscription(address)
    messages.close()
    messages.close()
