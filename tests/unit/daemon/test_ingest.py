"""Frames in, in the order decode, admit, journal, apply, publish."""

from __future__ import annotations

import math
import time
from collections import Counter
from typing import Any

import pytest

from telemetry import limits
from telemetry.store.journal import BATCH, JournalReader
from telemetry.store.records import RecordLog
from telemetry.testing import frame
from telemetry.wire import frames
from telemetry.wire.control import Barrier, BarrierReached, GetStatus
from telemetry.wire.events import Count, Define, Mark, Sample


def journaled(service: Any) -> list[bytes]:
    frames = JournalReader(service.parts.directory.journal).frames()
    return [bytes(item.data) for item in frames if item.kind == BATCH]


def test_what_is_applied_is_in_the_journal_and_nothing_else(make_service: Any) -> None:
    """New batches are written as they came; duplicates and frames nobody can read are counted, not written."""
    service = make_service()
    first = frame("p", 0, 0, records=[Count("n", 2.0), Mark("m")])
    second = frame("p", 1, 2, records=[Sample("s", 1.5)])
    service.feed.ingest.take([first, b"noise", second, first, frames.EVENTS + b"\xc1"])
    service.feed.ingest.take([])
    assert journaled(service) == [first, second]
    assert [record.record for record in RecordLog(service.parts.directory.records).read(0, 10)] == [Mark("m")]
    snapshot = service.snapshot()
    account = snapshot.accounting
    assert (account.received, account.applied, account.duplicates) == (3, 3, 1)
    assert account.bad_frames == {"frame_unreadable": 1, "wrong_topic": 1}
    assert (snapshot.counters[0].value, snapshot.series[0].max) == (2, 1.5)
    assert (snapshot.cost.frames, snapshot.cost.journal_bytes > len(first) + len(second)) == (5, True)


def test_without_a_journal_everything_else_is_the_same(make_service: Any) -> None:
    """`--no-journal` writes none."""
    service = make_service({"journal.enabled": False})
    service.feed.ingest.take([frame("p", 0, 0, records=[Count("n", 2.0)])])
    assert not service.parts.directory.journal.exists()
    assert service.snapshot().accounting.applied == 1


def test_a_journal_that_cannot_be_written_is_said_and_costs_no_number(make_service: Any) -> None:
    """The run goes on; the snapshot warns once."""
    service = make_service()
    service.parts.journal.failed = "No space left on device"
    service.feed.ingest.take([frame("p", 0, 0, records=[Count("n", 2.0)])])
    service.snapshot()
    assert service.snapshot().warnings[0] == "the journal could not be written: No space left on device"
    assert service.snapshot().counters[0].value == 2


def arrived(service: Any) -> None:
    """Waits until the socket has something, and reads it as a turn of the loop does."""
    assert service.parts.hub.wait(10.0).events
    service.feed.ingest.turn()


def test_a_bounded_number_is_taken_together(make_service: Any, connect: Any, monkeypatch: Any) -> None:
    """A flood can't keep a tick or a signal waiting, and a fold of the journal takes the same turns."""
    service = make_service()
    peer = connect(service)
    monkeypatch.setattr(limits, "TURN_FRAMES", 3)
    for _ in range(20):
        peer.send(Count("n"))
    counts = []
    while sum(counts) < 20:
        assert service.parts.hub.wait(10.0).events
        counts.append(service.feed.ingest.turn())
    service.feed.catch_up()
    assert (max(counts) <= 3, service.parts.aggregator.applied) == (True, 20)
    frames = JournalReader(service.parts.directory.journal).frames()
    assert Counter(Counter(item.time_ns for item in frames if item.kind == BATCH).values()) == {3: 6, 2: 1}


def test_a_few_events_wait_for_more(make_service: Any, connect: Any) -> None:
    """A turn costs nearly the same for one frame as for ten: they are held, and the socket is left alone."""
    service = make_service()
    peer = connect(service)
    for _ in range(3):
        peer.send(Count("n"))
        arrived(service)
        assert not service.feed.listens
    assert (journaled(service), service.snapshot().accounting.received) == ([], 0)
    service.feed.catch_up()
    assert (len(journaled(service)), service.parts.aggregator.applied) == (3, 3)


def test_many_events_wait_for_none(make_service: Any, connect: Any) -> None:
    """As many as are vectorised at once are taken, and the socket is read again, also when they came bit by bit."""
    service = make_service()
    peer = connect(service)
    row = (0, time.monotonic_ns(), 1.0)
    peer.send(Define(0, "n", "counter"), rows=[row] * limits.CHUNK_EVENTS)
    arrived(service)
    assert (service.parts.aggregator.applied, service.feed.listens) == (limits.CHUNK_EVENTS, True)
    assert service.feed.due_s() == math.inf
    for applied in (1, 2):
        peer.send(rows=[row] * (limits.CHUNK_EVENTS // 2))
        arrived(service)
        assert service.parts.aggregator.applied == limits.CHUNK_EVENTS * applied
        assert not service.feed.listens


@pytest.mark.parametrize("hz", [10.0, 100.0])
def test_every_snapshot_has_all_that_came(make_service: Any, connect: Any, hz: float, monkeypatch: Any) -> None:
    """A tick takes what is held, and what is in the socket that is left alone."""
    monkeypatch.setattr(limits, "GATHER_S", 3600.0)
    service = make_service({"run.refresh_hz": hz})
    peer = connect(service)
    peer.send(Count("n"))
    arrived(service)
    peer.send(Count("n"))
    assert service.parts.hub.wait(10.0).events
    ticks = service.cost.ticks
    while service.cost.ticks == ticks:
        service.turn()
    assert service.course.newest.accounting.applied == 2


def test_who_asks_for_the_state_hears_of_all_that_came(make_service: Any, connect: Any) -> None:
    """Between two ticks as well."""
    service = make_service()
    peer = connect(service)
    peer.send(Count("n"))
    arrived(service)
    assert service.parts.aggregator.applied == 0
    assert peer.ask(GetStatus(id=5)).snapshot.accounting.applied == 1


def test_who_waits_for_batches_waits_for_no_others(
    make_service: Any, connect: Any, monkeypatch: Any, wait_until: Any
) -> None:
    """A barrier has the socket read at once, also when it is left alone."""
    monkeypatch.setattr(limits, "GATHER_S", 3600.0)
    service = make_service()
    peer = connect(service)
    service._next_tick_ns += 3_600_000_000_000
    peer.send(Count("n"))
    arrived(service)
    peer.send(Count("n"))
    assert service.parts.hub.wait(10.0).events
    peer.say(Barrier(id=5, producer="p", batches=2))
    service.turns_until(lambda: service.parts.aggregator.applied == 2)
    wait_until(lambda: peer.all(BarrierReached))


def test_what_has_come_before_the_books_close_is_in_them(make_service: Any, connect: Any, monkeypatch: Any) -> None:
    """An interruption waits for nobody, but what is held, or lies in the socket, is taken."""
    monkeypatch.setattr(limits, "GATHER_S", 3600.0)
    service = make_service()
    peer = connect(service)
    peer.send(Count("n"))
    arrived(service)
    peer.send(Count("n"))
    assert service.parts.hub.wait(10.0).events
    service.close_books()
    assert service.parts.aggregator.applied == 2
