"""Waits until recorded events are in batches, and producers that end with their run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.unit.client.sending.test_flusher import Bench, deaf, willing

from telemetry import limits
from telemetry.client import records
from telemetry.client.sending.flusher import Flusher
from telemetry.wire.control import Ack, End, Pong
from telemetry.wire.events import EventBatch, Mark

WaitUntil = Callable[..., Any]
SOON_S = 20.0


@pytest.fixture
def bench(link: Any, desk: Any) -> Iterator[Bench]:
    made = Bench(link, desk)
    made.link.answer = willing
    yield made
    for flusher in made.made:
        flusher.stop()


@pytest.fixture
def flusher(bench: Bench) -> Flusher:
    """A flusher that sleeps until it is woken."""
    made = bench.start(period_s=60.0)
    made.wait_for_welcome(SOON_S)
    return made


def mark(text: str) -> bytes:
    return records.mark(text, {}, 1)


def texts(batches: list[EventBatch], read: Any) -> list[str]:
    found = [record for batch in batches for record in read.records(batch)]
    return [record.text for record in found if isinstance(record, Mark)]


def test_events_recorded_before_are_in_the_batches(bench: Bench, flusher: Flusher, read: Any) -> None:
    """Rows and records. The wait wakes the flusher."""
    bench.desk.fill(3)
    bench.desk.outbox.records.append(mark("m"))
    batches = flusher.await_packed(SOON_S)
    assert batches == 1
    [batch] = bench.link.batches[:batches]
    assert (batch.rows.count, texts([batch], read)) == (3, ["m"])


def test_an_empty_queue_is_packed_at_once(bench: Bench, flusher: Flusher) -> None:
    """All events are in earlier batches, or there were none."""
    assert flusher.await_packed(SOON_S) == 0
    bench.desk.fill(1)
    assert flusher.await_packed(SOON_S) == 1
    assert flusher.await_packed(SOON_S) == 1


def test_more_than_a_batch_is_waited_for(make_desk: Any, link: Any) -> None:
    """The number covers the last of the batches."""
    made = Bench(link, make_desk(row_bound=None))
    link.answer = willing
    flusher = made.start(period_s=60.0)
    try:
        flusher.wait_for_welcome(SOON_S)
        made.desk.fill(2 * limits.BATCH_EVENTS + 1)
        assert flusher.await_packed(SOON_S) == 3
        assert sum(batch.rows.count for batch in link.batches) == 2 * limits.BATCH_EVENTS + 1
    finally:
        flusher.stop()


def test_definitions_go_first(bench: Bench, flusher: Flusher) -> None:
    """Batches with nothing but definitions don't end the wait."""
    bench.desk.definitions += [mark("stands for a definition")] * (2 * limits.BATCH_RECORDS + 1)
    bench.desk.fill(1)
    batches = flusher.await_packed(SOON_S)
    assert batches is not None
    assert [batch.rows.count for batch in bench.link.batches[:batches]].count(1) == 1
    assert batches >= 3


def test_events_dropped_by_the_bound_end_the_wait(bench: Bench, flusher: Flusher, wait_until: WaitUntil) -> None:
    """Dropped events will be in no batch, so they end the wait and are counted as dropped."""
    link, outbox = bench.link, bench.desk.outbox
    link.receive_control = lambda timeout_s=0.0: [Ack(batches=0, epoch="e")]  # it hears, but takes nothing
    link.room = 0
    bench.desk.fill(1)
    assert flusher.await_packed(SOON_S) == 1
    bench.desk.fill(500)
    answers: list[int | None] = []
    thread = threading.Thread(target=lambda: answers.append(flusher.await_packed(SOON_S)))
    thread.start()
    wait_until(lambda: flusher._packings and flusher._packings[0].targets == (501, 0), what="a wait for 501 rows")
    bench.desk.fill(4_000)
    flusher.wake()
    thread.join()
    assert answers == [1]
    assert outbox.dropped == {"buffer_full": 3_500}
    assert outbox.waiting == 1_000


def test_other_events_do_not_hold_up_a_wait(make_desk: Any, link: Any, read: Any) -> None:
    """Many threads wait while others record: each gets batches that hold what it recorded before."""
    made = Bench(link, make_desk(row_bound=None))
    outbox, going = made.desk.outbox, threading.Event()
    sent = link.send_events

    def send(frame: bytes | bytearray) -> bool:
        link.inbox.append(Ack(batches=outbox.next_seq, epoch="e"))
        return bool(sent(frame))

    def flood() -> None:
        while not going.wait(0.0002):
            made.desk.fill(50)
            outbox.records.append(mark("other"))

    def wait(name: str) -> None:
        for number in range(20):
            outbox.records.append(mark(f"{name}{number}"))
            answers[f"{name}{number}"] = flusher.await_packed(SOON_S)

    link.answer, link.send_events = willing, send
    answers: dict[str, int | None] = {}
    flusher = made.start(period_s=0.01)
    flusher.wait_for_welcome(SOON_S)
    flooding = threading.Thread(target=flood)
    waiting = [threading.Thread(target=wait, args=(name,)) for name in "abcd"]
    for thread in [flooding, *waiting]:
        thread.start()
    for thread in waiting:
        thread.join()
    going.set()
    flooding.join()
    flusher.finish(SOON_S)
    assert len(answers) == 80
    position = {
        text: number
        for number, batch in enumerate(link.batches)
        for text in texts([batch], read)
        if text != "other"
    }
    assert all(batches is not None and position[text] < batches for text, batches in answers.items())


def test_a_wait_ends_in_time(bench: Bench, link: Any, wait_until: WaitUntil) -> None:
    """The wait ends in time, although no batch is packed before the aggregator has answered.

    A later wait covers the events.
    """
    link.answer = lambda request: []
    flusher = bench.start(period_s=0.002)
    assert flusher.silent
    bench.desk.fill(2)
    assert flusher.await_packed(0.05) is None
    link.answer = willing
    link.inbox += willing(flusher.hello)
    flusher.wait_for_welcome(SOON_S)
    assert flusher.await_packed(SOON_S) == 1
    assert not flusher.silent
    assert sum(batch.rows.count for batch in link.batches) == 2


def test_events_that_can_not_be_encoded_end_the_wait(
    bench: Bench, flusher: Flusher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Events that can't be encoded are counted as dropped, since a wait for them would never end."""
    from telemetry.client.sending import outbox as outbox_module

    def fail(batch: object) -> bytearray:
        raise MemoryError("none left")

    with monkeypatch.context() as patch:
        patch.setattr(outbox_module, "encode_batch", fail)
        bench.desk.fill(2)
        flusher.await_packed(0.2)
    assert flusher.await_packed(SOON_S) == 0
    assert sum(bench.desk.outbox.dropped.values()) == 2


@pytest.mark.slow
@pytest.mark.parametrize("ends_with_run", [False, True])
def test_a_service_is_complete_when_its_run_ends(
    bench: Bench, link: Any, wait_until: WaitUntil, ends_with_run: bool
) -> None:
    """A program that the end of its run surprises may lack something; a service has nothing of its own to say."""
    link.answer = deaf()
    flusher = bench.start()
    object.__setattr__(flusher._parts, "ends_with_run", ends_with_run)
    flusher.wait_for_welcome(SOON_S)
    bench.desk.fill(2)
    link.inbox.append(Pong(epoch="e", state="DRAINING"))
    wait_until(lambda: bench.told_over, what="the end of the run")
    assert flusher.over
    wait_until(lambda: any(isinstance(message, End) for message in link.asked), what="the end")
    [end, *_] = [message for message in link.asked if isinstance(message, End)]
    assert (end.emitted, end.unfinished) == (2, not ends_with_run)


def test_the_end_can_be_awaited(bench: Bench, flusher: Flusher) -> None:
    """The wait does not bring it about."""
    assert flusher.await_end(0.05) is None
    assert not flusher.over
    bench.desk.fill(2)
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(flusher.await_end(SOON_S)))
    thread.start()
    ending = flusher.finish(SOON_S)
    thread.join()
    assert answers == [ending]
    assert ending.account is not None


@pytest.mark.parametrize("room", [0, 100])
def test_an_end_says_how_many_events_could_not_be_sent(bench: Bench, flusher: Flusher, room: int) -> None:
    """The account of the aggregator lacks nothing then: it knows that they were dropped."""
    bench.link.room = room
    bench.desk.fill(4)
    ending = flusher.finish(0.3 if not room else SOON_S)
    assert ending.account is not None
    assert (ending.account.missing, ending.unsent) == (0, 0 if room else 4)


def test_the_outbox_counts_what_leaves_the_queue(desk: Any) -> None:
    """The outbox counts each event that leaves the queue, in a batch or by a drop. Definitions are no events."""
    outbox = desk.outbox
    desk.definitions.append(mark("stands for a definition"))
    desk.fill(3)
    outbox.records.append(mark("m"))
    assert (outbox.rows_taken, outbox.records_taken) == (0, 0)
    desk.pack()
    assert (outbox.rows_taken, outbox.records_taken) == (3, 1)
    desk.fill(1_005)
    outbox.settle()
    assert (outbox.waiting, outbox.rows_taken, outbox.records_taken) == (1_000, 8, 1)
    outbox.records.extend([mark("m")] * (limits.RECORDS_BUFFERED + 2))
    outbox.settle()
    assert (len(outbox.records), outbox.rows_taken, outbox.records_taken) == (limits.RECORDS_BUFFERED, 8, 3)


def test_newer_rows_do_not_end_a_wait_for_older_records(make_desk: Any, link: Any, read: Any) -> None:
    """A batch takes from both queues. Rows that come meanwhile must not stand for records that still wait."""
    made = Bench(link, make_desk(row_bound=None))
    sent = link.send_events

    def send(frame: bytes | bytearray) -> bool:
        made.desk.fill(limits.BATCH_EVENTS // 2)
        return bool(sent(frame))

    link.answer, link.send_events = willing, send
    flusher = made.start(period_s=0.01)
    try:
        flusher.wait_for_welcome(SOON_S)
        made.desk.outbox.records.extend([*[mark("m")] * (2 * limits.BATCH_RECORDS), mark("last")])
        batches = flusher.await_packed(SOON_S)
        assert "last" in texts(link.batches[:batches], read)
    finally:
        flusher.stop()
