"""The loop: turns, ticks, drains, on real sockets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from telemetry.store.history import HistoryReader
from telemetry.transport.subscription import Subscription
from telemetry.wire import control as msg
from telemetry.wire.events import Count, Define
from telemetry.wire.snapshot import MetricsSnapshot


def test_the_first_producer_makes_it_live(make_service: Any, connect: Any) -> None:
    """INITIALIZE until somebody says hello or sends."""
    service = make_service()
    observer = connect(service, "watcher", greet=False)
    observer.ask(msg.Hello(id=1))
    assert service.course.lifecycle.state == "INITIALIZE"
    peer = connect(service)
    peer.until(lambda: service.course.lifecycle.state == "LIVE")


def test_every_tick_publishes_a_whole_snapshot(make_service: Any, connect: Any) -> None:
    """Numbers grow by one, and each snapshot holds all that was applied before it."""
    service = make_service({"run.refresh_hz": 50.0})
    peer = connect(service)
    heard: list[MetricsSnapshot] = []
    with Subscription(service.parts.hub.endpoints.snapshots, conflate=False) as snapshots:

        def listen() -> bool:
            snapshot = snapshots.recv(0.0)
            if snapshot is not None:
                heard.append(snapshot)
            return len(heard) >= 5

        peer.send(Count("n", 3.0))
        peer.applied(1)
        peer.until(listen)
    assert [one.seq for one in heard] == list(range(heard[0].seq, heard[0].seq + 5))
    assert heard[-1].counters[0].value == 3
    assert (heard[-1].state, heard[-1].run_id, heard[-1].refresh_hz) == ("LIVE", "r1", 50.0)
    assert heard[-1].cost.ticks >= 4


def test_a_turn_without_reading_leaves_events_in_the_socket(make_service: Any, connect: Any) -> None:
    """Ticks and control go on, and the next turn that reads finds them."""
    service = make_service()
    peer = connect(service)
    peer.send(Count("n"))
    peer.applied(1)
    assert peer.link.send_events(peer.frame([Count("n")]))
    ticks = service.cost.ticks
    service.turns_until(lambda: service.cost.ticks >= ticks + 5, reading=False)
    assert service.parts.aggregator.applied == 1
    peer.applied(2)


def test_a_late_tick_is_counted_and_not_caught_up(make_service: Any) -> None:
    """After a stop of many periods there is one tick, not many in a row."""
    service = make_service()
    service.turns_until(lambda: service.cost.ticks >= 1)
    service._next_tick_ns -= 10**9
    ticks, late = service.cost.ticks, service.cost.ticks_late
    service.turn()
    assert (service.cost.ticks, service.cost.ticks_late) == (ticks + 1, late + 1)
    assert service._next_tick_ns > service.parts.clock.monotonic_ns()


def test_a_slow_refresh_slows_nothing_else(make_service: Any, connect: Any, wait_until: Any) -> None:
    """With a snapshot every ten seconds, acknowledgements, seconds and deadlines are as punctual as ever."""
    service = make_service({"run.refresh_hz": 0.1, "run.drain_timeout_s": 0.2})
    began = time.monotonic()
    peer = connect(service, pid=os.getpid(), host=service.parts.host)
    peer.send(Count("n"))
    peer.until(lambda: peer.all(msg.Ack))
    service.course.end("enough")
    service.drain()
    assert time.monotonic() - began < 5.0
    assert service.course.seq == 0, "no snapshot was due yet"


@pytest.mark.parametrize(("hz", "ticks"), [(0.1, 100), (3.0, 4), (10.0, 1), (100.0, 1)])
def test_a_snapshot_is_due_after_so_many_ticks(make_service: Any, hz: float, ticks: int) -> None:
    """The refresh is what was asked for, in ticks of a tenth of a second or less."""
    service = make_service({"run.refresh_hz": hz})
    assert service._ticks_a_snapshot == ticks
    assert service._period_ns * ticks == pytest.approx(1e9 / hz, abs=100)


def test_each_second_closes_an_interval(make_service: Any, connect: Any) -> None:
    """What was counted in it goes to the history, with the keys."""
    service = make_service()
    peer = connect(service)
    peer.send(Define(1, "n", "counter"), rows=[(1, 1 << 40, 2.0)])
    peer.applied(1)
    service._next_second_ns = 0
    ticks = service.cost.ticks
    peer.until(lambda: service.cost.ticks > ticks)
    assert service.parts.worker.close(20.0)
    reader = HistoryReader(service.parts.directory.history)
    assert [key.name for key in HistoryReader.keys(reader)] == ["n"]
    (interval,) = reader.intervals()
    assert len(interval.counters.index) == 4


def test_a_history_that_is_far_behind_is_said(make_service: Any) -> None:
    """An interval is lost rather than the loop stopped, and the snapshot says so."""
    service = make_service()
    service.parts.worker.submit = lambda *_: False
    service.roll()
    assert service.snapshot().warnings == ["the disk is far behind: an interval of the history is missing"]


@pytest.mark.parametrize(
    ("part", "words"), [("journal", "journal"), ("history", "history"), ("records", "record log")]
)
def test_a_file_that_cannot_be_written_is_said(make_service: Any, part: str, words: str) -> None:
    """The run goes on without it, and every snapshot says so."""
    service = make_service()
    getattr(service.parts, part).failed = "No space left on device"
    assert service.snapshot().warnings == [f"the {words} could not be written: No space left on device"]


def test_a_stuck_service_manager_stops_no_turn(
    make_service: Any, short_dir: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keep-alives are sent or lost, never waited for."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(short_dir / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(short_dir / "notify"))
        service = make_service()

        def seconds() -> None:
            for _ in range(200):
                service._each_second(service.parts.clock.monotonic_ns())

        thread = threading.Thread(target=seconds, daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()


# --- who the run belongs to ----------------------------------------------------------------------


def test_the_death_of_the_owner_ends_the_run(make_service: Any) -> None:
    """With its number in the reason."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        service = make_service(owner_pid=owner.pid)
        ticks = service.cost.ticks
        service.turns_until(lambda: service.cost.ticks > ticks + 3)
        assert not service.course.ending
        owner.kill()
        service.live()
    assert service.course.reason == f"process {owner.pid}, which the run belonged to, is gone"
    assert not service.course.interrupted


def test_producers_that_are_gone_end_a_run_that_belongs_to_nobody(make_service: Any, connect: Any) -> None:
    """After the grace, and only if there was one."""
    service = make_service({"run.orphan_grace_s": 0.05})
    ticks = service.cost.ticks
    service.turns_until(lambda: service.cost.ticks > ticks + 20)
    assert not service.course.ending, "nobody has come yet"
    peer = connect(service)
    peer.end()
    service.live()
    assert service.course.reason == "all producers have been gone for 0.05 s"


def test_a_grace_of_zero_waits_for_ever(make_service: Any, connect: Any) -> None:
    """Zero turns the rule off."""
    service = make_service({"run.orphan_grace_s": 0})
    peer = connect(service)
    peer.end()
    peer.until(lambda: peer.all(msg.Ended))
    ticks = service.cost.ticks
    service.turns_until(lambda: service.cost.ticks > ticks + 20)
    assert not service.course.ending


# --- the drain -----------------------------------------------------------------------------------


def test_a_drain_waits_for_the_end_of_every_producer(make_service: Any, connect: Any) -> None:
    """It tells them, takes what they still send, acknowledges it, and is over when the last one is reconciled."""
    service = make_service({"run.drain_timeout_s": 20.0})
    peer = connect(service, pid=os.getpid(), host=service.parts.host)
    service.course.end("enough")
    said = []

    def producer_flushes_and_ends() -> bool:
        if not said and any(pong.state == "DRAINING" for pong in peer.all(msg.Pong)):
            assert peer.link.send_events(peer.frame([Count("n")]))
            peer.end()
            said.append(True)
        return False

    peer.send(Count("n"))
    turn = service.turn
    service.turn = lambda **options: (turn(**options), producer_flushes_and_ends())
    service.drain()
    assert service.parts.aggregator.waiting_for() == []
    assert service.course.lifecycle.state == "DRAINING"
    assert service.snapshot().accounting.applied == 2
    peer.until(lambda: peer.all(msg.Ended) and peer.all(msg.Ack)[-1:] == [msg.Ack(epoch="e1", batches=2)])


def test_a_drain_has_a_deadline(make_service: Any, connect: Any) -> None:
    """A living producer that never ends is named as missing."""
    service = make_service()
    connect(service, pid=os.getpid(), host=service.parts.host)
    service.course.end("enough")
    service.drain()
    assert service.parts.clock.monotonic_ns() >= service.course.drain_deadline_ns
    assert service.snapshot().pending.producers == ["p"]


def test_a_drain_does_not_wait_for_the_dead(make_service: Any, connect: Any) -> None:
    """A producer of this host whose process is gone will not end."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    service = make_service({"run.drain_timeout_s": 60.0})
    connect(service, pid=gone.pid, host=service.parts.host)
    service.course.end("enough")
    service.drain()
    assert service.parts.clock.monotonic_ns() < service.course.drain_deadline_ns


def test_a_drain_hears_who_only_seems_dead(make_service: Any, connect: Any) -> None:
    """A container has numbers of its own: its process looks dead from here, and answers the drain."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    service = make_service({"run.drain_timeout_s": 60.0})
    peer = connect(service, pid=gone.pid, host=service.parts.host)
    facts = service.parts.aggregator.producer("p")
    service.turns_until(lambda: service.parts.clock.monotonic_ns() - facts.last_seen_ns > 600_000_000)
    service.course.end("enough")
    turn = service.turn

    def flush_after_a_while(**options: Any) -> None:
        turn(**options)
        if peer.batches == 0 and service.parts.clock.monotonic_ns() - service._drain_began_ns > 100_000_000:
            peer.send(Count("n"))
            peer.end()

    service.turn = flush_after_a_while
    service.drain()
    assert service.parts.aggregator.waiting_for() == []
    assert service.snapshot().accounting.applied == 1


def test_a_drain_waits_for_the_dead_of_other_hosts(make_service: Any, connect: Any) -> None:
    """A process id says nothing about another machine."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    service = make_service()
    connect(service, pid=gone.pid, host="elsewhere")
    service.course.end("enough")
    service.drain()
    assert service.parts.clock.monotonic_ns() >= service.course.drain_deadline_ns


def test_a_drain_reads_what_is_here_from_producers_that_never_said_hello(make_service: Any, connect: Any) -> None:
    """Nobody waits for them, but what has arrived is not thrown away."""
    service = make_service()
    peer = connect(service, greet=False)
    peer.send(Count("n"))
    peer.applied(1)
    for _ in range(50):
        assert peer.link.send_events(peer.frame([Count("n")]))
    assert service.parts.hub.wait(10.0).events
    service.course.end("enough")
    service.drain()
    assert service.parts.aggregator.applied == 51


def test_an_interruption_skips_the_drain(make_service: Any, connect: Any) -> None:
    """And one during the drain ends it."""
    service = make_service({"run.drain_timeout_s": 60.0})
    connect(service, pid=os.getpid(), host=service.parts.host)
    service.course.end("stopped", interrupted=True)
    service.drain()
    assert service.course.lifecycle.state != "DRAINING"

    again = make_service({"run.drain_timeout_s": 60.0}, run_id="r2")
    connect(again, pid=os.getpid(), host=again.parts.host)
    again.course.end("enough")
    ticks = again.cost.ticks
    over = again._drained
    again._drained = lambda: over() or (again.cost.ticks > ticks + 3 and again.course.end("now", interrupted=True))
    again.drain()
    assert again.course.reason == "now"
    assert again.parts.clock.monotonic_ns() < again.course.drain_deadline_ns
