"""Building SeriesStat structs, and not building them again."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from telemetry.aggregator.series.group import Definition
from telemetry.aggregator.series.stats import empty_stat
from telemetry.aggregator.series.table import SeriesTable
from telemetry.wire.snapshot import WindowStat

PERCENTILES = ("50", "99.9")


def table(*units: str) -> SeriesTable:
    made = SeriesTable(PERCENTILES, 2)
    for number, unit in enumerate(units):
        made.add(f"s{number}", {}, unit)
    return made


def record(made: SeriesTable, index: int, values: list[float]) -> None:
    made.record(np.full(len(values), index, dtype=np.intp), np.array(values))


def test_empty_stat_states_its_bounds() -> None:
    """A stat without values still has a precision."""
    stat = empty_stat(Definition("s", {"a": "b"}, "s", 2), WindowStat(seconds=3.0))
    assert (stat.digits, stat.error_bound, stat.resolution, stat.window.seconds) == (2, 0.01, 1e-9, 3.0)


def test_unchanged_series_keep_their_stat() -> None:
    """The stat of an unchanged series is not built again."""
    made = table("ns", "ns")
    record(made, 0, [1.0])
    record(made, 1, [1.0])
    before = made.stats()
    record(made, 1, [2.0])
    after = made.stats()
    assert after[0] is before[0]
    assert (before[1].count, after[1].count) == (1, 2)


def test_percentiles_mix_ints_and_floats() -> None:
    """Whole and fractional percentiles keep their types in one call."""
    made = table("s", "s")
    record(made, 0, [2.0])
    record(made, 1, [2.0, 2.5])
    whole, mixed = made.stats()
    assert whole.percentiles == {"50": 2, "99.9": 2}
    assert type(whole.percentiles["50"]) is int
    assert mixed.percentiles["99.9"] == 2.5


def test_exact_values_replace_percentiles_until_the_series_changes() -> None:
    """Order statistics are marked exact with bound 0; a new value makes the series inexact again."""
    made = table("s", "s")
    for index in (0, 1):
        record(made, index, [1.0, 2.5])
    made.apply_exact({0: dict.fromkeys(PERCENTILES, 2.5)})
    exact, other = made.stats()
    assert (exact.exact, exact.error_bound, exact.resolution, exact.percentiles["50"]) == (True, 0.0, 0.0, 2.5)
    assert not other.exact
    record(made, 0, [3.0])
    assert not made.stats()[0].exact


def test_exact_values_survive_a_roll() -> None:
    """The window may move on; exact statistics stay."""
    made = table("s")
    record(made, 0, [1.0, 2.5])
    made.apply_exact({0: dict.fromkeys(PERCENTILES, 2.5)})
    made.roll(1.0)
    assert made.stats()[0].exact


def test_imprecise_integers_are_never_exact() -> None:
    """Order statistics of rounded integers are not called exact."""
    made = table("B")
    record(made, 0, [float(2**60)])
    made.apply_exact({0: dict.fromkeys(PERCENTILES, float(2**60))})
    stat = made.stats()[0]
    assert (stat.exact, stat.imprecise) == (False, 1)


def test_totals_beyond_64_bits_become_floats() -> None:
    """The wire carries no longer integer."""
    made = table("ns")
    record(made, 0, [float(1 << 52)] * 5_000)
    stat = made.stats()[0]
    assert stat.total == float(5_000 << 52)
    assert type(stat.total) is float
    assert stat.mean == 1 << 52


@pytest.mark.parametrize("whole", [False, True])
def test_a_million_values_of_a_second_keep_their_mean_and_deviation(whole: bool) -> None:
    """1e9 ns ± 100: nine digits of both are right, held against integers that are not rounded."""
    offs = np.random.default_rng(8).integers(-100 * 1_024, 100 * 1_024 + 1, 1_000_000)
    if whole:
        offs = offs // 1_024 * 1_024
    made = SeriesTable(("50",), 1)
    made.add("s", {}, "ns")
    for part in np.split(1e9 + offs / 1_024.0, 100):  # of 2**-10 each: floats around 1e9 hold them
        made.record(np.zeros(part.size, np.intp), part)
    total, squares, size = int(offs.sum()), int((offs * offs).sum()), offs.size
    mean = 10**9 + Fraction(total, size * 1_024)
    deviation = math.sqrt(Fraction(size * squares - total * total, (size * 1_024) ** 2))
    stat = made.stats()[0]
    assert stat.count == size
    assert stat.mean is not None
    assert abs(Fraction(stat.mean) - mean) <= mean / 10**12
    assert stat.stddev == pytest.approx(deviation, rel=1e-9)
