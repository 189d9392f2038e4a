"""Tests of the input of a live run on real sockets: seconds of history, its processes, the drain."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry import limits
from telemetry.common.clock import SystemClock
from telemetry.store.history import HistoryReader
from telemetry.wire import control as msg
from telemetry.wire.events import ClosedStep, Count, Define, Mark, Scalars, StepEnd


def test_each_second_closes_an_interval(make_service: Any, connect: Any) -> None:
    """The counts of each second go to the history, with the keys."""
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


def test_steps_of_the_system_clock_move_no_interval(
    make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A system clock that is set three hours ahead and back leaves no gap between intervals.

    The welcome to a producer has the clock of the run.
    """
    service = make_service()
    wall_ns, seen = time.time_ns, []
    connect(service)
    for step_s in (0, 3 * 3_600, 0, -3_600):
        monkeypatch.setattr(SystemClock, "wall_ns", staticmethod(lambda step_s=step_s: wall_ns() + step_s * 10**9))
        service.feed.roll()
        seen.append(service.snapshot().warnings)
    peer = connect(service, "q")
    assert service.parts.worker.close(20.0)
    intervals = list(HistoryReader(service.parts.directory.history).intervals())
    assert [later.start_ns - one.end_ns for one, later in pairwise(intervals)] == [0] * (len(intervals) - 1)
    assert intervals[0].start_ns == service.parts.numbers.run.started_ns
    assert sum(one.end_ns - one.start_ns for one in intervals) < 20 * 10**9
    assert abs(peer.all(msg.Welcome)[-1].wall_ns - wall_ns()) < 20 * 10**9
    assert seen[0] == []
    assert seen[1] == seen[2] == seen[3]
    assert [one.partition(" during")[0] for one in seen[1]] == ["the system clock was set forward by 3 h 0 min"]


def test_the_first_minute_with_events_is_in_slices(make_service: Any, connect: Any) -> None:
    """The history has slices of a tenth of a second for the first minute with events.

    The first slice begins with the first event. A last slice fills the rest of a second. No slice follows after a
    minute.
    """
    service = make_service()
    peer = connect(service)
    ticks = service.cost.ticks
    peer.until(lambda: service.cost.ticks > ticks + 2)
    assert not service.parts.numbers.run.slices
    peer.send(Define(1, "n", "counter"), rows=[(1, 1 << 40, 2.0)])
    peer.applied(1)
    peer.until(lambda: service.parts.numbers.run.slices == 2)
    service.feed.roll()
    assert service.parts.numbers.run.slices == 3
    service.parts.numbers.run = replace(service.parts.numbers.run, slices=limits.SLICES)
    ticks = service.cost.ticks
    peer.until(lambda: service.cost.ticks > ticks + 2)
    assert service.parts.numbers.run.slices == limits.SLICES
    assert service.parts.worker.close(20.0)
    reader = HistoryReader(service.parts.directory.history)
    slices = list(reader.fine())
    assert len(slices) == 3
    assert [len(one.counters.index) for one in slices] == [4, 0, 0]
    assert len(list(reader.intervals())) == 1


@pytest.mark.parametrize("why", ["nodes", "many", "no history"])
def test_there_are_no_slices_where_they_would_cost_too_much(
    why: str, make_service: Any, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A root hears of its leaves once a second, and with thousands of instruments a slice takes too long."""
    service = make_service({"history.enabled": why != "no history"})
    peer = connect(service)
    peer.send(Define(1, "n", "counter"), rows=[(1, 1 << 40, 2.0)])
    peer.applied(1)
    if why == "nodes":
        monkeypatch.setattr(service.parts.aggregator.root, "leaves", lambda: {"leaf": "node"})
    elif why == "many":
        monkeypatch.setattr(limits, "SLICED_INSTRUMENTS", 0)
    before, ticks = service.parts.numbers.run.slices, service.cost.ticks
    peer.until(lambda: service.cost.ticks > ticks + 3)
    assert service.parts.numbers.run.slices == before


def test_a_history_that_is_far_behind_is_said(make_service: Any) -> None:
    """An interval is lost rather than the loop stopped, and the snapshot says so."""
    service = make_service()
    service.parts.worker.submit = lambda *_: False
    service.feed.roll()
    assert service.snapshot().warnings == ["the disk is too slow: an interval of the history is missing"]


def test_steps_are_published_whatever_closes_them(make_service: Any, connect: Any) -> None:
    """A turn, the end of a producer, the end of an interval, and the end of the run: in one sequence, on disk."""
    service = make_service({"run.step_grace_s": 0.0})
    peer, other = connect(service), connect(service, "q")
    log = service.parts.records
    peer.send(Scalars("train", 1, {"loss": 1.0}), StepEnd("train", 1), Mark("a"))
    peer.applied(3)
    assert log.next_seq == 1, "the axis is young"
    service.feed.roll()
    service.feed.roll()
    assert log.next_seq == 2
    other.send(Scalars("train", 2, {"loss": 2.0}))
    other.applied(4)
    peer.send(StepEnd("train", 2))
    peer.applied(5)
    service.feed.roll()
    service.feed.roll()
    assert log.next_seq == 3
    other.send(Scalars("train", 3, {"loss": 3.0}))
    peer.applied(6)
    peer.send(StepEnd("train", 3))
    peer.applied(7)
    other.end()
    peer.until(lambda: log.next_seq == 4)
    peer.send(Scalars("train", 4, {"loss": 4.0}))
    peer.applied(8)
    service.close_books()
    said = [item.record for item in log.read(0, 10)]
    assert [(step.step, step.closed) for step in said if isinstance(step, ClosedStep)] == [
        (1, "ended"),
        (2, "timeout"),
        (3, "ended"),
        (4, "run_end"),
    ]
    assert service.parts.numbers.run.records == log.next_seq == 5
    (axis,) = service.snapshot().axes
    assert (axis.name, axis.closed, axis.open, axis.timeouts, axis.values) == ("train", 4, 0, 1, {"loss": 4.0})


# --- who the run belongs to ----------------------------------------------------------------------


def test_the_death_of_the_owner_ends_the_run(make_service: Any) -> None:
    """The reason for the end of the run has the process number of the owner."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        service = make_service(owner_pid=owner.pid)
        ticks = service.cost.ticks
        service.turns_until(lambda: service.cost.ticks > ticks + 3)
        assert not service.run_status.ending
        owner.kill()
        service.live()
    assert service.run_status.reason == f"process {owner.pid}, which owned the run, is gone"
    assert not service.run_status.interrupted


def test_an_owner_that_is_killed_before_it_finishes_has_failed(make_service: Any, connect: Any) -> None:
    """A killed owner is a producer that has not ended, unlike one that was killed after its end."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as owner:
        service = make_service(owner_pid=owner.pid)
        connect(service, pid=owner.pid, host=service.parts.host)
        owner.kill()
        service.live()
    reason = f"the program failed: process {owner.pid} was killed, or ended without finish()"
    assert service.run_status.reason == reason


def test_a_process_that_is_watched_ends_no_run_of_other_producers(make_service: Any, connect: Any) -> None:
    """Anybody may ask for it. A run without an owner ends once its producers have ended, too."""
    service = make_service()
    peer = connect(service)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as watched:
        assert isinstance(peer.ask(msg.Watch(id=9, pid=watched.pid)), msg.Watching)
        watched.kill()
    ticks = service.cost.ticks
    service.turns_until(lambda: service.cost.ticks > ticks + 3)
    assert not service.run_status.ending
    peer.end()
    service.live()
    assert service.run_status.reason == f"process {watched.pid}, which owned the run, is gone"


def test_producers_that_are_gone_end_a_run_that_belongs_to_nobody(make_service: Any, connect: Any) -> None:
    """Such a run ends after the grace, and only if there was a producer."""
    service = make_service({"run.orphan_grace_s": 0.05})
    ticks = service.cost.ticks
    service.turns_until(lambda: service.cost.ticks > ticks + 20)
    assert not service.run_status.ending, "nobody has come yet"
    peer = connect(service)
    peer.end()
    service.live()
    assert service.run_status.reason == "all producers have been gone for 0.05 s"


def test_a_grace_of_zero_waits_for_ever(make_service: Any, connect: Any) -> None:
    """A grace of 0 means that a run without producers does not end."""
    service = make_service({"run.orphan_grace_s": 0})
    peer = connect(service)
    peer.end()
    peer.until(lambda: peer.all(msg.Ended))
    ticks = service.cost.ticks
    service.turns_until(lambda: service.cost.ticks > ticks + 20)
    assert not service.run_status.ending


# --- the drain -----------------------------------------------------------------------------------


def test_a_drain_waits_for_the_end_of_every_producer(make_service: Any, connect: Any) -> None:
    """A drain tells the producers, takes and acknowledges what they still send.

    It is over when the last one is reconciled.
    """
    service = make_service({"run.drain_timeout_s": 20.0})
    peer = connect(service, pid=os.getpid(), host=service.parts.host)
    service.run_status.end("enough")
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
    assert service.parts.aggregator.book.waiting_for() == []
    assert service.run_status.lifecycle.state == "DRAINING"
    assert service.snapshot().accounting.applied == 2
    peer.until(lambda: peer.all(msg.Ended) and peer.all(msg.Ack)[-1:] == [msg.Ack(epoch="e1", batches=2)])


def test_a_drain_ends_as_soon_as_nothing_can_come_any_more(make_service: Any, connect: Any) -> None:
    """Batches that their producer no longer has are not waited for."""
    service = make_service({"run.drain_timeout_s": 60.0})
    peer = connect(service, pid=os.getpid(), host=service.parts.host)
    peer.frame([Count("n")])
    peer.send(Count("n"))
    peer.applied(1)
    peer.end()
    peer.say(msg.CannotResend(producer="p", first=0, last=0))
    service.run_status.end("enough")
    service.drain()
    assert service.parts.clock.monotonic_ns() < service.run_status.drain_deadline_ns
    assert service.snapshot().producers[0].completeness == "lossy"


def test_a_drain_has_a_deadline(make_service: Any, connect: Any) -> None:
    """A living producer that never ends is named as missing."""
    service = make_service()
    connect(service, pid=os.getpid(), host=service.parts.host)
    service.run_status.end("enough")
    service.drain()
    assert service.parts.clock.monotonic_ns() >= service.run_status.drain_deadline_ns
    assert service.snapshot().pending.producers == ["p"]


def test_a_drain_does_not_wait_for_the_dead(make_service: Any, connect: Any) -> None:
    """A producer of this host whose process is gone will not end."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    service = make_service({"run.drain_timeout_s": 60.0})
    connect(service, pid=gone.pid, host=service.parts.host)
    service.run_status.end("enough")
    service.drain()
    assert service.parts.clock.monotonic_ns() < service.run_status.drain_deadline_ns


def test_a_drain_hears_who_only_seems_dead(make_service: Any, connect: Any) -> None:
    """A drain takes the events of a producer whose process only looks dead.

    The process ids of a container are not those of this host, so its process can't be found here.
    """
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    service = make_service({"run.drain_timeout_s": 60.0})
    peer = connect(service, pid=gone.pid, host=service.parts.host)
    facts = service.parts.aggregator.book["p"]
    service.turns_until(lambda: service.parts.clock.monotonic_ns() - facts.last_seen_ns > 600_000_000)
    service.run_status.end("enough")
    turn = service.turn

    def flush_after_a_while(**options: Any) -> None:
        turn(**options)
        if peer.batches == 0 and service.parts.clock.monotonic_ns() - service.feed._drain_began_ns > 100_000_000:
            peer.send(Count("n"))
            peer.end()

    service.turn = flush_after_a_while
    service.drain()
    assert service.parts.aggregator.book.waiting_for() == []
    assert service.snapshot().accounting.applied == 1


def test_a_drain_waits_for_the_dead_of_other_hosts(make_service: Any, connect: Any) -> None:
    """A process id says nothing about another machine."""
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        gone.wait()
    service = make_service()
    connect(service, pid=gone.pid, host="elsewhere")
    service.run_status.end("enough")
    service.drain()
    assert service.parts.clock.monotonic_ns() >= service.run_status.drain_deadline_ns


def test_a_drain_reads_what_is_here_from_producers_that_never_said_hello(make_service: Any, connect: Any) -> None:
    """A drain reads events that have arrived from producers without a hello.

    It does not wait for those producers.
    """
    service = make_service()
    peer = connect(service, greet=False)
    peer.send(Count("n"))
    peer.applied(1)
    for _ in range(50):
        assert peer.link.send_events(peer.frame([Count("n")]))
    assert service.parts.hub.wait(10.0).events
    service.run_status.end("enough")
    service.drain()
    assert service.parts.aggregator.book.counted_events == 51


def test_a_drain_knows_of_events_that_are_held(make_service: Any, connect: Any) -> None:
    """A producer of held events may send more, so it is waited for as if they were in the numbers."""
    service = make_service()
    peer = connect(service, greet=False)
    peer.hold(Count("n"))
    service.run_status.end("enough")
    service.drain()
    assert service.parts.aggregator.book.counted_events == 1
