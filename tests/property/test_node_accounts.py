"""Accounts of nodes balance, whatever batches of a leaf are lost, late or repeated, and however it ends.

emitted  = received + dropped by producers + missing
received = applied + dropped + waiting
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hand_made_leaf import MONO_NS, SECOND, WALL_NS, HandMadeLeaf, member, relay

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.testing import batch
from telemetry.wire.consistency import contradiction
from telemetry.wire.control import ExpectNodes, Hello
from telemetry.wire.events import Count, Mark
from telemetry.wire.snapshot import MetricsSnapshot

pytestmark = pytest.mark.slow

NOW = 2 * MONO_NS
SECONDS = st.lists(
    st.tuples(st.integers(0, 50), st.integers(0, 50), st.booleans(), st.booleans()), min_size=1, max_size=6
)
"""Increments, values, whether the second is two batches, and whether it has relays."""
FATES = st.sampled_from(["arrives", "arrives", "arrives", "lost", "late", "twice"])


@st.composite
def leaves(draw: st.DrawFn, number: int) -> tuple[HandMadeLeaf, list[Any], bool]:
    """A leaf, its batches with their fates, and whether it says that it has ended."""
    leaf = HandMadeLeaf(f"leaf{number}", f"gpu-{number % 2}", lost=draw(st.integers(0, 3)))
    batches: list[Any] = []
    for increments, values, split, relays in draw(SECONDS):
        records: list[Any] = [leaf.interval(increments, values)]
        if split:
            batches.append(leaf.batch(*records))
            records = []
        if relays:
            records += [relay(Mark("m"), WALL_NS), relay(Count("no record of the stream"), WALL_NS), member("w")]
        batches.append(leaf.batch(*records, leaf.account()))
    ends = draw(st.booleans())
    if ends:
        batches.append(leaf.batch(*leaf.last(draw(st.sampled_from(["complete", "lossy", "incomplete"])))))
    return leaf, [(one, draw(FATES)) for one in batches], ends


def checked(aggregator: Aggregator, state: Any = "COMPLETE") -> MetricsSnapshot:
    """A snapshot whose accounts balance, each and in sum."""
    made = aggregator.snapshot(SnapshotFacts(run_id="r", name="n", state=state), NOW, WALL_NS)
    assert contradiction(made) == ""
    return made


def values_in(made: MetricsSnapshot) -> int:
    """The values of all nodes in the numbers."""
    return sum(int(stat.value) for stat in made.counters) + sum(stat.count for stat in made.series)


@given(st.data())
@settings(max_examples=3 * settings().max_examples // 2)
def test_every_event_of_a_node_is_in_one_place(data: st.DataObject) -> None:
    """A run is complete only if everything has arrived, and each node has said that nothing follows."""
    aggregator = Aggregator(AggregatorConfig())
    aggregator.expected_nodes.expect(ExpectNodes(nodes=["gpu-0"]))
    drawn = [data.draw(leaves(number)) for number in range(data.draw(st.integers(1, 3)))]
    direct = data.draw(st.integers(0, 3))
    aggregator.hello(Hello(producer="p"), NOW, WALL_NS)
    arriving: list[Any] = [batch("p", 0, 0, records=[Count("direct")] * direct)]
    late: list[Any] = []
    for leaf, fates, _ in drawn:
        aggregator.hello(leaf.hello(), NOW - SECOND, WALL_NS)
        for one, fate in fates:
            arriving += [one] * {"arrives": 1, "twice": 2}.get(fate, 0)
            late += [one] if fate == "late" else []
    for one in [*arriving, *data.draw(st.permutations(late))]:
        if aggregator.admit(one, NOW):
            aggregator.apply([one], NOW, WALL_NS)
        checked(aggregator, "LIVE")
    for leaf, _, ends in drawn:
        if ends:
            aggregator.end(leaf.end(), NOW)
            checked(aggregator, "DRAINING")
        if ends or data.draw(st.booleans()):
            aggregator.cannot_resend(leaf.run_id, 0, 100, NOW)
    made = checked(aggregator)
    of_direct = sum(stat.applied for stat in made.producers)
    assert of_direct == direct
    known = sum(leaf.values for leaf, fates, _ in drawn)
    all_here = all(fate != "lost" for _, fates, _ in drawn for _, fate in fates)
    if all_here:
        assert values_in(made) == known + direct
        emitted = known + direct + sum(leaf.lost for leaf, _, _ in drawn)
        refused = made.accounting.dropped.get("malformed_record", 0)  # relays, which `known` does not count
        assert emitted <= made.accounting.emitted <= emitted + refused
    for leaf, fates, ends in drawn:
        (node,) = [one for one in made.nodes if one.leaf == leaf.run_id]
        if not ends or any(fate == "lost" for _, fate in fates):
            assert node.completeness != "complete"
            assert made.completeness != "complete"
    restored = Aggregator.restore(bytes(aggregator.checkpoint()))
    assert checked(restored) == made
