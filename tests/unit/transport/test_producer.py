"""A producer's link: nothing before the subscription, EAGAIN as an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from telemetry.errors import EndpointError
from telemetry.transport import Hub, ProducerLink
from telemetry.wire import codec
from telemetry.wire.codec import encode_control
from telemetry.wire.control import Ack, Ping

WaitUntil = Callable[..., object]
FRAME = codec.EVENTS + b"x" * 1_000


@pytest.fixture
def link(hub: Hub) -> Iterator[ProducerLink]:
    made = ProducerLink(hub.endpoints.control, "p1")
    yield made
    made.close(0.0)


def test_nothing_is_sent_before_the_aggregator_listens(hub: Hub, link: ProducerLink, wait_until: WaitUntil) -> None:
    """A link sends nothing before the subscription frame comes, as it would vanish without an error."""
    assert link.send_events(FRAME) is False
    link.connect_events(hub.endpoints.events)
    assert link.send_events(FRAME) is False
    wait_until(lambda: hub.wait(0.0) and link.send_events(FRAME), what="the subscription")
    wait_until(lambda: hub.wait(0.0).events, what="events")
    assert hub.receive_events(10, 10_000) == [FRAME]


def test_waiting_for_control_also_hears_the_subscription(hub: Hub, link: ProducerLink) -> None:
    """A short-lived process sends as soon as it may."""
    link.connect_events(hub.endpoints.events)
    for _ in range(1_000):
        hub.wait(0.0)
        link.receive_control(0.005)
        if link.send_events(FRAME):
            break
    else:
        pytest.fail("the subscription never came")


def test_a_full_pipe_is_an_answer(hub: Hub, link: ProducerLink, wait_until: WaitUntil) -> None:
    """The batch can be kept and sent later; once the aggregator reads, there is room again."""
    link.connect_events(hub.endpoints.events)
    wait_until(lambda: hub.wait(0.0) and link.send_events(FRAME), what="the subscription")
    sent = 1
    large = codec.EVENTS + bytes(400_000)
    while link.send_events(large):
        sent += 1
    received = 0

    def drain() -> bool:
        nonlocal received
        hub.wait(0.0)
        received += len(hub.receive_events(1_000, 1 << 30))
        return received >= sent

    wait_until(drain, what="everything that was accepted")
    assert received == sent
    wait_until(lambda: link.send_events(FRAME), what="room")


def test_moving_to_another_address_waits_for_its_subscription(hub: Hub, link: ProducerLink) -> None:
    """An aggregator that came back may listen elsewhere."""
    link.connect_events(hub.endpoints.events)
    link.connect_events("ipc:///tmp/tm-nobody-listens-here")
    assert link.send_events(FRAME) is False


def test_control_goes_both_ways(hub: Hub, link: ProducerLink) -> None:
    """Control messages go both ways, and one that can't be read is counted and skipped."""
    assert link.send_control(Ping(producer="p1"))
    assert hub.wait(5.0).control
    [(peer, _)] = hub.receive_control(10)
    assert peer == b"p1"
    hub.send_control(peer, b"noise")
    hub.send_control(peer, encode_control(Ack(epoch="e", batches=2)))
    got = link.receive_control(5.0)
    while not got:
        got = link.receive_control(5.0)
    assert got == [Ack(epoch="e", batches=2)]
    assert link.unreadable == 1


def test_an_address_that_is_none() -> None:
    """An invalid address is an error and leaves nothing open."""
    with pytest.raises(EndpointError):
        ProducerLink("nowhere", "p")
