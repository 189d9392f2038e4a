"""Requests on their way to the request log: which are kept, which are left out, and what a checkpoint has of it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.store.framing import frame as framed
from telemetry.testing import batch, ended
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.codec import decode_record, encode_logged
from telemetry.wire.control import TOKEN_COUNTER, Hello
from telemetry.wire.events import Count, Mark, Uncounted
from telemetry.wire.request_log import EndedRequests, LoggedRecords, RequestTokens
from telemetry.wire.snapshot import Accounting, RequestLogStat

SECOND_NS = 10**9


class Run:
    """An aggregator, its producers, and what it hands to the request log."""

    def __init__(self, cap_bytes: int = 1 << 28) -> None:
        self.aggregator = Aggregator(AggregatorConfig(request_log_cap_bytes=cap_bytes))
        self.sent: dict[str, tuple[int, int]] = {}
        self.logged: list[LoggedRecords] = []

    def send(self, *records: Any, producer: str = "p", anchor: tuple[int, int] = (MONO_NS, WALL_NS)) -> None:
        seq, first = self.sent.get(producer, (0, 0))
        one = batch(producer, seq, first, records=records, anchor=anchor)
        assert self.aggregator.admit(one, MONO_NS)
        assert not [item for item in self.aggregator.apply([one], MONO_NS, WALL_NS) if not is_mark(item.record)]
        self.sent[producer] = seq + 1, first + len(records)
        self.logged += self.aggregator.requests.take()

    @property
    def stat(self) -> RequestLogStat | None:
        return self.aggregator.snapshot(SnapshotFacts(run_id="r", name="n"), MONO_NS, WALL_NS).request_log

    @property
    def account(self) -> Accounting:
        return self.aggregator.snapshot(SnapshotFacts(run_id="r", name="n"), MONO_NS, WALL_NS).accounting

    @property
    def numbers(self) -> list[int]:
        records = [decode_record(raw) for frame in self.logged for raw in frame.records]
        return [entry.number for one in records if isinstance(one, EndedRequests) for entry in one.entries]

    @property
    def file_bytes(self) -> int:
        return sum(len(part) for one in self.logged for part in framed([encode_logged(one)], 0, 1))


def is_mark(record: object) -> bool:
    return isinstance(record, Mark)


def test_requests_go_to_the_log_and_not_to_the_stream() -> None:
    """One frame for each batch, with the records as they came; each record is one applied event."""
    run = Run()
    run.send(ended(range(3)), Mark("m"), ended([3], kind="embed", labels={"model": "a"}))
    run.send(ended([4]), producer="q")
    (first, second) = run.logged
    assert (first.producer, second.producer) == ("p", "q")
    assert [decode_record(raw) for raw in first.records] == [
        ended(range(3)),
        ended([3], kind="embed", labels={"model": "a"}),
    ]
    assert (run.account.applied, run.account.lost) == (4, 0)
    assert run.stat == RequestLogStat(kept=5)
    assert run.aggregator.requests.take() == []


def test_a_run_without_requests_has_no_figure_of_a_log() -> None:
    """A run without requests has a snapshot without a figure of the request log."""
    run = Run()
    run.send(Mark("m"), Count("n"))
    assert (run.stat, run.logged) == (None, [])


def test_times_lead_to_the_clock_of_the_run() -> None:
    """A producer on another monotonic clock, and one whose times are wall clock times."""
    run = Run()
    run.send(ended([0]), anchor=(7 * SECOND_NS, WALL_NS - SECOND_NS))
    run.send(ended([0]), producer=TOKEN_COUNTER, anchor=(0, 0))
    other, wall = run.logged
    assert 7 * SECOND_NS + other.offset_ns + other.step_ns == WALL_NS - SECOND_NS
    assert (wall.offset_ns, wall.step_ns) == (0, 0)


def test_the_first_requests_are_kept() -> None:
    """A log leaves out all requests after the first record that does not fit, small ones too.

    Requests that are left out do not count as lost.
    """
    run = Run(cap_bytes=20_000)
    for number in range(200):
        run.send(ended([number], chunks=40))
    run.send(ended([200]))
    kept = len(run.numbers)
    assert run.numbers == list(range(kept))
    assert 50 < kept < 100
    assert run.stat == RequestLogStat(kept=kept, left_out=201 - kept, cap_bytes=20_000)
    assert run.file_bytes <= 20_000
    assert (run.account.applied, run.account.lost) == (201, 0)


def test_a_full_log_still_takes_the_tokens_of_its_requests() -> None:
    """A full log has an eighth of its room for tokens of its requests, which are counted later."""
    run = Run(cap_bytes=20_000)
    while not (run.stat and run.stat.left_out):
        run.send(ended([0], chunks=40))
    kept = len(run.logged)
    run.send(RequestTokens("p", 0, "output_tokens", 7), producer=TOKEN_COUNTER)
    assert len(run.logged) == kept + 1
    for number in range(1_000):
        run.send(RequestTokens("p", number, "output_tokens", 7), producer=TOKEN_COUNTER)
    assert len(run.logged) < kept + 100
    assert run.file_bytes <= 20_000
    assert run.account.lost == 0


def test_what_producers_left_out_is_counted() -> None:
    """A run counts requests that producers left out, whether their record has other requests or none."""
    run = Run()
    run.send(replace(ended([0]), left_out=2))
    run.send(EndedRequests("llm", {}, [], 5))
    assert run.stat == RequestLogStat(kept=1, left_out=7)
    assert len(run.logged) == 1


def changed(**fields: Any) -> EndedRequests:
    """A record of two requests, of which the second is different."""
    made = ended(range(2), chunks=2)
    return replace(made, entries=[made.entries[0], replace(made.entries[1], **fields)])


@pytest.mark.parametrize(
    "record",
    [
        changed(chunk_tokens=[1]),
        changed(chunk_tokens=[1, 2, 3]),
        changed(first_ns=None),
        changed(first_ns=None, gaps_ns=[], chunks_left_out=1),
        RequestTokens("q", 0, "output_tokens", 7),
    ],
    ids=[
        "too few tokens",
        "too many tokens",
        "chunks before the first",
        "left out before the first",
        "not its own",
    ],
)
def test_a_record_that_contradicts_itself_is_dropped(record: Any) -> None:
    """A record that contradicts itself is dropped as a whole, with its reason.

    The program that sent it is wrong.
    """
    run = Run()
    run.send(record)
    assert run.account.dropped == {"malformed_record": 1}
    assert (run.stat, run.logged) == (None, [])


@pytest.mark.parametrize(
    "record",
    [
        changed(ended_ns=MONO_NS - 1),
        changed(first_ns=0),
        changed(planned_ns=MONO_NS + SECOND_NS),
        changed(gaps_ns=[-5, 7]),
        changed(chunk_tokens=[None, 0]),
        changed(outcome="failed", reason="http_503", output_tokens=None),
        RequestTokens("p", 0, "input_tokens", 7),
    ],
    ids=["ends early", "first early", "planned late", "negative gap", "unknown tokens", "failed", "own tokens"],
)
def test_odd_times_are_kept_as_they_are(record: Any) -> None:
    """A program may give its own times; counters count such a request too."""
    run = Run()
    run.send(record)
    assert run.account.dropped == {}
    assert [decode_record(raw) for raw in run.logged[0].records] == [record]


def test_a_leaf_sends_no_requests() -> None:
    """Requests of a leaf stay in the leaf's own log."""
    run = Run()
    run.aggregator.hello(Hello(id=1, version=(1, 4), producer="leaf", name="l", node="gpu-1"), MONO_NS, WALL_NS)
    run.send(ended([0]), producer="leaf")
    assert (run.stat, run.logged) == (None, [])


@pytest.mark.parametrize("sends", [3, 300], ids=["with room", "full"])
def test_a_restored_aggregator_goes_on_alike(sends: int) -> None:
    """Same counts, same decisions."""
    run = Run(cap_bytes=20_000)
    for number in range(sends):
        run.send(ended([number], chunks=40))
    other = Run()
    other.aggregator, other.sent = Aggregator.restore(run.aggregator.checkpoint()), dict(run.sent)
    assert other.stat == run.stat
    for one in (run, other):
        one.logged.clear()
        one.send(ended([sends], chunks=40))
    assert (other.stat, other.numbers) == (run.stat, run.numbers)


def test_counts_stay_within_their_range() -> None:
    """A producer may claim any number; a checkpoint can still be read."""
    run = Run()
    for _ in range(3):
        run.send(EndedRequests("llm", {}, [], (1 << 63) - 1))
    assert (
        Aggregator.restore(run.aggregator.checkpoint())
        .snapshot(SnapshotFacts(run_id="r", name="n"), MONO_NS, WALL_NS)
        .request_log
        == run.stat
    )


def test_the_producer_of_a_text_is_remembered() -> None:
    """A text keeps the producer that sent it, whatever it names, so that its tokens find its request.

    A text without a request needs no producer.
    """
    run = Run()
    run.send(
        Uncounted("a b", "llm.output_tokens", number=7, producer="somebody else"),
        Uncounted("c", "llm.output_tokens", producer="somebody else"),
    )
    found = [(text.number, text.producer) for _, text in run.aggregator.uncounted.take(1 << 20)]
    assert found == [(7, "p"), (None, "")]
