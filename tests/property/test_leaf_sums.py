"""Values dealt to several leaves give the root the numbers that one aggregator has of all of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.aggregator.nodes.outgoing import OutgoingInterval, add_up
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.control import Hello
from telemetry.wire.events import Define
from telemetry.wire.nodes import NodeInterval
from telemetry.wire.snapshot import MetricsSnapshot

pytestmark = pytest.mark.slow

SECOND = 1_000_000_000
LEAVES = 4
PERCENTILES = ("1", "50", "90", "99", "99.9")
DEFINITIONS = (
    Define(0, "time", "series", "ns"),
    Define(1, "coarse", "series", "s", digits=1, labels={"k": "1"}),
    Define(2, "fine", "series", "ms", digits=5),
    Define(3, "bounded", "series", "tokens", low=0.5, high=200.0),
    Define(4, "done", "counter"),
    Define(5, "seconds", "counter", "s"),
    Define(6, "depth", "gauge"),
    Define(7, "many", "series"),
)
SERIES = st.integers(0, 3) | st.just(7)
WHOLE = st.integers(0, 5_000).map(float) | st.sampled_from([2.0**40 + 1, 2.0**53 - 1])
VALUES = st.one_of(WHOLE, st.floats(0.0, 1e7), st.sampled_from([0.1, 1e-3, 2.0**53, 2.0**62, 1e300, 5e-324]))
EVENTS = st.one_of(
    st.tuples(SERIES, WHOLE),
    st.tuples(SERIES, VALUES),
    st.tuples(st.just(4), WHOLE | st.just(2.0**80)),
    st.tuples(st.just(5), VALUES),
    st.tuples(st.just(6), VALUES | VALUES.map(lambda value: -value)),
)
ACTIONS = st.lists(
    st.tuples(
        st.integers(0, LEAVES - 1),
        st.lists(EVENTS, max_size=8),
        st.sampled_from(["", "", "roll", "roll", "hold", "root rolls", "restore leaf", "restore root"]),
    ),
    min_size=1,
    max_size=25,
)
Action = tuple[int, list[tuple[int, float]], str]


class One:
    """An aggregator and one producer of it."""

    def __init__(self, *, leaf: bool = False, cap: int = 100) -> None:
        config = AggregatorConfig(percentiles=PERCENTILES, window_s=3, series_cap=cap, leaf=leaf)
        self.aggregator = Aggregator(config)
        self.defined = False
        self.batches = self.events = self.rolls = 0

    def record(self, rows: list[tuple[int, int, float]], now_ns: int) -> None:
        sent = batch(seq=self.batches, first=self.events, rows=rows, records=() if self.defined else DEFINITIONS)
        self.defined = True
        self.batches += 1
        self.events += len(rows)
        assert self.aggregator.admit(sent, now_ns)
        self.aggregator.apply([sent], now_ns, WALL_NS + now_ns - MONO_NS)

    def roll(self, now_ns: int) -> None:
        wall_ns = WALL_NS + now_ns - MONO_NS
        self.aggregator.roll(wall_ns - SECOND, wall_ns, SECOND)
        self.rolls += 1

    def restore(self) -> None:
        self.aggregator = Aggregator.restore(self.aggregator.checkpoint())

    def snapshot(self, now_ns: int) -> MetricsSnapshot:
        facts = SnapshotFacts(run_id="r", name="n", state="COMPLETE")
        return self.aggregator.snapshot(facts, now_ns, WALL_NS + now_ns - MONO_NS)


class Tree:
    """A root with leaves, which may be restored from their checkpoints at any time."""

    def __init__(self, *, restores: bool, most_bytes: int = 1 << 20, cap: int = 100) -> None:
        self.restores = restores
        self.most_bytes = most_bytes
        self.root = One(cap=cap)
        self.leaves = [One(leaf=True, cap=cap) for _ in range(LEAVES)]
        self.held: list[list[OutgoingInterval]] = [[] for _ in range(LEAVES)]
        self.batches = [0] * LEAVES
        self.events = [0] * LEAVES
        self.now_ns = MONO_NS + SECOND

    def act(self, action: Action) -> None:
        """Let a leaf record rows, then roll, hold its interval back, or be restored."""
        number, events, then = action
        leaf = self.leaves[number]
        rows = [(of, self.now_ns + at, value) for at, (of, value) in enumerate(events)]
        self.now_ns += SECOND
        leaf.record(rows, self.now_ns)
        match then:
            case "roll":
                self.roll(number)
            case "hold":
                self.hold(number)
            case "root rolls":
                self.root.roll(self.now_ns)
            case "restore leaf" if self.restores:
                leaf.restore()
            case "restore root" if self.restores:
                self.root.restore()

    def hold(self, number: int) -> None:
        """End an interval, which is sent with the next one, both added up."""
        leaf = self.leaves[number]
        leaf.roll(self.now_ns)
        taken = leaf.aggregator.leaf.take_interval()
        assert taken is not None
        assert leaf.aggregator.leaf.take_interval() is None
        self.held[number].append(taken)

    def roll(self, number: int) -> None:
        """End an interval, and send it."""
        self.hold(number)
        held = self.held[number]
        whole = held[0] if len(held) == 1 else add_up(held)
        held.clear()
        roll = self.leaves[number].rolls - 1
        key = f"leaf{number}"
        self.root.aggregator.hello(
            Hello(producer=key, node=f"node{number}", mono_ns=self.now_ns), self.now_ns, self.wall_ns
        )
        records = whole.records(roll, self.wall_ns - SECOND, self.wall_ns, self.most_bytes)
        sent = batch(key, self.batches[number], self.events[number], records=records, anchor=self.anchor)
        self.batches[number] += 1
        self.events[number] += sum(isinstance(record, NodeInterval) for record in records)
        assert self.root.aggregator.admit(sent, self.now_ns)
        self.root.aggregator.apply([sent], self.now_ns, self.wall_ns)
        node = self.root.aggregator.book[key].node
        assert node is not None
        assert node.values == whole.values

    @property
    def anchor(self) -> tuple[int, int]:
        return self.now_ns, self.wall_ns

    @property
    def wall_ns(self) -> int:
        return WALL_NS + self.now_ns - MONO_NS

    def finish(self) -> MetricsSnapshot:
        for number in range(LEAVES):
            self.roll(number)
        return self.root.snapshot(self.now_ns)


def slots_of(aggregator: Aggregator) -> dict[str, dict[int, int]]:
    """The counts of each series by slot, by its name."""
    table, found = aggregator.series, {}
    for index in range(len(table)):
        group = table._groups[int(table._group_of[index])]
        counts = group.counts.slot_counts(int(table._row_of[index]))
        occupied = np.flatnonzero(counts)
        found[table.key(index).name] = dict(zip(occupied.tolist(), counts[occupied].tolist(), strict=True))
    return found


def check_series(tree: MetricsSnapshot, one: MetricsSnapshot) -> None:
    """All that is exact is equal, and the rest up to rounding."""
    words = ("labels", "unit", "digits", "count", "min", "max", "percentiles", "histogram", "below", "above")
    others = {stat.name: stat for stat in one.series}
    assert len(tree.series) == len(others)
    for stat in tree.series:
        other = others[stat.name]
        for word in (*words, "imprecise", "error_bound", "resolution"):
            assert getattr(stat, word) == getattr(other, word), word
        assert type(stat.total) is type(other.total)
        assert stat.total == (other.total if isinstance(stat.total, int) else pytest.approx(other.total, rel=1e-12))
        if other.stddev is None or stat.stddev is None or not other.count:
            assert stat.stddev == other.stddev
        else:
            assert math.isclose(stat.stddev, other.stddev, rel_tol=1e-9, abs_tol=1e-9 * float(other.max))


def check_others(tree: MetricsSnapshot, one: MetricsSnapshot) -> None:
    """Counters and gauges are equal; a counter of fractions up to rounding."""
    counters = {stat.name: stat for stat in one.counters}
    for stat in tree.counters:
        other = counters[stat.name]
        assert (stat.events, stat.imprecise, type(stat.value)) == (other.events, other.imprecise, type(other.value))
        assert stat.value == (other.value if isinstance(stat.value, int) else pytest.approx(other.value, rel=1e-12))
    gauges = {stat.name: stat for stat in one.gauges}
    assert len(tree.gauges) == len(gauges)
    for gauge in tree.gauges:
        assert gauge == gauges[gauge.name]


@given(ACTIONS, st.sampled_from([600, 2_000, 1 << 20]))
def test_leaves_add_up_to_one_aggregator(actions: list[Action], most_bytes: int) -> None:
    """Counts, slots, extremes, percentiles, totals of integers, counters and gauges are equal."""
    tree, one = Tree(restores=False, most_bytes=most_bytes), One()
    now_ns = tree.now_ns
    for _, events, then in actions:
        rows = [(of, now_ns + at, value) for at, (of, value) in enumerate(events)]
        now_ns += SECOND
        one.record(rows, now_ns)
        if then == "root rolls":
            one.roll(now_ns)
    for action in actions:
        tree.act(action)
    found, wanted = tree.finish(), one.snapshot(now_ns)
    assert {name: slots for name, slots in slots_of(tree.root.aggregator).items() if slots} == {
        name: slots for name, slots in slots_of(one.aggregator).items() if slots
    }
    check_series(found, wanted)
    check_others(found, wanted)


@settings(deadline=None)
@given(ACTIONS)
def test_a_restored_leaf_and_a_restored_root_go_on_to_the_last_bit(actions: list[Action]) -> None:
    """All checkpoints and the snapshot are those of a run without a restart.

    This holds whatever is restored when.
    """
    restored, whole = Tree(restores=True), Tree(restores=False)
    for action in actions:
        restored.act(action)
        whole.act(action)
    assert restored.finish() == whole.finish()
    assert restored.root.aggregator.checkpoint() == whole.root.aggregator.checkpoint()
    for left, right in zip(restored.leaves, whole.leaves, strict=True):
        assert left.aggregator.checkpoint() == right.aggregator.checkpoint()
