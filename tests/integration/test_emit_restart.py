"""A producer across the death of its aggregator: nothing that can be told again is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.processes import end_group

from telemetry import limits
from telemetry.client.exit_hooks import ExitHooks
from telemetry.client.instruments import Counter
from telemetry.client.process import Process
from telemetry.client.sending.flusher import ProducerEnding
from telemetry.config import EmitConfig
from telemetry.testing.aggregator import FakeAggregator
from telemetry.transport import Hub, ProducerLink
from telemetry.transport.endpoints import Endpoints
from telemetry.wire import codec

WaitUntil = Callable[..., Any]

STALLED = """
import sys
from telemetry.transport import Hub
from telemetry.transport.endpoints import Endpoints
hub = Hub(Endpoints(*sys.argv[1:]))
while hub.wait(0.05):
    if hub.receive_events(1, 1):
        print("joined", flush=True)
        break
sys.stdin.read()
"""
"""An aggregator that joins, takes one frame, and never reads again."""


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    monkeypatch.setattr(ExitHooks, "register", lambda self: None)
    made = Process()
    yield made
    made.finish(0.2)


def counter(process: Process) -> Counter:
    made = process.instrument("counter", "n", "", {})
    assert isinstance(made, Counter)
    return made


def finish_meanwhile(process: Process, timeout_s: float) -> Callable[[], ProducerEnding]:
    """Finishes on another thread; returns what waits for the ending."""
    endings: list[ProducerEnding] = []
    thread = threading.Thread(target=lambda: endings.append(process.finish(timeout_s)))
    thread.start()

    def ending() -> ProducerEnding:
        thread.join(timeout_s + 10.0)
        return endings[0]

    return ending


# --- what ZeroMQ does ----------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["ipc", "tcp"])
def test_what_is_in_the_pipe_of_a_dead_aggregator_reaches_the_next(
    short_dir: Path, wait_until: WaitUntil, transport: str
) -> None:
    """Batches left in the pipe reach the next aggregator in order and whole.

    Batches that had left the pipe died with the process or its connection without an error, so a producer keeps all
    that is not acknowledged.
    """
    where = Endpoints(*(f"ipc://{short_dir}/{leaf}" for leaf in "cesr"))
    if transport == "tcp":
        hub = Hub(Endpoints(*["tcp://127.0.0.1:*"] * 4))
        where = hub.endpoints
        hub.close()
    addresses = [where.control, where.events, where.snapshots, where.records]
    stalled = subprocess.Popen(
        [sys.executable, "-c", STALLED, *addresses],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert stalled.stdout is not None
    link = ProducerLink(where.control, "p")
    link.connect_events(where.events)

    def send(number: int) -> bool:
        return link.send_events(codec.EVENTS + number.to_bytes(4, "big") + bytes(100_000))

    wait_until(lambda: send(0), timeout_s=30.0, what="the join")
    assert stalled.stdout.readline() == b"joined\n"
    sent = 1
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < 0.5:
        if send(sent):
            sent, quiet_since = sent + 1, time.monotonic()
    end_group(stalled)
    received: list[int] = []
    hub = Hub(where)

    def take() -> bool:
        hub.wait(0.01)
        received.extend(int.from_bytes(frame[8:12], "big") for frame in hub.receive_events(100, 1 << 30))
        return bool(received) and received[-1] == sent - 1

    try:
        wait_until(take, timeout_s=30.0, what="the last frame")
        assert received == list(range(received[0], sent))
        assert limits.DATA_SNDHWM // 2 <= len(received) < sent - 1  # room is announced to a sender by halves
    finally:
        link.close(0.0)
        hub.close()


# --- what a producer makes of it -----------------------------------------------------------------


def test_what_was_not_acknowledged_is_offered_to_the_next_aggregator(
    process: Process, short_dir: Path, wait_until: WaitUntil
) -> None:
    """Batches that were not acknowledged reach the next aggregator once, with their definitions.

    An aggregator that begins with nothing learns what it can't have any more, so the end waits for nobody.
    """
    add = counter(process).add
    first = FakeAggregator(short_dir, epoch="e1")
    flusher = process.attach(first.endpoint, "job", EmitConfig(flush_ms=5))
    flusher.wait_for_welcome(10.0)
    for value in range(10):
        add(value)
        wait_until(lambda value=value: first.values("n") == list(range(value + 1)))
    talk = flusher._conversation
    assert talk is not None
    wait_until(lambda: len(talk.ring) == 0, what="the acknowledgement")
    first.acknowledging = False
    for value in range(10, 20):
        add(value)
        wait_until(lambda value=value: len(first.values("n")) == value + 1)
    first.stop()
    for value in range(20, 30):
        add(value)
    with FakeAggregator(short_dir, epoch="e2") as second:
        wait_until(lambda: 29.0 in second.values("n"), timeout_s=20.0, what="the new aggregator's events")
        add(30)
        wait_until(lambda: sorted(second.values("n")) == list(range(10, 31)), timeout_s=20.0)
        [heard] = second.heard.values()
        assert heard.hello is not None
        wait_until(lambda: not heard.tracker.gaps, what="the word that the first batches won't come")
        begun = time.monotonic()
        ending = process.finish(60.0)
        assert time.monotonic() - begun < 10.0
        assert ending.account is not None
        assert (ending.account.received, ending.account.missing) == (21, 10)


@pytest.mark.parametrize("policy", ["drop", "block"])
def test_nothing_is_lost_when_the_next_aggregator_knows_the_journal(
    process: Process, short_dir: Path, wait_until: WaitUntil, policy: Literal["drop", "block"]
) -> None:
    """A flood of 300,000 events over a death with full pipes and an absence of seconds: each counts once."""
    add = counter(process).add
    done = threading.Event()
    count = 300_000

    def flood() -> None:
        for number in range(count):
            add(number)
            if number % 1_000 == 999:
                time.sleep(0.005)
        done.set()

    first = FakeAggregator(short_dir, epoch="e1")
    process.attach(first.endpoint, "job", EmitConfig(policy=policy, flush_ms=5)).wait_for_welcome(10.0)
    writer = threading.Thread(target=flood)
    writer.start()
    wait_until(lambda: first.received > 50_000, timeout_s=60.0, what="some events")
    first.reading = False
    [(producer, journal)] = first.heard.items()
    flusher = process.flusher
    assert flusher is not None
    talk = flusher._conversation
    assert talk is not None
    before = flusher.outbox.next_seq
    wait_until(lambda: flusher.outbox.next_seq > before + 5, what="batches that die")
    first.stop()
    wait_until(lambda: len(talk._unsent) > 1, timeout_s=30.0, what="batches packed ahead for a silent aggregator")
    with FakeAggregator(short_dir, epoch="e2") as second:
        journal.hello = None
        second.heard[producer] = journal
        writer.join(60.0)
        assert done.is_set()
        ending = process.finish(60.0)
        assert ending.account is not None
        assert (ending.account.emitted, ending.account.received, ending.account.missing) == (count, count, 0)
        assert sorted(second.values("n")) == list(range(count))
        assert journal.tracker.unrepairable == 0


def test_an_idle_producer_finds_the_next_aggregator(
    process: Process, short_dir: Path, wait_until: WaitUntil
) -> None:
    """An idle producer sees the next aggregator within two seconds, though it has nothing to send.

    The epoch in the answer to its ping tells it, and then its instruments are known there.
    """
    add = counter(process).add
    with FakeAggregator(short_dir, epoch="e1") as first:
        process.attach(first.endpoint, "job", EmitConfig(flush_ms=5)).wait_for_welcome(10.0)
        add(1)
        wait_until(lambda: first.values("n") == [1], what="the event")
    with FakeAggregator(short_dir, epoch="e2") as second:
        wait_until(lambda: any(heard.hello for heard in second.heard.values()), timeout_s=10.0, what="hello")
        [heard] = second.heard.values()
        wait_until(lambda: heard.names == {0: "n"}, what="the definition")


def test_an_end_without_an_answer_is_said_to_the_next_aggregator(
    process: Process, short_dir: Path, wait_until: WaitUntil
) -> None:
    """An end without an answer goes to the next aggregator, with what the dead one had not read.

    A finish waits for the next aggregator.
    """
    add = counter(process).add
    first = FakeAggregator(short_dir, epoch="e1")
    process.attach(first.endpoint, "job", EmitConfig(flush_ms=5)).wait_for_welcome(10.0)
    add(0)
    wait_until(lambda: first.values("n") == [0], what="the first event")
    first.reading = False
    for number in range(1, 1_000):
        add(number)
    ending = finish_meanwhile(process, 60.0)
    wait_until(lambda: [request for request in first.requests if type(request).__name__ == "End"], what="the end")
    journal = first.heard
    first.stop()
    with FakeAggregator(short_dir, epoch="e2") as second:
        second.heard.update(journal)
        account = ending().account
        assert account is not None
        assert (account.emitted, account.missing) == (1_000, 0)
        assert sorted(second.values("n")) == list(range(1_000))


# --- resends -------------------------------------------------------------------------------------


def test_a_resend_request_is_answered_over_sockets(
    process: Process, short_dir: Path, wait_until: WaitUntil
) -> None:
    """An aggregator that lost what it had received, as after a crash, gets all of it again."""
    add = counter(process).add
    with FakeAggregator(short_dir) as aggregator:
        aggregator.acknowledging = False
        process.attach(aggregator.endpoint, "job", EmitConfig(flush_ms=2)).wait_for_welcome(10.0)
        for value in range(20):
            add(value)
            wait_until(lambda value=value: len(aggregator.values("n")) == value + 1)
        [(producer, heard)] = aggregator.heard.items()
        aggregator.heard[producer] = type(heard)()
        add(20)
        wait_until(lambda: sorted(aggregator.values("n")) == list(range(21)), timeout_s=20.0)
        ending = process.finish(10.0)
        assert ending.account is not None
        assert ending.account.missing == 0


def test_a_producer_that_lacks_what_it_is_asked_for_ends_at_once(
    process: Process, short_dir: Path, wait_until: WaitUntil
) -> None:
    """A producer that lacks what it is asked for reports this, and the account names what is missing.

    Neither side waits for its deadline.
    """
    add = counter(process).add
    with FakeAggregator(short_dir) as aggregator:
        process.attach(aggregator.endpoint, "job", EmitConfig(flush_ms=2)).wait_for_welcome(10.0)
        talk = process.flusher._conversation  # type: ignore[union-attr]
        assert talk is not None
        for value in range(5):
            add(value)
            wait_until(lambda value=value: len(aggregator.values("n")) == value + 1)
        wait_until(lambda: len(talk.ring) == 0, what="the acknowledgement")
        [(producer, heard)] = aggregator.heard.items()
        made = talk.outbox.next_seq
        aggregator.heard[producer] = type(heard)()
        add(5)
        begun = time.monotonic()
        ending = process.finish(60.0)
        assert time.monotonic() - begun < 10.0
        assert ending.account is not None
        assert (ending.account.emitted, ending.account.received, ending.account.missing) == (6, 1, 5)
        assert aggregator.heard[producer].tracker.given_up == [(0, made - 1)]
