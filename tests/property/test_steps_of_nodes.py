"""Steps over several nodes: a root that adds up parts of leaves says what one aggregator of all producers says."""

from __future__ import annotations

import math
import random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.steps.merger import StepMerger
from telemetry.wire.events import CLOSING_RULES, REDUCTIONS, Axis, ClosedStep, Scalars, StepEnd
from telemetry.wire.nodes import StepPart

SECOND = 1_000_000_000
GRACE_S = 1e6
PRODUCERS = [f"rank {number}" for number in range(6)]
NAMES = ["loss", "lr", "tokens"]
NUMBERS = st.none() | st.floats(-1e150, 1e150) | st.sampled_from([0.1, 1 / 3, 1e16, 1.0, -1.0, 5e-324])
DEEDS = st.lists(
    st.one_of(
        st.tuples(
            st.just("log"),
            st.sampled_from(PRODUCERS),
            st.integers(0, 5),
            st.dictionaries(st.sampled_from(NAMES), NUMBERS),
        ),
        st.tuples(st.just("end"), st.sampled_from(PRODUCERS), st.integers(0, 5)),
        st.tuples(st.just("leave"), st.sampled_from(PRODUCERS)),
        st.tuples(st.just("roll")),
        st.tuples(st.just("roll")),
    ),
    max_size=40,
)
HOMES = st.lists(st.integers(0, 3), min_size=len(PRODUCERS), max_size=len(PRODUCERS))
"""For each producer the number of its leaf; 0 stands for the root."""
RANKS: dict[str, int | None] = {"rank 0": 7, "rank 1": 0, "rank 2": 7, "rank 3": 2, "rank 4": None}


def warn(message: str) -> None:
    raise AssertionError(message)


class Node:
    """An aggregator's steps, with what is on its way to the root."""

    def __init__(self, key: str, axis: Axis, shift_ns: int = 0, *, leaf: bool = False) -> None:
        self.key = key
        self.shift_ns = shift_ns
        self.leaf = leaf
        self.steps = StepMerger(GRACE_S, warn, RANKS.get, leaf=leaf)
        self.steps.declare(axis)
        self.said: list[ClosedStep] = []
        self.parts: list[StepPart] = []

    def do(self, deed: tuple[Any, ...], at_ns: int) -> None:
        match deed:
            case "log", producer, step, values:
                assert (
                    self.steps.report(producer, Scalars("train", step, dict(values)), at_ns - self.shift_ns) is None
                )
            case "end", producer, step:
                self.steps.end(producer, StepEnd("train", step))
            case "leave", producer:
                self.steps.leave(producer)
        self.take()

    def take(self) -> None:
        for closed in self.steps.take():
            self.said.append(closed.step)
            if self.leaf:
                assert closed.part is not None
                self.parts.append(closed.part)

    def roll(self) -> list[StepPart]:
        self.steps.pass_time(SECOND)
        self.take()
        return self.sent()

    def sent(self) -> list[StepPart]:
        sent, self.parts = [*self.parts, *self.steps.take_parts()], []
        assert self.leaf or not sent
        return sent

    def restore(self) -> None:
        """Go on from a checkpoint."""
        again = StepMerger(GRACE_S, warn, RANKS.get, leaf=self.leaf)
        load(again, msgspec.msgpack.decode(encode(save(self.steps))))
        self.steps = again

    @property
    def extent(self) -> tuple[int | None, ...]:
        """The range of steps and of the times of their values."""
        (stat,) = self.steps.stats()
        return stat.lowest, stat.highest, stat.began_ns, stat.ended_ns

    def result(self) -> dict[int, Any]:
        """Values, spread, ranks and number of producers of each step in the end."""
        axis = self.steps._axes["train"]
        found = {}
        for number, step in sorted(axis._kept.items()):
            merged = step.result(axis._reduction_of, with_partials=False)
            assert merged.values == step.merged, "all changes were told"
            ranks = step.ranks(NAMES, RANKS.get)
            found[number] = (merged.values, merged.spread, ranks, step.producers)
        return found


class Network:
    """Leaves and their root."""

    def __init__(self, axis: Axis, homes: list[int], rng: random.Random, *, restoring: bool = False) -> None:
        self.root = Node("root", axis)
        self.leaves = {
            home: Node(f"leaf {home}", axis, shift_ns=home * 1_000, leaf=True) for home in sorted({*homes} - {0})
        }
        self.homes = dict(zip(PRODUCERS, homes, strict=True))
        self.rng = rng
        self.restoring = restoring

    def do(self, deed: tuple[Any, ...], at_ns: int) -> None:
        if deed[0] == "roll":
            self.roll()
        else:
            home = self.homes[deed[1]]
            (self.leaves[home] if home else self.root).do(deed, at_ns)

    def roll(self) -> None:
        for leaf in self._in_any_order():
            self._deliver(leaf, leaf.roll())
        self.root.roll()
        if self.restoring:
            for node in (self.root, *self.leaves.values()):
                node.restore()

    def close(self) -> None:
        for leaf in self._in_any_order():
            sent = leaf.roll()
            leaf.steps.close()
            leaf.take()
            self._deliver(leaf, [*sent, *leaf.sent()])
            self.root.do(("leave", leaf.key), 0)
        self.root.steps.close()
        self.root.take()

    def _in_any_order(self) -> list[Node]:
        leaves = [*self.leaves.values()]
        self.rng.shuffle(leaves)
        return leaves

    def _deliver(self, leaf: Node, parts: list[StepPart]) -> None:
        for part in parts:
            sent = msgspec.msgpack.decode(msgspec.msgpack.encode(part), type=StepPart)
            assert self.root.steps.report_part(leaf.key, sent, leaf.shift_ns) is None
            if self.rng.random() < 0.3:
                self.root.take()
        self.root.take()


def nearly(value: float | None, other: float | None) -> bool:
    """Return whether two numbers differ by one unit in the last place at most."""
    if value is None or other is None:
        return value is other
    return abs(value - other) <= math.ulp(max(abs(value), abs(other)))


def plan(deeds: list[tuple[Any, ...]]) -> list[tuple[tuple[Any, ...], int]]:
    return [(deed, 10_000 + at) for at, deed in enumerate(deeds)]


@given(DEEDS, HOMES, st.sampled_from(REDUCTIONS), st.sampled_from(CLOSING_RULES), st.randoms(use_true_random=False))
def test_a_root_says_what_one_aggregator_says(
    deeds: list[tuple[Any, ...]], homes: list[int], reduction: Any, closing: Any, rng: random.Random
) -> None:
    """Times of the axis, and all of each step but its time, on whichever nodes the producers are."""
    axis = Axis("train", reduction, {"lr": "last"}, closing=closing, ranked=NAMES)
    whole = Node("whole", axis)
    network = Network(axis, homes, rng)
    for deed, at_ns in plan(deeds):
        network.do(deed, at_ns)
        whole.roll() if deed[0] == "roll" else whole.do(deed, at_ns)
    network.close()
    whole.steps.close()
    whole.take()
    expected, found = whole.result(), network.root.result()
    assert network.root.extent == whole.extent
    assert found.keys() == expected.keys()
    for number, (values, spread, ranks, producers) in expected.items():
        other_values, other_spread, other_ranks, other_producers = found[number]
        assert (other_ranks, other_producers) == (ranks, producers)
        assert other_values.keys() == values.keys()
        assert all(nearly(other_values[name], value) for name, value in values.items())
        assert other_spread.keys() == spread.keys()
        for name, each in spread.items():
            other = other_spread[name]
            assert nearly(other.mean, each.mean)
            assert msgspec.structs.replace(other, mean=each.mean) == each


@given(DEEDS, HOMES, st.sampled_from(CLOSING_RULES), st.integers(0, 1 << 32))
def test_checkpoints_in_between_change_nothing(
    deeds: list[tuple[Any, ...]], homes: list[int], closing: Any, seed: int
) -> None:
    """Leaves and root that go on from a checkpoint each second have the same state to the last bit."""
    axis = Axis("train", closing=closing, ranked=["loss"])
    one, other = (Network(axis, homes, random.Random(seed), restoring=restoring) for restoring in (False, True))
    for network in (one, other):
        for deed, at_ns in plan(deeds):
            network.do(deed, at_ns)
        network.close()
    assert other.root.said == one.root.said
    assert encode(save(other.root.steps)) == encode(save(one.root.steps))
    for home, leaf in one.leaves.items():
        assert encode(save(other.leaves[home].steps)) == encode(save(leaf.steps))


@given(DEEDS, HOMES, st.sampled_from(REDUCTIONS), st.randoms(use_true_random=False))
def test_a_leaf_that_is_a_root_itself_changes_nothing(
    deeds: list[tuple[Any, ...]], homes: list[int], reduction: Any, rng: random.Random
) -> None:
    """Two levels of leaves: the parts of a leaf of leaves are those of a leaf that has all the producers."""
    axis = Axis("train", reduction, ranked=["loss"])
    network = Network(axis, homes, rng)
    middle, top = network.root, Node("top", axis)
    middle.leaf, middle.steps = True, StepMerger(GRACE_S, warn, RANKS.get, leaf=True)
    middle.steps.declare(axis)
    for deed, at_ns in plan(deeds):
        if deed[0] != "roll":
            network.do(deed, at_ns)
    network.close()
    for part in middle.sent():
        assert top.steps.report_part("middle", part, 0) is None
        top.take()
    top.steps.close()
    top.take()
    expected, found = middle.result(), top.result()
    assert found.keys() == expected.keys()
    for number, (values, spread, ranks, producers) in expected.items():
        other_values, other_spread, other_ranks, other_producers = found[number]
        assert (other_spread, other_producers) == (spread, producers)
        assert other_ranks.get("loss") == ranks.get("loss")
        assert all(nearly(other_values[name], value) for name, value in values.items())
