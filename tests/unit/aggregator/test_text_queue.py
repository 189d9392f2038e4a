"""Texts that wait for their tokens to be counted."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.text_queue import TextQueue
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.events import Count, Counted, Uncounted
from telemetry.wire.snapshot import Pending, State


def record(text: str) -> bytes:
    return msgspec.msgpack.encode(Uncounted(text, "tokens"))


def queue(*texts: str) -> TextQueue:
    made = TextQueue()
    assert all(made.add(record(text)) for text in texts)
    return made


def taken(texts: TextQueue, most_bytes: int = 1_000_000) -> list[tuple[int, str]]:
    return [(number, one.text) for number, one in texts.take(most_bytes)]


def restored(texts: TextQueue) -> TextQueue:
    """Return the queue that is restored from a checkpoint of the given one."""
    fresh = TextQueue()
    load(fresh, msgspec.msgpack.decode(encode(save(texts)), strict=False))
    return fresh


def test_texts_are_taken_once_in_order_and_pend_until_they_are_counted() -> None:
    """Numbers are places in the order of arrival."""
    texts = queue("a", "b")
    assert taken(texts) == [(0, "a"), (1, "b")]
    assert taken(texts) == []
    assert texts.add(record("c"))
    assert taken(texts) == [(2, "c")]
    assert texts.pending == 3
    texts.count(Counted([1, 0]))
    assert (texts.pending, texts.failed) == (1, 0)


def test_as_many_are_taken_as_fit_but_one_at_least() -> None:
    """A text larger than what is asked for can't stop those behind it."""
    texts = queue("x" * 100, "y", "z", "zz")
    assert taken(texts, 0) == [(0, "x" * 100)]
    assert taken(texts, 2 * len(record("y"))) == [(1, "y"), (2, "z")]
    assert taken(texts, 0) == [(3, "zz")]


def test_texts_that_nobody_took_can_be_counted_too() -> None:
    """A journal is read back without workers: what was counted before is not counted again."""
    texts = queue("a", "b", "c")
    texts.count(Counted([0, 2]))
    assert texts.pending == 1
    assert taken(texts) == [(1, "b")]


def test_numbers_that_are_not_pending_are_ignored() -> None:
    """Twice the same, unknown ones, and failures of nobody."""
    texts = queue("a", "b")
    texts.count(Counted([0, 0, 7, 1 << 62], failed=9))
    assert (texts.pending, texts.failed) == (1, 1)
    texts.count(Counted([0], failed=1))
    assert (texts.pending, texts.failed) == (1, 1)


@pytest.mark.parametrize("bound", [{"UNCOUNTED_TEXTS": 2}, {"UNCOUNTED_BYTES": 2 * len(record("a"))}])
def test_beyond_the_bounds_texts_are_refused_until_there_is_room(
    bound: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taken ones still need theirs; a refused one gets no number."""
    for name, value in bound.items():
        monkeypatch.setattr(limits, name, value)
    texts = queue("a", "b")
    texts.take(1_000)
    assert not texts.add(record("c"))
    assert (texts.pending, texts.refused) == (2, 1)
    texts.count(Counted([0]))
    assert texts.add(record("d"))
    assert taken(texts) == [(2, "d")]


def test_a_restored_queue_can_be_taken_from_the_beginning() -> None:
    """Workers of an aggregator that died have what it gave them no longer."""
    texts = queue("a", "b", "c")
    texts.take(len(record("a")))
    texts.count(Counted([1], failed=1))
    again = restored(texts)
    assert taken(again) == [(0, "a"), (2, "c")]
    assert (again.pending, again.failed) == (2, 1)
    assert again.add(record("d"))
    assert taken(again) == [(3, "d")]


@pytest.mark.parametrize(
    "lie",
    [
        {"records": {1: record("b"), 0: record("a")}},
        {"records": {2: record("a")}},
        {"records": {-1: record("a")}},
        {"records": {0: b""}},
        {"records": {0: msgspec.msgpack.encode(Count("c"))}},
        {"records": {0: b"x" * 99}},
        {"refused": -1},
        {"next_number": (1 << 63) - 1},
    ],
)
def test_what_no_queue_saved_is_refused(lie: dict[str, object]) -> None:
    """Numbers out of order or never given, and records that are no texts."""
    with pytest.raises(ValueError):  # noqa: PT011 - the messages differ, the kind is the contract
        load(TextQueue(), {**save(queue("a", "b")), **lie})


def test_a_restored_queue_keeps_the_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint makes nothing that is larger than what may be."""
    saved = save(queue("a", "b"))
    for name in ("UNCOUNTED_TEXTS", "UNCOUNTED_BYTES"):
        with monkeypatch.context() as patched:
            patched.setattr(limits, name, 1)
            with pytest.raises(ValueError, match="more texts"):
                load(TextQueue(), saved)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("add"), st.text(max_size=4)),
            st.tuples(st.just("take"), st.integers(0, 60)),
            st.tuples(st.just("count"), st.lists(st.integers(0, 12), max_size=4)),
            st.tuples(st.just("restore"), st.none()),
        ),
        max_size=30,
    )
)
def test_every_text_is_given_out_until_it_is_counted_and_no_longer(steps: list[tuple[str, object]]) -> None:
    """Against a plain list, with restarts in between."""
    texts, model, out = TextQueue(), dict[int, str](), set[int]()
    added = 0
    for step, what in steps:
        if step == "add":
            texts.add(record(str(what)))
            model[added] = str(what)
            added += 1
        elif step == "take":
            assert isinstance(what, int)
            got = taken(texts, what)
            waiting = [number for number in model if number not in out]
            assert got == [(number, model[number]) for number in waiting[: len(got)]]
            assert bool(got) == bool(waiting)
            out |= {number for number, _ in got}
        elif step == "count":
            assert isinstance(what, list)
            texts.count(Counted(what))
            model = {number: text for number, text in model.items() if number not in what}
        else:
            texts, out = restored(texts), set()
        assert texts.pending == len(model)


# --- in the aggregator ---------------------------------------------------------------------------


def told(aggregator: Aggregator, state: State = "LIVE") -> tuple[Pending, list[str], str]:
    snapshot = aggregator.snapshot(SnapshotFacts(run_id="r", name="n", state=state), 0, 0)
    return snapshot.pending, snapshot.warnings, snapshot.completeness


def sent(aggregator: Aggregator, seq: int, first: int, *records: Uncounted | Counted) -> None:
    made = batch("p", seq, first, records=records)
    assert aggregator.admit(made, 0)
    assert aggregator.apply([made], 0, WALL_NS) == []


def test_texts_are_events_that_are_applied_and_not_streamed() -> None:
    """Texts show as deferred in every state and tell when their producer was last active."""
    aggregator = Aggregator(AggregatorConfig())
    sent(aggregator, 0, 0, Uncounted("a", "tokens", MONO_NS - 5), Uncounted("b", "tokens", MONO_NS - 9))
    assert told(aggregator)[0].deferred == 2
    sent(aggregator, 1, 2, Counted([0]))
    assert [text.text for _, text in aggregator.uncounted.take(99)] == ["b"]
    assert [told(aggregator, state)[0].deferred for state in ("LIVE", "DRAINING", "COMPLETE")] == [1, 1, 1]  # type: ignore[arg-type]
    account = aggregator.book["p"].account.ledger
    assert (account.received, account.applied) == (3, 3)
    assert aggregator.book["p"].last_event_ns == WALL_NS - 5


def test_a_run_with_texts_nobody_counted_is_incomplete() -> None:
    """A run with texts that were not counted says so at its end and not before."""
    aggregator = Aggregator(AggregatorConfig())
    sent(aggregator, 0, 0, Uncounted("a", "tokens"), Uncounted("b", "tokens"))
    said = "the tokens of 2 texts were not counted in time"
    assert said not in told(aggregator)[1]
    assert said in told(aggregator, "COMPLETE")[1]
    assert told(aggregator, "COMPLETE")[2] == "incomplete"
    sent(aggregator, 1, 2, Counted([0, 1], failed=1))
    assert told(aggregator, "COMPLETE")[0].deferred == 0
    assert told(aggregator, "COMPLETE")[2] == "complete"
    assert "the tokens of 1 text could not be counted" in told(aggregator)[1]


def test_a_text_without_room_is_an_event_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dropped by a reason of its own, so that the account still balances."""
    monkeypatch.setattr(limits, "UNCOUNTED_TEXTS", 1)
    aggregator = Aggregator(AggregatorConfig())
    sent(aggregator, 0, 0, Uncounted("a", "tokens"), Uncounted("b", "tokens"))
    ledger = aggregator.book["p"].account.ledger
    assert (ledger.applied, ledger.by_reason()) == (1, {"texts_full": 1})
    assert "no room to count the tokens of 1 text" in told(aggregator)[1]


def test_texts_are_in_checkpoints() -> None:
    """An aggregator that is restored goes on with those that pend, and knows how many failed."""
    aggregator = Aggregator(AggregatorConfig())
    first = Uncounted("a", "tokens", MONO_NS + 5, {"k": "v"}, "tpot", 7, 1)
    sent(aggregator, 0, 0, first, Uncounted("b", "tokens"))
    aggregator.uncounted.take(1)
    again = Aggregator.restore(aggregator.checkpoint())
    assert again.checkpoint() == aggregator.checkpoint()
    assert again.uncounted.take(999)[0] == (0, replace(first, time_ns=WALL_NS + 5))
