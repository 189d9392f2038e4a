"""Readings from snapshots are finite, and say no more than the snapshot does."""

from __future__ import annotations

import math
import sys
from itertools import pairwise

import pytest

from telemetry.backends.sources.snapshots import CELLS_MOST, cells_within, final_reading, finite, window_reading
from telemetry.wire.cells import CELLS, edge
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat, WindowStat

SNAPSHOT = MetricsSnapshot(
    run_id="r",
    name="n",
    state="COMPLETE",
    started_ns=1_000,
    time_ns=5_000_001_000,
    elapsed_s=5.0,
    window_s=3.0,
    counters=[CounterStat(name="requests", value=10, rate=4.0)],
    gauges=[GaugeStat(name="load", value=2), GaugeStat(name="unset")],
    series=[
        SeriesStat(
            name="latency",
            unit="ms",
            count=20,
            total=60,
            min=1,
            max=9,
            mean=3.0,
            percentiles={"50": 3, "99": 9},
            histogram=[(4, 12), (5, 8)],
            cell_unit=0.5,
            window=WindowStat(seconds=3.0, count=6, rate=2.0, percentiles={"50": 4}),
        ),
        SeriesStat(name="idle", unit="ms", count=1, total=1),
    ],
)


def test_the_result_is_of_the_whole_run() -> None:
    """Percentiles as they are there, rates over all its time, cells with their edges."""
    found = final_reading(SNAPSHOT)
    latency = found.series[0]
    assert (found.key, found.time_ns, found.seconds, found.final) == ("final", 5_000_001_000, 5.0, True)
    assert (latency.count, latency.rate, latency.total, latency.min, latency.max) == (20, 4.0, 60.0, 1.0, 9.0)
    assert latency.percentiles == {"50": 3.0, "99": 9.0}
    assert latency.cells == [(2.0, 2.5, 12), (2.5, 3.0, 8)]
    assert [(one.name, one.value, one.rate) for one in found.counters] == [("requests", 10.0, 2.0)]
    assert [(one.name, one.value) for one in found.gauges] == [("load", 2.0)]


def test_a_window_is_of_its_seconds() -> None:
    """Series without values in it are left out; what a window does not have is not made up."""
    found = window_reading(SNAPSHOT, 4.0)
    (latency,) = found.series
    assert (found.key, found.time_ns, found.elapsed_s, found.seconds) == ("t4000001000", 4_000_001_000, 4.0, 3.0)
    assert (latency.count, latency.rate, latency.percentiles, latency.min) == (6, 2.0, {"50": 4.0}, None)
    assert [(one.value, one.rate) for one in found.counters] == [(10.0, 4.0)]
    assert not found.final


def test_cells_are_few_and_lose_nothing() -> None:
    """Neighbours become one where there are too many; empty ones and those that can't be are left out."""
    all_cells = [(cell, 1) for cell in range(CELLS)]
    found = cells_within([*all_cells, (CELLS, 7), (-1, 7)], 1.0)
    assert len(all_cells) > CELLS_MOST >= len(found)
    assert sum(count for _, _, count in found) == CELLS
    assert all(low < high for low, high, _ in found)
    assert all(one[1] == other[0] for one, other in pairwise(found))
    assert (found[0][0], found[-1][1]) == (0.0, float(edge(CELLS)))
    assert cells_within([(8, 0), (9, 2)], 0.25) == [(2.5, 3.0, 2)]


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (3, 3.0),
        (math.inf, sys.float_info.max),
        (-math.inf, -sys.float_info.max),
        (10**400, sys.float_info.max),
        (-(10**400), -sys.float_info.max),
        (math.nan, 0.0),
    ],
)
def test_numbers_are_finite(number: float, value: float) -> None:
    """A number becomes finite, also a sum beyond the range of floats."""
    assert finite(number) == value
