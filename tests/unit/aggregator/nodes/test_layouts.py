"""Series that have other digits or ticks on a leaf than at the root."""

from __future__ import annotations

import numpy as np
import pytest
from tests.unit.aggregator.nodes.leaf_and_root import SECOND, Leaf, Root, series

from telemetry.aggregator import Aggregator
from telemetry.aggregator.nodes.columns import write_series
from telemetry.statistics.hdr.layout import Layout
from telemetry.testing.builders import WALL_NS
from telemetry.wire.events import Define
from telemetry.wire.nodes import NodeInterval
from telemetry.wire.snapshot import SeriesStat
from telemetry.wire.units import ticks_per_unit

VALUES = [1.5, 20.0, 333.0, 4_000.0, 4_444.0, 50_000.0]


def root_with(own: Define, *leaves: Define) -> tuple[Root, SeriesStat]:
    """A root that knew the series first, and its stat after one interval of each leaf."""
    root = Root("own", *(f"l{number}" for number in range(len(leaves))))
    root.send(own, leaf="own")
    for number, define in enumerate(leaves):
        leaf = Leaf(define)
        leaf.record(*((0, value) for value in VALUES))
        root.add(leaf.take(), f"l{number}")
    return root, root.snapshot().series[0]


@pytest.mark.parametrize(
    "define",
    [
        Define(0, "x", "series", "ms", digits=2),
        Define(0, "x", "series", "ms", digits=5),
        Define(0, "x", "series", "ms", low=0.5),
    ],
    ids=["fewer digits", "more digits", "other ticks"],
)
def test_slots_of_another_layout_are_converted_by_value(define: Define) -> None:
    """Count, total and extremes are exact; percentiles lie within the stated bounds, which are wider."""
    root, stat = root_with(Define(0, "x", "series", "ms"), define)
    assert (stat.count, stat.min, stat.max) == (len(VALUES), 1.5, 50_000)
    assert stat.total == sum(VALUES)
    assert stat.error_bound is not None
    assert stat.error_bound > 1e-3
    exact = sorted(VALUES)[2]
    found = float(stat.percentiles["50"])
    assert exact <= found * (1 + 1e-12) + stat.resolution
    assert found <= exact * (1 + stat.error_bound) + stat.resolution
    assert root.aggregator.incoming.other_layouts == {0: "node-l0"}
    warnings = [text for text in root.snapshot().warnings if "on node" in text]
    assert len(warnings) == 1
    assert "'x'" in warnings[0]
    assert "'node-l0'" in warnings[0]


def test_only_the_first_node_with_another_layout_is_named() -> None:
    """The warning comes once, and the widest bounds stay."""
    coarse, coarser = Define(0, "x", "series", "ms", digits=2), Define(0, "x", "series", "ms", digits=1)
    root, stat = root_with(Define(0, "x", "series", "ms"), coarse, coarser)
    assert root.aggregator.incoming.other_layouts == {0: "node-l0"}
    assert stat.error_bound == pytest.approx(0.1 + 1e-3 + 1e-4, rel=1e-12)
    assert sum("on node" in text for text in root.snapshot().warnings) == 1


def test_a_definition_without_values_loosens_nothing() -> None:
    """The series is as exact as before."""
    root = Root("own", "l0")
    root.send(Define(0, "x", "series", "ms"), leaf="own")
    root.send(Define(0, "x", "series", "ms", digits=1), leaf="l0")
    assert root.aggregator.incoming.other_layouts == {}
    assert root.snapshot().series[0].error_bound == 1e-3


def test_the_same_layout_with_another_range_is_no_other_layout() -> None:
    """Values above the root's range count in its last slot, and as above."""
    root, stat = root_with(
        Define(0, "x", "series", "ms", high=4_000.0), Define(0, "x", "series", "ms", high=9_000.0)
    )
    assert root.aggregator.incoming.other_layouts == {}
    assert (stat.count, stat.above, stat.error_bound) == (len(VALUES), 2, None)
    assert stat.max == 50_000


def test_values_above_the_roots_range_stay_in_it_after_conversion() -> None:
    """However large the value of a leaf's slot is in ticks of the root."""
    root, stat = root_with(
        Define(0, "x", "series", "ms", high=100.0), Define(0, "x", "series", "ms", digits=2, low=1e-9)
    )
    assert (stat.count, stat.above) == (len(VALUES), 4)
    assert root.snapshot().series[0].histogram == stat.histogram


def test_a_leaf_that_got_fewer_digits_says_so() -> None:
    """The definition of a leaf has the digits of its slots, not the requested ones."""
    root, stat = root_with(Define(0, "x", "series", "ms", digits=5), Define(0, "x", "series", "ms", digits=4))
    assert stat.digits == 5
    assert stat.error_bound == pytest.approx(1e-4 + 1e-5, rel=1e-4)
    assert root.aggregator.incoming.other_layouts == {0: "node-l0"}


def test_slots_are_checked_by_the_layout_of_the_leaf() -> None:
    """A slot that 5 digits have, but not 2, is refused from a leaf with 2 digits."""
    number = Layout.of(2).slots + 5
    value = float(Layout.of(5).lowest_of(np.array([number]))[0]) / ticks_per_unit("ms")
    line = write_series(series(0, [value], [number], [1]))
    record = NodeInterval(0, WALL_NS, WALL_NS + SECOND, series=line)
    for digits, values in ((5, 1), (2, 0)):
        root = Root("own", "l")
        root.send(Define(0, "x", "series", "ms"), leaf="own")
        root.send(Define(0, "x", "series", "ms", digits=digits), record)
        assert root.values() == values


def test_a_restored_root_knows_the_layouts() -> None:
    """The next interval is converted as before."""
    own, other = Define(0, "x", "series", "ms"), Define(0, "x", "series", "ms", digits=2)
    leaf, root = Leaf(other), Root("own", "l")
    root.send(own, leaf="own")
    leaf.record((0, 5.0))
    root.add(leaf.take())
    twin = Aggregator.restore(root.aggregator.checkpoint())
    leaf.record((0, 777.0))
    taken = leaf.take()
    root.add(taken)
    restored = Root("own", "l")
    restored.aggregator = twin
    restored._batches, restored._events = {"l": 1}, {"l": 1}
    restored.add(taken)
    assert restored.snapshot().series == root.snapshot().series
    assert twin.incoming.other_layouts == {0: "node-l"}
    assert np.isfinite(root.snapshot().series[0].error_bound or np.nan)


def test_definitions_without_room_for_their_id_take_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions without room for their id take no memory.

    Else many leaves could define many ids in another layout each.
    """
    root, _ = root_with(Define(0, "x", "series", "ms"), Define(0, "x", "series", "ms", digits=2))
    kept = {leaf: len(of_leaf) for leaf, of_leaf in root.aggregator.incoming._layouts._differing.items()}
    monkeypatch.setattr(root.aggregator.book._budgets.ids, "left", 0)
    root.send(*(Define(number, "x", "series", "ms", digits=2) for number in range(60_000, 60_010)), leaf="l0")
    found = root.aggregator.incoming._layouts._differing
    assert {leaf: len(of_leaf) for leaf, of_leaf in found.items()} == kept == {"l0": 1}
