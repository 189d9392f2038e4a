"""Texts become values: booked once, by a producer of the aggregator's own, with real sockets and workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tokenizers import Tokenizer

from telemetry import limits
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.service import Service
from telemetry.daemon.tokens.results import OWN_PRODUCER, tokens_of, values_of
from telemetry.history.request_log import read
from telemetry.store.journal import BATCH, JournalFrame, JournalReader
from telemetry.testing.builders import ended, frame
from telemetry.wire.codec import decode_batch, decode_record
from telemetry.wire.events import Count, Counted, Sample, Uncounted
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

MakeService = Callable[..., Service]


@pytest.fixture
def counting(make_service: MakeService, tokenizer_file: Path, request: pytest.FixtureRequest) -> MakeService:
    """`counting(flags)` makes a service with a worker, which ends with the test."""

    def make(flags: dict[str, object] | None = None, **facts: object) -> Service:
        service = make_service({"tokens.tokenizer": str(tokenizer_file)} | (flags or {}), **facts)
        assert service.parts.counter is not None
        request.addfinalizer(service.parts.counter.close)
        return service

    return make


def text(words: str, **facts: Any) -> Uncounted:
    return Uncounted(text=words, tokens="llm.output_tokens", **facts)


def series(service: Service, name: str = "llm.output_tokens") -> SeriesStat:
    return next(stat for stat in service.snapshot().series if stat.name == name)


def own(snapshot: MetricsSnapshot) -> list[Any]:
    return [stat for stat in snapshot.producers if stat.producer == OWN_PRODUCER]


def journal_batches(service: Service) -> Iterator[JournalFrame]:
    reader = JournalReader(service.parts.directory.journal)
    return (item for item in reader.frames() if item.kind == BATCH)


def counted(service: Service, peer: Any) -> None:
    """Takes turns until nothing is pending."""
    peer.until(lambda: not service.parts.aggregator.uncounted.pending, "all texts are counted")


# --- what a text is worth ------------------------------------------------------------------------


def test_a_text_is_worth_its_tokens_and_the_time_for_each() -> None:
    """The first ones came before the time began."""
    given = text("a b c", time_ns=5, labels={"k": "v"}, per_token="llm.tpot", span_ns=100, skipped=1)
    assert values_of(given, 9) == [
        Sample(name="llm.output_tokens", value=9, time_ns=5, unit="tokens", labels={"k": "v"}),
        Sample(name="llm.tpot", value=12.5, time_ns=5, unit="ns", labels={"k": "v"}),
    ]
    assert values_of(given, 1) == values_of(text("a b c", time_ns=5, labels={"k": "v"}), 1)
    assert [record.value for record in values_of(given, 0) if isinstance(record, Sample)] == [0]
    assert values_of(given, None) == []


# --- the way -------------------------------------------------------------------------------------


def test_texts_become_values_as_the_library_counts_them(
    counting: MakeService, connect: Any, tokenizer_file: Path
) -> None:
    """The sum is right to the token, nothing is pending, and the books balance."""
    service = counting()
    peer = connect(service)
    texts = [f"to be or not to be, {number}" * (number % 7) for number in range(2_500)]
    for begin in range(0, 2_500, 500):
        peer.send(*(text(words) for words in texts[begin : begin + 500]))
    peer.applied(2_500)
    counted(service, peer)
    expected = [len(encoding) for encoding in Tokenizer.from_file(str(tokenizer_file)).encode_batch(texts)]
    stat = series(service)
    assert (stat.count, stat.total, stat.unit) == (2_500, sum(expected), "tokens")
    snapshot = service.snapshot()
    assert snapshot.warnings == []
    (mine,) = own(snapshot)
    assert mine.emitted == mine.received == mine.applied
    made = [decode_batch(bytes(item.data)) for item in journal_batches(service)]
    made = [batch for batch in made if batch.producer == OWN_PRODUCER]
    firsts = [0, *accumulate(len(batch.records) for batch in made)]
    assert [(batch.seq, batch.first) for batch in made] == list(enumerate(firsts[:-1]))
    assert mine.applied - 2_500 < 10, "one record for each batch beside the values"


def test_values_have_the_time_of_their_text(counting: MakeService, connect: Any) -> None:
    """A value has the wall-clock time of its text, not of its counting, with any producer clock."""
    service = counting()
    peer = connect(service)
    at_ns = service.parts.clock.wall_ns() - 3_000_000_000
    anchor = (7_000_000_000, at_ns)
    peer.send_frame(frame("p", records=[text("a b", time_ns=anchor[0] + 5)], anchor=anchor))
    peer.applied(1)
    counted(service, peer)
    (found,) = (
        record
        for item in journal_batches(service)
        for record in map(decode_record, decode_batch(item.data).records)
        if isinstance(record, Sample)
    )
    assert found.time_ns == at_ns + 5


def test_the_request_log_gets_the_tokens_of_its_requests(counting: MakeService, connect: Any) -> None:
    """Tokens are found by the number of the request, for its input and output. A text of no request has none."""
    service = counting()
    peer = connect(service)
    made = ended(range(2))
    unknown = replace(made, entries=[replace(entry, output_tokens=None) for entry in made.entries])
    question = Uncounted(text="a b c", tokens="llm.input_tokens", number=0)
    texts = [question, text("a b", number=0), text("a", number=1), text("a b c d")]
    peer.send_frame(frame("p", records=[unknown, *texts]))
    peer.applied(5)
    counted(service, peer)
    service.feed.close()
    found = [(one.producer, one.entry.number, one.entry) for one in read(service.parts.directory)]
    expected = [len(encoding) for encoding in service_encodings(service, ["a b c", "a b", "a"])]
    assert [(producer, number) for producer, number, _ in found] == [("p", 0), ("p", 1)]
    assert [(entry.input_tokens, entry.output_tokens) for *_, entry in found] == [
        (expected[0], expected[1]),
        (None, expected[2]),
    ]


def service_encodings(service: Service, texts: list[str]) -> Any:
    """The tokens of texts, by the library itself."""
    path = service.parts.options.config.tokens.tokenizer
    return Tokenizer.from_file(path).encode_batch(texts, add_special_tokens=False)


def test_an_answer_of_the_most_texts_fits_in_a_batch() -> None:
    """Each text gives its tokens, the time for each, two increments of goodput, and a line of the request log."""
    given = text("a", per_token="llm.tpot", span_ns=5, number=7, producer="p", tpot_limit_ns=9, otherwise_good=True)
    records = [*values_of(given, 3), *tokens_of(given, 3)]
    assert len({type(record) for record in records}) == 3
    assert 1 + limits.TOKEN_BATCH_TEXTS * len(records) <= limits.BATCH_RECORDS


@pytest.mark.parametrize(("tokens", "is_met"), [(0, True), (2, True), (3, False), (4, True), (None, False)])
def test_counted_tokens_are_judged_by_the_rule_of_limits(tokens: int | None, is_met: bool) -> None:
    """A text of no more tokens than its first piece has no time per token, which is good, however late its end."""
    given = text("a", span_ns=20, skipped=2, tpot_limit_ns=10, otherwise_good=True)
    names = [record.name for record in values_of(given, tokens) if isinstance(record, Count)]
    assert names == (["llm.met", "llm.good"] if is_met else [])


def test_a_run_without_texts_has_no_producer_of_ours(counting: MakeService, connect: Any) -> None:
    """A run without texts shows no producer for their tokens."""
    service = counting()
    peer = connect(service)
    peer.send(Count("n"))
    peer.applied(1)
    service.feed.close()
    assert own(service.snapshot()) == []


def test_our_producer_lives_and_ends_with_the_aggregator(counting: MakeService, connect: Any) -> None:
    """An idle token producer is not called late, and nothing of it is open at the end."""
    service = counting()
    peer = connect(service)
    peer.send(text("a"))
    peer.applied(1)
    counted(service, peer)
    facts = service.parts.aggregator.book[OWN_PRODUCER]
    facts.last_seen_ns = 0
    service.feed.each_second()
    assert own(service.snapshot())[0].status == "live"
    peer.end()
    peer.until(lambda: service.parts.aggregator.book.waiting_for() == [OWN_PRODUCER])
    service.close_books()
    (mine,) = own(service.snapshot())
    assert (mine.status, mine.completeness) == ("ended", "complete")
    assert service.parts.counter is not None
    assert service.parts.counter.pids == []


def test_a_run_of_producers_that_are_gone_ends_whatever_ours_does(counting: MakeService, connect: Any) -> None:
    """Ours keeps no run alive."""
    service = counting({"run.orphan_grace_s": 0.05})
    peer = connect(service)
    peer.send(text("a"))
    peer.applied(1)
    counted(service, peer)
    peer.end()
    service.live()
    assert service.run_status.reason == "all producers have been gone for 0.05 s"


# --- without a tokenizer -------------------------------------------------------------------------


def test_without_a_tokenizer_texts_fail_and_one_warning_says_what_to_do(
    make_service: MakeService, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts without a tokenizer hold up nothing, and nothing is recorded of them."""
    monkeypatch.setattr(limits, "TOKEN_BATCH_BYTES", 100)
    service = make_service()
    peer = connect(service)
    for _ in range(2):
        peer.send(*(text("one two three") for _ in range(300)))
    peer.applied(600)
    assert service.snapshot().pending.deferred > 0
    assert service.feed.due_s() == 0, "nobody wakes the loop for them"
    service.run_status.end("enough")
    peer.end()
    service.drain()
    assert service.feed.due_s() > 0
    snapshot = service.snapshot()
    assert (snapshot.pending.deferred, snapshot.series) == (0, [])
    assert [said for said in snapshot.warnings if "--tokenizer" in said] == snapshot.warnings[:1]
    assert "the tokens of 600 texts could not be counted" in snapshot.warnings


# --- the drain -----------------------------------------------------------------------------------


def test_a_drain_waits_for_texts(counting: MakeService, connect: Any) -> None:
    """A drain waits for the texts that come with a producer's last batches, too. Then the run is complete."""
    service = counting({"run.drain_timeout_s": 100.0})
    peer = connect(service)
    peer.send(*(text("to be or not to be " * 20) for _ in range(2_000)))
    peer.applied(1)
    peer.end()
    service.run_status.end("enough")
    service.drain()
    assert service.parts.clock.monotonic_ns() < service.feed._producers_until_ns  # type: ignore[attr-defined]
    service.close_books()
    service.run_status.lifecycle.to("COMPLETE")
    snapshot = service.snapshot()
    assert series(service).count == 2_000
    assert (snapshot.pending.deferred, snapshot.completeness) == (0, "complete")


def test_a_drain_has_a_budget_for_texts(
    counting: MakeService, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The texts that are left are shown as pending, with a warning, and the run is not complete."""
    service = counting({"tokens.budget_s": 0.1})
    assert service.parts.counter is not None
    monkeypatch.setattr(type(service.parts.counter), "answer", lambda self: None)
    peer = connect(service)
    peer.send(text("a"), text("b"))
    peer.applied(2)
    peer.end()
    service.run_status.end("enough")
    service.drain()
    assert service.parts.clock.monotonic_ns() >= (service.run_status.drain_deadline_ns or 0)
    assert service.run_status.drain_deadline_ns == service.feed._texts_until_ns  # type: ignore[attr-defined]
    service.close_books()
    service.run_status.lifecycle.to("COMPLETE")
    snapshot = service.snapshot()
    assert (snapshot.pending.deferred, snapshot.completeness) == (2, "incomplete")
    assert "the tokens of 2 texts were not counted in time" in snapshot.warnings


def test_texts_have_their_time_although_a_producer_used_up_its_own(counting: MakeService, connect: Any) -> None:
    """One that never ends costs the tokens of nobody."""
    service = counting({"run.drain_timeout_s": 0.0})
    peer = connect(service)
    peer.send(*(text("to be or not to be " * 20) for _ in range(500)))
    peer.applied(1)
    service.run_status.end("enough")
    service.drain()
    assert series(service).count == 500
    assert "p" in service.snapshot().pending.producers


def test_an_interruption_waits_for_no_text(
    counting: MakeService, connect: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The drain that goes on ends at once."""
    service = counting({"tokens.budget_s": 600})
    assert service.parts.counter is not None
    monkeypatch.setattr(type(service.parts.counter), "answer", lambda self: None)
    peer = connect(service)
    peer.send(text("a"))
    peer.applied(1)
    peer.end()
    service.run_status.end("enough")
    ticks = service.cost.ticks
    turn = service.turn

    def interrupted(**options: Any) -> None:
        turn(**options)
        if service.cost.ticks > ticks + 3:
            service.run_status.end("now", interrupted=True)

    service.turn = interrupted  # type: ignore[method-assign]
    begun_ns = service.parts.clock.monotonic_ns()
    service.drain()
    assert service.parts.clock.monotonic_ns() - begun_ns < 60_000_000_000
    assert service.snapshot().pending.deferred == 1


def test_a_text_that_was_held_is_given_away_at_once(counting: MakeService, connect: Any) -> None:
    """A text that was held goes to the counter at once, because nothing else would wake the loop."""
    service = counting()
    connect(service).hold(text("a b c"))
    assert not service.parts.aggregator.uncounted.pending
    service.catch_up()
    assert (service.parts.aggregator.uncounted.pending, service.parts.aggregator.uncounted.fresh) == (1, 0)


def test_a_drain_waits_for_a_text_that_is_held(counting: MakeService, connect: Any) -> None:
    """A drain waits for a held text of a producer that never sent hello, too."""
    service = counting({"tokens.budget_s": 20})
    connect(service, greet=False).hold(text("a b c"))
    assert not service.parts.aggregator.uncounted.pending
    service.run_status.end("enough")
    service.drain()
    service.close_books()
    assert (service.snapshot().pending.deferred, series(service).count) == (0, 1)


@pytest.fixture
def hopeless(
    counting: MakeService, tokenizer_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Service]:
    """A service whose workers are dead, and whose tokenizer is gone."""

    def make(flags: dict[str, object]) -> Service:
        monkeypatch.setattr(limits, "RESTART_PAUSE_S", 0.0)
        moved = tmp_path / "tokenizer.json"
        moved.write_bytes(tokenizer_file.read_bytes())
        service = counting({"tokens.tokenizer": str(moved), **flags})
        assert service.parts.counter is not None
        moved.unlink()
        for lane in service.parts.counter._lanes:
            lane.kill()
        return service

    return make


def test_a_drain_does_not_wait_for_workers_that_are_lost(hopeless: Any, connect: Any) -> None:
    """The tokenizer is gone when a worker has to be replaced: that is said, and texts stay pending."""
    service = hopeless({"tokens.budget_s": 600})
    peer = connect(service)
    peer.send(text("a"))
    peer.applied(1)
    peer.end()
    service.run_status.end("enough")
    service.drain()
    service.close_books()
    snapshot = service.snapshot()
    assert snapshot.pending.deferred == 1
    assert [said for said in snapshot.warnings if "can start" in said]


def test_workers_that_are_lost_last_are_said_to_be(hopeless: Any, connect: Any, wait_until: Any) -> None:
    """The loss of the workers is reported, also when the run ends before another turn."""
    service = hopeless({})
    peer = connect(service)
    peer.send(text("a"))
    texts = service.parts.aggregator.uncounted
    peer.until(lambda: texts.pending and not texts.fresh)
    wait_until(lambda: service.parts.counter.lost)
    service.close_books()
    snapshot = service.snapshot()
    assert (snapshot.pending.deferred, len([said for said in snapshot.warnings if "can start" in said])) == (1, 1)


# --- once, whatever happens ----------------------------------------------------------------------


def test_numbers_are_those_of_the_journal(counting: MakeService, connect: Any) -> None:
    """Values, texts that are pending and those that are done, to the last bit."""
    service = counting()
    peer = connect(service)
    peer.send(*(text(f"to be {number}", per_token="llm.tpot", span_ns=number) for number in range(700)))
    peer.applied(700)
    counted(service, peer)
    peer.send(text("not seen by anybody"))
    service.feed.deferred._counter = None  # type: ignore[attr-defined]
    service.feed.deferred.turn = lambda: None  # type: ignore[attr-defined]
    peer.until(lambda: service.parts.aggregator.uncounted.pending == 1)
    fold = Fold(JournalReader(service.parts.directory.journal))
    for entry in fold.entries():
        fold.apply(entry)
    assert fold.numbers.aggregator.uncounted.pending == 1
    assert [(one.name, one.count, one.total) for one in fold.numbers.aggregator.series.stats()] == [
        (one.name, one.count, one.total) for one in service.snapshot().series
    ]


def test_a_follower_counts_what_was_pending_and_nothing_twice(
    counting: MakeService, make_again: MakeService, connect: Any, die: Any, tokenizer_file: Path
) -> None:
    """An aggregator dies with texts at its workers and results that nobody booked."""
    service = counting()
    peer = connect(service)
    texts = [f"to be or not to be {number}" for number in range(900)]
    peer.send(*(text(words) for words in texts[:400]))
    peer.applied(400)
    counted(service, peer)
    service.feed.deferred._book = lambda answer: None  # type: ignore[attr-defined]
    peer.send(*(text(words) for words in texts[400:]))
    peer.until(lambda: service.parts.aggregator.uncounted.pending == 500)
    assert service.parts.counter is not None
    service.parts.counter.close()
    die(service)
    again = make_again(service.parts.directory, {"tokens.tokenizer": str(tokenizer_file)})
    try:
        again.turns_until(lambda: not again.parts.aggregator.uncounted.pending)
        expected = [len(encoding) for encoding in Tokenizer.from_file(str(tokenizer_file)).encode_batch(texts)]
        assert (series(again).count, series(again).total) == (900, sum(expected))
        assert own(again.snapshot())[0].missing == 0
    finally:
        again.parts.counter.close()


def test_a_follower_ends_our_producer_although_no_text_is_left(
    counting: MakeService, make_again: MakeService, connect: Any, die: Any, tokenizer_file: Path
) -> None:
    """A run whose texts were all counted before its aggregator died waits for nothing of ours."""
    service = counting()
    peer = connect(service)
    peer.send(text("a"))
    peer.applied(1)
    counted(service, peer)
    assert service.parts.counter is not None
    service.parts.counter.close()
    die(service)
    again = make_again(service.parts.directory, {"tokens.tokenizer": str(tokenizer_file)})
    again.turn()
    again.feed.close()
    assert again.parts.aggregator.book.waiting_for() == ["p"]
    assert own(again.snapshot())[0].status == "ended"


def test_a_follower_without_a_tokenizer_goes_on_with_the_run(
    counting: MakeService, make_again: MakeService, connect: Any, die: Any, tmp_path: Path
) -> None:
    """One that can't be read any more is said, and the texts stay pending."""
    service = counting()
    peer = connect(service)
    service.feed.deferred._book = lambda answer: None  # type: ignore[attr-defined]
    peer.send(text("a"))
    peer.applied(1)
    assert service.parts.counter is not None
    service.parts.counter.close()
    die(service)
    again = make_again(service.parts.directory, {"tokens.tokenizer": str(tmp_path / "gone.json")})
    again.turn()
    snapshot = again.snapshot()
    assert snapshot.pending.deferred == 1
    assert [said for said in snapshot.warnings if "gone.json" in said]
    again.parts.counter.close()


def test_a_follower_of_a_run_that_was_closed_counts_no_more(
    counting: MakeService, make_again: MakeService, connect: Any, die: Any, tokenizer_file: Path
) -> None:
    """Our producer has ended: what is pending stays so, and no event is lost for trying."""
    service = counting()
    peer = connect(service)
    peer.send(text("a"))
    peer.applied(1)
    counted(service, peer)
    service.feed.deferred._book = lambda answer: None  # type: ignore[attr-defined]
    peer.send(text("b"))
    peer.until(lambda: service.parts.aggregator.uncounted.pending)
    service.feed.close()
    die(service)
    again = make_again(service.parts.directory, {"tokens.tokenizer": str(tokenizer_file)})
    again.turn()
    assert not again.feed.deferred.waits
    assert again.snapshot().accounting.dropped == {}
    assert again.snapshot().pending.deferred == 1
    again.parts.counter.close()


def test_a_text_that_somebody_else_calls_done_is_no_trouble(counting: MakeService, connect: Any) -> None:
    """The loop goes on if another producer calls texts done that are at a worker."""
    service = counting()
    peer = connect(service)
    assert service.parts.counter is not None
    answer, service.parts.counter.answer = service.parts.counter.answer, lambda: None  # type: ignore[method-assign]
    peer.send(text("a"), text("b"))
    peer.until(lambda: service.parts.counter is not None and service.parts.counter.answered)
    peer.send(Counted(texts=[0, 1, 7], failed=9))
    peer.until(lambda: not service.parts.aggregator.uncounted.pending)
    service.parts.counter.answer = answer  # type: ignore[method-assign]
    peer.send(text("c"))
    peer.until(lambda: [stat for stat in service.snapshot().series if stat.count == 3])
    assert service.snapshot().pending.deferred == 0
