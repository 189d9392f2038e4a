"""A peer without manners at a real aggregator, beside two good producers: they lose nothing, it stays in bounds."""

from __future__ import annotations

import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import msgspec
import psutil
import pytest
import zmq
from tests.fuzz import valid
from tests.fuzz.forms import pick
from tests.fuzz.msgpack_form import Msgpack

from telemetry import limits
from telemetry.testing.builders import MONO_NS, WALL_NS, frame
from telemetry.transport import ControlClient, Subscription, subscribe
from telemetry.wire import codec, control
from telemetry.wire.events import Count, Define
from telemetry.wire.snapshot import MetricsSnapshot

GOOD = """
import pathlib, sys, time, telemetry
run = telemetry.start("x")
count = run.counter(sys.argv[1])
series = run.series(sys.argv[1] + ".time", unit="ns")
sent = 0
while not pathlib.Path("enough").exists():
    for _ in range(100):
        count.add()
        series.record(sent)
    sent += 100
    time.sleep(0.01)
run.finish()
print(sent)
"""
NAMES = 1_000_000
PRODUCERS = limits.PRODUCERS + 500
LONGEST_SILENCE_S = 10.0
"""Between two snapshots: a hundred ticks of a machine that does something else beside."""
MEMORY_BYTES = 128 * limits.MIB
"""Beyond what the aggregator takes for the good producers alone. 4,096 producers and 2,000 instruments are 40 MiB;
the rest is room for frames of 4 MiB on their way."""
ALWAYS_UNREADABLE = [
    b"",
    b"\xc1",
    b"\x91" * 500_000,
    b"\x81\xa1a" * 300_000,
    b"\xdd\xff\xff\xff\xff",
    b"\x98\x92\x01\x00\xdb\xff\xff\xff\xff",
    b"\x98\x92\x01\x00\xa3bad\x00\x00\x92\x00\x00\xdf\x7f\xff\xff\xff",
    b"\x98\x92\x01\x00\xa3bad\x00\x00\x92\x00\x00\x80\xdd\x00\x00\x10\x01" + b"\xc0" * 4_097 + b"\x90",
]


class Peer:
    """Sockets of somebody who knows the addresses. Sending blocks while the aggregator is behind."""

    def __init__(self, endpoint: str, events: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.control = self._socket(zmq.DEALER, endpoint)
        self.events = self._socket(zmq.XPUB, events)
        assert self.events.recv() == b"\x01" + codec.EVENTS
        self.expected: Counter[str] = Counter()
        """Frames that nobody can read, by reason."""

    def _socket(self, kind: int, address: str) -> zmq.Socket[bytes]:
        made = self._context.socket(kind)
        made.setsockopt(zmq.RCVTIMEO, 60_000)
        made.setsockopt(zmq.SNDTIMEO, 60_000)
        made.setsockopt(zmq.LINGER, 0)
        if kind == zmq.XPUB:
            made.setsockopt(zmq.XPUB_NODROP, 1)
        made.connect(address)
        return made

    def send(self, data: bytes) -> None:
        """An event frame; counts it if it can't be read."""
        try:
            codec.decode_batch(data)
        except codec.Malformed as malformed:
            self.expected[malformed.reason.value] += 1
        self.events.send(data)

    def ask(self, data: bytes) -> None:
        """A control message; whatever it is, there is an answer, or it was one that has none."""
        self.control.send(data)

    def close(self) -> None:
        self._context.destroy(0)


class Watch:
    """Looks at an aggregator from outside, all the while."""

    def __init__(self, endpoint: str, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._snapshots: Subscription = subscribe(endpoint, conflate=False)
        self._over = threading.Event()
        self.first: MetricsSnapshot = next(self._snapshots)
        self.newest = self.first
        self.longest_silence_s = 0.0
        self.peak_bytes = self.base_bytes = self._process.memory_info().rss
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _look(self) -> None:
        heard = time.monotonic()
        while not self._over.is_set():
            snapshot = self._snapshots.recv(0.05)
            with suppress(psutil.NoSuchProcess):
                self.peak_bytes = max(self.peak_bytes, self._process.memory_info().rss)
            now = time.monotonic()
            self.longest_silence_s = max(self.longest_silence_s, now - heard)
            if snapshot is not None:
                self.newest, heard = snapshot, now

    def close(self) -> None:
        self._over.set()
        self._thread.join()
        self._snapshots.close()


@pytest.fixture
def scene(ground: Any, wait_until: Callable[..., Any]) -> Iterator[tuple[Any, Peer, Watch, list[Any], str]]:
    """An aggregator, two good producers at work, and the bad peer."""
    aggregator, endpoint = ground.serve()
    program = ground.program("good.py", GOOD)
    good = [
        ground.popen(sys.executable, program, name, environ={"TELEMETRY_ENDPOINT": endpoint})
        for name in ("one", "two")
    ]
    with ControlClient(endpoint) as client:
        welcome = client.request(control.Hello())
    assert isinstance(welcome, control.Welcome)
    with closing(Watch(endpoint, aggregator.pid)) as watch, closing(Peer(endpoint, welcome.events)) as peer:
        wait_until(lambda: len(watch.newest.counters) == 2, 60.0, "two producers at work")
        watch.base_bytes = watch.peak_bytes
        yield ground, peer, watch, good, endpoint


def finish(ground: Any, watch: Watch, good: list[Any], endpoint: str) -> dict[str, Any]:
    """Lets the good producers end and the run with them; checks what all these runs have in common."""
    (ground.folder / "enough").touch()
    sent = {}
    for name, process in zip(("one", "two"), good, strict=True):
        out, err = process.communicate(timeout=90)
        assert process.returncode == 0, err
        sent[name] = int(out)
    watch.close()
    with ControlClient(endpoint) as client:
        client.request(control.Stop(), 60.0)
    final: dict[str, Any] = {}
    deadline = time.monotonic() + 60
    path = ground.folder / "runs" / "latest" / "final_snapshot.json"
    while not path.exists():
        assert time.monotonic() < deadline, "no final file"
        time.sleep(0.02)
    final = json.loads(path.read_text())
    facts = {key: final[key] for key in ("state", "reason", "accounting", "warnings")}
    for name, count in sent.items():
        assert next(stat["value"] for stat in final["counters"] if stat["name"] == name) == count, facts
        assert next(stat["count"] for stat in final["series"] if stat["name"] == f"{name}.time") == count
        own = [stat for stat in final["producers"] if stat["emitted"] == stat["applied"] == 2 * count]
        assert any(stat["completeness"] == "complete" for stat in own), final["producers"][:3]
    assert watch.longest_silence_s < LONGEST_SILENCE_S
    grown = watch.peak_bytes - watch.base_bytes
    assert grown < MEMORY_BYTES, f"grew by {grown / limits.MIB:.0f} MiB"
    return final


def test_frames_and_requests_that_are_noise(scene: Any, request: pytest.FixtureRequest, wait_until: Any) -> None:
    """Random, mutated, nested, oversized, repeated and out of order: counted by reason, to the frame."""
    ground, peer, watch, good, endpoint = scene
    chance = random.Random(str(request.config.getoption("hypothesis_seed"))).random
    forms = Msgpack(codec.TOPIC_BYTES), Msgpack()
    asked = [codec.encode_control(made) for made in valid.requests() if not isinstance(made, control.Stop)]
    for turn in range(3_000):
        made = forms[0].mutate(chance, pick(chance, valid.frames()), pick(chance, valid.frames()))
        peer.send(codec.EVENTS + made.removeprefix(codec.EVENTS))
        peer.send(codec.EVENTS + random.Random(turn).randbytes(int(chance() * 60)))
        message = forms[1].mutate(chance, pick(chance, asked), pick(chance, asked))
        if b"stop" not in message:
            peer.ask(message)
    for payload in ALWAYS_UNREADABLE:
        peer.send(codec.EVENTS + payload)
        peer.ask(payload)
    for data in (*valid.frames(), *valid.frames()[::-1], *valid.frames()):
        peer.send(data)
    peer.send(codec.EVENTS + bytes(limits.FRAME_BYTES))
    peer.ask(bytes(limits.FRAME_BYTES + 1))
    peer.send(bytes(frame("last", 0, 0, records=[Count("the last one")])))
    wait_until(lambda: any(stat.name == "the last one" for stat in watch.newest.counters), 60.0, "the last frame")
    final = finish(ground, watch, good, endpoint)
    counted = final["accounting"]["bad_frames"]
    assert peer.expected["frame_unreadable"] > 3_000
    assert {reason: counted.get(reason, 0) for reason in peer.expected} == dict(peer.expected)
    assert set(counted) <= {*peer.expected, "implausible"}
    assert final["accounting"]["duplicates"] >= 2 * len(valid.frames())


def test_numbers_that_lie(scene: Any, wait_until: Any) -> None:
    """Sequence and event numbers from anywhere up to 2⁶³, thousands of gaps, drops beyond all measure."""
    ground, peer, watch, good, endpoint = scene
    liars = 8
    for at in range(4_000):
        name = f"liar {at % liars}"
        peer.send(bytes(frame(name, 3 * at, 10 * at, rows=[(0, MONO_NS, 1.0)] * 2)))  # a gap each
        peer.send(bytes(frame(name, (1 << 63) - 1 - at, 0)))  # implausible
        peer.send(bytes(frame(name, at, (1 << 62) + at, rows=[(0, MONO_NS, 1.0)])))  # implausible
    said = [
        control.End(id=at, producer=f"liar {at}", batches=(1 << 63) - 1, emitted=(1 << 63) - 1) for at in range(4)
    ]
    said += [control.CannotResend(producer=f"liar {at}", first=0, last=(1 << 63) - 1) for at in range(4, liars)]
    for message in said:
        peer.ask(codec.encode_control(message))
    peer.send(bytes(frame("last", 0, 0, records=[Count("the last one")])))
    wait_until(lambda: any(stat.name == "the last one" for stat in watch.newest.counters), 60.0, "the last frame")
    final = finish(ground, watch, good, endpoint)
    assert final["accounting"]["bad_frames"] == {"implausible": 8_000}
    liar = [stat for stat in final["producers"] if stat["producer"].startswith("liar")]
    assert len(liar) == liars
    for stat in liar:
        assert stat["emitted"] == stat["received"] + sum(stat["dropped_by_producer"].values()) + stat["missing"]
        assert stat["received"] == stat["applied"] + sum(stat["dropped"].values()) + stat["waiting"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_names_and_producers_without_end(scene: Any, wait_until: Any) -> None:
    """A million instruments and more producers than there is room for: what is beyond the bounds is counted."""
    ground, peer, watch, good, endpoint = scene
    sent = 0
    for seq in range(-(-NAMES // limits.BATCH_RECORDS)):
        count = min(limits.BATCH_RECORDS, NAMES - sent)
        records = [Count(f"name {sent + at:09d} of somebody who never repeats one") for at in range(count)]
        peer.events.send(frame("names", seq, sent, records=records, anchor=(0, WALL_NS)))
        sent += count
    for at in range(PRODUCERS):
        define = Define(0, f"of {at}", "counter")
        peer.events.send(
            frame(f"producer {at}", 0, 0, records=[define], rows=[(0, MONO_NS, 1.0), (7, MONO_NS, 1.0)])
        )
    peer.send(bytes(frame("names", seq + 1, sent, records=[Count("the last one")])))
    wait_until(lambda: any(stat.applied > NAMES for stat in watch.newest.producers), 200.0, "the last name")
    final = finish(ground, watch, good, endpoint)
    applied = {stat["name"]: stat["value"] for stat in final["counters"]}
    assert len(applied) == limits.SERIES + 1
    assert sum(applied.values()) - applied["one"] - applied["two"] == NAMES + 1 + limits.PRODUCERS - 3
    assert final["accounting"]["bad_frames"] == {"too_many_producers": PRODUCERS - (limits.PRODUCERS - 3)}
    assert final["overflow"]["counter"] >= 50_000


def test_a_message_beyond_all_measure(scene: Any, wait_until: Any) -> None:
    """A message beyond all measure costs its sender the connection, and no other peer anything.

    The sender may come back.
    """
    ground, peer, watch, good, endpoint = scene
    peer.events.send(codec.EVENTS + bytes(limits.FRAME_BYTES_HARD))

    def comes_back() -> bool:
        peer.events.send(frame("last", 0, 0, records=[Count("the last one")]))
        return any(stat.name == "the last one" for stat in watch.newest.counters)

    wait_until(comes_back, 60.0, "a frame after the one that was too large")
    peer.control.send(bytes(limits.FRAME_BYTES_HARD + 1))
    peer.control.send(codec.encode_control(control.Ping(id=5)))
    assert msgspec.msgpack.decode(peer.control.recv())["type"] == "pong"
    final = finish(ground, watch, good, endpoint)
    assert final["accounting"]["bad_frames"] == {}
