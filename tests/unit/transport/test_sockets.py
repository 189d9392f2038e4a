"""The option table reaches the sockets."""

from __future__ import annotations

import pytest
import zmq

from telemetry import limits
from telemetry.errors import EndpointError
from telemetry.transport import sockets

KINDS = [
    sockets.EVENTS_IN,
    sockets.EVENTS_OUT,
    sockets.CONTROL_IN,
    sockets.CONTROL_OUT,
    sockets.SNAPSHOTS_OUT,
    sockets.SNAPSHOTS_IN,
    sockets.NEWEST_SNAPSHOT_IN,
    sockets.RECORDS_OUT,
]
READABLE = {zmq.SNDHWM, zmq.RCVHWM, zmq.MAXMSGSIZE, zmq.IMMEDIATE}


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_set(kind: sockets.SocketKind) -> None:
    """Options that can be read back are what the table says."""
    with zmq.Context() as context, sockets.make_socket(context, kind, 5, b"me") as made:
        assert made.type == kind[0]
        assert made.getsockopt(zmq.LINGER) == 5
        for option in kind[1].keys() & READABLE:
            assert made.getsockopt(option) == kind[1][option]


def test_receivers_have_a_memory_guard_above_the_frame_limit() -> None:
    """Exceeding MAXMSGSIZE disconnects the peer, so it is no protocol limit."""
    for kind in (sockets.EVENTS_IN, sockets.CONTROL_IN, sockets.CONTROL_OUT, sockets.SNAPSHOTS_IN):
        assert kind[1][zmq.MAXMSGSIZE] == limits.FRAME_BYTES_HARD > limits.FRAME_BYTES


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1", "ipc://" + "x" * 200])
def test_an_address_that_cannot_be_connected_to(address: str) -> None:
    """The error names it."""
    with (
        zmq.Context() as context,
        sockets.make_socket(context, sockets.CONTROL_OUT, 0) as made,
        pytest.raises(EndpointError, match="can't be connected to"),
    ):
        sockets.connect(made, address)


def test_ipv6_is_asked_for_by_the_address() -> None:
    """A machine without IPv6 keeps working."""
    with zmq.Context() as context, sockets.make_socket(context, sockets.CONTROL_OUT, 0) as made:
        sockets.allow_ipv6(made, "tcp://127.0.0.1:1")
        assert not made.getsockopt(zmq.IPV6)
        sockets.allow_ipv6(made, "tcp://[::1]:1")
        assert made.getsockopt(zmq.IPV6)
