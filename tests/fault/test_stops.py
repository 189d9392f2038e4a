"""SIGSTOP and SIGCONT: processes that stand still for a while, and readers that are too slow."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from telemetry.transport import subscribe

RATE = 50_000
LATE_S, LOST_S = 0.4, 1.2
STILL_S = (0.5, 1.2)
"""How long something stands still."""
SLACK = 10  # readers on a busy machine skip to the newest
BACKLOG_BYTES = 6 << 20
"""More than eight snapshots of 200 series, less than all of two seconds: those are 12 MB."""
READERS = """
import sys, zmq, msgspec

class Head(msgspec.Struct):
    seq: int
    state: str

decode = msgspec.msgpack.Decoder(Head).decode
address, how_many, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
context = zmq.Context()
sockets = []
for _ in range(how_many):
    made = context.socket(zmq.SUB)
    made.setsockopt(zmq.CONFLATE, 1)
    made.connect(address)
    made.subscribe(b"sn/1")
    sockets.append(made)
poller = zmq.Poller()
for made in sockets:
    poller.register(made, zmq.POLLIN)
seen = {made: [] for made in sockets}
ended = set()
print("up", flush=True)
while len(ended) < how_many:
    for made, _ in poller.poll(30_000) or sys.exit("no snapshot for 30 s"):
        snapshot = decode(made.recv()[8:])
        seen[made].append(snapshot.seq)
        if snapshot.state in ("COMPLETE", "INTERRUPTED"):
            ended.add(made)
            poller.unregister(made)
with open(path, "wb") as file:
    file.write(msgspec.json.encode(list(seen.values())))
for made in sockets:
    made.close(0)
context.term()
"""
WIDE = """
import telemetry
run = telemetry.start("wide")
for index in range(200):
    record = run.series("wide", unit="ns", index=index).record
    for value in range(1, 10_000, 11):
        record(value * value)
run.finish()
"""
SLOW = """
import sys, time, zmq
made = zmq.Context().socket(zmq.SUB)
made.setsockopt(zmq.RCVHWM, 1)
made.setsockopt(zmq.RCVBUF, 4096)
made.connect(sys.argv[1])
made.subscribe(b"")
made.recv()
print("up", flush=True)
sys.stdin.read()
"""


def stand_still(crew: Any, pid: int, seconds: float) -> None:
    """SIGSTOP, and SIGCONT after a while."""
    os.kill(pid, signal.SIGSTOP)
    over = time.monotonic() + seconds
    crew.wait_until(lambda: time.monotonic() > over, what="the end of a pause")
    os.kill(pid, signal.SIGCONT)


def test_a_stopped_aggregator_costs_dropping_senders_what_they_count(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """A sender whose buffers are too small for the pause sent what was applied plus `buffer_full`."""
    aggregator, endpoint = ground.serve()
    environ = {"TELEMETRY_EMIT__BUFFER_EVENTS": "1000", "FAULT_LIMITS": "DATA_SNDHWM=4,BATCH_EVENTS=500"}
    senders = [crew.send(who, endpoint, faults.seam(environ), rate=RATE) for who in "ab"]
    crew.progress(senders[0], chance.randint(1, RATE // 2))
    stand_still(crew, aggregator.pid, chance.uniform(*STILL_S))
    for sender in senders:
        crew.progress(sender, RATE // 5)
        sender.end()
        sender.done()
    faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    assert final["completeness"] == "lossy"
    for sender in senders:
        account = faults.account_of(final, sender)
        assert set(account["dropped_by_producer"]) == {"buffer_full"}
        assert (account["missing"], account["dropped"]) == (0, {})
        assert account["applied"] + account["dropped_by_producer"]["buffer_full"] == sender.sent


@pytest.mark.parametrize("timeout_s", [60.0, 0.2])
def test_a_stopped_aggregator_makes_blocking_senders_wait(
    ground: Any, crew: Any, faults: Any, chance: random.Random, timeout_s: float
) -> None:
    """Blocking senders lose nothing if they may wait for longer than the pause.

    Otherwise the events they gave up are counted as `block_timeout`.
    """
    aggregator, endpoint = ground.serve()
    environ = {
        "TELEMETRY_EMIT__BUFFER_EVENTS": "1000",
        "TELEMETRY_EMIT__POLICY": "block",
        "TELEMETRY_EMIT__BLOCK_TIMEOUT_S": str(timeout_s),
        "FAULT_LIMITS": "DATA_SNDHWM=4,BATCH_EVENTS=500",
    }
    sender = crew.send("job", endpoint, faults.seam(environ))
    crew.progress(sender, chance.randint(1, RATE))
    stand_still(crew, aggregator.pid, chance.uniform(*STILL_S))
    crew.progress(sender, RATE // 5)
    sender.end()
    sender.done()
    faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    account = faults.account_of(final, sender)
    assert (account["missing"], account["dropped"]) == (0, {})
    assert account["applied"] + account["dropped_by_producer"].get("block_timeout", 0) == sender.sent
    if timeout_s > STILL_S[1]:
        assert faults.first_values(final, "job") == sender.sent
        assert final["completeness"] == "complete"
    else:
        assert set(account["dropped_by_producer"]) == {"block_timeout"}


def test_a_stopped_sender_is_late_then_lost_then_back(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """Silence is told apart by its length, and ends: what comes after is in the result like what came before."""
    environ = {"FAULT_LIMITS": f"LATE_AFTER_S={LATE_S},LOST_AFTER_S={LOST_S}"}
    aggregator, endpoint = ground.serve(environ=faults.seam(environ))
    still, moving = (crew.send(who, endpoint, rate=RATE // 10) for who in ("still", "moving"))
    crew.progress(still, chance.randint(1, RATE // 10))
    seen: dict[str, list[str]] = {"still": [], "moving": []}

    def see(word: str) -> bool:
        for producer in next(snapshots).producers:
            if seen[producer.name][-1:] != [producer.status]:
                seen[producer.name].append(producer.status)
        return seen["still"][-1:] == [word]

    with subscribe(endpoint) as snapshots:
        crew.wait_until(lambda: see("live"), 30.0)
        os.kill(still.pid, signal.SIGSTOP)
        crew.wait_until(lambda: see("lost"), 30.0)
        os.kill(still.pid, signal.SIGCONT)
        crew.wait_until(lambda: see("live"), 30.0)
    assert seen["still"] == ["live", "late", "lost", "live"]
    for sender in (still, moving):
        crew.progress(sender, RATE // 50)
        sender.end()
        sender.done()
    faults.stop(endpoint, aggregator)
    final = ground.final()
    faults.check_books(final)
    assert final["completeness"] == "complete"
    assert [faults.first_values(final, one.who) for one in (still, moving)] == [still.sent, moving.sent]


def test_a_stopped_subscriber_misses_snapshots_and_nothing_else_happens(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """`telemetry tail` stands still: the run is complete, and once it goes on it gets the final snapshot."""
    aggregator, endpoint = ground.serve()
    tail = ground.telemetry("tail", "job", stdin=None)
    tail.stdout.readline()
    sender = crew.send("job", endpoint, rate=RATE)
    os.kill(tail.pid, signal.SIGSTOP)
    crew.progress(sender, chance.randint(RATE // 2, RATE))
    os.kill(tail.pid, signal.SIGCONT)
    sender.end()
    sender.done()
    faults.stop(endpoint, aggregator)
    said, _ = tail.communicate(timeout=30)
    assert '"COMPLETE"' in said.splitlines()[-1]
    final = ground.final()
    faults.check_books(final)
    assert (final["completeness"], faults.first_values(final, "job")) == ("complete", sender.sent)


def test_a_slow_subscriber_beside_fifty_fast_ones(
    ground: Any, crew: Any, faults: Any, chance: random.Random
) -> None:
    """One that reads nothing costs the others no snapshot and the aggregator no memory; all fifty see the end."""
    hz = 50
    aggregator, endpoint = ground.serve("--refresh-hz", str(hz))
    wide = ground.popen(sys.executable, ground.program("wide.py", WIDE), environ={"TELEMETRY_ENDPOINT": endpoint})
    wide.communicate(timeout=30)
    with subscribe(endpoint) as first:
        address = first.address
    path = ground.folder / "seen.json"
    slow = ground.popen(sys.executable, ground.program("slow.py", SLOW), address, stdin=subprocess.PIPE)
    fast = ground.popen(sys.executable, ground.program("fast.py", READERS), address, "50", str(path))
    for reader in (slow, fast):
        reader.stdout.readline()
    sender = crew.send("job", endpoint, rate=RATE)
    with subscribe(endpoint) as snapshots:
        settled = next(snapshots).seq + hz
        crew.wait_until(lambda: next(snapshots).seq >= settled, 30.0)
        before = faults.rss_bytes(aggregator.pid)
        upto = settled + chance.randint(2 * hz, 3 * hz)
        crew.wait_until(lambda: next(snapshots).seq >= upto, 30.0)
        grown = faults.rss_bytes(aggregator.pid) - before
    sender.end()
    sender.done()
    faults.stop(endpoint, aggregator)
    _, err = fast.communicate(timeout=30)
    assert fast.returncode == 0, err
    final = ground.final()
    faults.check_books(final)
    assert (final["completeness"], faults.first_values(final, "job")) == ("complete", sender.sent)
    assert grown < BACKLOG_BYTES, "the slow one's snapshots pile up"
    for numbers in json.loads(path.read_text()):
        assert len(numbers) > (numbers[-1] - numbers[0]) / SLACK, "the slow one slows the others down"
