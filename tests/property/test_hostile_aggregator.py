"""A peer that says anything, beside producers that say what is true: they lose nothing, and it is counted."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from struct import pack
from typing import Any
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.fuzz import valid
from tests.fuzz.forms import pick
from tests.fuzz.msgpack_form import Msgpack

from telemetry import limits
from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.testing import batch, frame
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire import codec
from telemetry.wire.control import CannotResend, End, Hello
from telemetry.wire.drop_reasons import FRAME_REASONS, Reason
from telemetry.wire.events import Count, Define, EventBatch, Sample
from telemetry.wire.snapshot import MetricsSnapshot, ProducerStat

NOW, WALL = MONO_NS + 10**9, WALL_NS + 10**9
FORM = Msgpack(codec.TOPIC_BYTES)
GOOD = ("good one", "good two")
NUMBERS = st.integers(0, (1 << 63) - 1) | st.sampled_from([0, 1, (1 << 50) + 1, 1 << 40, (1 << 63) - 1])


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid frame with a few changes."""
    chance = random.Random(draw(st.integers(0, 1 << 32))).random
    return FORM.mutate(chance, pick(chance, valid.frames()), pick(chance, valid.frames()))


@st.composite
def lying(draw: st.DrawFn) -> bytes:
    """A frame that can be read and whose numbers mean nothing."""
    header = [[1, draw(st.integers(0, 3))], draw(st.sampled_from(["bad", *GOOD])), draw(NUMBERS), draw(NUMBERS)]
    anchor, dropped = (
        [draw(NUMBERS), draw(NUMBERS)],
        draw(st.dictionaries(st.text(max_size=70), NUMBERS, max_size=3)),
    )
    if header[1] in GOOD:  # whoever uses another's name can do what that one can; ours are told apart by theirs
        header[1] = "bad"
    rows = [[draw(st.integers(-2, 9)), draw(NUMBERS), draw(st.floats())] for _ in range(draw(st.integers(0, 3)))]
    flat = [number for row in rows for number in row]
    return codec.EVENTS + msgspec.msgpack.encode([*header, anchor, dropped, [], flat])


@st.composite
def named(draw: st.DrawFn) -> bytes:
    """Names nobody has used, and kinds that contradict those of others."""
    name = draw(st.text(min_size=1, max_size=12) | st.sampled_from(["good one", "s", "overflow"]))
    kind = draw(st.sampled_from(["counter", "gauge", "series"]))
    records = [Define(draw(st.integers(0, 3)), f"bad {name}", kind), Count(f"bad {name}"), Sample("bad", 1.0)]
    return bytes(frame("bad", draw(st.integers(0, 20)), draw(st.integers(0, 50)), records=records))


HOSTILE = st.one_of(
    st.binary(max_size=80), st.binary(max_size=80).map(codec.EVENTS.__add__), mutated(), lying(), named()
)
REQUESTS = st.one_of(
    st.builds(End, producer=st.sampled_from(["bad", "p", "q"]), batches=NUMBERS, emitted=NUMBERS),
    st.builds(CannotResend, producer=st.sampled_from(["bad", "p", "q", "x"]), first=NUMBERS, last=NUMBERS),
    st.builds(Hello, producer=st.sampled_from(["bad", "p"]), pid=st.integers(0, 100)),
)
SCRIPTS = st.lists(HOSTILE | REQUESTS | st.sampled_from(["apply", "good", "roll"]), max_size=25)


class Run:
    """An aggregator, and what came in by frames."""

    def __init__(self) -> None:
        self.aggregator = Aggregator(AggregatorConfig(series_cap=12))
        self.refused: Counter[str] = Counter()
        self.seen = Counter[str]()
        self._waiting: list[EventBatch] = []
        self._said = dict.fromkeys(GOOD, 0)
        for name in GOOD:
            self.aggregator.hello(Hello(producer=name), NOW, WALL)
            self.take(bytes(frame(name, 0, 0, records=[Define(0, name, "counter")])))

    def take(self, data: bytes) -> None:
        try:
            made = codec.decode_batch(data)
        except codec.Malformed as malformed:
            self.refused[malformed.reason] += 1
            self.aggregator.bad_frame(malformed.reason)
            return
        before = self.bad_frames()
        if self.aggregator.admit(made, NOW):
            self._waiting.append(made)
            self.seen["admitted"] += 1
        elif self.bad_frames() != before:
            self.refused[Reason.IMPLAUSIBLE] += 1
        else:
            self.seen["duplicate"] += 1

    def bad_frames(self) -> int:
        return sum(self.snapshot().accounting.bad_frames.values())

    def apply(self) -> None:
        self.aggregator.apply(self._waiting, NOW, WALL)
        self._waiting = []

    def say(self) -> None:
        """One more batch of each good producer."""
        for name in GOOD:
            self._said[name] += 1
            self.take(
                bytes(frame(name, self._said[name], 3 * (self._said[name] - 1), rows=[(0, MONO_NS, 1.0)] * 3))
            )

    def end(self) -> MetricsSnapshot:
        self.apply()
        for name in GOOD:
            self.aggregator.end(End(producer=name, batches=self._said[name] + 1, emitted=3 * self._said[name]), NOW)
        self.aggregator.close()
        return self.snapshot()

    def snapshot(self) -> MetricsSnapshot:
        return self.aggregator.snapshot(SnapshotFacts(run_id="r", name="n", state="LIVE"), NOW, WALL)

    def check_good(self, snapshot: MetricsSnapshot) -> None:
        for name in GOOD:
            (stat,) = (stat for stat in snapshot.producers if stat.producer == name)
            assert (stat.completeness, stat.applied, stat.missing) == ("complete", 3 * self._said[name], 0)
            (counter,) = (stat for stat in snapshot.counters if stat.name == name)
            assert counter.value == 3 * self._said[name]


def balanced(stat: ProducerStat) -> bool:
    received = stat.applied + sum(stat.dropped.values()) + stat.waiting
    return stat.received == received and (
        stat.emitted == stat.received + sum(stat.dropped_by_producer.values()) + stat.missing
    )


@settings(max_examples=3 * settings().max_examples)
@given(SCRIPTS)
@example([codec.EVENTS + b"\x91" * 200_000, "good", bytes(limits.FRAME_BYTES + 1), "good"])
def test_a_good_producer_beside_a_bad_one_loses_nothing(script: list[object]) -> None:
    """Every frame is admitted, a duplicate, or counted by its reason; every event is somewhere."""
    run = Run()
    for item in script:
        if isinstance(item, bytes):
            run.take(item)
        elif isinstance(item, Hello):
            run.aggregator.hello(item, NOW, WALL)
        elif isinstance(item, End):
            run.aggregator.end(item, NOW)
        elif isinstance(item, CannotResend):
            run.aggregator.cannot_resend(item.producer, item.first, item.last, NOW)
        elif item == "good":
            run.say()
        else:
            run.apply()
            if item == "roll":
                run.aggregator.roll(WALL_NS, WALL, 10**9)
    snapshot = run.end()
    run.check_good(snapshot)
    assert run.refused.keys() <= FRAME_REASONS
    assert snapshot.accounting.bad_frames == {reason.value: count for reason, count in sorted(run.refused.items())}
    assert all(map(balanced, snapshot.producers))
    assert run.seen["duplicate"] == snapshot.accounting.duplicates
    codec.encode_snapshot(snapshot)


def test_names_without_end_are_counted_in_one_place() -> None:
    """Beyond the cap every name is `overflow`, and nothing grows with the number of names."""
    aggregator = Aggregator(AggregatorConfig(series_cap=100))
    for seq in range(30):
        records = [Count(f"name {seq} {at}") for at in range(1_000)]
        made = batch("bad", seq, seq * 1_000, records=records)
        assert aggregator.admit(made, NOW)
        aggregator.apply([made], NOW, WALL)
    snapshot = aggregator.snapshot(SnapshotFacts(run_id="r", name="n", state="LIVE"), NOW, WALL)
    assert len(snapshot.counters) == 101
    assert next(stat.value for stat in snapshot.counters if stat.name == "overflow") == 29_900
    assert snapshot.overflow == {"counter": 29_900}
    assert snapshot.accounting.applied == 30_000
    assert len(snapshot.warnings) <= limits.WARNINGS_KEPT + 1


def test_a_batch_that_comes_again_and_again_counts_once() -> None:
    """A batch that comes again counts once: in one turn, in the next, and around its neighbours.

    Other content under the same number does not count.
    """
    run = Run()
    first = bytes(frame("bad", 3, 10, records=[Define(0, "n", "counter")], rows=[(0, MONO_NS, 1.0)] * 5))
    other = bytes(frame("bad", 3, 10, rows=[(0, MONO_NS, 100.0)] * 5))
    for data in (first, first, other):
        run.take(data)
    run.apply()
    for data in (other, first):
        run.take(data)
    run.say()
    snapshot = run.end()
    run.check_good(snapshot)
    assert next(stat.value for stat in snapshot.counters if stat.name == "n") == 5
    assert snapshot.accounting.duplicates == 4


def test_event_numbers_that_lie_cost_only_who_says_them() -> None:
    """A number beyond what anybody can have sent refuses its frame; a smaller lie shows as missing events."""
    run = Run()
    for seq, first in ((0, 1 << 60), (1 << 50, 0), (0, 10**9)):
        run.take(bytes(frame("bad", seq, first, rows=[(0, MONO_NS, 1.0)])))
        run.say()
    run.take(codec.EVENTS + msgspec.msgpack.encode([[1, 0], "bad", 1, 0, [0, 0], {"x": 1 << 62}, [], []]))
    snapshot = run.end()
    run.check_good(snapshot)
    assert snapshot.accounting.bad_frames == {"implausible": 3}
    (bad,) = (stat for stat in snapshot.producers if stat.producer == "bad")
    assert (bad.received, bad.missing) == (1, 10**9)


def test_gaps_of_many_producers_share_one_room() -> None:
    """Gaps of many producers share one room.

    Else four thousand of them with a thousand gaps each would be 700 MiB, and as many in each checkpoint.
    """
    aggregator = Aggregator(AggregatorConfig())
    with patch.multiple(limits, SEQUENCE_GAPS=64, GAPS_OF_ALL=512, GAPS_SHOWN=4):
        for at in range(64):
            for seq in range(0, 160, 2):
                made = batch(f"p{at}", seq, seq, rows=[(0, MONO_NS, 1.0)])
                assert aggregator.admit(made, NOW)
                aggregator.apply([made], NOW, WALL)
        kept = {name: len(aggregator.book.gaps(name)) for name in aggregator.book.known}
    assert kept["p0"] == kept["p7"] == 64
    assert kept["p63"] == 512 // 64
    assert sum(kept.values()) < 3.5 * 512
    snapshot = aggregator.snapshot(SnapshotFacts(run_id="r", name="n", state="LIVE"), NOW, WALL)
    assert all(stat.unrepairable == 79 - kept[stat.producer] for stat in snapshot.producers)
    assert all(map(balanced, snapshot.producers))


# --- checkpoints ---------------------------------------------------------------------------------


def tampered(change: Callable[[dict[str, Any]], object]) -> bytes:
    """A checkpoint with something else in its state."""
    whole = msgspec.msgpack.decode(valid.aggregator().checkpoint())
    change(whole["state"])
    return msgspec.msgpack.encode(whole)


def routes(*numbers: int) -> Callable[[dict[str, Any]], object]:
    bound = ["<i4", pack(f"<{len(numbers)}i", *numbers)]
    return lambda state: state["_book"]["_producers"]["p"]["ids"].update(bound=bound)


def gauges(**columns: list[Any]) -> Callable[[dict[str, Any]], object]:
    return lambda state: state["_gauges"].update(columns)


def no_counts(state: dict[str, Any]) -> None:
    """Slots that are occupied, by nothing."""
    for sparse in state["series"]["_groups"][0]["counts"]["contents"][1:]:
        sparse[3][1] = bytes(len(sparse[3][1]))


def moments(**columns: float) -> Callable[[dict[str, Any]], object]:
    """One series of integers with other sums."""

    def change(state: dict[str, Any]) -> None:
        known = state["series"]["_moments"]
        rows = len(known["integral"][1])
        known["integral"][1] = b"\1" * rows
        known.update({name: ["<f8", pack("<d", value) * rows] for name, value in columns.items()})

    return change


BESIDE = [
    no_counts,
    routes(-5),
    routes(1 << 24 | 1_000),
    routes(3 << 24),
    routes(127 << 24),
    lambda state: state["_book"]["_producers"]["p"].update(_received_at_roll=1_000),
    gauges(_value=["<f8", pack("<2d", math.inf, 0.0)]),
    gauges(_min=["<f8", pack("<2d", 0.0, math.nan)]),
    gauges(_time_ns=["<i8", pack("<2q", -1, 0)]),
]


@pytest.mark.parametrize("change", BESIDE, ids=range(len(BESIDE)))
def test_a_checkpoint_that_leads_beside_its_tables_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    """A checkpoint that points outside its tables is refused.

    Else the first batch after it would end the aggregator.
    """
    assert Aggregator.restore(tampered(lambda state: None)).book.known == ["p", "q"]
    with pytest.raises(codec.Malformed):
        Aggregator.restore(tampered(change))


@pytest.mark.parametrize("column", ["total", "total_rest", "_shift", "_high_sums", "mean", "min", "max"])
@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e308])
def test_sums_that_integers_do_not_have_can_be_shown(column: str, value: float) -> None:
    """A snapshot made of them can be sent."""
    made = Aggregator.restore(tampered(moments(**{column: value})))
    with np.errstate(all="ignore"):
        codec.encode_snapshot(made.snapshot(SnapshotFacts(run_id="r", name="n", state="LIVE"), NOW, WALL))


@settings(max_examples=3 * settings().max_examples)
@given(st.integers(0, 1 << 62))
def test_what_is_restored_goes_on(seed: int) -> None:
    """A checkpoint with a few changes is refused, or what is made of it takes batches like any other."""
    chance = random.Random(seed).random
    saved = bytes(valid.aggregator().checkpoint())
    try:
        made = Aggregator.restore(Msgpack().mutate(chance, saved, saved))
    except codec.Malformed:
        return
    with np.errstate(all="ignore"):  # NaNs that no arithmetic makes
        batches = [one for data in valid.frames() if made.admit(one := codec.decode_batch(data), NOW)]
        made.apply(batches, NOW, WALL)
        made.roll(WALL_NS, WALL, 10**9)
        codec.encode_snapshot(made.snapshot(SnapshotFacts(run_id="r", name="n", state="LIVE"), NOW, WALL))
        assert Aggregator.restore(again := made.checkpoint()).checkpoint() == again
