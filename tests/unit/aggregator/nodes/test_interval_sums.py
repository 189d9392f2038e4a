"""Several intervals as one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec import msgpack
from tests.unit.aggregator.nodes.leaf_and_root import (
    SECOND,
    Leaf,
    Root,
    counter,
    extent,
    gauge,
    series,
)

from telemetry.aggregator.nodes.columns import read_counters, read_series
from telemetry.aggregator.nodes.interval_sums import (
    exact_sum,
    join_counters,
    join_extents,
    join_gauges,
    join_series,
    split_integer,
)
from telemetry.aggregator.nodes.outgoing import OutgoingInterval, add_up
from telemetry.testing.builders import WALL_NS
from telemetry.wire.codec import decode_record
from telemetry.wire.events import Define
from telemetry.wire.nodes import CounterSums, ExtentSums, GaugeSums, NodeInterval, SeriesSums

DEFINITIONS = (
    Define(0, "time", "series", "ns", within="time"),
    Define(1, "fine", "series", "s", digits=5),
    Define(2, "n", "counter", within="time"),
    Define(3, "f", "counter"),
    Define(4, "g", "gauge"),
)


def three_intervals() -> list[OutgoingInterval]:
    leaf = Leaf(*DEFINITIONS)
    taken = []
    for number in range(3):
        leaf.record(
            *((0, 1e6 + number * 1000 + at) for at in range(20)),
            *((1, 0.1 * at + number) for at in range(20)),
            *((2, float(at)) for at in range(5)),
            (3, 0.1),
            (3, 2.0),
            (4, number - 7.5),
            at_ns=number * SECOND,
        )
        taken.append(leaf.take())
    return taken


def test_one_after_the_other_and_added_up_are_the_same() -> None:
    """All numbers of the root are equal but for mean and spread, which are equal up to rounding."""
    taken = three_intervals()
    apart, together = Root(), Root()
    for interval in taken:
        apart.add(interval)
    assert together.add(add_up(taken)) == apart.values() == taken[-1].values
    left, right = apart.snapshot(), together.snapshot()
    assert (left.counters, left.gauges) == (right.counters, right.gauges)
    for one, other in zip(left.series, right.series, strict=True):
        assert (one.count, one.min, one.max, one.percentiles) == (
            other.count,
            other.min,
            other.max,
            other.percentiles,
        )
        assert (one.histogram, one.extent) == (other.histogram, other.extent)
        assert one.total == pytest.approx(other.total, rel=1e-15)
        assert one.stddev == pytest.approx(other.stddev, rel=1e-12)


def test_definitions_of_all_intervals_are_kept() -> None:
    """The last one of an id, because it may add the series that it is within."""
    leaf = Leaf(Define(0, "time", "series", "ns"), Define(1, "n", "counter"))
    first = leaf.take()
    leaf.define(Define(1, "n", "counter", within="time"))
    defines = add_up([first, leaf.take()]).defines
    assert sorted(defines, key=lambda define: define.id) == [
        Define(0, "time", "series", "ns"),
        Define(1, "n", "counter", within="time"),
    ]


def test_nothing_added_up_is_an_empty_interval() -> None:
    """The sum of no intervals is an empty one, without values and definitions."""
    assert add_up([]) == OutgoingInterval([], SeriesSums(), CounterSums(), GaugeSums(), ExtentSums(), 0)


def test_totals_of_integers_are_exact() -> None:
    """Although no float holds their sum."""
    parts = [series(0, [2.0**52], [1], [1]) for _ in range(7)]
    parts.append(series(0, [1.0], [1], [1]))
    line = join_series(parts)
    assert int(line.total.item()) + int(line.rest.item()) == 7 * 2**52 + 1
    assert (line.count.item(), line.slots.tolist(), line.counts.tolist()) == (8, [1], [8])


def test_mean_and_spread_are_those_of_all_values() -> None:
    """Means far from zero keep the digits of a small spread."""
    parts = [series(0, [1e9, 1e9 + 1], [5], [2]), series(0, [1e9 + 2, 1e9 + 5], [4, 5], [1, 1])]
    line = join_series(parts)
    values = np.array([0.0, 1.0, 2.0, 5.0])
    assert line.mean.item() == 1e9 + 2
    assert line.squares.item() == pytest.approx(((values - 2.0) ** 2).sum(), rel=1e-12)
    assert (line.slots.tolist(), line.counts.tolist()) == ([4, 5], [1, 3])


def test_lines_of_different_ids_stay_apart() -> None:
    """Lines of different ids stay apart, and are in order of ids afterwards."""
    line = join_series(
        [series(7, [1.0], [1], [1]), series(2, [2.0, 3.0], [2, 3], [1, 1]), series(7, [4.0], [4], [1])]
    )
    assert (line.id.tolist(), line.count.tolist(), line.occupied.tolist()) == ([2, 7], [2, 2], [2, 2])
    assert (line.slots.tolist(), line.min.tolist(), line.max.tolist()) == ([2, 3, 1, 4], [2.0, 1.0], [3.0, 4.0])


def test_a_count_beyond_32_bits_takes_its_slot_twice() -> None:
    """A count beyond 32 bits takes its slot twice, so that hours of values fit into one interval."""
    many = (1 << 32) - 1
    part = series(0, [1.0], [9], [many])
    part.count[:] = many
    line = join_series([part, part, part])
    assert (line.count.item(), line.occupied.item()) == (3 * many, 3)
    assert (line.slots.tolist(), line.counts.tolist()) == ([9, 9, 9], [many, many, many])


def test_counters_add_up_exactly_beyond_64_bits() -> None:
    """Integers in two columns, fractions rounded once."""
    line = join_counters([counter(1, 1, (1 << 62) - 1, 2.0**90), counter(1, 2, (1 << 62) - 5, 0.0, 0.1)])
    assert line.integers() == [2**90 + 2**63 - 6]
    assert (line.events.item(), line.fraction.item(), line.fractional.item()) == (3, 0.1, True)
    tenths = join_counters([counter(1, 1, 0, 0.0, 0.1)] * 10)
    assert tenths.fraction.item() == 1.0


def test_the_newest_value_of_a_gauge_wins() -> None:
    """The newest value of a gauge wins; of equal times, the one of the later interval."""
    line = join_gauges([gauge(2, 5.0, 100, 1.0, 5.0), gauge(2, 3.0, 100, 3.0, 3.0), gauge(2, 9.0, 50, 9.0, 9.0)])
    assert (line.value.item(), line.time_ns.item(), line.events.item()) == (3.0, 100, 3)
    assert (line.min.item(), line.max.item()) == (1.0, 9.0)


def test_the_latest_beginning_of_an_extent_decides() -> None:
    """The latest beginning of an extent decides, or the later end if beginnings are equal.

    The earliest beginning stays.
    """
    line = join_extents(
        [
            extent(0, (10, 50, 60, 90), 1, 1.5),
            extent(0, (20, 50, 70, 80), 2, 2.0),
            extent(0, (5, 40, 99, 100), 3, 0.0),
        ]
    )
    assert [column.item() for column in line.columns()] == [0, 5, 50, 70, 100, 6, 3.5]


def test_integers_are_split_into_64_bits_and_a_float() -> None:
    """An integer of up to 115 bits is split without loss. A larger one gives as much as fits, and never more."""
    for number in (0, 5, (1 << 62) - 1, 1 << 62, (1 << 115) - 1, 10**30 + 7):
        whole, huge = split_integer(number)
        assert whole + int(huge) == number
        assert 0 <= whole < 1 << 62
    for number in ((1 << 200) - 1, 1 << 1_024, 1 << 3_000):
        whole, huge = split_integer(number)
        assert number - whole - int(huge) >= 0
        assert math.isfinite(huge)


def test_a_sum_has_its_rounding_error_beside_it() -> None:
    """Infinite after an overflow."""
    assert exact_sum([0.5]) == (0.5, 0.0)
    assert exact_sum([2.0**53, 1.0]) == (2.0**53, 1.0)
    assert exact_sum([1.7e308, 1.7e308]) == exact_sum([math.inf, 1.0]) == (math.inf, 0.0)


def test_records_stay_below_their_bound() -> None:
    """Definitions first; a series with many slots is divided, and the sum of all pieces is the interval."""
    leaf = Leaf(*DEFINITIONS, *(Define(10 + number, f"c{number}", "counter") for number in range(50)))
    leaf.record(*((1, 1.001**at) for at in range(900)), *((10 + number, 1.0) for number in range(50)))
    leaf.record(*((0, float(at)) for at in range(50)), (4, 1.0))
    interval = leaf.take()
    records = interval.records(5, WALL_NS, WALL_NS + SECOND, 2_000)
    encoded = [interval_record for interval_record in records if isinstance(interval_record, NodeInterval)]
    sizes = [len(msgpack.encode(one)) for one in encoded]
    assert max(sizes) <= 2_000
    assert len(sizes) >= 900 * 8 // 2_000
    assert records[: len(interval.defines)] == interval.defines
    assert {(one.roll, one.start_ns, one.end_ns) for one in encoded} == {(5, WALL_NS, WALL_NS + SECOND)}
    assert [decode_record(msgpack.encode(one)) for one in encoded] == encoded
    split, whole = Root(), Root()
    split.send(*records)
    whole.add(interval)
    assert split.values() == whole.values() == interval.values
    for one, other in zip(split.snapshot().series, whole.snapshot().series, strict=True):
        assert (one.count, one.total, one.percentiles) == (other.count, other.total, other.percentiles)
        assert one.stddev == pytest.approx(other.stddev, rel=1e-12)


def test_an_idle_interval_is_one_record() -> None:
    """The root sees that the node is there."""
    idle = Leaf().take()
    assert idle.records(3, 1, 2, 1_000) == [NodeInterval(3, 1, 2)]


def test_records_can_be_joined_again() -> None:
    """A full outbox adds up what is on disk."""
    taken = three_intervals()
    records = [record for one in taken for record in one.records(0, 1, 2, 1_500)]
    again = OutgoingInterval.of_records(records, taken[-1].values)
    wanted = add_up(taken)
    assert (again.defines, again.counters, again.gauges) == (wanted.defines, wanted.counters, wanted.gauges)
    left, right = read_series(again.series), read_series(wanted.series)
    for name in ("id", "count", "min", "max", "occupied", "slots", "counts"):
        assert np.array_equal(getattr(left, name), getattr(right, name)), name
    assert np.allclose(left.squares, right.squares, rtol=1e-12)
    assert read_counters(again.counters).id.tolist() == [1, 4]
