"""Intervals of leaves, whose columns are bytes of any content."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace as replaced
from tests.fuzz.msgpack_form import Msgpack
from tests.fuzz.target import MIB, Target

from telemetry.aggregator import Aggregator, AggregatorConfig, SnapshotFacts
from telemetry.aggregator.nodes import columns, incoming, interval_sums, outgoing
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire import codec
from telemetry.wire.control import Hello
from telemetry.wire.events import Define
from telemetry.wire.nodes import NodeInterval

_CONFIG: Final = AggregatorConfig(percentiles=("50", "99.9"), series_cap=3)
_FACTS: Final = SnapshotFacts(run_id="r", name="n", state="COMPLETE")
_SECOND: Final = 10**9
_NOW: Final = (MONO_NS + 100 * _SECOND, WALL_NS + 100 * _SECOND)
_DEFINITIONS: Final = (
    Define(0, "time", "series", "ns", within="time"),
    Define(3, "fine", "series", "s", digits=5, high=9.0),
    Define(6, "coarse", "series", "s", digits=2),
    Define(9, "overflow", "series"),
    Define(12, "beyond", "series"),
    Define(1, "done", "counter", within="time"),
    Define(4, "seconds", "counter"),
    Define(2, "depth", "gauge"),
)


def _root() -> Aggregator:
    """A root that knows one of the series with other digits than its leaf."""
    root = Aggregator(_CONFIG)
    first = batch("own", records=[Define(0, "coarse", "series", "s", digits=3)])
    root.admit(first, _NOW[0])
    root.apply([first], *_NOW)
    root.hello(Hello(producer="l", node="n", mono_ns=MONO_NS), *_NOW)
    defines = batch("l", records=_DEFINITIONS)
    root.admit(defines, _NOW[0])
    root.apply([defines], *_NOW)
    return root


def run_leaf_interval(data: bytes) -> int:
    """An interval is added as a whole, or refused and no number changes."""
    root = _root()
    before = root.snapshot(_FACTS, *_NOW)
    sent = replaced(batch("l", 1), records=[Raw(data)])
    root.admit(sent, _NOW[0])
    root.apply([sent], *_NOW)
    after = root.snapshot(_FACTS, *_NOW)
    node = root.book["l"].node
    assert node is not None
    assert node.values >= 0
    if not node.values:
        assert (after.series, after.counters, after.gauges) == (before.series, before.counters, before.gauges)
    codec.encode_snapshot(after)
    codec.encode_interval(root.roll(WALL_NS, WALL_NS + _SECOND, _SECOND))
    saved = root.checkpoint()
    assert Aggregator.restore(saved).checkpoint() == saved
    return 1


def leaf_intervals() -> list[bytes]:
    """Three intervals of a leaf, and all of them added up."""
    leaf = Aggregator(AggregatorConfig(percentiles=(), leaf=True))
    taken = []
    for number in range(3):
        rows = [(0, 100.0), (0, 1e6), (3, 0.5), (3, 20.0), (6, 3.25), (9, 1.0), (12, 5.0), (1, 2.0**70), (4, 0.1)]
        timed = [(of, MONO_NS + number * _SECOND + at, value * (number + 1)) for at, (of, value) in enumerate(rows)]
        timed.append((2, MONO_NS + number, -4.0))
        sent = batch("p", number, 10 * number, records=() if number else _DEFINITIONS, rows=timed)
        leaf.admit(sent, _NOW[0])
        leaf.apply([sent], *_NOW)
        leaf.roll(WALL_NS, WALL_NS + _SECOND, _SECOND)
        taken.append(leaf.leaf.take_interval() or outgoing.add_up([]))
    together = [*taken, outgoing.add_up(taken)]
    records = [one.records(0, WALL_NS, WALL_NS + _SECOND, 1 << 20)[-1] for one in together]
    return [msgspec.msgpack.encode(record) for record in records if isinstance(record, NodeInterval)]


TARGETS: Final = (
    Target(
        name="leaf_interval",
        arrays=True,
        run=run_leaf_interval,
        form=Msgpack(),
        seeds=leaf_intervals,
        covers=(columns, columns, incoming, interval_sums, incoming),
        base_bytes=8 * MIB,
        bytes_each=2_000,
    ),
)
