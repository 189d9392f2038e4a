"""Producers that were killed before their hello arrived: which rings a service takes for those of its run."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.hand_made_ring import HandMadeRing

from telemetry import limits
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.recovery import rebuild
from telemetry.daemon.service import Service
from telemetry.store.journal import JournalReader
from telemetry.transport.ring_directory import namespaces
from telemetry.wire.control import Hello
from telemetry.wire.events import Define
from telemetry.wire.rings import Introduction

LeaveRing = Callable[..., HandMadeRing]
HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def leave_ring(short_dir: Path, dead_pid: int) -> LeaveRing:
    """`leave_ring(service, key)` is the ring of a killed producer of the service, with three rows."""

    def leave(service: Service, key: str = "p", *, write: bool = True, **facts: object) -> HandMadeRing:
        ring = HandMadeRing(short_dir / "telemetry" / f"{key}.ring", key)
        ring.defines = [Define(1, "latency", "series")]
        ring.record(*((1.0, time.monotonic_ns(), float(value)) for value in range(3)))
        hello = Hello(
            producer=key,
            name="job",
            host=service.parts.host,
            pid=dead_pid,
            mono_ns=time.monotonic_ns(),
            ring=str(ring.path),
        )
        endpoint = service.parts.hub.address
        ring.introduction = Introduction(replace(hello, **facts), endpoint, namespaces(endpoint))
        if write:
            ring.write()
        return ring

    return leave


def look(service: Service) -> None:
    """Look for dead producers, as once a second."""
    service.feed._salvage.silent_ones(service.feed.now_ns())


def producers(service: Service) -> list[str]:
    return list(service.parts.aggregator.book.known)


def test_a_killed_producer_is_found_and_salvaged(make_service: Any, leave_ring: LeaveRing) -> None:
    """A killed producer is salvaged as if its hello had come first, and the journal has the same."""
    service = make_service()
    ring = leave_ring(service, rank=3)
    look(service)
    (stat,) = service.snapshot().producers
    assert (stat.producer, stat.name, stat.rank, stat.status) == ("p", "job", 3, "ended")
    assert (stat.completeness, stat.emitted, stat.applied, stat.salvaged) == ("complete", 3, 3, 3)
    assert not list(ring.path.parent.glob("p.*"))
    service.close_books()
    service.parts.journal.close()
    fold = rebuild.Fold(JournalReader(service.parts.directory.journal))
    for entry in fold.entries():
        fold.apply(entry)
    found = fold.numbers.aggregator.book["p"]
    assert (found.name, found.rank, found.is_salvaged, found.salvaged) == ("job", 3, True, 3)
    assert Numbers.restore(bytes(fold.numbers.checkpoint())).aggregator.book["p"].salvaged == 3


def test_a_ring_that_can_not_be_read_now_is_looked_at_again(make_service: Any, leave_ring: LeaveRing) -> None:
    """The process may be out of descriptors for a moment."""
    service = make_service()
    path = str(leave_ring(service).path)
    limits_before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits_before[1]))
    try:
        assert service.feed._salvage._unknown._look_at(path) is None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits_before)
    look(service)
    assert producers(service) == ["p"]


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_books_close_after_a_last_look(make_service: Any, leave_ring: LeaveRing, interrupted: bool) -> None:
    """A run of which nobody said hello."""
    service = make_service()
    leave_ring(service)
    service.run_status.end("enough", interrupted=interrupted)
    service.drain()
    service.close_books()
    (stat,) = service.snapshot().producers
    assert (stat.completeness, stat.salvaged) == ("complete", 3)


def test_a_hello_that_comes_late_changes_nothing(make_service: Any, connect: Any, leave_ring: LeaveRing) -> None:
    """Nor do batches that were on their way."""
    service = make_service()
    ring = leave_ring(service)
    assert ring.introduction is not None
    look(service)
    peer = connect(service, greet=False)
    peer.ask(replace(ring.introduction.hello, id=1))
    peer.send(Define(1, "latency", "series"), rows=[(1.0, 1, 0.0)])
    peer.until(lambda: service.snapshot().producers[0].duplicates == 1)
    (stat,) = service.snapshot().producers
    assert (stat.completeness, stat.applied, stat.status) == ("complete", 3, "ended")


@pytest.mark.parametrize(
    "facts",
    [
        {"host": "elsewhere"},
        {"pid": os.getpid()},
        {"mono_ns": 0},
        {"producer": "q"},
        {"ring": "/dev/shm/p.ring"},
        {"node": "leaf"},
        {"version": (99, 0)},
    ],
    ids=lambda facts: next(iter(facts)),
)
def test_a_producer_that_does_not_fit_is_left_alone(
    make_service: Any, leave_ring: LeaveRing, facts: dict[str, object]
) -> None:
    """A producer of another host, of this process or of an earlier run is left alone.

    A producer with a false identity is, too.
    """
    service = make_service()
    ring = leave_ring(service, **facts)
    look(service)
    service.close_books()
    assert (producers(service), ring.path.exists()) == ([], True)


@pytest.mark.parametrize("other", ["endpoint", "namespaces"])
def test_a_producer_of_another_address_is_left_alone(make_service: Any, leave_ring: LeaveRing, other: str) -> None:
    """The same address in another container is another one."""
    service = make_service()
    ring = leave_ring(service, write=False)
    assert ring.introduction is not None
    endpoint, names = ring.introduction.endpoint, ring.introduction.namespaces
    if other == "endpoint":
        endpoint += "2"
    else:
        names += "2"
    ring.introduction = Introduction(ring.introduction.hello, endpoint, names)
    ring.write()
    look(service)
    assert (producers(service), ring.path.exists()) == ([], True)


def test_without_an_introduction_a_ring_is_nobodys(make_service: Any, leave_ring: LeaveRing) -> None:
    """Files that are no rings, and rings without an introduction, are left alone."""
    service = make_service()
    ring = leave_ring(service, write=False)
    ring.introduction = None
    ring.write()
    (ring.path.parent / "r.ring").write_bytes(b"no ring")
    (ring.path.parent / "r.defs").write_bytes(b"\xff\xff\xff\x7f")
    look(service)
    assert (producers(service), ring.path.exists()) == ([], True)


def test_a_living_producer_is_looked_at_again(make_service: Any, leave_ring: LeaveRing) -> None:
    """A living producer is left, because its hello may still come.

    The same holds for one that makes its ring and needs the lock.
    """
    service = make_service()
    ring, begun = leave_ring(service), leave_ring(service, "begun")
    whole = begun.path.read_bytes()
    begun.path.write_bytes(b"")
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(ring.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "locked\n"
    look(service)
    assert producers(service) == []
    holder.kill()
    holder.communicate()
    begun.path.write_bytes(whole)
    look(service)
    assert producers(service) == ["begun", "p"]


def test_a_ring_that_its_process_never_used_is_nobodys(make_service: Any, leave_ring: LeaveRing) -> None:
    """The process was killed while it made the ring, before its first event."""
    service = make_service()
    ring = leave_ring(service)
    data = bytearray(ring.path.read_bytes())
    data[:8] = data[64:72] = bytes(8)
    ring.path.write_bytes(data)
    look(service)
    assert (producers(service), service.snapshot().warnings) == ([], [])


def test_a_damaged_ring_makes_the_result_incomplete(make_service: Any, leave_ring: LeaveRing) -> None:
    """The damaged ring's producer is of this run, and a warning names what can't be read."""
    service = make_service()
    ring = leave_ring(service, write=False)
    ring.floor = 9
    ring.write()
    look(service)
    look(service)
    service.close_books()
    (stat,) = service.snapshot().producers
    assert (stat.completeness, stat.salvaged) == ("incomplete", 0)
    assert len([warning for warning in service.snapshot().warnings if "last events of job" in warning]) == 1


def test_without_room_for_its_producer_a_ring_is_lost_and_counted(
    make_service: Any, connect: Any, leave_ring: LeaveRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ring without room is counted once, as is any producer that a run has no room for."""
    service = make_service()
    connect(service, "first")
    monkeypatch.setattr(limits, "PRODUCERS", 1)
    leave_ring(service)
    for _ in range(3):
        look(service)
    assert producers(service) == ["first"]
    service.parts.aggregator.take_bad_frames()
    assert service.snapshot().accounting.bad_frames == {"too_many_producers": 1}


def test_a_run_that_goes_on_takes_what_was_meant_for_it(
    make_service: Any, make_again: Any, die: Any, leave_ring: LeaveRing
) -> None:
    """Rings from before the aggregator's death count only at its own address.

    Others may have used another address meanwhile.
    """
    for flags, taken in (({}, ["p", "q"]), ({"transport.bind": "tcp://127.0.0.1:*"}, ["q"])):
        service = make_service(flags, run_id=f"r{len(flags)}")
        ring = leave_ring(service)
        die(service)
        again = make_again(service.parts.directory, flags)
        leave_ring(again, "q")
        look(again)
        assert producers(again) == taken
        ring.path.unlink(missing_ok=True)
        die(again)


def test_what_can_not_be_looked_for_ends_no_run(
    make_service: Any, leave_ring: LeaveRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directories belong to any program of the user."""
    service = make_service()
    leave_ring(service)

    def fail() -> None:
        raise ValueError

    monkeypatch.setattr(service.feed._salvage._unknown, "take_dead", fail)
    look(service)
    service.close_books()
    assert producers(service) == []
