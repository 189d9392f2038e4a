"""Tests that any bytes in a leaf's columns leave possible numbers at the root, or change none."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.aggregator.nodes.leaf_and_root import SECOND, Leaf, Root

from telemetry.aggregator import Aggregator
from telemetry.testing.builders import WALL_NS
from telemetry.wire.codec import decode_snapshot, encode_interval, encode_snapshot
from telemetry.wire.events import Define
from telemetry.wire.nodes import NodeInterval

pytestmark = pytest.mark.slow

DEFINITIONS = (
    Define(0, "time", "series", "ns", within="time"),
    Define(1, "fine", "series", "s", digits=5, high=9.0),
    Define(2, "done", "counter", within="time"),
    Define(3, "depth", "gauge"),
)
KINDS = ("series", "counters", "gauges", "extents")


def valid_record() -> NodeInterval:
    leaf = Leaf(*DEFINITIONS)
    leaf.record((0, 100.0), (0, 1e6), (0, 5e8), (1, 0.5), (1, 20.0), (2, 2.0), (2, 0.5), (3, -4.0))
    leaf.take()
    leaf.record((0, 7.0), (0, 1e6), (0, 5e8), (1, 0.25), (1, 2.0), (2, 2.0**70), (2, 0.5), (3, -4.0))
    record = leaf.take().records(1, WALL_NS, WALL_NS + SECOND, 1 << 20)[-1]
    assert isinstance(record, NodeInterval)
    return record


RECORD = valid_record()
IDS = (0, 3, 1, 2)
"""Ids that the leaf gives to the instruments above, in their order."""
FLOATS = (math.nan, math.inf, -math.inf, -0.0, -1.0, 1e308, 5e-324, 2.0**53, 2.0**63, 0.5)
NUMBERS = (
    *(struct.pack("<d", number) for number in FLOATS),
    *(struct.pack("<Q", number) for number in (0, 1, (1 << 64) - 1, 1 << 63, (1 << 63) - 1, 1 << 50, 1 << 53)),
    *(struct.pack("<I", number) for number in (0, 1, 3, 4, (1 << 32) - 1, 65_535, 65_536, 4_000_000)),
)
COLUMNS = [(kind, name) for kind in KINDS for name in getattr(RECORD, kind).__struct_fields__]


@st.composite
def records(draw: st.DrawFn) -> NodeInterval:
    """A valid record with a few changes: numbers of any size, columns of any length, columns exchanged."""
    record = RECORD
    for kind, name in draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=4)):
        column = bytearray(getattr(getattr(record, kind), name))
        match draw(st.integers(0, 4)):
            case 0 | 1:
                number = draw(st.sampled_from(NUMBERS))
                at = draw(st.integers(0, max(0, len(column) // len(number) - 1))) * len(number)
                column[at : at + len(number)] = number
            case 2:
                column = bytearray(draw(st.binary(max_size=40)))
            case 3:
                del column[draw(st.integers(0, len(column))) :]
            case 4:
                column = bytearray(getattr(RECORD.series, draw(st.sampled_from(RECORD.series.__struct_fields__))))
        record = replace(record, **{kind: replace(getattr(record, kind), **{name: bytes(column)})})
    return record


def new_root() -> Root:
    root = Root()
    root.send(*(replace(define, id=number) for define, number in zip(DEFINITIONS, IDS, strict=True)), RECORD)
    return root


@given(st.lists(records(), min_size=1, max_size=4))
def test_any_bytes_are_added_or_refused(sent: list[NodeInterval]) -> None:
    """A refused record changes no number; after an accepted one, the snapshot can be sent and the state saved."""
    root = new_root()
    for record in sent:
        before, refused, had = root.snapshot(), root.dropped().get("malformed_record", 0), root.values()
        root.send(record)
        after = root.snapshot()
        if root.dropped().get("malformed_record", 0) > refused or root.values() == had:
            assert (after.series, after.counters, after.gauges) == (before.series, before.counters, before.gauges)
        assert all(stat.count >= other.count for stat, other in zip(after.series, before.series, strict=True))
        assert all(stat.value >= other.value for stat, other in zip(after.counters, before.counters, strict=True))
        encoded = encode_snapshot(decode_snapshot(encode_snapshot(after)))
        assert encode_snapshot(decode_snapshot(encoded)) == encoded
    encode_interval(root.aggregator.roll(WALL_NS, WALL_NS + SECOND, SECOND))
    checkpoint = root.aggregator.checkpoint()
    assert Aggregator.restore(checkpoint).checkpoint() == checkpoint
    root.snapshot()
