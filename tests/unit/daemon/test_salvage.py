"""Salvage of killed producers by a service with real sockets; their rings are written by hand."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.hand_made_ring import HandMadeRing

from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery import rebuild
from telemetry.store.journal import JournalReader
from telemetry.wire.control import GetStatus, Status
from telemetry.wire.events import Define, Mark
from telemetry.wire.snapshot import MetricsSnapshot

DEFINE = Define(1, "latency", "series")


@pytest.fixture
def ring(tmp_path: Path) -> HandMadeRing:
    """A ring with two batches of two rows, and two rows and a mark in none."""
    ring = HandMadeRing(tmp_path / "p.ring", "p")
    ring.defines = [DEFINE]
    for _ in range(2):
        ring.record(*rows(ring.rows, 2))
        ring.pack()
    ring.record(*rows(ring.rows, 2))
    ring.keep(Mark("last"))
    ring.write()
    return ring


def rows(begin: int, count: int) -> list[tuple[float, int, float]]:
    """Return rows with the next values."""
    return [(1.0, 1 << 40, float(value)) for value in range(begin, begin + count)]


@pytest.fixture
def salvaged(make_service: Any, connect: Any, ring: HandMadeRing, dead_pid: int) -> Iterator[Any]:
    """A service that has the first batch of a producer which is dead, and the producer."""
    service = make_service({"run.drain_timeout_s": 60.0})
    peer = connect(service, pid=dead_pid, host=service.parts.host, ring=str(ring.path))
    peer.send(DEFINE, rows=rows(0, 2))
    peer.applied(2)
    return service, peer


def silence(service: Any) -> None:
    """Let the time pass after which a silent producer is looked for."""
    service.parts.aggregator.book["p"].last_seen_ns -= 3_000_000_000
    service._next_second_ns = 0


def check(snapshot: MetricsSnapshot) -> None:
    """Everything that was committed is there once, and the account is closed."""
    (series,) = snapshot.series
    assert (series.count, series.total, series.max) == (6, 15.0, 5.0)
    (stat,) = snapshot.producers
    assert (stat.completeness, stat.emitted, stat.applied, stat.salvaged) == ("complete", 7, 7, 5)
    assert (stat.missing, stat.duplicates, stat.status) == (0, 0, "ended")
    assert snapshot.accounting.salvaged == 5
    assert [mark.text for mark in snapshot.marks] == ["last"]


def test_a_drain_salvages_the_dead(salvaged: Any, ring: HandMadeRing) -> None:
    """The dead are salvaged before the drain is over, and the files are gone."""
    service, _ = salvaged
    service.run_status.end("enough")
    service.drain()
    check(service.snapshot())
    assert service.parts.clock.monotonic_ns() < service.run_status.drain_deadline_ns
    assert list(ring.path.parent.glob("p.*")) == []


def test_a_run_that_goes_on_salvages_the_silent(salvaged: Any, ring: HandMadeRing) -> None:
    """A second after they were silent for two."""
    service, peer = salvaged
    silence(service)
    peer.until(lambda: not ring.path.exists())
    check(service.snapshot())
    assert service.parts.aggregator.book.waiting_for() == []
    answer = peer.ask(GetStatus(id=77))
    assert isinstance(answer, Status)
    assert answer.snapshot.accounting.salvaged == 5


def test_a_killed_worker_may_be_replaced(salvaged: Any) -> None:
    """The run waits for its successor as long as it waited for the worker itself, not just for the grace."""
    service, peer = salvaged
    silence(service)
    peer.until(lambda: service.parts.aggregator.book.counted_events == 7)
    aggregator, producer = service.parts.aggregator, service.parts.aggregator.book["p"]
    assert producer.reconciled
    lost_ns = producer.last_seen_ns + 31_000_000_000
    assert aggregator.book.anyone_left(producer.last_seen_ns)
    assert not aggregator.book.anyone_left(lost_ns)
    producer.is_salvaged = False
    assert not aggregator.book.anyone_left(producer.last_seen_ns), "one that ended by itself"


def test_an_interrupted_run_salvages_the_dead_as_well(salvaged: Any) -> None:
    """An interrupted run salvages the dead, although it has no drain."""
    service, _ = salvaged
    service.run_status.end("ctrl-c", interrupted=True)
    service.drain()
    service.close_books()
    check(service.snapshot())


def test_a_batch_that_arrives_after_all_counts_once(salvaged: Any) -> None:
    """A late batch is known by its number, and counts once."""
    service, peer = salvaged
    silence(service)
    peer.until(lambda: service.parts.aggregator.book.counted_events == 7)
    late = peer.frame(rows=rows(2, 2))
    peer.send_frame(late)
    peer.until(lambda: service.snapshot().producers[0].duplicates == 1)
    assert service.snapshot().accounting.applied == 7


def test_a_living_process_keeps_its_ring(salvaged: Any, ring: HandMadeRing) -> None:
    """The lock tells, whatever its process id says: it may be in another container."""
    service, peer = salvaged
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(ring.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    silence(service)
    ticks = service.cost.ticks
    peer.until(lambda: service.cost.ticks > ticks + 10)
    facts = service.parts.aggregator.book["p"]
    assert not service.feed._salvage.is_dead(facts)
    assert (service.parts.aggregator.book.counted_events, ring.path.exists()) == (2, True)
    holder.kill()
    holder.communicate()
    assert service.feed._salvage.is_dead(facts)
    silence(service)
    peer.until(lambda: not ring.path.exists())
    check(service.snapshot())


HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


def test_the_ring_of_the_own_process_is_never_opened(make_service: Any, connect: Any, ring: HandMadeRing) -> None:
    """Closing it would drop the lock."""
    service = make_service()
    peer = connect(service, pid=os.getpid(), host=service.parts.host, ring=str(ring.path))
    with ring.path.open("r+b") as held:
        fcntl.lockf(held, fcntl.LOCK_EX)
        silence(service)
        ticks = service.cost.ticks
        peer.until(lambda: service.cost.ticks > ticks + 10)
        service.close_books()
        probe = subprocess.run(
            [sys.executable, "-c", PROBE, str(ring.path)], capture_output=True, text=True, check=True
        )
    assert probe.stdout == "held\n"
    assert ring.path.exists()


PROBE = """
import fcntl, sys
try:
    fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("held")
"""


def test_a_ring_of_another_host_is_not_looked_for(
    make_service: Any, connect: Any, ring: HandMadeRing, dead_pid: int
) -> None:
    """The same path may exist here, but means nothing."""
    service = make_service()
    connect(service, pid=dead_pid, host="elsewhere", ring=str(ring.path))
    service.run_status.end("enough")
    service.drain()
    service.close_books()
    assert service.snapshot().producers[0].completeness == "incomplete"
    assert ring.path.exists()


@pytest.mark.parametrize("name", ["none.ring", "q.ring", "link.ring", "p.defs", "damaged.ring"])
def test_a_ring_that_can_not_be_read_costs_only_itself(
    make_service: Any, connect: Any, ring: HandMadeRing, dead_pid: int, name: str
) -> None:
    """The run goes on, the producer is incomplete, and a warning says why unless the file is just gone."""
    folder = ring.path.parent
    (folder / "link.ring").symlink_to(ring.path)
    HandMadeRing(folder / "q.ring", "q").write()
    damaged = HandMadeRing(folder / "damaged.ring", "p")
    damaged.floor = 9
    damaged.write()
    before = sorted(folder.iterdir())
    service = make_service()
    peer = connect(service, pid=dead_pid, host=service.parts.host, ring=str(folder / name))
    peer.send(DEFINE, rows=rows(0, 2))
    peer.applied(2)
    service.run_status.end("enough")
    service.drain()
    service.close_books()
    snapshot = service.snapshot()
    assert (snapshot.producers[0].completeness, snapshot.producers[0].salvaged) == ("incomplete", 0)
    told = [warning for warning in snapshot.warnings if "last events of p" in warning]
    assert len(told) == (name != "none.ring"), snapshot.warnings
    assert sorted(folder.iterdir()) == before


def test_events_that_can_not_be_read_any_more_are_missing(
    make_service: Any, connect: Any, ring: HandMadeRing, dead_pid: int
) -> None:
    """The account is closed with them, so the result is not complete."""
    ring.floor = 5
    ring.write()
    service = make_service({"run.drain_timeout_s": 60.0})
    connect(service, pid=dead_pid, host=service.parts.host, ring=str(ring.path))
    service.run_status.end("enough")
    service.drain()
    service.close_books()
    (stat,) = service.snapshot().producers
    assert (stat.completeness, stat.emitted, stat.applied, stat.missing) == ("lossy", 7, 2, 5)


@pytest.mark.slow
@pytest.mark.parametrize("taken", range(4))
def test_an_aggregator_that_dies_in_a_salvage_is_followed_by_another(
    salvaged: Any, make_again: Any, die: Any, ring: HandMadeRing, taken: int
) -> None:
    """The next one takes what is left: nothing is lost or doubled, and all of it counts as salvaged."""
    service, _ = salvaged
    take, done = service.feed.ingest.take, []

    def take_some(frames: Any) -> None:
        if len(done) == taken:
            raise SystemExit
        done.append(frames)
        take(frames)

    service.feed.ingest.take = take_some
    facts = service.parts.aggregator.book["p"]
    if taken < 3:
        with pytest.raises(SystemExit):
            service.feed._salvage.salvage(facts)
    else:
        service.feed._salvage.salvage(facts)
        ring.write()  # as if it had died before it removed the files
    die(service)
    again = make_again(service.parts.directory, {"run.drain_timeout_s": 60.0})
    again.run_status.end("enough")
    again.drain()
    again.close_books()
    check(again.snapshot())
    assert list(ring.path.parent.glob("p.*")) == []


def test_a_checkpoint_and_the_journal_give_the_same_numbers(salvaged: Any) -> None:
    """The salvaged events are in a checkpoint and in the journal."""
    service, peer = salvaged
    silence(service)
    peer.until(lambda: service.parts.aggregator.book.counted_events == 7)
    restored = Numbers.restore(bytes(service.parts.numbers.checkpoint())).aggregator
    known = service.parts.aggregator.book["p"]
    facts = (known.ring, known.is_salvaged, known.salvaged)
    found = restored.book["p"]
    assert (found.ring, found.is_salvaged, found.salvaged) == facts
    assert facts[1:] == (True, 5)
    service.close_books()
    service.parts.journal.close()
    fold = rebuild.Fold(JournalReader(service.parts.directory.journal))
    for entry in fold.entries():
        fold.apply(entry)
    found = fold.numbers.aggregator.book["p"]
    assert (found.ring, found.is_salvaged, found.salvaged) == facts
