"""A bound on connections: who is turned away, and that those who are here stay."""

from __future__ import annotations

import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from telemetry.errors import EndpointError
from telemetry.transport import ControlClient, Hub, plan
from telemetry.transport import admission as admission_module
from telemetry.transport.admission import ASIDE

WaitUntil = Callable[..., object]
ADDRESSES = ("ipc", "tcp")


@pytest.fixture
def in_use(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Says how many descriptors are open, of 2,048. One more peer, and they are counted."""
    known = [1_023]
    monkeypatch.setattr(admission_module, "open_descriptors", lambda: known[0])
    monkeypatch.setattr(admission_module, "limit_of_descriptors", lambda: 2_048)
    return known


def make_hub(kind: str, folder: Path) -> Hub:
    return Hub(plan(f"ipc://{folder}/c" if kind == "ipc" else "tcp://127.0.0.1:*", "r"))


def knock(endpoint: str) -> socket.socket:
    """A plain connection. Raises OSError if the kernel makes none."""
    if endpoint.startswith("ipc"):
        made = socket.socket(socket.AF_UNIX)
        made.connect(endpoint.removeprefix("ipc://"))
        return made
    host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=0.3)


def gets_in(endpoint: str) -> bool:
    """Return whether ZeroMQ introduces itself at the address."""
    try:
        with knock(endpoint) as peer:
            peer.settimeout(0.5)
            return peer.recv(1) == b"\xff"
    except OSError:
        return False


@pytest.mark.parametrize("kind", ADDRESSES)
def test_who_is_here_stays_and_who_comes_waits(
    kind: str, short_dir: Path, in_use: list[int], wait_until: WaitUntil
) -> None:
    """New peers are turned away while descriptors are short, and get in again later. A connected dealer goes on."""
    hub = make_hub(kind, short_dir)
    with zmq.Context() as context, context.socket(zmq.DEALER) as peer:
        peer.linger = 0
        peer.connect(hub.endpoints.control)
        peer.send(b"before")
        assert hub.wait(5.0).control
        assert gets_in(hub.endpoints.control)
        in_use[0] = 2_000
        wait_until(lambda: not gets_in(hub.endpoints.control), what="a shut address")
        assert hub.crowded.startswith("refused ")
        hub.receive_control(10)
        peer.send(b"still here")
        assert hub.wait(5.0).control
        assert hub.receive_control(10)[0][1] == b"still here"
        in_use[0] = 100
        wait_until(lambda: gets_in(hub.endpoints.control), what="an open address")
    hub.close()
    assert not list(short_dir.iterdir())


def test_control_is_the_last_to_be_shut(short_dir: Path, in_use: list[int], wait_until: WaitUntil) -> None:
    """Requests for the state or the end of a run get in when subscribers no longer do."""
    hub = make_hub("ipc", short_dir)
    in_use[0] = 1_024
    knock(hub.endpoints.snapshots).close()
    wait_until(lambda: Path(f"{short_dir}/c.sn{ASIDE}").exists(), what="a shut address")
    assert not gets_in(hub.endpoints.snapshots)
    assert gets_in(hub.endpoints.control)
    hub.close()


def test_nothing_is_said_where_there_is_room(short_dir: Path) -> None:
    """A hub with room gives no warning and makes no second name of a socket."""
    hub = make_hub("ipc", short_dir)
    with ControlClient(hub.endpoints.control):
        assert gets_in(hub.endpoints.control)
    assert hub.crowded == ""
    assert not list(short_dir.glob(f"*{ASIDE}"))
    hub.close()


def test_descriptors_are_counted(short_dir: Path) -> None:
    """One more file is one more, and the limit is the one of the process."""
    before = admission_module.open_descriptors()
    with (short_dir / "file").open("w"):
        assert admission_module.open_descriptors() == before + 1
    assert admission_module.limit_of_descriptors() == resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def test_descriptors_are_counted_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers and sandboxes may have none, and so no /dev/fd."""
    there = admission_module.open_descriptors()

    def missing(path: str) -> list[str]:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "listdir", missing)
    assert admission_module.open_descriptors() == there - 1  # the list is one itself


def test_without_room_for_peers_the_start_says_so(
    short_dir: Path, in_use: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients would only learn that no aggregator answers."""
    in_use[0] = 30
    monkeypatch.setattr(admission_module, "limit_of_descriptors", lambda: 64)
    with pytest.raises(EndpointError, match="64 open files") as caught:
        make_hub("ipc", short_dir)
    assert "ulimit -n" in caught.value.hint
    assert not list(short_dir.iterdir())
