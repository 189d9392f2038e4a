"""The option table reaches the sockets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from telemetry import limits
from telemetry.errors import EndpointError, KeysError
from telemetry.transport import sockets
from telemetry.transport.keys import KeyFolder

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


@pytest.mark.parametrize("address", ["nonsense", "tcp://127.0.0.1", "ipc://" + "x" * 200, "ipc:///\udcff"])
def test_an_address_that_cannot_be_connected_to(address: str) -> None:
    """The error names it."""
    with (
        zmq.Context() as context,
        sockets.make_socket(context, sockets.CONTROL_OUT, 0) as made,
        pytest.raises(EndpointError, match="can't connect to"),
    ):
        sockets.connect(made, address)


def test_ipv6_is_asked_for_by_the_address() -> None:
    """A machine without IPv6 keeps working."""
    with zmq.Context() as context, sockets.make_socket(context, sockets.CONTROL_OUT, 0) as made:
        sockets.allow_ipv6(made, "tcp://127.0.0.1:1")
        assert not made.getsockopt(zmq.IPV6)
        sockets.allow_ipv6(made, "tcp://[::1]:1")
        assert made.getsockopt(zmq.IPV6)


def test_an_address_with_a_key_is_encrypted_for_its_holder(become: Callable[[str], KeyFolder]) -> None:
    """An address with a key is encrypted with this user's own pair.

    The name of a trusted key stands for that key.
    """
    other = become("bob").own()
    become("ann").trust("bob", other.public.decode())
    for key in ("bob", other.public.decode()):
        with zmq.Context() as context, sockets.make_socket(context, sockets.CONTROL_OUT, 0) as made:
            sockets.connect(made, f"tcp://127.0.0.1:1#{key}")
            assert made.getsockopt(zmq.MECHANISM) == zmq.CURVE


def test_an_address_without_one_is_not(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address without a key is not encrypted and needs no keys: none are read."""
    monkeypatch.setenv("TELEMETRY_SECURITY__KEYS_DIR", str(short_dir / "none"))
    with zmq.Context() as context, sockets.make_socket(context, sockets.CONTROL_OUT, 0) as made:
        sockets.connect(made, "tcp://127.0.0.1:1")
        assert made.getsockopt(zmq.MECHANISM) == zmq.NULL


def test_keys_that_cannot_be_used_are_an_error_at_once(
    short_dir: Path, become: Callable[[str], KeyFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing pair or a name without a trusted key is an error, never a connection in the clear."""
    become("ann")
    with zmq.Context() as context, sockets.make_socket(context, sockets.CONTROL_OUT, 0) as made:
        with pytest.raises(KeysError, match="has the name bob"):
            sockets.connect(made, "tcp://127.0.0.1:1#bob")
        monkeypatch.setenv("TELEMETRY_SECURITY__KEYS_DIR", str(short_dir / "none"))
        with pytest.raises(KeysError, match="keys new"):
            sockets.connect(made, "tcp://127.0.0.1:1#bob")
