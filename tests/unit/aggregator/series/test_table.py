"""The series table: what is recorded, what a roll adds, what the stats say."""

from __future__ import annotations

import math
import sys

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace
from numpy.typing import NDArray
from tests.unit.aggregator.nodes.leaf_and_root import series as leaf_series

from telemetry import limits
from telemetry.aggregator.checkpoint import encode, load, save
from telemetry.aggregator.nodes.columns import SeriesArrays
from telemetry.aggregator.series.table import SeriesTable
from telemetry.aggregator.snapshot_numbers import bounded
from telemetry.errors import UsageError
from telemetry.statistics.hdr.layout import Layout
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.wire.cells import cell, edge
from telemetry.wire.history import SeriesColumns
from telemetry.wire.snapshot import SeriesStat

PERCENTILES = ("50", "75", "90", "95", "99", "99.9", "99.99")


def table(*units: str, digits: int = 3, window: int = 10) -> SeriesTable:
    made = SeriesTable(PERCENTILES, window)
    for number, unit in enumerate(units):
        assert made.add(f"s{number}", {}, unit, digits=digits) == number
    return made


def record(made: SeriesTable, index: int, values: list[float] | NDArray[np.float64]) -> None:
    value = np.asarray(values, dtype=np.float64)
    made.record(np.full(value.size, index, dtype=np.intp), value)


def stat_of(values: list[float] | NDArray[np.float64], unit: str = "ns", **options: float) -> SeriesStat:
    made = SeriesTable(PERCENTILES, 10)
    made.add("s", {}, unit, **options)  # type: ignore[arg-type]
    record(made, 0, values)
    return made.stats()[0]


def test_a_series_without_values_says_so() -> None:
    """Count 0, no minimum, no percentiles; the bounds it promises are there."""
    stat = table("ms").stats()[0]
    assert (stat.count, stat.min, stat.max, stat.mean, stat.stddev) == (0, None, None, None, None)
    assert stat.percentiles == {}
    assert (stat.error_bound, stat.resolution, stat.cell_unit) == (0.001, 1e-6, 1e-6)


def test_moments_are_those_of_the_values() -> None:
    """Count, total, extremes, mean and standard deviation equal numpy's."""
    values = np.random.default_rng(1).lognormal(-3.0, 1.0, 30_000)
    stat = stat_of(values, "s")
    assert stat.count == values.size
    assert stat.total == pytest.approx(math.fsum(values), rel=1e-14)
    assert (stat.min, stat.max) == (values.min(), values.max())
    assert stat.mean == pytest.approx(values.mean(), rel=1e-13)
    assert stat.stddev == pytest.approx(values.std(), rel=1e-11)


def test_integers_stay_integers() -> None:
    """Whole values give whole minimum, maximum, total and percentiles."""
    stat = stat_of([3.0, 5.0, 10.0], "tokens")
    found = [stat.min, stat.max, stat.total, *stat.percentiles.values()]
    assert found == [3, 10, 18, 5, 10, 10, 10, 10, 10, 10]
    assert {type(value) for value in found} == {int}


def test_one_fraction_makes_the_total_a_float() -> None:
    """A series that has seen a fraction reports a float total, even if it is whole."""
    stat = stat_of([0.5, 0.5, 3.0], "tokens")
    assert (stat.total, type(stat.total)) == (4.0, float)


@pytest.mark.parametrize("largest", [2**53 - 1, 2**51 + 12345, 10**12 + 7])
def test_totals_of_integers_are_exact_beyond_2_to_53(largest: int) -> None:
    """Sums of large integers lose nothing, in chunks whose own sum passes 2**53 as well."""
    generator = np.random.default_rng(largest)
    values = generator.integers(largest // 2, largest, 25_000, endpoint=True)
    made = table("B", "B")
    made.record(np.zeros(values.size, dtype=np.intp), values.astype(np.float64))
    made.stats()
    made.record(np.ones(values.size, dtype=np.intp), values.astype(np.float64))
    made.record(np.zeros(values.size, dtype=np.intp), values.astype(np.float64))
    first, second = made.stats()
    assert first.total == bounded(2 * sum(values.tolist()))
    assert second.total == bounded(sum(values.tolist()))
    assert type(first.total) is type(bounded(2 * sum(values.tolist())))


@pytest.mark.parametrize("chunks", [[[2**52], [2**53 - 1], [2]], [[890_000_000_007] * 10_000] * 3])
def test_sums_of_several_chunks_stay_exact(chunks: list[list[int]]) -> None:
    """Each of them may stay below 2**53, and all of them together pass it before they are folded."""
    made = table("ns")
    record(made, 0, [1.0])
    made.roll(1.0)
    for chunk in chunks:
        record(made, 0, np.array(chunk, np.float64))
    assert made.stats()[0].total == bounded(1 + sum(sum(chunk) for chunk in chunks))


def test_many_chunks_between_two_folds_stay_exact() -> None:
    """Folds happen by themselves before a collected sum could pass 2**53."""
    value = float(2**40 + 1)
    made = table("B", "B")
    record(made, 1, [0.0])
    for _ in range(40):
        record(made, 0, np.full(1_000, value))
        record(made, 0, np.full(1_000, 3.0))
    assert made.stats()[0].total == 40_000 * (2**40 + 1) + 120_000


def test_constant_values_have_no_deviation() -> None:
    """A constant is its own mean, exactly, and all its percentiles."""
    stat = stat_of(np.full(20_000, 0.1), "s")
    assert (stat.stddev, stat.min, stat.max) == (0.0, 0.1, 0.1)
    assert set(stat.percentiles.values()) == {0.1}
    assert stat.mean == pytest.approx(0.1, rel=1e-15)


def test_percentiles_follow_the_rank_rule_within_the_bound() -> None:
    """Each percentile is at least the value at rank ceil(p * n), and above it by no more than the bound."""
    values = np.floor(np.random.default_rng(3).lognormal(17.0, 1.0, 12_345))
    stat = stat_of(values)
    ordered = np.sort(values)
    for key, found in stat.percentiles.items():
        true = ordered[rank(parse_percentile(key), values.size) - 1]
        assert true <= found <= true * 1.001


def test_percentiles_stay_within_the_values() -> None:
    """The upper bound of a bucket above the maximum is not reported."""
    stat = stat_of([1_000_000.0, 1_000_001.0], "ns")
    assert stat.percentiles["99"] == 1_000_001
    assert stat_of([1_000_003.0]).percentiles["50"] == 1_000_003


def test_percentile_keys_are_checked() -> None:
    """A percentile that is none is a usage error at construction."""
    with pytest.raises(UsageError, match="percentile"):
        SeriesTable(("50", "101"), 10)


def test_values_below_one_tick_are_counted_and_kept() -> None:
    """Positive values under one tick count as below; zero does not."""
    stat = stat_of([0.0, 2e-10, 9e-10, 1e-9, 5.0], "s")
    assert (stat.below, stat.above, stat.count) == (2, 0, 5)
    assert stat.histogram[0][0] == 0


def test_values_above_high_are_counted_and_clamped() -> None:
    """Beyond `high` a value is counted in the last bucket, the bound is gone, the maximum stays true."""
    stat = stat_of([1.0, 2.0, 50.0], "s", high=10.0)
    assert (stat.above, stat.error_bound, stat.max) == (1, None, 50)
    assert stat.percentiles["99.9"] == pytest.approx(10.0, rel=0.001)


def test_high_applies_to_its_own_series_only() -> None:
    """One bounded series does not bound its neighbours."""
    made = SeriesTable(PERCENTILES, 10)
    made.add("bounded", {}, "s", high=10.0)
    made.add("free", {}, "ms")
    made.record(np.array([0, 1, 1]), np.array([11.0, 11.0, 11_000.0]))
    assert [stat.above for stat in made.stats()] == [1, 0]


def test_huge_values_are_kept_without_a_warning() -> None:
    """The largest floats neither overflow nor stop anything; what can't be said is null."""
    stat = stat_of([1.0, 1e308, 1.7e308, 1.7e308], "s")
    assert (stat.max, stat.above, stat.error_bound, stat.imprecise) == (1.7e308, 3, None, 3)
    assert stat.total == sys.float_info.max
    assert (stat.mean, stat.stddev) == (None, None)


def test_integers_beyond_2_to_53_are_counted_as_imprecise() -> None:
    """Integers from 2**53 on are counted as imprecise, because float64 has gaps there.

    The total is then a float.
    """
    stat = stat_of([1.0, float(2**53), float(2**60)], "B")
    assert stat.imprecise == 2
    assert isinstance(stat.total, float)
    assert isinstance(stat.max, float)


def test_display_histogram_holds_each_value_once() -> None:
    """Cells add up to the count, lie in the order of their edges, and hold the values' own cells."""
    values = np.floor(np.random.default_rng(5).lognormal(8.0, 3.0, 5_000))
    stat = stat_of(values)
    expected, counts = np.unique([cell(int(value)) for value in values], return_counts=True)
    assert stat.histogram == list(zip(expected.tolist(), counts.tolist(), strict=True))
    assert edge(stat.histogram[0][0]) * stat.cell_unit <= stat.min  # type: ignore[operator]
    assert stat.max < edge(stat.histogram[-1][0] + 1) * stat.cell_unit  # type: ignore[operator]


def test_display_edges_depend_on_the_unit_alone() -> None:
    """A series with its own `low` is shown in the cells of its unit."""
    coarse, fine = (stat_of([0.5, 4.0], "s", **options) for options in ({"low": 0.5}, {}))
    assert coarse.cell_unit == fine.cell_unit == 1e-9
    assert coarse.histogram == fine.histogram == [(cell(500_000_000), 1), (cell(4_000_000_000), 1)]


def test_series_of_several_precisions_share_one_table() -> None:
    """Values find their series whatever its digits, and each keeps its own bound."""
    made = SeriesTable(PERCENTILES, 10)
    for number in range(10):
        made.add(f"s{number}", {"n": str(number)}, "ns" if number % 2 else "s", digits=1 + number % 5)
    generator = np.random.default_rng(6)
    index, value = generator.integers(0, 10, 30_000), generator.lognormal(3.0, 2.0, 30_000)
    made.record(index, value)
    for number, stat in enumerate(made.stats()):
        own = np.sort(value[index == number])
        assert (stat.labels, stat.count, stat.max) == ({"n": str(number)}, own.size, own[-1])
        bound = 10.0 ** -(1 + number % 5)
        for key, found in stat.percentiles.items():
            true = own[rank(parse_percentile(key), own.size) - 1]
            assert abs(found - true) <= max(bound * true, stat.resolution)


def columns_of(columns: SeriesColumns) -> dict[int, tuple[int, float, float, float, dict[int, int]]]:
    """Index → (count, total, min, max, slot → count)."""
    occupied = np.frombuffer(columns.occupied, "<u4").tolist()
    slots, counts = (np.frombuffer(data, "<u4").tolist() for data in (columns.slots, columns.counts))
    lines = zip(
        np.frombuffer(columns.index, "<u4").tolist(),
        np.frombuffer(columns.count, "<u8").tolist(),
        *(np.frombuffer(data, "<f8").tolist() for data in (columns.total, columns.min, columns.max)),
        occupied,
        strict=True,
    )
    result, start = {}, 0
    for index, count, total, least, most, length in lines:
        end = start + length
        assert slots[start:end] == sorted(slots[start:end])
        result[index] = (count, total, least, most, dict(zip(slots[start:end], counts[start:end], strict=True)))
        start = end
    assert start == len(slots) == len(counts)
    assert list(result) == sorted(result)
    return result


@pytest.mark.parametrize("mixed", [False, True])
def test_rolls_add_up_to_the_whole(mixed: bool) -> None:
    """Each roll says what its interval added, also when precisions are mixed; all rolls together are everything."""
    made = SeriesTable(PERCENTILES, 10)
    digits = [1 + number % 5 if mixed else 3 for number in range(12)]
    for number, precision in enumerate(digits):
        made.add(f"s{number}", {}, "ns", digits=precision)
    generator = np.random.default_rng(7)
    for _ in range(4):
        index = generator.integers(0, 11, 3_000)
        value = np.floor(generator.lognormal(10.0, 2.0, 3_000))
        made.record(index, value)
        made.stats()
        rolled = columns_of(made.roll(1.0))
        assert 11 not in rolled
        for number, (count, total, least, most, slots) in rolled.items():
            own = value[index == number]
            assert (count, total, least, most) == (own.size, own.sum(), own.min(), own.max())
            found, counts = np.unique(Layout.of(digits[number]).slot_of(own.astype(np.int64)), return_counts=True)
            assert slots == dict(zip(found.tolist(), counts.tolist(), strict=True))
    assert columns_of(made.roll(1.0)) == {}
    assert sum(stat.count for stat in made.stats()) == 12_000


@pytest.mark.parametrize("mixed", [False, True])
def test_slices_add_up_to_their_roll(mixed: bool) -> None:
    """Each slice has its own values. The roll and its window have those of all slices, as without slices."""
    made, plain = SeriesTable(PERCENTILES, 3), SeriesTable(PERCENTILES, 3)
    digits = [1 + number % 5 if mixed else 3 for number in range(12)]
    for number, precision in enumerate(digits):
        for one in (made, plain):
            one.add(f"s{number}", {}, "ns", digits=precision)
    generator = np.random.default_rng(7)
    for roll in range(6):
        for _ in range(20 if roll == 2 else 3):
            index = generator.integers(0, 11, 300)
            value = np.floor(generator.lognormal(10.0, 2.0, 300))
            for one in (made, plain):
                one.record(index, value)
            if roll % 3 == 1:
                continue
            for number, (count, total, least, most, slots) in columns_of(made.slice()).items():
                own = value[index == number]
                assert (count, total, least, most) == (own.size, own.sum(), own.min(), own.max())
                assert sum(slots.values()) == count
        assert columns_of(made.roll(1.0)) == columns_of(plain.roll(1.0))
        windows = [[stat.window for stat in one.stats()] for one in (made, plain)]
        assert windows[0] == windows[1]


@pytest.mark.parametrize("is_restored", [False, True])
def test_the_window_has_no_slice_before_its_roll(is_restored: bool) -> None:
    """The window holds whole intervals. A slice joins it with its roll, also in a table that was restored."""
    made = table(window=3)
    made.roll(1.0)
    made.add("s", {}, "ns")
    for roll in range(5):
        record(made, 0, [1.0, 2.0])
        made.slice()
        if is_restored:
            twin = table("ns", window=3)
            load(twin, msgspec.msgpack.decode(encode(save(made))))
            made = twin
        assert made.stats()[0].window.count == 3 * min(roll, 3)
        record(made, 0, [3.0])
        made.roll(1.0)


def test_rolls_of_an_empty_table_are_empty() -> None:
    """An empty table rolls nothing, because nothing is defined."""
    made = table()
    assert made.roll(1.0) == SeriesColumns()
    assert made.stats() == []


def test_series_added_later_roll_from_nothing() -> None:
    """A series that appears between rolls brings all its values in its first roll."""
    made = table("ns")
    record(made, 0, [1.0])
    made.roll(1.0)
    made.add("late", {}, "ns")
    record(made, 1, [5.0, 6.0])
    assert columns_of(made.roll(1.0)) == {1: (2, 11.0, 5.0, 6.0, {5: 1, 6: 1})}


def test_window_holds_the_last_rolls() -> None:
    """Count, rate and percentiles of the window are those of the last rolls alone."""
    made = table("ns", "ns", window=3)
    generator = np.random.default_rng(8)
    history: list[NDArray[np.float64]] = []
    for step in range(7):
        history.append(np.floor(generator.lognormal(5.0 + step, 1.0, 400)))
        record(made, 0, history[-1])
        made.roll(0.5)
        window = made.stats()[0].window
        recent = np.sort(np.concatenate(history[-3:]))
        seconds = 0.5 * min(step + 1, 3)
        assert (window.seconds, window.count, window.rate) == (seconds, recent.size, recent.size / seconds)
        for key, found in window.percentiles.items():
            true = recent[rank(parse_percentile(key), recent.size) - 1]
            assert true <= found <= true * 1.001
    assert made.stats()[1].window.count == 0
    for _ in range(3):
        made.roll(0.5)
    quiet = made.stats()[0]
    assert (quiet.count, quiet.window.count, quiet.window.percentiles) == (2_800, 0, {})


def test_window_does_not_move_between_rolls() -> None:
    """Values of the running second are in the totals at once and in the window after the roll."""
    made = table("ns")
    record(made, 0, [1.0])
    assert (made.stats()[0].count, made.stats()[0].window.count) == (1, 0)
    made.roll(1.0)
    assert made.stats()[0].window.count == 1


def test_key_names_the_series() -> None:
    """History keys carry what columns need to be read."""
    made = SeriesTable(PERCENTILES, 10)
    made.add("latency", {"op": "get"}, "ms", digits=2)
    key = made.key(0)
    assert (key.index, key.kind, key.name, key.labels) == (0, "series", "latency", {"op": "get"})
    assert (key.unit, key.digits, key.ticks_per_unit) == ("ms", 2, 1e6)


def test_pages_count_what_is_in_use() -> None:
    """A series costs the range it occupies."""
    made = table("ns", "ns")
    assert made.pages == 0
    record(made, 0, np.arange(1024.0))
    assert made.pages == 4


def test_any_number_of_values_at_once() -> None:
    """A table records no value, one chunk and several chunks alike."""
    made = table("ns")
    for size in (0, 1, limits.CHUNK_EVENTS, 2 * limits.CHUNK_EVENTS + 1):
        record(made, 0, np.ones(size))
    assert made.stats()[0].count == 3 * limits.CHUNK_EVENTS + 2


def sums(index: int, values: list[float], slots: list[int], counts: list[int]) -> SeriesArrays:
    return leaf_series(index, values, slots, counts)


def test_added_sums_are_like_recorded_values() -> None:
    """Added sums are like recorded values in tables of one precision and of several.

    This holds beside recorded values too.
    """
    for digits in ((3, 3), (3, 2)):
        recorded, added = SeriesTable(PERCENTILES, 2), SeriesTable(PERCENTILES, 2)
        for made in (recorded, added):
            for number, precision in enumerate(digits):
                made.add(f"s{number}", {}, "ns", digits=precision)
            record(made, 1, [5.0, 9.0])
        for index, values in ((0, [100.0, 100.0, 120.0]), (1, [7.0])):
            record(recorded, index, values)
            slots = sorted(set(map(int, values)))
            added.add_sums(sums(index, values, slots, [values.count(slot) for slot in slots]))
        for made in (recorded, added):
            made.roll(1.0)
        for one, other in zip(recorded.stats(), added.stats(), strict=True):
            assert one.stddev == pytest.approx(other.stddev, rel=1e-14)
            assert replace(one, stddev=0.0) == replace(other, stddev=0.0)


def test_far_more_values_at_once_than_a_fresh_count_holds_are_added() -> None:
    """Hours of values in one interval: history, window and checkpoint have all of them."""
    made = table("ns", window=2)
    most, parts = (1 << 32) - 1, 3
    one = sums(0, [50.0, 70.0], [50, 70], [most, most])
    one.count[:] = 2 * most
    one.total[:] = 120.0 * most
    one.squares[:] = 200.0 * most
    record(made, 0, [60.0])
    for _ in range(parts):
        made.add_sums(one)
    record(made, 0, [60.0, 70.0])
    twin = table("ns", window=2)
    load(twin, msgspec.msgpack.decode(encode(save(made))))
    for each in (made, twin):
        columns = each.roll(1.0)
        assert np.frombuffer(columns.count, "<u8").tolist() == [2 * parts * most + 3]
        slots, counts = np.frombuffer(columns.slots, "<u4"), np.frombuffer(columns.counts, "<u4").astype(np.int64)
        assert [int(counts[slots == slot].sum()) for slot in (50, 60, 70)] == [parts * most, 2, parts * most + 1]
        assert np.frombuffer(columns.occupied, "<u4").tolist() == [slots.size]
        assert (slots[1:] >= slots[:-1]).all()
        stat = each.stats()[0]
        assert (stat.count, stat.window.count) == (2 * parts * most + 3, 2 * parts * most + 3)
        assert (stat.percentiles["50"], stat.min, stat.max) == (60, 50, 70)
        assert each.roll(1.0).index == b""


def test_loosened_bounds_stay_as_wide_as_they_were() -> None:
    """Loosened bounds replace those of the definition in the stat, and stay as wide as they were."""
    made = table("ms")
    made.loosen(0, 0.5, 0.25)
    made.loosen(0, 0.1, 2.0)
    record(made, 0, [1.0])
    assert (made.stats()[0].error_bound, made.stats()[0].resolution) == (0.5, 2.0)
