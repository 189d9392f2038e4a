"""Tests of what we rely on ZeroMQ for, and of what we work around, each on real sockets."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zmq

from telemetry import limits
from telemetry.client.exit_hooks import ExitHooks
from telemetry.client.instruments import Counter
from telemetry.client.native_module import RECORDER
from telemetry.client.process import Process
from telemetry.config import EmitConfig
from telemetry.errors import EndpointError
from telemetry.testing.aggregator import FakeAggregator
from telemetry.transport import Hub, ProducerLink, Subscription, plan
from telemetry.wire import codec
from telemetry.wire.codec import encode_snapshot
from telemetry.wire.snapshot import MetricsSnapshot

WaitUntil = Callable[..., Any]
JOINS = 500
SUBSCRIBERS = 100


class Context:
    """Makes sockets and closes them all, those that a test has forgotten too."""

    def __init__(self) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._made: list[zmq.Socket[bytes]] = []

    def socket(self, kind: zmq.SocketType) -> zmq.Socket[bytes]:
        return self.keep(self._context.socket(kind))

    def keep(self, made: zmq.Socket[bytes]) -> zmq.Socket[bytes]:
        self._made.append(made)
        return made

    def close(self) -> None:
        for made in self._made:
            made.close(0)
        self._context.term()


@pytest.fixture
def context() -> Iterator[Context]:
    made = Context()
    yield made
    made.close()


@pytest.fixture
def hub(short_dir: Path) -> Iterator[Hub]:
    made = Hub(plan(f"ipc://{short_dir}/c", "r"))
    yield made
    made.close()


def snapshot(seq: int, state: Any = "LIVE") -> bytes:
    return encode_snapshot(MetricsSnapshot(run_id="r", name="job", seq=seq, state=state))


def send_until_refused(sender: zmq.Socket[bytes], most: int, size: int = 10) -> int:
    """Return how many messages a sender takes without blocking."""
    for sent in range(most):
        try:
            sender.send(bytes(size), zmq.NOBLOCK)
        except zmq.Again:
            return sent
    return most


# --- joining -------------------------------------------------------------------------------------


def test_a_publisher_that_does_not_wait_loses_its_first_messages(
    hub: Hub, context: Context, wait_until: WaitUntil
) -> None:
    """A publisher that does not wait loses its first messages without an error.

    This is why no event is sent before the subscription frame.
    """
    sender = context.socket(zmq.PUB)
    sender.connect(hub.endpoints.events)
    for number in range(100):
        sender.send(codec.EVENTS + bytes([number]), zmq.NOBLOCK)
    received: list[bytes] = []

    def late_one_came() -> bool:
        sender.send(codec.EVENTS + b"late", zmq.NOBLOCK)
        hub.wait(0.01)
        received.extend(hub.receive_events(1_000, 1 << 20))
        return bool(received)

    wait_until(late_one_came)
    assert {frame[8:] for frame in received} == {b"late"}


def test_the_first_event_of_500_joins_is_never_lost(hub: Hub, wait_until: WaitUntil) -> None:
    """A producer that waits for the subscription frame is heard from the first byte on."""
    received: list[bytes] = []
    for number in range(JOINS):
        link = ProducerLink(hub.endpoints.control, f"p{number}")
        link.connect_events(hub.endpoints.events)
        frame = codec.EVENTS + str(number).encode()
        wait_until(lambda link=link, frame=frame: hub.wait(0.0) and link.send_events(frame))
        link.close(5.0)
        received += hub.receive_events(1_000, 1 << 20)
    wait_until(lambda: received.extend(hub.receive_events(1_000, 1 << 20)) or len(received) >= JOINS)
    assert sorted(int(frame[8:]) for frame in received) == list(range(JOINS))


def test_a_bound_subscriber_that_does_not_poll_sends_no_subscription(hub: Hub, wait_until: WaitUntil) -> None:
    """An aggregator that is busy joins nobody; its producers wait, and lose nothing."""
    link = ProducerLink(hub.endpoints.control, "p")
    link.connect_events(hub.endpoints.events)
    for _ in range(20):
        link.receive_control(0.01)
        assert link.send_events(codec.EVENTS + b"x") is False
    wait_until(lambda: hub.wait(0.0) and link.send_events(codec.EVENTS + b"x"))
    wait_until(lambda: hub.receive_events(10, 1_000) == [codec.EVENTS + b"x"])
    link.close(0.0)


# --- a subscriber that does not read -------------------------------------------------------------


def test_pub_never_says_that_it_drops(context: Context, short_dir: Path) -> None:
    """Sends succeed, most messages are gone."""
    sender, receiver = context.socket(zmq.PUB), context.socket(zmq.SUB)
    sender.setsockopt(zmq.SNDHWM, 5)
    receiver.setsockopt(zmq.RCVHWM, 5)
    receiver.subscribe(b"")
    sender.bind(f"ipc://{short_dir}/p")
    receiver.connect(f"ipc://{short_dir}/p")
    while not receiver.poll(5):
        sender.send(b"join")
    assert send_until_refused(sender, 20_000, 1_000) == 20_000
    received = 0
    with suppress(zmq.Again):
        while receiver.poll(100):
            receiver.recv(zmq.NOBLOCK)
            received += 1
    assert received < 20_000


def test_xpub_with_nodrop_says_so(context: Context, short_dir: Path) -> None:
    """A full pipe is EAGAIN: the sender can keep the message."""
    sender, receiver = context.socket(zmq.XPUB), context.socket(zmq.SUB)
    sender.setsockopt(zmq.SNDHWM, 5)
    sender.setsockopt(zmq.XPUB_NODROP, 1)
    receiver.setsockopt(zmq.RCVHWM, 5)
    receiver.subscribe(b"")
    sender.bind(f"ipc://{short_dir}/p")
    receiver.connect(f"ipc://{short_dir}/p")
    assert sender.recv() == b"\x01"
    sent = send_until_refused(sender, 20_000, 1_000)
    assert sent < 20_000
    received = 0
    while received < sent:
        receiver.recv()
        received += 1
    assert not receiver.poll(50)


def test_a_stalled_aggregator_costs_exactly_what_was_counted(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    """The number of emitted events is received plus dropped, to the event.

    The newest events are dropped, or the oldest with the recorder in Python.
    """
    monkeypatch.setattr(ExitHooks, "register", lambda self: None)
    process = Process()
    counter = process.instrument("counter", "n", "", {})
    assert isinstance(counter, Counter)
    with FakeAggregator(short_dir) as aggregator:
        flusher = process.attach(aggregator.endpoint, "job", EmitConfig(flush_ms=1, buffer_events=1_000))
        flusher.wait_for_welcome(10.0)
        aggregator.reading = False
        emitted = 0

        def flood() -> bool:
            nonlocal emitted
            for _ in range(500):
                counter.add(emitted)
                emitted += 1
            return flusher.outbox.dropped.get("buffer_full", 0) > 5_000

        wait_until(flood, timeout_s=60.0, what="drops")
        aggregator.reading = True
        ending = process.finish(30.0)
        assert ending.account is not None
        [heard] = aggregator.heard.values()
        assert heard.end is not None
        dropped = sum(heard.end.dropped.values())
        assert (heard.end.emitted, ending.account.missing) == (emitted, 0)
        assert heard.received + dropped == emitted
        values = aggregator.values("n")
        assert values == sorted(values)
        assert (values[-1] == emitted - 1) is (RECORDER is None)
        assert values[0] == 0


# --- snapshots -----------------------------------------------------------------------------------


def test_a_late_subscriber_needs_only_the_next_snapshot(hub: Hub, wait_until: WaitUntil) -> None:
    """Each is whole."""
    for seq in range(50):
        hub.publish_snapshot(snapshot(seq))
    with Subscription(hub.endpoints.snapshots) as late:
        wait_until(lambda: hub.publish_snapshot(snapshot(50)) or late.recv(0.01))
        assert late.newest is not None
        assert (late.newest.seq, late.newest.name) == (50, "job")


def test_conflation_keeps_the_newest_frame(context: Context, short_dir: Path) -> None:
    """Conflation keeps the newest frame. Prefix subscription works too, because the topic is in the frame."""
    sender, receiver = context.socket(zmq.XPUB), context.socket(zmq.SUB)
    receiver.setsockopt(zmq.CONFLATE, 1)
    receiver.subscribe(codec.SNAPSHOTS)
    sender.bind(f"ipc://{short_dir}/p")
    receiver.connect(f"ipc://{short_dir}/p")
    sender.recv()
    for number in range(10):
        sender.send(codec.SNAPSHOTS + bytes([number]))
    last = b""
    while last != codec.SNAPSHOTS + bytes([9]):
        assert receiver.poll(10_000)
        last = receiver.recv()
    assert not receiver.poll(50)


def test_conflation_loses_the_topic_of_a_multipart_message(context: Context, short_dir: Path) -> None:
    """The last frame alone arrives: this is why topic and body are one frame."""
    sender, receiver = context.socket(zmq.XPUB), context.socket(zmq.SUB)
    receiver.setsockopt(zmq.CONFLATE, 1)
    receiver.subscribe(b"")
    sender.bind(f"ipc://{short_dir}/p")
    receiver.connect(f"ipc://{short_dir}/p")
    sender.recv()
    sender.send_multipart([b"topic", b"body"])
    assert receiver.poll(10_000)
    assert receiver.recv_multipart() == [b"body"]


def test_100_subscribers_all_see_the_end(hub: Hub, context: Context) -> None:
    """All subscribers see the end, and publishing waits for none of them."""
    readers = []
    for _ in range(SUBSCRIBERS):
        reader = context.socket(zmq.SUB)
        reader.setsockopt(zmq.CONFLATE, 1)
        reader.subscribe(codec.SNAPSHOTS)
        reader.connect(hub.endpoints.snapshots)
        readers.append(reader)
    done = threading.Event()

    def publish() -> None:
        seq = 0
        while not done.wait(0.01):
            seq += 1
            hub.publish_snapshot(snapshot(seq, "LIVE" if seq < 20 else "COMPLETE"))

    publisher = threading.Thread(target=publish)
    publisher.start()
    try:
        for reader in readers:
            while b"COMPLETE" not in (reader.recv() if reader.poll(20_000) else pytest.fail("no snapshot")):
                pass
    finally:
        done.set()
        publisher.join()


# --- options, binds, guards ----------------------------------------------------------------------


@pytest.mark.parametrize(("before_bind", "absorbed"), [(True, 2), (False, 1_001)])
def test_options_after_a_bind_are_too_late(context: Context, before_bind: bool, absorbed: int) -> None:
    """Options are copied when the socket is bound, so our table is applied to new sockets only."""
    receiver, sender = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    if before_bind:
        receiver.setsockopt(zmq.RCVHWM, 1)
    receiver.bind("inproc://a")
    receiver.setsockopt(zmq.RCVHWM, 1)
    sender.setsockopt(zmq.SNDHWM, 1)
    sender.connect("inproc://a")
    assert send_until_refused(sender, 5_000) == absorbed


def test_a_second_bind_steals_an_ipc_path(context: Context, short_dir: Path, wait_until: WaitUntil) -> None:
    """ZeroMQ reports no error; our lock does."""
    address = f"ipc://{short_dir}/c"
    first, second, sender = (context.socket(kind) for kind in (zmq.PULL, zmq.PULL, zmq.PUSH))
    first.bind(address)
    second.bind(address)
    sender.connect(address)
    sender.send(b"whose?")
    assert wait_until(lambda: second.poll(10))
    assert not first.poll(0)
    for made in (first, second):
        made.close(0)
    hub = Hub(plan(address, "r"))
    with pytest.raises(EndpointError, match="in use by another aggregator"):
        Hub(plan(address, "r"))
    hub.close()


def test_an_ipc_path_has_a_limit(context: Context, short_dir: Path) -> None:
    """The longest path works, one byte more is refused by ZeroMQ and named by us."""
    room = limits.IPC_PATH_BYTES - len(str(short_dir)) - 1
    longest = f"ipc://{short_dir}/{'x' * room}"
    context.socket(zmq.PULL).bind(longest)
    with pytest.raises(zmq.ZMQError, match="longer than"):
        context.socket(zmq.PULL).bind(longest + "x")
    with pytest.raises(EndpointError, match="107 bytes"):
        Hub(plan(longest, "r"))  # its siblings have suffixes


def test_an_address_that_others_could_reach_is_refused_without_being_bound() -> None:
    """Unless somebody says that this is wanted."""
    with pytest.raises(EndpointError, match="without encryption"):
        Hub(plan("tcp://0.0.0.0:*", "r"))
    hub = Hub(plan("tcp://0.0.0.0:*", "r"), insecure=True)
    assert hub.endpoints.control.startswith("tcp://0.0.0.0:")
    hub.close()


def test_a_message_above_the_guard_disconnects_its_sender(
    context: Context, short_dir: Path, wait_until: WaitUntil
) -> None:
    """A message above the guard disconnects its sender.

    This is why the guard is far above the frame limit, and larger frames are counted instead.
    """
    receiver, sender = context.socket(zmq.PULL), context.socket(zmq.PUSH)
    receiver.setsockopt(zmq.MAXMSGSIZE, 1_000)
    receiver.bind(f"ipc://{short_dir}/p")
    monitor = context.keep(sender.get_monitor_socket(zmq.EVENT_DISCONNECTED))
    sender.connect(f"ipc://{short_dir}/p")
    sender.send(bytes(1_000))
    assert receiver.poll(10_000)
    assert len(receiver.recv()) == 1_000
    sender.send(bytes(1_001))
    assert wait_until(lambda: monitor.poll(10), what="the disconnection")
    sender.send(b"after")
    assert receiver.poll(10_000)
    assert receiver.recv() == b"after"
    sender.disable_monitor()


CLOSES = """
import os, sys, time, zmq
context = zmq.Context()
socket = context.socket(zmq.XPUB)
socket.bind("tcp://127.0.0.1:*")
if sys.argv[1] == "child" and (pid := os.fork()):
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
os.closerange(3, 256)
if sys.argv[1] == "child":
    zmq.Context().socket(zmq.XPUB).bind("tcp://127.0.0.1:*")
    os._exit(7)
while True:
    socket.send(b"x")
"""


@pytest.mark.parametrize(("who", "code"), [("process", -6), ("child", 7)])
def test_a_process_that_closes_the_descriptors_of_zeromq_is_aborted(who: str, code: int) -> None:
    """The process is aborted without an exception if it closes the descriptors of ZeroMQ.

    A forked child may close them, and use a context of its own.
    """
    done = subprocess.run([sys.executable, "-c", CLOSES, who], capture_output=True, timeout=60, check=False)
    assert done.returncode == code
