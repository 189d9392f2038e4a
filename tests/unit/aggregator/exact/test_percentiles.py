"""The exact pass against sorted values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from telemetry.aggregator.exact.percentiles import ExactPass
from telemetry.aggregator.series.table import SeriesTable
from telemetry.statistics.hdr.percentiles import parse_percentile, rank

PERCENTILES = ("1", "50", "75", "90", "99", "99.9", "99.99", "100")
Values = NDArray[np.float64]
Draw = Callable[[np.random.Generator, int], Values]


def lognormal_seconds(generator: np.random.Generator, size: int) -> Values:
    return generator.lognormal(-3.0, 1.0, size)


def lognormal_nanoseconds(generator: np.random.Generator, size: int) -> Values:
    return np.floor(generator.lognormal(17.0, 1.0, size))


def constant(generator: np.random.Generator, size: int) -> Values:
    return np.full(size, 0.1)


def bimodal(generator: np.random.Generator, size: int) -> Values:
    return np.where(generator.random(size) < 0.5, 1.000001, 1.000002)


def narrow(generator: np.random.Generator, size: int) -> Values:
    return 1.0 + generator.random(size) * 1e-5


def tiny(generator: np.random.Generator, size: int) -> Values:
    return np.where(generator.random(size) < 0.7, 0.0, generator.random(size) * 1e-9)


def huge(generator: np.random.Generator, size: int) -> Values:
    return generator.lognormal(60.0, 20.0, size)


DRAWS: list[Draw] = [lognormal_seconds, lognormal_nanoseconds, constant, bimodal, narrow, tiny, huge]


def recorded(
    index: NDArray[np.intp], value: Values, digits: tuple[int, ...] = (3,), unit: str = "s"
) -> SeriesTable:
    table = SeriesTable(PERCENTILES, 10)
    for number in range(int(index.max()) + 1):
        table.add(f"s{number}", {}, unit, digits=digits[number % len(digits)])
    table.record(index, value)
    return table


def run_passes(search: ExactPass, index: NDArray[np.intp], value: Values, most: int = 12) -> int:
    for passes in range(1, most + 1):
        search.feed(index, value)
        if search.end_pass():
            return passes
    raise AssertionError(f"not done after {most} passes")


def order_statistics(value: Values) -> dict[str, float]:
    ordered = np.sort(value)
    return {key: float(ordered[rank(parse_percentile(key), value.size) - 1]) for key in PERCENTILES}


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("memory_bytes", [1 << 26, 30_000])
@pytest.mark.parametrize("digits", [(3,), (1, 3, 5)])
def test_values_are_order_statistics(draw: Draw, memory_bytes: int, digits: tuple[int, ...]) -> None:
    """The values found are those of the sorted data, for any distribution, precision and memory."""
    generator = np.random.default_rng(1)
    index, value = generator.integers(0, 6, 30_000), draw(generator, 30_000)
    table = recorded(index, value, digits)
    search = ExactPass(table.targets(), memory_bytes)
    run_passes(search, index, value)
    assert search.problems == {}
    assert search.values() == {number: order_statistics(value[index == number]) for number in range(6)}
    table.apply_exact(search.values())
    for number, stat in enumerate(table.stats()):
        assert stat.exact or stat.imprecise
        assert stat.percentiles == order_statistics(value[index == number])


def test_one_slot_with_more_values_than_the_memory_takes_several_passes() -> None:
    """A slot too full to keep is narrowed pass by pass, down to the exact value."""
    generator = np.random.default_rng(2)
    value = narrow(generator, 50_000)
    index = np.zeros(value.size, dtype=np.intp)
    table = recorded(index, value)
    assert len(table.stats()[0].histogram) == 1
    search = ExactPass(table.targets(), 2_000)
    assert run_passes(search, index, value) > 1
    assert search.values() == {0: order_statistics(value)}


def test_repeated_values_need_one_pass_whatever_their_number() -> None:
    """Bins that hold one value only are resolved at once."""
    index = np.zeros(50_000, dtype=np.intp)
    value = np.full(50_000, 0.25)
    search = ExactPass(recorded(index, value).targets(), 2_000)
    assert run_passes(search, index, value) == 1
    assert set(search.values()[0].values()) == {0.25}


def test_portions_and_order_do_not_matter() -> None:
    """The pass may be fed in any portions, in another order than the values were recorded."""
    generator = np.random.default_rng(3)
    index, value = generator.integers(0, 3, 25_000), lognormal_seconds(generator, 25_000)
    search = ExactPass(recorded(index, value).targets())
    order = generator.permutation(25_000)
    for portion in np.array_split(order, 7):
        search.feed(index[portion], value[portion])
    assert search.end_pass()
    assert search.values()[2] == order_statistics(value[index == 2])


@pytest.mark.parametrize("memory_bytes", [1 << 26, 2_000])
def test_values_that_disagree_with_the_histogram_are_a_problem(memory_bytes: int) -> None:
    """A series with values missing or too many is named and gives no values; others are not touched."""
    generator = np.random.default_rng(4)
    index, value = generator.integers(0, 3, 9_000), narrow(generator, 9_000)
    search = ExactPass(recorded(index, value).targets(), memory_bytes)
    missing = np.flatnonzero(index == 0)[0]
    fed_index = np.append(np.delete(index, missing), 1)
    fed_value = np.append(np.delete(value, missing), value[index == 1][0])
    run_passes(search, fed_index, fed_value)
    assert set(search.problems) == {0, 1}
    assert "values, but the histogram has" in search.problems[0]
    assert search.values() == {2: order_statistics(value[index == 2])}


def test_values_above_the_range_are_found() -> None:
    """Values above the range, which the histogram holds in its last bucket, are told apart."""
    value = np.arange(1.0, 1_001.0)
    index = np.zeros(value.size, dtype=np.intp)
    table = SeriesTable(PERCENTILES, 10)
    table.add("s", {}, "s", high=10.0)
    table.record(index, value)
    for memory_bytes in (1 << 20, 1_000):
        search = ExactPass(table.targets(), memory_bytes)
        run_passes(search, index, value)
        assert search.values() == {0: order_statistics(value)}


def test_nothing_recorded_means_nothing_to_find() -> None:
    """A series without values has no targets, and the first pass is the last."""
    table = SeriesTable(PERCENTILES, 10)
    assert ExactPass(table.targets()).end_pass()
    table.add("s", {}, "s")
    search = ExactPass(table.targets())
    search.feed(np.zeros(0, dtype=np.intp), np.zeros(0))
    assert search.end_pass()
    assert search.values() == {}


def test_counting_again_does_not_change_the_table() -> None:
    """The pass leaves the table's own counts of values outside the range alone."""
    index, value = np.zeros(3, dtype=np.intp), np.array([1e-10, 5.0, 1e9])
    table = SeriesTable(PERCENTILES, 10)
    table.add("s", {}, "s", high=100.0)
    table.record(index, value)
    before = table.stats()[0]
    run_passes(ExactPass(table.targets()), index, value)
    table.record(index[:1], value[1:2])
    after = table.stats()[0]
    assert (after.below, after.above) == (before.below, before.above) == (1, 1)


@pytest.mark.parametrize("unit", ["tokens", "ms"])
def test_an_integer_alone_in_its_slot_needs_no_search(unit: str) -> None:
    """Whole numbers so small that each has a slot of its own are known before any value is looked at."""
    generator = np.random.default_rng(8)
    index, value = generator.integers(0, 3, 10_000), np.floor(generator.lognormal(2.0, 1.0, 10_000))
    table = recorded(index, value, unit=unit)
    search = ExactPass(table.targets(), 1)
    assert search.done
    assert search.values() == {number: order_statistics(value[index == number]) for number in range(3)}


def test_a_slot_that_may_hold_more_than_one_integer_is_searched() -> None:
    """Wide slots, the edge of a range, and series with fractions."""
    table = SeriesTable(("50",), 10)
    table.add("wide", {}, "tokens")
    table.add("edge", {}, "tokens", high=3.0)
    table.add("fractions", {}, "tokens")
    index = np.array([0, 0, 1, 1, 2, 2])
    value = np.array([5_000.0, 5_001.0, 4.0, 5.0, 2.25, 2.0])
    table.record(index, value)
    search = ExactPass(table.targets())
    assert not search.done
    run_passes(search, index, value)
    assert search.values() == {0: {"50": 5_000.0}, 1: {"50": 4.0}, 2: {"50": 2.0}}
