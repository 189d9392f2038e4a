"""A history is the same from an aggregator and from disk, also for who only adds it up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.backends.going import LATENCY, SECOND, Face, Going

from telemetry.history.interval_source import ControlIntervals, DiskIntervals, IntervalSource
from telemetry.history.intervals.columns import Columns
from telemetry.testing.builders import WALL_NS
from telemetry.wire.history import Interval


@pytest.fixture
def both(tmp_path: Path, short_dir: Path) -> Iterator[list[IntervalSource]]:
    """Yield both sources of a run of 200 s with one value in each second."""
    going = Going(tmp_path)
    for _ in range(200):
        going.second((LATENCY, 1.0))
    face = Face(short_dir, going)
    made: list[IntervalSource] = [ControlIntervals(face.endpoint), DiskIntervals(going.directory.history)]
    yield made
    for past in made:
        past.close()
    face.stop()
    going.die()


def values(intervals: list[Interval]) -> int:
    return sum(int(Columns.of(interval).count.sum()) for interval in intervals)


def test_both_tell_the_same(both: list[IntervalSource]) -> None:
    """Keys, and the intervals of any time range of it."""
    by_control, by_disk = both
    assert by_control.keys() == by_disk.keys() != []
    start_ns, end_ns = WALL_NS + 50 * SECOND, WALL_NS + 60 * SECOND
    assert list(by_control.intervals(start_ns, end_ns)) == list(by_disk.intervals(start_ns, end_ns))
    assert len(list(by_disk.intervals(start_ns, end_ns))) == 10


def test_all_before_a_moment_adds_up(both: list[IntervalSource]) -> None:
    """The sum from disk takes fewer intervals."""
    by_control, by_disk = (list(past.before(WALL_NS + 150 * SECOND)) for past in both)
    assert values(by_control) == values(by_disk) == 150
    assert len(by_disk) < len(by_control)
