"""Frames in, in the order decode, admit, journal, apply, publish."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from telemetry import limits
from telemetry.daemon.service import Service
from telemetry.store.journal import BATCH, JournalReader
from telemetry.store.records import RecordLog
from telemetry.testing.builders import frame
from telemetry.wire.codec import EVENTS
from telemetry.wire.control import Barrier, BarrierReached, GetStatus, Status
from telemetry.wire.events import Count, Define, Mark, Sample
from telemetry.wire.snapshot import MetricsSnapshot


def journaled(service: Any) -> list[bytes]:
    frames = JournalReader(service.parts.directory.journal).frames()
    return [bytes(item.data) for item in frames if item.kind == BATCH]


def test_what_is_applied_is_in_the_journal_and_nothing_else(make_service: Any) -> None:
    """New batches are written as they came; duplicates and frames nobody can read are counted, not written."""
    service = make_service()
    first = frame("p", 0, 0, records=[Count("n", 2.0), Mark("m")])
    second = frame("p", 1, 2, records=[Sample("s", 1.5)])
    service.feed.ingest.take([first, b"noise", second, first, EVENTS + b"\xc1"])
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
    assert service.snapshot().warnings[0] == "can't write the journal: No space left on device"
    assert service.snapshot().counters[0].value == 2


@pytest.fixture
def slow(
    make_service: Callable[..., Service], connect: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Service, Any]]:
    """A service without ticks, which leaves its socket alone for ever when it gave few events, and a peer."""

    def make(flags: dict[str, object] | None = None, **facts: object) -> tuple[Service, Any]:
        monkeypatch.setattr(limits, "GATHER_S", 3_600.0)
        service = make_service(flags)
        peer = connect(service, **facts)
        peer.until(peer.link._hear_subscription)
        service._next_tick_ns += 3_600_000_000_000
        return service, peer

    return make


def arrive(service: Service) -> None:
    """Waits until the socket has something."""
    assert service.parts.hub.wait(10.0).events


def tick(service: Service) -> MetricsSnapshot:
    service._next_tick_ns = 0
    service.turn()
    return service.run_status.newest


def turns(service: Service) -> list[int]:
    """Frames of each turn, as the journal has them."""
    frames = JournalReader(service.parts.directory.journal).frames()
    return list(Counter(item.time_ns for item in frames if item.kind == BATCH).values())


@pytest.mark.parametrize("held", [1, 2, 5])
def test_a_bounded_number_is_taken_together(slow: Any, monkeypatch: Any, held: int) -> None:
    """A flood can't keep a tick or a signal waiting, and a fold of the journal takes the same turns."""
    service, peer = slow()
    monkeypatch.setattr(limits, "TURN_FRAMES", 7)
    for _ in range(held):
        peer.hold(Count("n"))
    for _ in range(20 - held):
        peer.send(Count("n"))
    while service.parts.aggregator.book.counted_events < 14:
        arrive(service)
        service.feed.ingest.turn()
    while any(service.parts.hub.wait(0.05)):
        service.feed.ingest.turn()
    service.feed.catch_up()
    assert turns(service) == [7, 7, 6]


def test_a_bounded_number_of_bytes_is_taken_together(slow: Any, monkeypatch: Any) -> None:
    """The number of bytes in a turn is bounded, for frames that are held and for others."""
    service, peer = slow()
    frames = [peer.frame([Count("n")]) for _ in range(8)]
    monkeypatch.setattr(limits, "TURN_BYTES", 3 * len(frames[0]) - 1)
    peer.send_frame(frames[0])
    arrive(service)
    service.feed.ingest.turn()
    for frame_ in frames[1:]:
        peer.send_frame(frame_)
    while service.parts.aggregator.book.counted_events < 8:
        service.feed.ingest.turn()
        service.feed.ingest.catch_up()
    assert max(turns(service)) == 3


def test_a_few_events_wait_for_more(slow: Any) -> None:
    """A turn costs nearly the same for one frame as for ten: they are held, and the socket is left alone."""
    service, peer = slow()
    for _ in range(3):
        peer.hold(Count("n"))
        assert not service.feed.listens
    assert (journaled(service), service.snapshot().accounting.received) == ([], 0)
    service.feed.catch_up()
    assert (len(journaled(service)), service.parts.aggregator.book.counted_events) == (3, 3)
    assert turns(service) == [3]


def test_many_events_wait_for_none(slow: Any) -> None:
    """As many events as are vectorised at once are taken, also if they came bit by bit.

    The socket is then read again.
    """
    service, peer = slow()
    row = (0, time.monotonic_ns(), 1.0)
    peer.hold(Define(0, "n", "counter"), rows=[row] * limits.CHUNK_EVENTS)
    assert (service.parts.aggregator.book.counted_events, service.feed.listens) == (limits.CHUNK_EVENTS, True)
    assert service.feed.due_s() == math.inf
    for applied in (1, 2):
        peer.hold(rows=[row] * (limits.CHUNK_EVENTS // 2))
        assert service.parts.aggregator.book.counted_events == limits.CHUNK_EVENTS * applied
        assert not service.feed.listens
    peer.hold(rows=[row] * limits.CHUNK_EVENTS)
    assert service.feed.listens


@pytest.mark.parametrize("hz", [10.0, 100.0])
def test_every_snapshot_has_what_came(slow: Any, hz: float) -> None:
    """A tick takes what is held, and what is in the socket that is left alone, before anything else: producers
    hear that it is applied, and the interval that ends has it."""
    service, peer = slow({"run.refresh_hz": hz})
    peer.hold(Count("n"))
    peer.send(Count("n"))
    arrive(service)
    service._next_second_ns = 0
    assert tick(service).accounting.applied == 2
    assert turns(service) == [2]
    assert service.parts.aggregator.book.acknowledgements() == []
    assert service.parts.numbers.run.rolls == 1
    assert not service.parts.aggregator.roll(0, 1, 1).counters.index


def test_who_asks_for_the_state_hears_of_what_came(slow: Any, wait_until: Any) -> None:
    """The status has the events that came between two ticks, and shows that the run has begun."""
    service, peer = slow(greet=False)
    assert service.run_status.lifecycle.state == "INITIALIZE"
    peer.hold(Count("n"))
    assert service.parts.aggregator.book.counted_events == 0
    peer.say(GetStatus(id=5))
    service.turn()
    wait_until(lambda: peer.all(Status))
    (status,) = peer.all(Status)
    assert (status.snapshot.accounting.applied, status.snapshot.state) == (1, "LIVE")


def test_numbers_that_fail_for_who_asks_end_the_run(slow: Any, monkeypatch: Any) -> None:
    """A failure of the numbers ends the run as at any other time, also if a question led to it."""
    service, peer = slow()
    peer.hold(Count("n"))

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(service.parts.numbers, "apply", fail)
    peer.say(GetStatus(id=5))
    with pytest.raises(RuntimeError, match="a defect"):
        service.turn()


def test_who_waits_for_batches_waits_for_no_others(slow: Any, wait_until: Any) -> None:
    """A barrier has the socket read at once, also when it is left alone."""
    service, peer = slow()
    peer.hold(Count("n"))
    peer.send(Count("n"))
    arrive(service)
    peer.say(Barrier(id=5, producer="p", batches=2))
    service.turns_until(lambda: service.parts.aggregator.book.counted_events == 2)
    wait_until(lambda: peer.all(BarrierReached))


def test_a_batch_that_comes_after_its_barrier_is_taken_at_once(slow: Any) -> None:
    """A batch and its barrier come by different sockets, so either may be first."""
    service, peer = slow()
    peer.hold(Count("n"))
    peer.say(Barrier(id=5, producer="p", batches=2))
    service.turns_until(lambda: service.control.owed)
    ticks = service._ticks
    peer.send(Count("n"))
    service.turns_until(lambda: service.parts.aggregator.book.counted_events == 2)
    assert service._ticks == ticks


def test_what_has_come_before_the_books_close_is_in_them(slow: Any, monkeypatch: Any) -> None:
    """An interruption waits for nobody, but what is held is taken, and as much of what lies in the socket."""
    monkeypatch.setattr(limits, "TURN_FRAMES", 3)
    service, peer = slow()
    for _ in range(2):
        peer.hold(Count("n"))
    for _ in range(3):
        peer.send(Count("n"))
    arrive(service)
    service.close_books()
    held, others = turns(service)
    assert (held, others >= 1) == (2, True)
