"""Histograms, ranks and moments for any values."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from telemetry.aggregator.exact.percentiles import ExactPass
from telemetry.aggregator.series.table import SeriesTable
from telemetry.statistics.hdr.cells import cells_of
from telemetry.statistics.hdr.layout import Layout
from telemetry.statistics.hdr.pages import PagedCounts
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.wire.cells import cell

LAST_TICK = (1 << 53) - 1
PERCENTILES = ("0.1", "50", "90", "99", "99.9", "100")

ticks = st.one_of(
    st.integers(0, 5_000),
    st.integers(0, LAST_TICK),
    st.builds(lambda bit, step: min(max((1 << bit) + step, 0), LAST_TICK), st.integers(0, 53), st.integers(-1, 1)),
)
seconds = st.one_of(
    st.floats(0.0, 1e6, allow_subnormal=False),
    st.integers(0, 10_000).map(float),
    st.sampled_from([0.0, -0.0, 1e-9, 0.1, 1.0]),
)
rows_of_values = st.lists(st.tuples(st.integers(0, 3), seconds), min_size=1, max_size=200)


def columns(pairs: list[tuple[int, float]]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    index, value = zip(*pairs, strict=True)
    return np.array(index, dtype=np.intp), np.array(value, dtype=np.float64)


def table(window: int = 3) -> SeriesTable:
    made = SeriesTable(PERCENTILES, window)
    for number, digits in enumerate((3, 3, 2, 5)):
        made.add(f"s{number}", {}, "s" if number else "tokens", digits=digits)
    return made


ORACLES = {digits: HdrHistogram(1, LAST_TICK, digits) for digits in range(1, 6)}


@pytest.mark.parametrize("digits", range(1, 6))
@given(values=st.lists(ticks, min_size=1, max_size=50))
def test_slots_and_ranges_are_the_librarys(digits: int, values: list[int]) -> None:
    """Any tick falls into the slot, and the slot has the range, that the hdrhistogram library says."""
    layout, oracle = Layout.of(digits), ORACLES[digits]
    slots = layout.slot_of(np.array(values, dtype=np.int64))
    assert slots.tolist() == [oracle._counts_index_for(value) for value in values]
    assert layout.highest_of(slots).tolist() == [oracle.get_highest_equivalent_value(value) for value in values]
    assert layout.lowest_of(slots).tolist() == [oracle.get_lowest_equivalent_value(value) for value in values]


@given(first=st.lists(ticks, max_size=60), second=st.lists(ticks, max_size=60))
@settings(max_examples=min(30, settings().max_examples))
def test_counts_are_the_librarys_and_merge_like_its(first: list[int], second: list[int]) -> None:
    """Counts equal those the library records, and sums of two histograms those of the library's merge."""
    layout = Layout.of(2)
    oracles = [HdrHistogram(1, LAST_TICK, 2) for _ in range(2)]
    pool = PagedCounts(layout)
    for row, values in enumerate((first, second)):
        pool.add_row()
        pool.add(np.full(len(values), row), layout.slot_of(np.array(values, dtype=np.int64)))
        for value in values:
            assert oracles[row].record_value(value)
        assert pool.slot_counts(row).tolist() == list(oracles[row].counts)
    oracles[0].add(oracles[1])
    assert (pool.slot_counts(0) + pool.slot_counts(1)).tolist() == list(oracles[0].counts)


@given(values=st.lists(ticks, min_size=1, max_size=100))
def test_cells_are_those_of_the_wire(values: list[int]) -> None:
    """Any tick falls into the display cell that the wire defines."""
    assert cells_of(np.array(values, dtype=np.int64)).tolist() == [cell(value) for value in values]


@given(pairs=rows_of_values)
def test_stats_agree_with_the_sorted_values(pairs: list[tuple[int, float]]) -> None:
    """Percentiles lie within [min, max] and their bound of the order statistic; cells add up; moments are right."""
    made = table()
    index, value = columns(pairs)
    made.record(index, value)
    for number, stat in enumerate(made.stats()):
        own = np.sort(value[index == number])
        assert stat.count == own.size == sum(count for _, count in stat.histogram)
        if not own.size:
            continue
        assert (stat.min, stat.max) == (own[0], own[-1])
        assert stat.total == pytest.approx(math.fsum(own), rel=1e-12)
        assert stat.stddev == pytest.approx(float(own.std()), rel=1e-6, abs=1e-9 * float(own[-1]))
        for key, found in stat.percentiles.items():
            true = own[rank(parse_percentile(key), own.size) - 1]
            assert own[0] <= found <= own[-1]
            assert abs(found - true) <= max(10.0**-stat.digits * true, stat.resolution)


@given(values=st.lists(st.integers(0, LAST_TICK), min_size=1, max_size=60), repetitions=st.integers(1, 200))
def test_totals_of_integers_are_exact(values: list[int], repetitions: int) -> None:
    """Integers below 2**53 add up exactly, whatever their size and number."""
    made = SeriesTable(PERCENTILES, 3)
    made.add("s", {}, "B")
    value = np.tile(np.array(values, dtype=np.float64), repetitions)
    made.record(np.zeros(value.size, dtype=np.intp), value)
    assert made.stats()[0].total == repetitions * sum(values)


@given(intervals=st.lists(rows_of_values | st.just([]), min_size=1, max_size=8))
@settings(max_examples=settings().max_examples // 2)
def test_window_is_the_last_intervals(intervals: list[list[tuple[int, float]]]) -> None:
    """The window agrees with a table of the last intervals alone, after any sequence of rolls."""
    made = table(window=3)
    for pairs in intervals:
        if pairs:
            made.record(*columns(pairs))
        made.roll(1.0)
    recent = table(window=3)
    for pairs in intervals[-3:]:
        if pairs:
            recent.record(*columns(pairs))
    for whole, last in zip(made.stats(), recent.stats(), strict=True):
        assert whole.window.count == last.count
        assert whole.window.percentiles == last.percentiles


@given(pairs=rows_of_values, memory_bytes=st.sampled_from([1 << 20, 3_000, 500]))
def test_exact_pass_finds_order_statistics(pairs: list[tuple[int, float]], memory_bytes: int) -> None:
    """The exact pass ends with the values at the ranks, with any values and any memory."""
    made = table()
    index, value = columns(pairs)
    made.record(index, value)
    search = ExactPass(made.targets(), memory_bytes)
    for _ in range(100):
        search.feed(index, value)
        if search.end_pass():
            break
    assert search.problems == {}
    for number, percentiles in search.values().items():
        own = np.sort(value[index == number])
        assert percentiles == {key: own[rank(parse_percentile(key), own.size) - 1] for key in PERCENTILES}
    assert set(search.values()) == set(Counter(index.tolist()))
