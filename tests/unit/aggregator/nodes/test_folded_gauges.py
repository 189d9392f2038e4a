"""Gauges of many nodes at the root, and intervals of many leaves in one turn."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

import pytest
from tests.unit.aggregator.nodes.leaf_and_root import SECOND, Leaf, Root

from telemetry import limits
from telemetry.aggregator import Aggregator
from telemetry.aggregator.nodes.outgoing import OutgoingInterval
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.control import Hello
from telemetry.wire.events import Define
from telemetry.wire.nodes import NodeInterval, SeriesSums
from telemetry.wire.snapshot import GaugeStat, without_single_nodes

FIGURES = ("host.cpu", "host.memory")
TIME, LOSS = Define(20, "time", "series", "ns"), Define(21, "loss", "gauge")
MANY = limits.NODES_APART + 9


def node(number: int) -> str:
    return f"n{number:02}"


def definitions(number: int) -> list[Define]:
    return [Define(at, name, "gauge", "%", {"node": node(number)}) for at, name in enumerate(FIGURES)]


class Fleet:
    """A root, and leaves whose values are those that a test chooses."""

    def __init__(self, count: int, *more: Define, cap: int = 100) -> None:
        self.root = Root(*map(node, range(count)), cap=cap)
        self.leaves = [Leaf(*definitions(number), *more) for number in range(count)]
        self._rolls = 0

    def record(self, values: Sequence[float], *more: tuple[int, float], at_ns: int = 0) -> None:
        """Record a value of each figure on the first nodes, and send the intervals of these nodes."""
        self._rolls += 1
        for number, value in enumerate(values):
            leaf = self.leaves[number]
            leaf.record((0, value), (1, 100.0 - value), *more, at_ns=at_ns)
            self.root.add(leaf.take(), node(number))
        self.root.aggregator.roll(WALL_NS, WALL_NS + SECOND, SECOND)

    def gauges(self) -> dict[str, GaugeStat]:
        return {f"{stat.name} {stat.labels.get('node', '')}": stat for stat in self.root.snapshot().gauges}


def test_the_gauges_of_many_nodes_are_folded_into_their_median_and_extremes() -> None:
    """The gauge for all nodes has the median, and names the nodes with the least and the greatest value."""
    fleet = Fleet(MANY)
    values = [float(7 * number % MANY) for number in range(MANY)]
    fleet.record(values)
    cpu = fleet.gauges()["host.cpu all"]
    assert cpu.value == median(values)
    assert cpu.over_nodes is not None
    assert (cpu.over_nodes.nodes, cpu.over_nodes.least, cpu.over_nodes.greatest) == (MANY, 0.0, MANY - 1.0)
    assert cpu.over_nodes.least_node == node(values.index(0.0))
    assert cpu.over_nodes.greatest_node == node(values.index(MANY - 1.0))
    assert (cpu.min, cpu.max) == (0.0, MANY - 1.0)
    fleet.record([value + 0.5 for value in values], at_ns=SECOND)
    cpu = fleet.gauges()["host.cpu all"]
    assert (cpu.value, cpu.min, cpu.max) == (median(values) + 0.5, 0.0, MANY - 0.5)


def test_an_even_number_of_nodes_has_the_mean_of_the_middle_ones() -> None:
    """As in any median."""
    fleet = Fleet(MANY + 1)
    values = [float(number * number) for number in range(MANY + 1)]
    fleet.record(values)
    assert fleet.gauges()["host.cpu all"].value == median(values)


def test_few_nodes_keep_their_gauges() -> None:
    """Each has its own value, and none stands for all."""
    fleet = Fleet(limits.NODES_APART)
    fleet.record([float(number) for number in range(limits.NODES_APART)])
    stats = fleet.gauges()
    assert {stats[f"host.cpu {node(number)}"].value for number in range(limits.NODES_APART)} == {*range(16)}
    assert not any(stat.over_nodes for stat in stats.values())


def test_gauges_of_nodes_leave_the_room_of_the_program_alone() -> None:
    """A gauge that the program defines later is itself, although there are more gauges of nodes than the cap."""
    fleet = Fleet(MANY, cap=3)
    fleet.record([1.0] * MANY)
    leaf = Leaf(LOSS)
    leaf.record((21, 0.25))
    fleet.root.aggregator.hello(Hello(producer="late", node="late", mono_ns=MONO_NS), MONO_NS, WALL_NS)
    fleet.root.add(leaf.take(), "late")
    assert fleet.gauges()["loss "].value == 0.25
    assert fleet.root.snapshot().overflow == {}


def test_a_silent_node_no_longer_counts() -> None:
    """After a minute without a value of it."""
    fleet = Fleet(MANY)
    fleet.record([50.0] * (MANY - 1) + [99.0])
    fleet.record([50.0] * (MANY - 1), at_ns=61 * SECOND)
    spread = fleet.gauges()["host.cpu all"].over_nodes
    assert spread is not None
    assert (spread.nodes, spread.greatest) == (MANY - 1, 50.0)
    assert fleet.gauges()["host.cpu all"].max == 99.0


def test_readers_show_the_gauge_for_all_nodes_only() -> None:
    """The gauges of single nodes are left out where one stands for all. Others stay."""
    fleet = Fleet(MANY, LOSS)
    fleet.record([1.0] * MANY, (21, 0.5))
    shown = without_single_nodes(fleet.root.snapshot().gauges)
    assert sorted((stat.name, stat.labels.get("node", "")) for stat in shown) == [
        ("host.cpu", "all"),
        ("host.memory", "all"),
        ("loss", ""),
    ]


def test_every_value_of_a_folded_gauge_counts_once() -> None:
    """In the account of its node, and in the gauges."""
    fleet = Fleet(MANY)
    fleet.record([1.0] * MANY)
    fleet.record([2.0] * MANY, at_ns=SECOND)
    assert [fleet.root.values(node(number)) for number in range(MANY)] == [4] * MANY
    assert sum(stat.events for stat in fleet.root.snapshot().gauges) == 4 * MANY


def test_a_restored_root_goes_on_with_the_gauges_of_nodes() -> None:
    """Its snapshot is the same, and so is the next one."""
    fleet = Fleet(MANY)
    fleet.record([float(number) for number in range(MANY)])
    restored = Aggregator.restore(fleet.root.aggregator.checkpoint())
    before = fleet.root.snapshot()
    kept, fleet.root.aggregator = fleet.root.aggregator, restored
    assert fleet.root.snapshot() == before
    leaf = fleet.leaves[0]
    leaf.record((0, 400.0), at_ns=SECOND)
    interval = leaf.take()
    sent = batch(node(0), 1, 1, records=interval.records(1, WALL_NS, WALL_NS + SECOND, 1 << 20))
    for aggregator in (kept, restored):
        assert aggregator.admit(sent, MONO_NS + 100 * SECOND)
        aggregator.apply([sent], MONO_NS + 100 * SECOND, WALL_NS + 100 * SECOND)
        aggregator.roll(WALL_NS, WALL_NS + SECOND, SECOND)
    assert restored.checkpoint() == kept.checkpoint()
    assert fleet.gauges()["host.cpu all"].max == 400.0


def test_a_middle_level_passes_the_gauges_of_each_node_on() -> None:
    """The root above it folds those of all nodes."""
    middle = Root(*map(node, range(MANY)), is_leaf=True)
    for number in range(MANY):
        leaf = Leaf(*definitions(number))
        leaf.record((0, float(number)))
        middle.add(leaf.take(), node(number))
    middle.aggregator.roll(WALL_NS, WALL_NS + SECOND, SECOND)
    interval = middle.aggregator.leaf.take_interval()
    assert interval is not None
    root = Root("middle")
    assert root.add(interval, "middle") == MANY
    root.aggregator.roll(WALL_NS, WALL_NS + SECOND, SECOND)
    (cpu,) = (stat for stat in root.snapshot().gauges if stat.over_nodes is not None)
    assert cpu.over_nodes is not None
    assert (cpu.value, cpu.over_nodes.nodes) == (median(range(MANY)), MANY)


def test_counters_of_further_nodes_add_up() -> None:
    """The counter with the label `node=others` has those of all nodes but the first."""
    root = Root(*map(node, range(MANY)))
    for number in range(MANY):
        leaf = Leaf(Define(0, "host.net_drops", "counter", "", {"node": node(number)}))
        leaf.record((0, 2.0))
        root.add(leaf.take(), node(number))
    by_node = {stat.labels["node"]: stat.value for stat in root.snapshot().counters}
    assert by_node.pop("others") == 2 * (MANY - limits.NODES_APART)
    assert by_node == {node(number): 2 for number in range(limits.NODES_APART)}


# --- many leaves in one turn ---------------------------------------------------------------------


def turn(aggregator: Aggregator, intervals: dict[str, OutgoingInterval], *, together: bool) -> None:
    """Apply one batch of each leaf."""
    batches = []
    for leaf, interval in intervals.items():
        records: list[Any] = interval.records(0, WALL_NS, WALL_NS + SECOND, 1 << 20)
        batches.append(batch(leaf, 0, 0, records=records))
    now_ns, wall_ns = MONO_NS + 100 * SECOND, WALL_NS + 100 * SECOND
    for sent in batches:
        assert aggregator.admit(sent, now_ns)
    for several in [batches] if together else [[sent] for sent in batches]:
        aggregator.apply(several, now_ns, wall_ns)
    aggregator.roll(WALL_NS, WALL_NS + SECOND, SECOND)


def intervals_of_many(*, digits_of_last: int = 3) -> dict[str, OutgoingInterval]:
    made = {}
    for number in range(MANY):
        digits = digits_of_last if number == MANY - 1 else 3
        own = Define(20, "time", "series", "ns", digits=digits)
        leaf = Leaf(*definitions(number), own, Define(22, "done", "counter"))
        leaf.record((0, 2.0 * number), (20, 1_000.0 + number), (20, 3e6 * (number + 1)), (22, 1.0), (22, 0.5))
        made[node(number)] = leaf.take()
    return made


@pytest.mark.parametrize("digits_of_last", [3, 2])
def test_intervals_of_one_turn_are_added_as_one_by_one(digits_of_last: int) -> None:
    """Counts, sums, percentiles, extremes and accounts are equal, also if a leaf has another layout."""
    intervals = intervals_of_many(digits_of_last=digits_of_last)
    together, apart = Root(*intervals), Root(*intervals)
    turn(together.aggregator, intervals, together=True)
    turn(apart.aggregator, intervals, together=False)
    found, wanted = together.snapshot(), apart.snapshot()
    assert found.gauges == wanted.gauges
    assert found.counters == wanted.counters
    (of_all,), (of_each,) = found.series, wanted.series
    assert of_all.count == of_each.count == 2 * MANY
    assert (of_all.total, of_all.min, of_all.max) == (of_each.total, of_each.min, of_each.max)
    assert of_all.percentiles == of_each.percentiles
    assert of_all.stddev == pytest.approx(of_each.stddev, rel=1e-12)
    assert [together.values(leaf) for leaf in intervals] == [apart.values(leaf) for leaf in intervals] == [5] * MANY
    assert found.accounting == wanted.accounting


def test_an_impossible_interval_leaves_the_others_of_its_turn_alone() -> None:
    """It alone is dropped and counted."""
    intervals = intervals_of_many()
    wrong = node(3)
    root = Root(*intervals)
    batches = []
    for leaf, interval in intervals.items():
        records: list[Any] = interval.records(0, WALL_NS, WALL_NS + SECOND, 1 << 20)
        if leaf == wrong:
            records[-1] = NodeInterval(0, WALL_NS, WALL_NS + SECOND, SeriesSums(id=b"\0\0\0\0", count=b"\1"))
        batches.append(batch(leaf, 0, 0, records=records))
    for sent in batches:
        assert root.aggregator.admit(sent, MONO_NS + 100 * SECOND)
    root.aggregator.apply(batches, MONO_NS + 100 * SECOND, WALL_NS + 100 * SECOND)
    assert {leaf: root.values(leaf) for leaf in intervals} == dict.fromkeys(intervals, 5) | {wrong: 0}
    assert root.dropped(wrong) == {"malformed_record": 1}
    assert root.dropped(node(4)) == {}
