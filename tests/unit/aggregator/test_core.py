"""The aggregator as its owner sees it."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.testing import FakeClock, batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.codec import decode_snapshot, encode_snapshot, snapshot_from_json, snapshot_to_json
from telemetry.wire.control import End, Hello
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.events import (
    Count,
    Define,
    EventBatch,
    EventRecord,
    Expect,
    Gauge,
    Mark,
    Params,
    Sample,
    Scalar,
    Scalars,
)
from telemetry.wire.snapshot import MetricsSnapshot, State

T = MONO_NS
SERIES = Define(1, "latency", "series", "ns")
COUNTER = Define(2, "requests", "counter", "requests")


class _Bench:
    """An aggregator and a clock."""

    def __init__(self, config: AggregatorConfig | None = None) -> None:
        self.aggregator = Aggregator(config or AggregatorConfig())
        self.clock = FakeClock()

    def hello(self, producer: str = "p") -> bool:
        return self.aggregator.hello(Hello(producer=producer), self.clock.monotonic_ns(), self.clock.wall_ns())

    def feed(self, *batches: EventBatch) -> list[bool]:
        admitted = [self.aggregator.admit(sent, self.clock.monotonic_ns()) for sent in batches]
        kept = [sent for sent, new in zip(batches, admitted, strict=True) if new]
        self.aggregator.apply(kept, self.clock.monotonic_ns(), self.clock.wall_ns())
        return admitted

    def end(self, batches: int, emitted: int, producer: str = "p") -> None:
        self.aggregator.end(End(producer=producer, batches=batches, emitted=emitted), self.clock.monotonic_ns())

    def roll(self) -> None:
        start = self.clock.wall_ns()
        self.clock.advance(1.0)
        self.aggregator.roll(start, self.clock.wall_ns(), 1_000_000_000)

    def snapshot(self, state: State = "LIVE") -> MetricsSnapshot:
        facts = SnapshotFacts(run_id="r", name="n", state=state, started_ns=5)
        return self.aggregator.snapshot(facts, self.clock.monotonic_ns(), self.clock.wall_ns())


def test_a_whole_run_is_complete() -> None:
    """Hello, events, end: all of it is in the numbers, and the snapshot says so."""
    bench = _Bench()
    assert bench.hello()
    assert bench.aggregator.book.waiting_for() == ["p"]
    bench.feed(batch(records=[SERIES, COUNTER], rows=[(1, T, 5), (2, T, 3)]))
    assert bench.aggregator.book.ended("p") is None
    bench.end(1, 2)
    ended = bench.aggregator.book.ended("p")
    assert ended is not None
    assert (ended.emitted, ended.received, ended.missing) == (2, 2, 0)
    assert bench.aggregator.book.waiting_for() == []
    assert bench.aggregator.book.counted_events == 2
    snapshot = bench.snapshot("COMPLETE")
    assert (snapshot.completeness, snapshot.producers[0].completeness) == ("complete", "complete")
    assert snapshot.producers[0].status == "ended"


def test_snapshots_survive_the_wire_and_the_file() -> None:
    """Every snapshot can be encoded and read back as it was, even after extreme values."""
    bench = _Bench()
    records: list[EventRecord] = [SERIES, COUNTER, Mark("m"), Params({"a": None, "b": 1.5}), Expect("latency", 9.0)]
    rows = [(1, T, 5), (1, T, 1e308), (1, T, 1e308), (2, T, 1e308), (2, T, 1e308), (7, T, 1)]
    bench.feed(batch(records=records, rows=rows))
    bench.roll()
    for state in ("LIVE", "DRAINING", "COMPLETE"):
        snapshot = bench.snapshot(state)
        assert decode_snapshot(encode_snapshot(snapshot)) == snapshot
        assert snapshot_from_json(snapshot_to_json(snapshot)) == snapshot


def test_params_of_any_producer_are_masked() -> None:
    """A client in another language does not mask them; the snapshot and the record stream have no secret."""
    bench = _Bench()
    params: dict[str, Scalar] = {"argv": "['--token', 'X']", "db.password": "pw", "passes": 3}
    bench.feed(batch(records=[Params(params)]))
    assert bench.snapshot().params == {"argv": "['--token', '***']", "db.password": "***", "passes": 3}


def test_a_missing_batch_is_named_and_asked_for() -> None:
    """Gap, barrier and acknowledgement stand at the first missing batch until it comes."""
    bench = _Bench()
    bench.hello()
    first = batch(seq=0, records=[SERIES], rows=[(1, T, 1)])
    lost = batch(seq=1, first=1, rows=[(1, T, 1)] * 3)
    bench.feed(first, batch(seq=2, first=4, rows=[(1, T, 1)]))
    assert bench.aggregator.book.gaps("p") == [(1, 1)]
    assert bench.aggregator.book.applied_batches("p") == 1
    assert bench.aggregator.book.acknowledgements() == [("p", 1)]
    assert bench.aggregator.book.acknowledgements() == []
    assert bench.snapshot().accounting.missing == 3
    bench.end(3, 5)
    assert bench.aggregator.book.waiting_for() == ["p"]
    bench.feed(lost, lost)
    assert bench.aggregator.book.gaps("p") == []
    assert bench.aggregator.book.acknowledgements() == [("p", 3)]
    assert bench.aggregator.book.waiting_for() == []
    account = bench.snapshot("COMPLETE").accounting
    assert (account.missing, account.duplicates, account.applied) == (0, 1, 5)


def test_a_producer_that_never_ended_makes_the_run_incomplete() -> None:
    """A producer that never ended makes the run incomplete, and is named while draining and after."""
    bench = _Bench()
    bench.hello("quiet")
    assert bench.snapshot().pending.producers == []
    assert bench.snapshot("DRAINING").pending.producers == ["quiet"]
    final = bench.snapshot("COMPLETE")
    assert (final.completeness, final.pending.producers) == ("incomplete", ["quiet"])


def test_a_producer_without_a_hello_is_unknown_and_spoils_nothing() -> None:
    """Unless it has gaps; a warning names it."""
    bench = _Bench()
    bench.feed(batch("other language", records=[Sample("x", 1.0)]))
    final = bench.snapshot("COMPLETE")
    assert (final.completeness, final.producers[0].completeness) == ("complete", "unknown")
    assert any("other language" in warning for warning in final.warnings)
    bench.feed(batch("other language", seq=2, first=4, records=[Sample("x", 1.0)]))
    assert bench.snapshot("COMPLETE").completeness == "lossy"


def test_batches_after_the_end_are_journaled_and_dropped() -> None:
    """Batches after the end are new, so they count as received.

    The numbers and a second pass have nothing of these batches.
    """
    bench = _Bench()
    bench.hello()
    bench.end(0, 0)
    late = batch(records=[SERIES, Count("x"), Sample("y", 1.0)], rows=[(1, T, 1)])
    other = batch("q", records=[Count("x")])
    assert bench.feed(late, other, late) == [True, True, False]
    snapshot = bench.snapshot()
    account = snapshot.accounting
    assert (account.received, account.applied, account.dropped) == (4, 1, {"after_end": 3})
    assert [stat.value for stat in snapshot.counters] == [1]
    assert snapshot.series == []
    assert bench.aggregator.book.applied_batches("p") == 1
    assert len(bench.aggregator.series_values(late)[0]) == 0


@pytest.mark.parametrize(
    "lie",
    [
        {"seq": limits.FUTURE_BATCHES + 5},
        {"first": limits.EVENT_NUMBERS},
        {"first": (1 << 63) - 1},
        {"dropped": {"buffer_full": (1 << 63) - 1}},
    ],
)
def test_numbers_that_cant_be_are_refused_as_a_frame(lie: dict[str, object]) -> None:
    """The producer goes on with its next honest batch."""
    bench = _Bench()
    honest = batch(records=[Count("x")])
    bench.feed(honest)
    next_batch = batch(seq=1, first=1, records=[Count("x")])
    assert bench.feed(replace(next_batch, **lie)) == [False]
    assert bench.feed(next_batch) == [True]
    account = bench.snapshot().accounting
    assert (account.bad_frames, account.missing, account.applied) == ({"implausible": 1}, 0, 2)


def test_a_stranger_with_an_unbelievable_batch_number_is_refused() -> None:
    """A stranger with an unbelievable batch number is refused before it takes a producer's place."""
    bench = _Bench()
    assert bench.feed(batch("liar", seq=1 << 62)) == [False]
    assert bench.aggregator.book.known == []


def test_producers_beyond_the_limit_are_refused_and_make_the_run_lossy() -> None:
    """Producers beyond the limit are refused by hello, batch and end alike. The run is then lossy."""
    bench = _Bench()
    for number in range(limits.PRODUCERS):
        assert bench.hello(f"p{number}")
    assert not bench.hello("one more")
    assert bench.feed(batch("one more", records=[Count("x")])) == [False]
    bench.end(0, 0, "one more")
    bench.aggregator.ping("one more", 0)
    assert bench.snapshot().accounting.bad_frames == {"too_many_producers": 3}
    assert bench.aggregator.book.ended("one more") is None


def test_names_in_the_millions_end_in_one_instrument() -> None:
    """The cap holds per kind; events beyond it are counted, and so are the instruments."""
    bench = _Bench(AggregatorConfig(series_cap=5))
    records: list[EventRecord] = [Count(f"c{n}") for n in range(2_000)]
    records += [Sample(f"s{n}", 1.0) for n in range(20)]
    bench.feed(batch(records=records))
    snapshot = bench.snapshot()
    assert len(snapshot.counters) == len(snapshot.series) == 6
    assert (snapshot.counters[5].name, snapshot.counters[5].value) == ("overflow", 1_995)
    assert (snapshot.series[5].name, snapshot.series[5].count) == ("overflow", 15)
    assert snapshot.overflow == {"counter": 1_995, "series": 15}
    assert snapshot.accounting.applied == 2_020


def test_progress_counts_over_all_labels() -> None:
    """A counter by its value, a series by its count, an axis by its newest step, an unknown name by nothing."""
    bench = _Bench()
    records = [
        Count("c", 2.0, 0, "", {"a": "1"}),
        Count("c", 3.0, 0, "", {"a": "2"}),
        Sample("s", 7.0),
        Expect("c", 10.0),
        Expect("s", 4.0),
        Expect("nobody", 1.0),
        Expect("train", 500.0),
        *(Scalars("train", step, {"loss": 1.0}) for step in (49, 99, 149)),
    ]
    bench.feed(batch(records=records))
    bench.aggregator.close()
    assert [(p.name, p.done, p.total) for p in bench.snapshot().progress] == [
        ("c", 5.0, 10.0),
        ("s", 1.0, 4.0),
        ("nobody", 0.0, 1.0),
        ("train", 149.0, 500.0),
    ]


@pytest.mark.parametrize(("total", "done"), [(199.0, 199.0), (200.0, 149.0), (100.0, 149.0)])
def test_a_loop_that_never_records_its_last_step_is_done(total: float, done: float) -> None:
    """A loop is done once the run is over, if its next recorded step would be the last one or beyond."""
    bench = _Bench()
    steps = [Scalars("train", step, {"loss": 1.0}) for step in (49, 99, 149)]
    bench.feed(batch(records=[Expect("train", total), *steps]))
    bench.aggregator.close()
    assert [p.done for p in bench.snapshot().progress] == [149.0]
    assert [p.done for p in bench.snapshot("COMPLETE").progress] == [done]


def test_an_interval_holds_what_happened_since_the_last() -> None:
    """Series, counters and gauges in columns, and rates in the next snapshot."""
    bench = _Bench()
    bench.feed(batch(records=[SERIES, COUNTER], rows=[(1, T, 5), (2, T, 3), (2, T, 4)]))
    start = bench.clock.wall_ns()
    bench.clock.advance(2.0)
    interval = bench.aggregator.roll(start, bench.clock.wall_ns(), 2_000_000_000)
    assert (interval.start_ns, interval.end_ns) == (start, bench.clock.wall_ns())
    assert np.frombuffer(interval.series.count, "<u8").tolist() == [1]
    assert np.frombuffer(interval.counters.value, "<f8").tolist() == [7.0]
    assert interval.gauges.index == b""
    snapshot = bench.snapshot()
    assert snapshot.counters[0].rate == 3.5
    assert snapshot.producers[0].events_per_s == 1.5


@pytest.mark.parametrize("step_ns", [0, -5_000_000_000, 3_600_000_000_000])
def test_a_wall_clock_that_steps_falsifies_no_rate(step_ns: int) -> None:
    """Windows and rates rest on the monotonic clock."""
    bench = _Bench()
    bench.feed(batch(records=[SERIES, COUNTER], rows=[(1, T, 5), (2, T, 3)]))
    bench.aggregator.roll(bench.clock.wall_ns(), bench.clock.wall_ns() + step_ns, 500_000_000)
    snapshot = bench.snapshot()
    assert snapshot.counters[0].rate == 6.0
    assert (snapshot.series[0].window.seconds, snapshot.series[0].window.rate) == (0.5, 2.0)


def test_keys_name_every_instrument_by_kind() -> None:
    """Indices are those of the history columns."""
    bench = _Bench()
    bench.feed(batch(records=[SERIES, COUNTER, Define(3, "depth", "gauge"), Define(4, "size", "series", "B")]))
    keys = bench.aggregator.keys()
    assert {(key.kind, key.index): key.name for key in keys} == {
        ("series", 0): "latency",
        ("series", 1): "size",
        ("counter", 0): "requests",
        ("gauge", 0): "depth",
    }


def test_contradictions_are_clamped_and_told() -> None:
    """A last word that doesn't add up neither breaks the law nor goes unnoticed."""
    bench = _Bench()
    bench.hello()
    bench.feed(batch(first=10, records=[Count("x")], dropped={"buffer_full": 500}))
    bench.end(1, 3)
    snapshot = bench.snapshot("COMPLETE")
    account = snapshot.accounting
    assert account.emitted == account.received + 500 + account.missing
    assert account.missing == 0
    assert any("reports 3 events emitted" in warning for warning in snapshot.warnings)


def test_pings_keep_a_producer_live() -> None:
    """Silence makes it late, a sign of life live again."""
    bench = _Bench()
    bench.hello()
    bench.clock.advance(limits.LATE_AFTER_S + 1)
    assert bench.snapshot().producers[0].status == "late"
    bench.aggregator.ping("p", bench.clock.monotonic_ns())
    assert bench.snapshot().producers[0].status == "live"
    assert bench.aggregator.book.anyone_left(bench.clock.monotonic_ns())


def test_a_lost_producer_may_return() -> None:
    """Late, then lost, then live again: it is waited for all the while, and nothing of it is given up."""
    bench = _Bench()
    bench.hello()
    bench.feed(batch(records=[Count("x")]))
    for silence, status in ((limits.LATE_AFTER_S + 1, "late"), (limits.LOST_AFTER_S, "lost")):
        bench.clock.advance(silence)
        assert bench.snapshot().producers[0].status == status
        assert bench.aggregator.book.waiting_for() == ["p"]
    assert not bench.aggregator.book.anyone_left(bench.clock.monotonic_ns())
    bench.feed(batch(seq=2, first=2, records=[Count("x")]))
    stat = bench.snapshot().producers[0]
    assert (stat.status, stat.completeness, stat.missing) == ("live", "incomplete", 1)
    assert bench.aggregator.book.anyone_left(bench.clock.monotonic_ns())
    assert bench.aggregator.book.gaps("p") == [(1, 1)]
    bench.feed(batch(seq=1, first=1, records=[Count("x")]))
    bench.end(3, 3)
    final = bench.snapshot("COMPLETE")
    assert (final.completeness, final.producers[0].status) == ("complete", "ended")


def test_the_last_gap_given_up_reconciles_the_end() -> None:
    """The last gap given up reconciles the end, and nobody waits any longer.

    The events in the gap are missing, and named.
    """
    bench = _Bench()
    bench.hello()
    bench.feed(batch(records=[Count("x")]), batch(seq=3, first=7, records=[Count("x")]))
    bench.end(4, 8)
    bench.aggregator.cannot_resend("p", 0, 1, bench.clock.monotonic_ns())
    assert bench.aggregator.book.ended("p") is None
    assert bench.aggregator.book.gaps("p") == [(2, 2)]
    assert bench.aggregator.book.applied_batches("p") == 2
    bench.aggregator.cannot_resend("p", 2, 9, bench.clock.monotonic_ns())
    ended = bench.aggregator.book.ended("p")
    assert ended is not None
    assert (ended.emitted, ended.received, ended.missing) == (8, 2, 6)
    assert bench.aggregator.book.applied_batches("p") == 4
    final = bench.snapshot("COMPLETE")
    stat = final.producers[0]
    assert (final.completeness, stat.completeness, final.accounting.missing) == ("lossy", "lossy", 6)
    assert (stat.missing_batches, stat.unrepairable_batches, stat.unrepairable) == ([], [(1, 2)], 2)
    assert (final.accounting.unrepairable, final.accounting.repaired) == (2, 0)


def test_a_batch_given_up_too_early_is_applied() -> None:
    """A batch given up too early comes late and counts once. The batch is repaired, and nothing is missing."""
    bench = _Bench()
    bench.hello()
    given_up = batch(seq=1, first=1, records=[Count("x")])
    bench.feed(batch(records=[Count("x")]), batch(seq=2, first=2, records=[Count("x")]))
    bench.aggregator.cannot_resend("p", 1, 1, bench.clock.monotonic_ns())
    assert bench.feed(given_up, given_up) == [True, False]
    bench.end(3, 3)
    account = bench.snapshot("COMPLETE").accounting
    assert (account.repaired, account.unrepairable, account.missing, account.applied) == (1, 0, 0, 3)


def test_a_batch_given_up_is_a_duplicate_once_the_end_is_reconciled() -> None:
    """The account was closed without it, and its producer was told so: a restart does not change that."""
    bench = _Bench()
    given_up = batch(seq=0, records=[Sample("x", 1.0)])
    bench.feed(batch(seq=1, first=1, records=[Sample("x", 1.0)]))
    bench.end(2, 2)
    bench.aggregator.cannot_resend("p", 0, 0, bench.clock.monotonic_ns())
    assert bench.feed(given_up) == [False]
    bench.aggregator = Aggregator.restore(bench.aggregator.checkpoint())
    assert bench.feed(given_up) == [False]
    account = bench.snapshot("COMPLETE").accounting
    assert (account.missing, account.duplicates, account.unrepairable) == (1, 2, 1)


def test_batches_that_the_end_overtook_are_not_repaired() -> None:
    """Batches that the end overtook are not repaired.

    The end comes by another way, so hearing it first is no trouble that was overcome.
    """
    bench = _Bench()
    bench.hello()
    bench.feed(batch(records=[Count("x")]))
    bench.end(3, 3)
    assert bench.aggregator.book.ended("p") is None
    bench.feed(batch(seq=1, first=1, records=[Count("x")]))
    bench.feed(batch(seq=2, first=2, records=[Count("x")]))
    account = bench.snapshot("COMPLETE").accounting
    assert (account.repaired, account.missing, account.applied) == (0, 0, 3)
    assert bench.aggregator.book.ended("p") is not None


def test_what_a_stranger_cannot_resend_is_nothing() -> None:
    """A stranger that cannot resend takes no place among the producers."""
    aggregator = _Bench().aggregator
    aggregator.cannot_resend("x", 0, 9, 0)
    assert aggregator.book.known == []


def test_the_newest_event_is_dated_by_its_own_clock() -> None:
    """Rows and records alike, by the anchor of their batch; none is later than now."""
    bench = _Bench()
    now_ns = WALL_NS + 50_000_000_000

    def newest(*batches: EventBatch) -> int:
        for sent in batches:
            assert bench.aggregator.admit(sent, 0)
        bench.aggregator.apply(batches, 0, now_ns)
        return bench.aggregator.snapshot(SnapshotFacts(run_id="r", name="n"), 0, now_ns).producers[0].last_event_ns

    assert newest(batch(records=[SERIES])) == 0
    assert newest(batch(seq=1, rows=[(1, T + 3_000, 5), (1, T + 7_000, 5)])) == WALL_NS + 7_000
    assert (
        newest(batch(seq=2, first=2, records=[Mark("m", T + 9_000), Count("c", 1.0, T + 8_000)])) == WALL_NS + 9_000
    )
    assert newest(batch(seq=3, first=4, rows=[(1, T + 1_000, 5)])) == WALL_NS + 9_000
    assert newest(batch(seq=4, first=5, rows=[(1, T + 90_000_000_000, 5)])) == now_ns


def test_questions_about_strangers_have_answers() -> None:
    """A question about a stranger raises nothing, except for the facts of a producer."""
    aggregator = _Bench().aggregator
    assert aggregator.book.gaps("x") == []
    assert aggregator.book.applied_batches("x") == 0
    assert aggregator.book.ended("x") is None
    assert aggregator.book.account("x").emitted == 0
    assert aggregator.book.waiting_for() == []
    with pytest.raises(KeyError):
        aggregator.book["x"]


def test_refused_frames_are_told_by_reason() -> None:
    """Refused frames are in the account by reason, and in a warning."""
    bench = _Bench()
    bench.aggregator.bad_frame(Reason.FRAME_UNREADABLE)
    bench.aggregator.bad_frame(Reason.FRAME_UNREADABLE)
    snapshot = bench.snapshot()
    assert snapshot.accounting.bad_frames == {"frame_unreadable": 2}
    assert "2 frames were refused: frame_unreadable" in snapshot.warnings


def test_bad_frames_are_taken_once() -> None:
    """Each is in one note, and in the account all the while."""
    bench = _Bench()
    bench.aggregator.bad_frame(Reason.FRAME_UNREADABLE)
    assert bench.aggregator.take_bad_frames() == {"frame_unreadable": 1}
    assert bench.aggregator.take_bad_frames() == {}
    bench.aggregator.bad_frame(Reason.WRONG_TOPIC)
    assert bench.snapshot().accounting.bad_frames == {"frame_unreadable": 1, "wrong_topic": 1}


def test_bad_frames_told_by_a_note_count_once() -> None:
    """Bad frames in a note count once.

    This holds also if a checkpoint between two notes, or a hello without a place, counted some of them before.
    """
    live = _Bench().aggregator
    live.bad_frame(Reason.WRONG_TOPIC)
    live.take_bad_frames()
    live.bad_frame(Reason.FRAME_UNREADABLE)
    folded = Aggregator.restore(live.checkpoint())
    live.bad_frame(Reason.FRAME_UNREADABLE)
    folded.add_bad_frames(live.take_bad_frames())
    facts = SnapshotFacts(run_id="r", name="n")
    assert folded.snapshot(facts, 0, 0) == live.snapshot(facts, 0, 0)
    assert folded.checkpoint() == live.checkpoint()


def test_the_facts_of_the_run_are_in_the_snapshot() -> None:
    """The owner's facts are in the snapshot as they are, and time runs from the start."""
    bench = _Bench()
    facts = SnapshotFacts(run_id="r", name="n", seq=4, reason="done", started_mono_ns=0, warnings=["w"], exact=True)
    snapshot = bench.aggregator.snapshot(facts, 2_500_000_000, 9)
    assert (snapshot.seq, snapshot.reason, snapshot.elapsed_s, snapshot.time_ns) == (4, "done", 2.5, 9)
    assert snapshot.exact
    assert snapshot.warnings == ["w"]
    assert snapshot.window_s == 10


def test_an_end_before_its_batches_waits_for_them() -> None:
    """Control and data come by different sockets, in any order."""
    bench = _Bench()
    bench.hello()
    bench.end(2, 2)
    assert bench.aggregator.book.gaps("p") == [(0, 1)]
    bench.feed(batch(seq=0, records=[Count("x")]))
    assert bench.aggregator.book.ended("p") is None
    bench.feed(batch(seq=1, first=1, records=[Count("x")]))
    assert bench.aggregator.book.ended("p") is not None


def test_an_end_gives_up_rows_whose_definition_never_came() -> None:
    """An end gives up rows without a definition, because none can come once all batches are in."""
    bench = _Bench()
    bench.hello()
    bench.feed(batch(rows=[(5, T, 1), (5, T, 2)]))
    assert bench.snapshot().producers[0].waiting == 2
    bench.end(1, 2)
    assert bench.snapshot().producers[0].dropped == {"unknown_id": 2}


def test_progress_stays_a_number() -> None:
    """Progress stays a number, even if the sum over all labels is beyond every float."""
    bench = _Bench()
    largest = 1.7e308
    bench.feed(batch(records=[Count("c", largest, 0, "", {"a": "1"}), Count("c", largest), Expect("c", 1.0)]))
    assert largest < bench.snapshot().progress[0].done < float("inf")


def test_a_run_with_a_rounded_series_is_not_called_exact() -> None:
    """Integers beyond 2**53 were rounded before anybody could count them."""
    bench = _Bench()
    bench.feed(batch(records=[Sample("s", 2.0**60), Sample("t", 1.0)]))
    bench.aggregator.series.apply_exact({0: {"50": 2.0**60}, 1: {"50": 1.0}})
    facts = SnapshotFacts(run_id="r", name="n", state="COMPLETE", exact=True)
    snapshot = bench.aggregator.snapshot(facts, bench.clock.monotonic_ns(), bench.clock.wall_ns())
    assert (snapshot.exact, snapshot.exact_reason) == (False, "some series hold integers beyond 2**53")


@pytest.mark.parametrize(
    "sent", [[Count("c", 2.0**60)], [Gauge("g", -(2.0**53))], [Count("c", 2.0**60), Gauge("g", 2.0**60)]]
)
def test_a_run_with_a_rounded_counter_or_gauge_is_not_called_exact(sent: list[EventRecord]) -> None:
    """The reason names the kinds; totals that grew large in small steps are whole."""
    bench = _Bench()
    bench.feed(batch(records=[*sent, *[Count("whole", 2.0**52)] * 9, Gauge("low", 1.0)]))
    facts = SnapshotFacts(run_id="r", name="n", state="COMPLETE", exact=True)
    snapshot = bench.aggregator.snapshot(facts, bench.clock.monotonic_ns(), bench.clock.wall_ns())
    kinds = [{Count: "counters", Gauge: "gauges"}[type(record)] for record in sent]
    assert (snapshot.exact, snapshot.exact_reason) == (
        False,
        f"some {' and '.join(kinds)} hold integers beyond 2**53",
    )
    assert next(stat for stat in snapshot.counters if stat.name == "whole").value == 9 * 2**52
    restored = Aggregator.restore(bench.aggregator.checkpoint())
    assert restored.snapshot(facts, bench.clock.monotonic_ns(), bench.clock.wall_ns()) == snapshot


def test_many_series_of_high_precision_share_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it new ones have fewer digits, say so, and lose nothing."""
    monkeypatch.setattr(limits, "FINE_PAGES", 25_000)
    bench = _Bench()
    defines = [Define(n, f"s{n}", "series", "s", {}, 5) for n in range(4)]
    bench.feed(batch(records=defines, rows=[(n, T, 1.0) for n in range(4)]))
    snapshot = bench.snapshot()
    assert [(stat.digits, stat.error_bound, stat.count) for stat in snapshot.series] == [
        (5, 1e-5, 1),
        (4, 1e-4, 1),
        (4, 1e-4, 1),
        (3, 1e-3, 1),
    ]
    assert any("series 's3' uses 3 digits instead of 5" in warning for warning in snapshot.warnings)
