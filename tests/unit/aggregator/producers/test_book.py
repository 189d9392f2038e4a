"""Producers: sequence, account, end, status."""

from __future__ import annotations

import pytest

from telemetry import limits
from telemetry.aggregator.config import AggregatorConfig
from telemetry.aggregator.producers.book import ProducerBook
from telemetry.aggregator.producers.producer import Producer
from telemetry.aggregator.run_clock import RunClock
from telemetry.testing import batch
from telemetry.wire.control import End, Hello

SECOND = 1_000_000_000
LATE = (1 << 63) - 1
CONFIG = AggregatorConfig(window_s=2, late_after_s=3, lost_after_s=30)


def _producer(book: ProducerBook | None = None) -> Producer:
    producer = (ProducerBook(CONFIG) if book is None else book).meet("p", 0)
    assert producer is not None
    return producer


def _balanced(producer: Producer) -> bool:
    ledger = producer.account.ledger
    return ledger.received == ledger.applied + ledger.dropped_total + producer.unsettled


def _apply(producer: Producer, seq: int, first: int, events: int) -> bool:
    """Admits a batch and counts all of it as applied."""
    if not producer.admit(batch(seq=seq, first=first), events, 0):
        return False
    assert _balanced(producer)
    producer.account.ledger.apply(events)
    producer.applied(seq)
    return True


def test_admitted_events_wait_until_they_are_applied() -> None:
    """The law holds between the two; acknowledgement follows the application."""
    producer = _producer()
    assert producer.admit(batch(seq=0), 5, 0)
    assert (producer.unsettled, producer.applied_batches) == (5, 0)
    producer.account.ledger.apply(5)
    producer.applied(0)
    assert (producer.unsettled, producer.applied_batches) == (0, 1)
    with pytest.raises(KeyError):
        producer.applied(0)


def test_a_batch_twice_counts_once() -> None:
    """Duplicates change nothing but their own count."""
    producer = _producer()
    assert _apply(producer, 0, 0, 5)
    assert not _apply(producer, 0, 0, 5)
    assert (producer.account.ledger.received, producer.sequence.duplicates) == (5, 1)


def test_an_end_is_reconciled_when_the_last_batch_is_applied() -> None:
    """An end is not reconciled while batches are missing, nor between admission and application."""
    producer = _producer()
    _apply(producer, 1, 3, 2)
    assert producer.finish(End(producer="p", batches=2, emitted=5), 0) == []
    producer.reconcile()
    assert not producer.reconciled
    assert producer.admit(batch(seq=0, first=0), 3, 0)
    producer.reconcile()
    assert not producer.reconciled
    producer.account.ledger.apply(3)
    producer.applied(0)
    producer.reconcile()
    assert producer.reconciled
    assert producer.completeness() == "complete"
    assert (producer.ended().emitted, producer.ended().missing) == (5, 0)


def test_what_comes_after_a_reconciled_end_is_dropped_and_counted() -> None:
    """A batch after a reconciled end is received, not applied, and the producer is lossy."""
    producer = _producer()
    producer.finish(End(producer="p", batches=0, emitted=0), 0)
    producer.reconcile()
    assert producer.admit(batch(seq=0), 4, 0)
    assert _balanced(producer)
    producer.refuse(0)
    assert producer.account.ledger.by_reason() == {"after_end": 4}
    assert not producer.belongs(0)
    assert _balanced(producer)
    assert producer.completeness() == "lossy"


def test_an_end_that_the_end_of_the_run_forced_is_not_complete() -> None:
    """All it said is in, and it may have recorded more."""
    producer = _producer()
    assert _apply(producer, 0, 0, 4)
    producer.finish(End(producer="p", batches=1, emitted=4, unfinished=True), 0)
    producer.reconcile()
    stat = producer.stat(0, 0, 1.0, CONFIG)
    assert (stat.status, stat.completeness, stat.unfinished, stat.applied) == ("ended", "incomplete", True, 4)


def test_a_repeated_end_is_silent_and_another_one_is_told() -> None:
    """Retries of a request differ in their id only; the first totals stay."""
    producer = _producer()
    assert producer.finish(End(id=1, producer="p", batches=0, emitted=0), 0) == []
    assert producer.finish(End(id=2, producer="p", batches=0, emitted=0), 0) == []
    assert "with different totals" in producer.finish(End(id=3, producer="p", batches=0, emitted=9), 0)[0]
    assert producer.account.emitted == 0


@pytest.mark.parametrize(
    "end",
    [
        End(producer="p", batches=(1 << 63) - 1, emitted=0),
        End(producer="p", batches=1, emitted=(1 << 63) - 1),
        End(producer="p", batches=1, emitted=5, dropped={"buffer_full": (1 << 63) - 1}),
    ],
)
def test_an_end_that_cant_be_is_told_and_clamped(end: End) -> None:
    """An impossible end makes nobody wait for batches that were never made. No number leaves its bounds."""
    producer = _producer()
    _apply(producer, 0, 0, 5)
    assert "impossible total" in producer.finish(end, 0)[0]
    producer.reconcile()
    assert producer.reconciled
    assert 0 <= producer.account.missing <= limits.EVENT_NUMBERS


def test_fewer_batches_than_were_numbered_is_told() -> None:
    """The batches that came count all the same."""
    producer = _producer()
    _apply(producer, 4, 0, 1)
    assert "numbered 5" in producer.finish(End(producer="p", batches=2, emitted=1), 0)[0]


def test_status_follows_silence() -> None:
    """Live, late, lost by the time since the last sign of life; ended for good."""
    book = ProducerBook(CONFIG)
    producer = _producer(book)
    assert [producer.status(at * SECOND, CONFIG) for at in (0, 3, 4, 30, 31)] == [
        "live",
        "live",
        "late",
        "late",
        "lost",
    ]
    assert book.anyone_left(30 * SECOND)
    assert not book.anyone_left(31 * SECOND)
    producer.finish(End(producer="p", batches=0, emitted=0), 0)
    producer.reconcile()
    assert producer.status(0, CONFIG) == "ended"
    assert not book.anyone_left(0)


def test_a_run_that_had_no_producer_yet_is_not_deserted() -> None:
    """Somebody may still come."""
    assert ProducerBook(CONFIG).anyone_left(10**18)


def test_collectors_are_neither_waited_for_nor_company() -> None:
    """Collectors are no part of the job: it is complete without a goodbye of theirs.

    Alone they keep no run alive.
    """
    book = ProducerBook(CONFIG)
    collectors = book.meet("telemetry.collectors.1", 0)
    assert collectors is not None
    collectors.hello(Hello(producer="telemetry.collectors.1", name="collectors"), 0)
    assert (book.waiting_for(), book.anyone_left(10**18)) == ([], True)
    producer = _producer(book)
    producer.hello(Hello(producer="p"), 0)
    assert (book.waiting_for(), book.anyone_left(0)) == (["p"], True)
    producer.finish(End(producer="p", batches=0, emitted=0), 0)
    producer.reconcile()
    assert (book.waiting_for(), book.anyone_left(0)) == ([], False)
    collectors.finish(End(producer="telemetry.collectors.1", batches=0, emitted=0), 0)
    collectors.reconcile()
    assert (producer.foldable, collectors.foldable) == (True, False)


def test_completeness_is_unknown_without_a_hello() -> None:
    """Only a producer that said hello, or ended, can be incomplete."""
    producer = _producer()
    assert producer.completeness() == "unknown"
    producer.hello(Hello(producer="p", name="n", host="h", pid=7, rank=3), 5)
    assert producer.completeness() == "incomplete"
    stat = producer.stat(10, 1_000, 0.0, CONFIG)
    assert (stat.name, stat.host, stat.pid, stat.rank, stat.last_seen_ns) == ("n", "h", 7, 3, 995)


def test_the_book_is_bounded() -> None:
    """One producer more than the limit finds no place; known ones still do."""
    book = ProducerBook(CONFIG)
    for number in range(limits.PRODUCERS):
        assert book.meet(f"p{number}", 0) is not None
    assert book.meet("one more", 0) is None
    assert book.get("one more") is None
    assert book.meet("p0", 0) is book["p0"]
    assert len(book) == limits.PRODUCERS


def test_events_per_second_cover_the_window() -> None:
    """Received events over the last rolls by their length."""
    book = ProducerBook(CONFIG)
    producer = _producer(book)
    assert book.stats(0, 0)[0].events_per_s == 0.0
    _apply(producer, 0, 0, 10)
    book.roll(1.0)
    book.roll(1.0)
    assert book.stats(0, 0)[0].events_per_s == 5.0
    book.roll(1.0)
    assert book.stats(0, 0)[0].events_per_s == 0.0


def test_a_snapshot_names_only_so_many_gaps() -> None:
    """A producer with a thousand gaps doesn't fill the snapshot."""
    producer = _producer()
    for seq in range(0, 200, 2):
        _apply(producer, seq, seq, 1)
    stat = producer.stat(0, 0, 0.0, CONFIG)
    assert stat.missing_batches[0] == (1, 1)
    assert len(stat.missing_batches) == limits.GAPS_SHOWN
    assert stat.missing == 99


def _clock(now_ns: int, wall_ns: int) -> RunClock:
    clock = RunClock()
    clock.read(now_ns, wall_ns)
    return clock


def test_the_times_of_a_producer_keep_the_distances_of_its_monotonic_clock() -> None:
    """However long it took to read the wall clock, and wherever that was set to."""
    producer, clock = _producer(), _clock(9 * SECOND, 1_009 * SECOND)
    assert producer.steady((100, 1_000 * SECOND), clock) == (100, 1_000 * SECOND + 100)
    for wall_ns in (9_000_000, 3 * 3_600 * SECOND, -999 * SECOND):
        assert producer.steady((300, 1_000 * SECOND + wall_ns), clock) == (300, 1_000 * SECOND + 300)


def test_a_batch_from_later_than_now_moves_its_producer() -> None:
    """A batch from later than now moves its producer.

    The producer's clock goes faster than ours, or its first batch was long on its way.
    """
    producer, clock = _producer(), _clock(9 * SECOND, 1_009 * SECOND)
    assert producer.steady((500 * SECOND, 1_008 * SECOND), clock) == (500 * SECOND, 1_008 * SECOND)
    clock.read(10 * SECOND, 1_010 * SECOND)
    assert producer.steady((503 * SECOND, 0), clock) == (503 * SECOND, 1_010 * SECOND)
    assert producer.steady((501 * SECOND, 0), clock) == (501 * SECOND, 1_008 * SECOND)


def test_a_producer_without_a_monotonic_clock_follows_the_wall_clock() -> None:
    """A producer without a monotonic clock is on the run's clock while nobody sets the wall clock.

    Every step of the wall clock moves its times less.
    """
    producer, clock = _producer(), _clock(9 * SECOND, 1_009 * SECOND)
    assert producer.steady((0, 0), clock) == (0, 0)
    clock.read(10 * SECOND, 5_010 * SECOND)
    assert producer.steady((0, 0), clock) == (4_000 * SECOND, 0)


@pytest.mark.parametrize("anchor", [(0, LATE), (LATE, 0), (LATE, LATE), (LATE, 1), (1, LATE), (0, 1), (5, 5)])
@pytest.mark.parametrize("now", [(0, 0), (0, LATE), (LATE, 0), (LATE, LATE), (5, 5)])
def test_no_clock_leaves_64_bits(anchor: tuple[int, int], now: tuple[int, int]) -> None:
    """Times stay within 64 bits, whatever the anchor and the clock say."""
    producer = _producer()
    for _ in range(2):
        _, time_ns = producer.steady(anchor, _clock(*now))
        assert 0 <= time_ns <= LATE
