"""Peers that come and go, and connections that break: in mid-message, in mid-stream, by the thousand."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import zmq

from telemetry.testing import frame
from telemetry.transport import ControlClient, hello
from telemetry.wire.codec import encode_control
from telemetry.wire.control import End, Hello
from telemetry.wire.events import Count

RATE = 50_000
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\0" + b"NULL".ljust(20, b"\0") + bytes(32)
READY = b"\x05READY\x0bSocket-Type\0\0\0\x04XPUB"
HELLO_BYTES = GREETING + bytes((4, len(READY))) + READY
"""What a producer's ZeroMQ says first (ZMTP 3.0)."""
VISITORS, VISITS = 2_000, 3
TOPIC_BYTES = 8  # without them a message is for no subscriber
KEPT_BYTES = 48 << 20
"""What the aggregator may keep of two thousand producers, snapshots on their way included."""


def zmtp(message: bytes) -> bytes:
    """One ZeroMQ message as it is on the line."""
    return b"\x02" + len(message).to_bytes(8, "big") + message


def dead_pid() -> int:
    """Return the pid of a process that has ended."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def break_off(address: str, line: bytes, cut: int) -> None:
    """Says the first `cut` bytes to a ZeroMQ socket; no batch before it has subscribed."""
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(30)
        raw.connect(address)
        raw.sendall(line[: min(cut, len(HELLO_BYTES))])
        if cut > len(HELLO_BYTES):
            heard = b""
            while b"\x01ev/1" not in heard:
                heard += raw.recv(1 << 16)
            raw.sendall(line[len(HELLO_BYTES) : cut])


def test_producers_that_die_in_mid_batch(ground: Any, crew: Any, faults: Any, chance: random.Random) -> None:
    """Connections break at random bytes: whole batches before that are applied, what a half one held is missing to
    the event, and the sender beside them loses nothing."""
    aggregator, endpoint = ground.serve()
    sender = crew.send("job", endpoint, rate=RATE)
    events = hello(endpoint).events.removeprefix("ipc://")
    sizes = {f"dier{number}": chance.randint(1, 50) for number in range(40)}
    whole: dict[str, int] = {}
    pid = dead_pid()
    with ControlClient(endpoint) as control:
        for who, size in sizes.items():
            control.request(Hello(producer=who, host=socket.gethostname(), pid=pid))
            batches = [zmtp(frame(who, seq, seq * size, records=[Count("visits")] * size)) for seq in range(2)]
            line = HELLO_BYTES + b"".join(batches)
            cut = chance.randrange(len(line))
            break_off(events, line, cut)
            whole[who] = size * (cut >= len(line) - len(batches[1]))
    applied = sum(whole.values())
    crew.wait_until(
        lambda: sum(one.value for one in faults.status(endpoint).counters) == applied, 30.0, "whole batches"
    )
    with zmq.Context() as context, context.socket(zmq.DEALER) as asking:
        asking.connect(endpoint)
        for who, size in sizes.items():
            asking.send(encode_control(End(producer=who, batches=2, emitted=2 * size)))
        sender.end()
        sender.done()
        faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    assert final["completeness"] == "incomplete"
    accounts = {one["producer"]: one for one in final["producers"]}
    for who, size in sizes.items():
        assert (accounts[who]["applied"], accounts[who]["missing"]) == (whole[who], 2 * size - whole[who]), who
    assert faults.first_values(final, "job") == sender.sent
    assert faults.account_of(final, sender)["completeness"] == "complete"


def test_frames_cut_short_cost_nobody_else(ground: Any, crew: Any, faults: Any, chance: random.Random) -> None:
    """Messages that end too early are counted, each once; the batches around them are applied, and the events of
    the cut ones are missing."""
    aggregator, endpoint = ground.serve()
    sender = crew.send("job", endpoint, rate=RATE)
    size, cuts, rounds = 20, 0, 60
    with zmq.Context() as context, context.socket(zmq.XPUB) as events:
        events.connect(hello(endpoint).events)
        events.recv()
        for seq in range(rounds):
            data = bytes(frame("cutter", seq, seq * size, records=[Count("visits")] * size))
            cut = chance.random() < 0.5 and seq < rounds - 1
            cuts += cut
            events.send(data[: chance.randrange(TOPIC_BYTES, len(data))] if cut else data)
        crew.wait_until(
            lambda: sum(one.value for one in faults.status(endpoint).counters) == (rounds - cuts) * size
        )
    sender.end()
    sender.done()
    faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    assert sum(final["accounting"]["bad_frames"].values()) == cuts
    assert (final["completeness"], final["accounting"]["missing"]) == ("lossy", cuts * size)
    assert faults.first_values(final, "job") == sender.sent


def visitors(ground: Any, faults: Any, endpoint: str, prefix: str, how_many: int) -> subprocess.Popen[str]:
    """Start `how_many` producers that come and go, see visitors.py."""
    words = [str(faults.HERE / "visitors.py"), endpoint, prefix, str(how_many), str(VISITS)]
    return ground.popen(sys.executable, *words)


def answers(crowd: subprocess.Popen[str]) -> dict[str, int]:
    """Return the last answers that the producers of a crowd got, and how many got each."""
    out, err = crowd.communicate(timeout=100)
    assert crowd.returncode == 0, err
    return dict(json.loads(out))


def test_two_thousand_producers_come_and_go(ground: Any, crew: Any, faults: Any) -> None:
    """Each is counted and complete, and what they leave behind is small: no descriptor, and little memory."""
    aggregator, endpoint = ground.serve(environ={"TELEMETRY_RUN__ORPHAN_GRACE_S": "60"})

    def descriptors() -> int:
        """Return how many sockets are open; files of the run come and go by themselves."""
        names = (f"/proc/{aggregator.pid}/fd/{number}" for number in os.listdir(f"/proc/{aggregator.pid}/fd"))
        return sum(os.readlink(name).startswith("socket:") for name in names)

    assert answers(visitors(ground, faults, endpoint, "first", 8)) == {"ended": 8}
    before, rss_bytes = descriptors(), faults.rss_bytes(aggregator.pid)
    crowds = [visitors(ground, faults, endpoint, f"crowd{number}-", VISITORS // 2) for number in range(2)]
    assert [answers(crowd) for crowd in crowds] == [{"ended": VISITORS // 2}] * 2
    crew.wait_until(lambda: descriptors() <= before, 20.0, "closed descriptors")
    grown = faults.rss_bytes(aggregator.pid) - rss_bytes
    faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    assert len(final["producers"]) + final["folded"]["producers"] == VISITORS + 8
    assert final["accounting"]["applied"] == (VISITORS + 8) * VISITS
    assert final["completeness"] == "complete"
    assert grown < KEPT_BYTES, f"{grown / VISITORS:,.0f} bytes for each"


def test_more_producers_than_there_is_room_for_are_told_and_counted(ground: Any, faults: Any) -> None:
    """Producers that come too late are refused by name, and the result is lossy.

    Those that came before lose nothing.
    """
    room, beyond = 20, 10
    environ = faults.seam({"FAULT_LIMITS": f"PRODUCERS={room}", "TELEMETRY_RUN__ORPHAN_GRACE_S": "60"})
    aggregator, endpoint = ground.serve(environ=environ)
    assert answers(visitors(ground, faults, endpoint, "crowd", room + beyond)) == {"ended": room, "error": beyond}
    faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    assert (final["completeness"], final["accounting"]["applied"]) == ("lossy", room * VISITS)
    assert final["accounting"]["bad_frames"] == {"too_many_producers": beyond}


def test_more_producers_than_the_bound_one_after_the_other(ground: Any, faults: Any) -> None:
    """Producers that ended give up their row, and all of them are counted. The exact pass finds every value."""
    environ = faults.seam(
        {"FAULT_LIMITS": "PRODUCERS=256,PRODUCERS_LISTED=128", "TELEMETRY_RUN__ORPHAN_GRACE_S": "60"}
    )
    aggregator, endpoint = ground.serve(environ=environ)
    visits = 400
    assert answers(visitors(ground, faults, endpoint, "guest", visits)) == {"ended": visits}
    faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    assert (final["completeness"], final["exact"]) == ("complete", True)
    assert final["accounting"]["applied"] == visits * VISITS
    assert final["folded"]["producers"] + len(final["producers"]) == visits
    assert final["folded"]["producers"] >= visits - 128


class Proxy:
    """Stands between producers and the event socket of an aggregator: takes its address over, and cuts lines."""

    def __init__(self, address: str) -> None:
        self._behind = f"{address}.real"
        os.rename(address, self._behind)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen()
        self._lines: list[socket.socket] = []
        self.swallowing = False
        """What producers send is read and forgotten, but for how they introduce themselves."""
        self.swallowed = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Breaks all connections. New ones work."""
        lines, self._lines = self._lines, []
        for line in lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)
        self.swallowing = False

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.socket(socket.AF_UNIX)
            far.connect(self._behind)
            self._lines += [near, far]
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._feed_loop, args=(*pair, pair[0] is near), daemon=True).start()

    def _feed_loop(self, source: socket.socket, target: socket.socket, from_producer: bool) -> None:
        passed = 0
        with suppress(OSError), source:
            while data := source.recv(1 << 16):
                if from_producer and self.swallowing and passed > len(HELLO_BYTES):
                    self.swallowed += len(data)
                else:
                    passed += len(data)
                    target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy() -> Iterator[Callable[[str], Proxy]]:
    made: list[Proxy] = []

    def make(address: str) -> Proxy:
        made.append(Proxy(address))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_connections_cut_in_mid_stream_are_repaired(
    ground: Any, crew: Any, faults: Any, chance: random.Random, proxy: Any
) -> None:
    """Batches lost on a broken line are asked for again and arrive.

    Nothing is missing, and the result has the number of repairs.
    """
    aggregator, endpoint = ground.serve()
    line = proxy(hello(endpoint).events.removeprefix("ipc://"))
    senders = [crew.send(who, endpoint, rate=RATE) for who in "ab"]
    for _ in range(3):
        line.swallowed, line.swallowing = 0, True
        upto = chance.randint(1, 300_000)
        crew.wait_until(lambda upto=upto: line.swallowed >= upto, 30.0, "a broken line")
        line.cut()
        crew.progress(chance.choice(senders), chance.randint(1, RATE // 2))
    for sender in senders:
        sender.end()
        sender.done()
    faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    assert (final["completeness"], final["accounting"]["missing"]) == ("complete", 0)
    assert [faults.first_values(final, one.who) for one in senders] == [one.sent for one in senders]
    assert final["accounting"]["repaired"] > 0
