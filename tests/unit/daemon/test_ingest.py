"""Frames in, in the order decode, admit, journal, apply, publish."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import pytest

from telemetry import limits
from telemetry.daemon import ingest
from telemetry.store.journal import BATCH, JournalReader
from telemetry.store.records import RecordLog
from telemetry.testing import frame
from telemetry.wire import frames
from telemetry.wire.control import Barrier, BarrierReached
from telemetry.wire.events import Count, Define, Mark, Sample


@pytest.fixture
def left_alone(monkeypatch: Any) -> Callable[[float], None]:
    """Leaves the socket alone for so long, whatever the time between snapshots."""

    def leave(seconds: float) -> None:
        monkeypatch.setattr(limits, "GATHER_S", seconds)
        monkeypatch.setattr(ingest, "_OF_A_SNAPSHOT", math.inf)

    return leave


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


def test_a_turn_takes_a_bounded_number(make_service: Any, connect: Any, monkeypatch: Any) -> None:
    """A flood can't keep a tick or a signal waiting."""
    service = make_service()
    peer = connect(service)
    monkeypatch.setattr(limits, "TURN_FRAMES", 3)
    peer.send(Count("n"))
    for _ in range(20):
        assert peer.link.send_events(peer.frame([Count("n")]))
    counts = []
    while service.parts.aggregator.applied < 21:
        assert service.parts.hub.wait(10.0).events
        before = service.parts.aggregator.applied
        counts.append(service.feed.ingest.turn())
        assert service.parts.aggregator.applied - before == counts[-1]
    assert max(counts) <= 3


def test_what_comes_soon_after_a_few_events_is_taken_together(
    make_service: Any, connect: Any, left_alone: Any
) -> None:
    """A turn costs nearly the same for one frame as for ten, so the socket may fill for a moment."""
    left_alone(0.4)
    service = make_service()
    peer = connect(service)
    peer.send(Count("n"))
    peer.applied(1)
    for _ in range(10):
        assert peer.link.send_events(peer.frame([Count("n")]))
    seen = set()
    while service.parts.aggregator.applied < 11:
        service.turn()
        seen.add(service.parts.aggregator.applied)
    assert seen == {1, 11}


def test_who_waits_for_batches_waits_for_no_others(make_service: Any, connect: Any, left_alone: Any) -> None:
    """A barrier has the socket read at once, also when it is left alone."""
    left_alone(3600.0)
    service = make_service()
    peer = connect(service)
    peer.send(Count("n"))
    peer.applied(1)
    assert not service.feed.listens
    peer.send(Count("n"))
    assert isinstance(peer.ask(Barrier(id=5, producer="p", batches=2)), BarrierReached)
    assert service.parts.aggregator.applied == 2


def test_what_has_come_before_the_books_close_is_in_them(make_service: Any, connect: Any, left_alone: Any) -> None:
    """An interruption waits for nobody, but what lies in the socket is taken."""
    left_alone(3600.0)
    service = make_service()
    peer = connect(service)
    peer.send(Count("n"))
    peer.applied(1)
    peer.send(Count("n"))
    assert service.parts.hub.wait(10.0).events
    service.close_books()
    assert service.parts.aggregator.applied == 2


def test_events_are_in_the_next_snapshot(make_service: Any, connect: Any, monkeypatch: Any) -> None:
    """Also of a run that publishes a hundred a second: only a part of the time between two is left to gather."""
    monkeypatch.setattr(limits, "GATHER_S", 3600.0)
    service = make_service({"run.refresh_hz": 100.0})
    peer = connect(service)
    peer.send(Count("n"))
    peer.applied(1)
    assert service.feed.due_s() <= 0.0025


def test_after_many_events_the_socket_is_read_at_once(make_service: Any, connect: Any, left_alone: Any) -> None:
    """In a flood nothing waits."""
    left_alone(3600.0)
    service = make_service()
    peer = connect(service)
    row = (0, time.monotonic_ns(), 1.0)
    peer.send(Define(0, "n", "counter"), rows=[row] * limits.CHUNK_EVENTS)
    peer.applied(limits.CHUNK_EVENTS)
    assert (service.feed.listens, service.feed.due_s()) == (True, math.inf)
    peer.send(rows=[row])
    peer.applied(limits.CHUNK_EVENTS + 1)
    assert not service.feed.listens
    assert service.feed.due_s() > 3_000
