"""Snapshots as metric families."""

from __future__ import annotations

import math

import pytest
from msgspec.structs import replace
from tests.unit.backends.prometheus.given import SNAPSHOT

from telemetry.backends.prometheus.families import PrometheusFamily, families
from telemetry.backends.prometheus.names import Names
from telemetry.wire.cells import CELLS, cell, edge
from telemetry.wire.snapshot import SeriesStat


def made(per_doubling: int = 4) -> dict[str, PrometheusFamily]:
    found = families(SNAPSHOT, "here", Names(), per_doubling)
    assert len({family.name for family in found}) == len(found)
    return {family.name: family for family in found}


def buckets_of(stat: SeriesStat) -> dict[float, int]:
    found = families(replace(SNAPSHOT, series=[stat]), "", Names())
    (family,) = [family for family in found if family.kind == "histogram"]
    (distribution,) = family.distributions
    return dict(distribution.buckets)


def test_the_run_is_told() -> None:
    """One of its states, what was lost, and where its steps are."""
    found = made()
    assert found["telemetry_run_info"].samples == [
        ((("host", "here"), ("name", SNAPSHOT.name), ("run_id", "r1")), 1.0)
    ]
    assert [labels for labels, value in found["telemetry_run_state"].samples if value] == [(("state", "LIVE"),)]
    assert found["telemetry_events_lost"].samples == [((), 3.0)]
    assert found["telemetry_events_dropped"].samples == [((("by", "aggregator"), ("reason", "negative")), 2.0)]
    assert found["telemetry_producers"].samples == [((("status", "late"),), 1.0)]
    assert found["telemetry_nodes"].samples == [((("status", "live"),), 2.0), ((("status", "lost"),), 1.0)]
    assert found["telemetry_step_newest"].samples == [((("axis", "train"),), 7.0)]
    (loss, value), (_, nan) = found["telemetry_step_value"].samples
    assert (loss, value) == ((("axis", "train"), ("name", "train/loss")), 0.5)
    assert math.isnan(nan)


def test_instruments_have_base_units() -> None:
    """Correctly rounded, with all labels of a name together; a gauge that was never set is not there."""
    found = made()
    assert found["requests"].samples == [((("route", "/a"),), 3.0), ((("route", "/b"),), 2.0**60)]
    assert found["read_bytes"].samples == [((), 1536.0)]
    assert found["read_bytes"].unit == "bytes"
    assert found["depth"].samples == [((), -2.5)]
    assert "unset" not in found
    assert found["latency_seconds"].distributions[0].total == 0.0033
    assert found["latency_seconds_max"].samples == [((("route", "/a"),), 9.0)]
    assert found["latency_seconds_percentile"].samples == [
        ((("percentile", "50"), ("route", "/a")), 0.0002),
        ((("percentile", "99.9"), ("route", "/a")), 9.0),
    ]


def test_buckets_say_how_many_are_not_above_their_bound() -> None:
    """Each bound is the last tick of a cell: integers are in the bucket of their own value."""
    found = buckets_of(SNAPSHOT.series[2])
    assert [found[bound] for bound in (3.0, 4.0, 7.0, 9.0, 131_071.0)] == [0, 2, 2, 3, 3]
    for ticks in (0, 1, 7, 8, 100, 131_071):
        stat = SeriesStat(name="x", count=1, histogram=[(cell(ticks), 1)], cell_unit=1.0)
        least = min(bound for bound, count in buckets_of(stat).items() if count)
        assert ticks <= least <= ticks * 1.25


def test_buckets_are_there_before_their_values() -> None:
    """Buckets are there before their values, so that a rate sees the first of them.

    Far values bring eight doublings with them.
    """
    empty, found = (one.buckets for one in made()["latency_seconds"].distributions)
    assert len(found) == 64
    assert [count for _, count in found] == [0] * 64
    assert [bound for bound, _ in empty if bound in dict(found)] == [bound for bound, _ in found]
    assert (empty[0], len(empty), empty[-1][1]) == ((0.0, 1), 160, 5)
    last = SeriesStat(name="x", count=1, histogram=[(CELLS - 1, 1)], cell_unit=1.0)
    assert buckets_of(last)[float(edge(CELLS) - 1)] == 1


def test_series_of_times_have_the_same_buckets_in_any_unit() -> None:
    """Requests are in ns: their buckets from 131 µs to 8.6 s are there from the start, so a rate sees them."""
    bounds = []
    for unit, cell_unit in (("ns", 1.0), ("us", 1e-3), ("ms", 1e-6), ("s", 1e-9)):
        found = buckets_of(SeriesStat(name="x", unit=unit, count=1, histogram=[(80, 1)], cell_unit=cell_unit))
        bounds.append(sorted(found))
    assert all(one == pytest.approx(bounds[0], rel=1e-12) for one in bounds)
    assert (bounds[0][0], bounds[0][-1]) == pytest.approx((163.8e-6, 8.59), rel=1e-3)


def test_fewer_buckets_are_some_of_them() -> None:
    """Fewer buckets per doubling are some of the buckets of the whole, with the same counts."""
    whole = dict(made()["latency_seconds"].distributions[0].buckets)
    for per_doubling, length in ((2, 80), (1, 40)):
        some = dict(made(per_doubling)["latency_seconds"].distributions[0].buckets)
        assert len(some) == length
        assert some.items() <= whole.items()


def test_cells_of_one_tick_are_a_point() -> None:
    """Others reach half a tick further down than their edges: values were rounded."""
    cells = made()["length_tokens"].distributions[0].cells
    assert list(cells) == [(4.0, 4.0, 2), (7.5, 9.5, 1)]
    assert made()["latency_seconds"].distributions[0].cells[0] == (0.0, 5e-10, 1)


def test_odd_numbers_stay_numbers() -> None:
    """Totals beyond all floats, cells that can't be, ticks of no size."""
    stat = SeriesStat(name="x", unit="h", count=1, total=10**400, histogram=[(-1, 5), (CELLS, 1), (70, 0)])
    found = families(replace(SNAPSHOT, series=[stat]), "", Names())
    (family,) = [family for family in found if family.kind == "histogram"]
    assert math.isfinite(family.distributions[0].total)
    assert not family.distributions[0].cells
