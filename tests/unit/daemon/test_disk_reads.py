"""Records and intervals of the history, as answers of the control channel."""

from __future__ import annotations

import threading
from typing import Any

import msgspec
import pytest

from telemetry import limits
from telemetry.daemon.control import read_history, read_records
from telemetry.store.history import HistoryReader
from telemetry.testing.builders import MONO_NS
from telemetry.wire import control as msg
from telemetry.wire.events import Define, Mark, Params
from telemetry.wire.history import Interval


def test_readers_leave_room_for_what_the_run_writes(make_service: Any, connect: Any) -> None:
    """However many records are asked for while the disk is slow, no interval of the history is lost for it."""
    service = make_service()
    go = threading.Event()
    service.parts.worker.submit(lambda: go.wait(20.0))
    peers = [connect(service, f"p{number}") for number in range(4)]
    for peer in peers:
        for number in range(80):
            peer.say(msg.Catchup(id=1_000 + number))
        peer.ask(msg.Ping(id=5))
    assert any(peer.all(msg.Error) for peer in peers)
    service.feed.roll()
    assert service.snapshot().warnings == []
    go.set()
    peers[0].until(lambda: sum(len(peer.all(msg.CaughtUp)) + len(peer.all(msg.Error)) for peer in peers) == 320)
    assert isinstance(peers[0].ask(msg.Catchup(id=6)), msg.CaughtUp), "and there is room again"


def test_records_come_in_pages(make_service: Any, connect: Any, monkeypatch: Any) -> None:
    """Contiguous from any number on, by count and by bytes; past the end there is nothing, and it says where."""
    monkeypatch.setattr(limits, "CATCHUP_RECORDS", 40)
    service = make_service()
    peer = connect(service)
    for number in range(100):
        peer.send(Mark(f"m{number}"))
    peer.applied(100)
    answer: Any = peer.ask(msg.Catchup(id=4, from_seq=5))
    assert [one.seq for one in answer.records] == list(range(5, 45))
    assert (answer.next_seq, answer.last_seq) == (45, 99)
    answer = peer.ask(msg.Catchup(id=5, from_seq=90))
    assert [one.record for one in answer.records] == [Mark(f"m{number}", one.record.time_ns) for number, one in
                                                      zip(range(90, 100), answer.records, strict=True)]  # fmt: skip
    assert (answer.next_seq, answer.last_seq) == (100, 99)
    answer = peer.ask(msg.Catchup(id=6, from_seq=500))
    assert (answer.records, answer.next_seq, answer.last_seq) == ([], 500, 99)


@pytest.mark.slow
def test_a_page_of_records_is_bounded_in_bytes(make_service: Any, connect: Any) -> None:
    """Large records make short pages, never a message that breaks the connection, and never an empty page."""
    service = make_service()
    peer = connect(service)
    big = {f"k{number}": "x" * limits.TEXT_CHARS for number in range(800)}
    for _ in range(5):
        peer.send(Params(big))
    peer.applied(5)
    seq, pages = 0, 0
    while seq < 5:
        page = read_records(service.parts.records, seq)
        assert 0 < len(page.records) < 3
        assert len(msgspec.msgpack.encode(page)) < 2 * limits.FRAME_BYTES
        seq, pages = page.next_seq, pages + 1
    assert pages >= 3


def test_history_comes_in_pages_with_the_keys_on_the_first(
    make_service: Any, monkeypatch: Any, connect: Any
) -> None:
    """Every interval once, in order, and each page within its bytes."""
    monkeypatch.setattr(limits, "HISTORY_REPLY_BYTES", 1)
    service = make_service()
    peer = connect(service)
    for number in range(4):
        peer.send(Define(1, "s", "series"), rows=[(1, MONO_NS + number, float(number))])
        peer.applied(number + 1)
        service.feed.roll()
    starts: list[int] = []
    start_ns: int | None = 0
    pages = 0
    while start_ns is not None:
        answer: Any = peer.ask(msg.GetHistory(id=10 + pages, start_ns=start_ns))
        assert [key.name for key in answer.keys] == (["s"] if pages == 0 else [])
        starts += [msgspec.msgpack.decode(raw, type=Interval).start_ns for raw in answer.intervals]
        start_ns = answer.next_ns
        pages += 1
    assert (pages, len(set(starts)), starts) == (4, 4, sorted(starts))


def test_history_of_a_time_span(make_service: Any, connect: Any) -> None:
    """Intervals that overlap it, and no others."""
    service = make_service()
    for _ in range(3):
        service.feed.roll()
    peer = connect(service)
    everything: Any = peer.ask(msg.GetHistory(id=4))
    middle = msgspec.msgpack.decode(everything.intervals[1], type=Interval)
    reader = HistoryReader(service.parts.directory.history)
    answer = read_history(reader, msg.GetHistory(start_ns=middle.start_ns, end_ns=middle.end_ns), [])
    assert answer.intervals == [everything.intervals[1]]


def test_a_disk_that_is_far_behind_is_said(make_service: Any, connect: Any) -> None:
    """The question is refused at once; nothing piles up."""
    service = make_service()
    peer = connect(service)
    service.parts.worker.submit = lambda *_: False
    answer = peer.ask(msg.Catchup(id=4))
    assert isinstance(answer, msg.Error)
    assert (answer.code, answer.message) == ("unavailable", "the disk is far behind")
