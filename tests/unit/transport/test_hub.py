"""The aggregator's sockets: binding, bounds, and leaving nothing behind."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import zmq

from telemetry.errors import EndpointError
from telemetry.transport import Hub, plan
from telemetry.wire import frames

WaitUntil = Callable[..., object]


def dealer(context: zmq.Context[zmq.Socket[bytes]], hub: Hub, name: bytes) -> zmq.Socket[bytes]:
    made = context.socket(zmq.DEALER)
    made.setsockopt(zmq.ROUTING_ID, name)
    made.setsockopt(zmq.LINGER, 0)
    made.connect(hub.endpoints.control)
    return made


def test_a_second_aggregator_on_one_path_is_refused(short_dir: Path) -> None:
    """ZeroMQ would let it steal the address; the lock does not, and the first goes on."""
    where = plan(f"ipc://{short_dir}/c", "r")
    first = Hub(where)
    with pytest.raises(EndpointError, match="in use by another aggregator"):
        Hub(where)
    with zmq.Context() as context, dealer(context, first, b"a") as peer:
        peer.send(b"still there")
        assert first.wait(5.0).control
    first.close()
    Hub(where).close()


def test_a_lock_whose_holder_died_is_no_obstacle(short_dir: Path) -> None:
    """The kernel lets go of the lock; file and socket that were left behind are taken over."""
    (short_dir / "c.lock").write_text("")
    with socket.socket(socket.AF_UNIX) as left_behind:
        left_behind.bind(f"{short_dir}/c")
    Hub(plan(f"ipc://{short_dir}/c", "r")).close()


def test_a_lock_file_removed_by_its_holder_is_not_held(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who locks a file that was removed meanwhile locks again: the name has another file now."""
    path = short_dir / "c.lock"
    real = fcntl.flock
    removed: list[int] = []

    def flock(fd: int, operation: int) -> None:
        if not removed:
            removed.append(fd)
            path.unlink()
        real(fd, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    hub = Hub(plan(f"ipc://{short_dir}/c", "r"))
    assert path.exists()
    hub.close()


def test_a_file_is_not_replaced_by_a_socket(short_dir: Path) -> None:
    """ZeroMQ would delete it."""
    (short_dir / "c").write_text("precious")
    with pytest.raises(EndpointError, match="is a file"):
        Hub(plan(f"ipc://{short_dir}/c", "r"))
    assert (short_dir / "c").read_text() == "precious"


def test_a_folder_that_does_not_exist_is_named(short_dir: Path) -> None:
    """It is the operator's to make."""
    with pytest.raises(EndpointError, match="can't be made: No such file"):
        Hub(plan(f"ipc://{short_dir}/no/c", "r"))


def test_a_port_that_is_taken_is_named() -> None:
    """And a free one is chosen where the address leaves it open."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(EndpointError, match=f"{port} is in use"):
            Hub(plan(f"tcp://127.0.0.1:{port}", "r"))
    hub = Hub(plan("tcp://127.0.0.1:*", "r"))
    ports = {address.rpartition(":")[2] for address in vars(hub.endpoints).values()}
    hub.close()
    assert len(ports) == 4
    assert all(port.isdecimal() for port in ports)


def test_addresses_that_are_not_ours_to_bind() -> None:
    """Another machine's address, and one that others could reach."""
    with pytest.raises(EndpointError, match="no address of this machine"):
        Hub(plan("tcp://192.0.2.1:*", "r"), insecure=True)
    with pytest.raises(EndpointError, match="can be reached from other machines"):
        Hub(plan("tcp://192.0.2.1:*", "r"))


def test_closing_removes_sockets_locks_and_the_runs_own_folder(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that the user named stays."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(short_dir))
    hub = Hub(plan(None, "r9"))
    hub.close()
    hub.close()
    assert list((short_dir / "telemetry").iterdir()) == []
    (short_dir / "mine").mkdir()
    Hub(plan(f"ipc://{short_dir}/mine/c", "r")).close()
    assert list((short_dir / "mine").iterdir()) == []


def test_control_messages_come_with_their_peer(hub: Hub) -> None:
    """A message of several frames is none: its data is empty, which nothing decodes to."""
    with zmq.Context() as context, dealer(context, hub, b"p1") as peer:
        peer.send(b"one")
        peer.send_multipart([b"two", b"parts"])
        got: list[tuple[bytes, bytes]] = []
        while len(got) < 2:
            hub.wait(1.0)
            got += hub.receive_control(1)
        assert got == [(b"p1", b"one"), (b"p1", b"")]
        assert hub.send_control(b"p1", b"reply")
        assert peer.poll(5_000)
        assert peer.recv() == b"reply"


def test_a_peer_that_is_gone_is_an_answer_not_an_error(hub: Hub) -> None:
    """Nobody is owed a reply for ever."""
    assert hub.send_control(b"nobody", b"x") is False


def test_a_peer_that_reads_nothing_is_full_one_day(hub: Hub) -> None:
    """The aggregator does not wait for it."""
    with zmq.Context() as context, dealer(context, hub, b"p") as peer:
        peer.send(b"hi")
        hub.wait(5.0)
        sent = 0
        while hub.send_control(b"p", bytes(10_000)):
            sent += 1
        assert sent > 100


def test_who_comes_back_with_the_same_id_takes_over(hub: Hub) -> None:
    """A producer that reconnects is the one that gets the answers."""
    with zmq.Context() as context, dealer(context, hub, b"p") as old:
        old.send(b"1")
        assert hub.wait(5.0).control
        assert hub.receive_control(1) == [(b"p", b"1")]
        with dealer(context, hub, b"p") as new:
            new.send(b"2")
            assert hub.wait(5.0).control
            assert hub.receive_control(1) == [(b"p", b"2")]
            assert hub.send_control(b"p", b"yours")
            assert new.poll(5_000)


def test_events_are_drained_within_bounds(hub: Hub, wait_until: WaitUntil) -> None:
    """A turn takes at most so many frames and about so many bytes."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as source:
        source.setsockopt(zmq.LINGER, 0)
        source.connect(hub.endpoints.events)
        wait_until(lambda: hub.wait(0.0) and source.poll(10), what="the subscription")
        for number in range(10):
            source.send(frames.EVENTS + bytes([number]) * 92)
        wait_until(lambda: hub.wait(0.0).events, what="events")
        got: list[bytes] = []
        while len(got) < 10:
            hub.wait(1.0)
            part = hub.receive_events(3, 10_000)
            assert len(part) <= 3
            got += part
        assert [frame[-1] for frame in got] == list(range(10))
        for _ in range(4):
            source.send(frames.EVENTS + bytes(92))
        wait_until(lambda: hub.wait(0.0).events, what="events")
        assert len(hub.receive_events(100, 150)) <= 2


def test_frames_of_other_topics_stay_outside(hub: Hub, wait_until: WaitUntil) -> None:
    """The subscription is the first filter."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as source:
        source.setsockopt(zmq.LINGER, 0)
        source.connect(hub.endpoints.events)
        wait_until(lambda: hub.wait(0.0) and source.poll(10), what="the subscription")
        source.send(frames.SNAPSHOTS + b"x")
        source.send(frames.EVENTS + b"y")
        wait_until(lambda: hub.wait(0.0).events, what="events")
        assert hub.receive_events(10, 1_000) == [frames.EVENTS + b"y"]


def test_waiting_ends_for_a_watched_descriptor(hub: Hub) -> None:
    """Signals and worker results arrive through pipes."""
    reader, writer = os.pipe()
    try:
        hub.watch(reader)
        assert hub.wait(0.0) == (False, False, [])
        os.write(writer, b"!")
        assert hub.wait(5.0).fds == [reader]
        hub.unwatch(reader)
        assert hub.wait(0.0).fds == []
    finally:
        os.close(reader)
        os.close(writer)


def test_events_can_be_left_in_the_socket(hub: Hub, wait_until: WaitUntil) -> None:
    """An aggregator that finalizes listens to control alone."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as source:
        source.setsockopt(zmq.LINGER, 0)
        source.connect(hub.endpoints.events)
        wait_until(lambda: hub.wait(0.0) and source.poll(10), what="the subscription")
        source.send(frames.EVENTS + b"x")
        wait_until(lambda: hub.wait(0.0).events, what="events")
        assert not hub.wait(0.0, events=False).events
        assert hub.wait(0.0).events
