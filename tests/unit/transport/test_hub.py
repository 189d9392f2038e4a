"""The aggregator's sockets: binding, bounds, and leaving nothing behind."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import zmq

from telemetry.errors import EndpointError, KeysError
from telemetry.transport import ControlClient, Hub, plan, sockets
from telemetry.transport import hub as hub_module
from telemetry.transport.keys import KeyFolder, is_key
from telemetry.wire import codec
from telemetry.wire.control import Ping

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
    """A lock on a file that was removed meanwhile is taken again, because its name has a new file."""
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
    """A missing folder is an error, because the operator has to make it."""
    with pytest.raises(EndpointError, match=r"can't create .*: No such file"):
        Hub(plan(f"ipc://{short_dir}/no/c", "r"))


def test_a_port_that_is_taken_is_named() -> None:
    """A port that is taken is named in the error. An address that leaves the port open gets a free one."""
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
    with pytest.raises(EndpointError, match="is not an address of this machine"):
        Hub(plan("tcp://192.0.2.1:*", "r"), insecure=True)
    with pytest.raises(EndpointError, match="other machines can connect to"):
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
    """A reply to a peer that is gone is dropped without an error."""
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
            source.send(codec.EVENTS + bytes([number]) * 92)
        wait_until(lambda: hub.wait(0.0).events, what="events")
        got: list[bytes] = []
        while len(got) < 10:
            hub.wait(1.0)
            part = hub.receive_events(3, 10_000)
            assert len(part) <= 3
            got += part
        assert [frame[-1] for frame in got] == list(range(10))
        for _ in range(4):
            source.send(codec.EVENTS + bytes(92))
        wait_until(lambda: hub.wait(0.0).events, what="events")
        assert len(hub.receive_events(100, 150)) <= 2


def test_frames_of_other_topics_stay_outside(hub: Hub, wait_until: WaitUntil) -> None:
    """The subscription is the first filter."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as source:
        source.setsockopt(zmq.LINGER, 0)
        source.connect(hub.endpoints.events)
        wait_until(lambda: hub.wait(0.0) and source.poll(10), what="the subscription")
        source.send(codec.SNAPSHOTS + b"x")
        source.send(codec.EVENTS + b"y")
        wait_until(lambda: hub.wait(0.0).events, what="events")
        assert hub.receive_events(10, 1_000) == [codec.EVENTS + b"y"]


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
        source.send(codec.EVENTS + b"x")
        wait_until(lambda: hub.wait(0.0).events, what="events")
        assert not hub.wait(0.0, events=False).events
        assert hub.wait(0.0).events


# --- with keys -----------------------------------------------------------------------------------


@pytest.fixture
def locked(become: Callable[[str], KeyFolder]) -> Iterator[Hub]:
    """A hub that demands keys; the process is its owner's."""
    made = Hub(plan("tcp://127.0.0.1:*", "r"), keys=become("owner"))
    yield made
    made.close()


def test_peers_are_told_the_key_and_the_sockets_are_not(locked: Hub) -> None:
    """Peers are told the address with the key, which is for those who connect.

    The bound address has no key, so that another process can bind it again to go on with the run.
    """
    bound, _, key = locked.address.partition("#")
    assert bound == locked.endpoints.control
    assert is_key(key)
    assert not any("#" in address for address in vars(locked.endpoints).values())
    assert (locked.trusted, locked.refused) == (0, 0)


def test_a_handshake_does_not_end_the_wait(locked: Hub, become: Callable[[str], KeyFolder]) -> None:
    """The loop is woken for what it can read; whoever is refused meanwhile is none of its business."""
    become("stranger")
    with ControlClient(locked.address):
        begun = time.monotonic()
        while not locked.refused:
            before = time.monotonic()
            assert locked.wait(0.2) == (False, False, [])
            assert time.monotonic() - before >= 0.19
            assert time.monotonic() - begun < 20.0


def test_without_keys_to_use_nothing_is_bound(short_dir: Path) -> None:
    """A hub without a pair of keys opens no socket. An address that others reach is refused without keys."""
    with pytest.raises(KeysError, match="telemetry keys new"):
        Hub(plan("tcp://127.0.0.1:*", "r"), keys=KeyFolder(short_dir / "none"))


def test_files_and_pipes_are_not_encrypted(short_dir: Path, become: Callable[[str], KeyFolder]) -> None:
    """An ipc address has the mode of its folder for a guard, and stays as it is."""
    hub = Hub(plan(f"ipc://{short_dir}/c", "r"), keys=become("owner"))
    assert hub.address == f"ipc://{short_dir}/c"
    with zmq.Context() as context, dealer(context, hub, b"p") as peer:
        peer.send(b"plain")
        assert hub.wait(5.0).control
    hub.close()


@pytest.mark.slow
def test_a_port_that_is_lost_in_a_cut_is_named(
    locked: Hub, become: Callable[[str], KeyFolder], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process was faster by chance or on purpose: the run can't go on unheard."""
    owner, ann = become("owner"), become("ann")
    owner.trust("ann", ann.own().public.decode())
    thieves: list[socket.socket] = []
    bind_again = hub_module._bind_again

    def too_late(made: sockets.ZmqSocket, endpoint: str) -> None:
        host, _, port = endpoint.removeprefix("tcp://").rpartition(":")
        while not thieves:
            with suppress(OSError):
                thieves.append(socket.create_server((host, int(port))))
            time.sleep(0.001)
        bind_again(made, endpoint)

    monkeypatch.setattr(hub_module, "_bind_again", too_late)
    monkeypatch.setattr(hub_module, "_REBIND_S", 0.05)

    def wait_for_ever() -> None:
        while True:
            locked.wait(0.1)

    with ControlClient(locked.address) as client:
        with pytest.raises(EndpointError, match="no aggregator answered at"):
            client.request(Ping(), 0.01)
        while not locked.wait(0.1).control:
            pass
        owner.revoke("ann")
        with pytest.raises(EndpointError, match="in use"):
            wait_for_ever()
    thieves[0].close()
