"""Building SeriesStat structs, and not building them again."""

from __future__ import annotations

import numpy as np

from telemetry.aggregator.series import SeriesTable
from telemetry.aggregator.series_group import Definition
from telemetry.aggregator.series_stats import empty_stat
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
    """Without values there is still a precision."""
    stat = empty_stat(Definition("s", {"a": "b"}, "s", 2), WindowStat(seconds=3.0))
    assert (stat.digits, stat.error_bound, stat.resolution, stat.window.seconds) == (2, 0.01, 1e-9, 3.0)


def test_unchanged_series_keep_their_stat() -> None:
    """What did not change is not built again."""
    made = table("ns", "ns")
    record(made, 0, [1.0])
    record(made, 1, [1.0])
    before = made.stats()
    record(made, 1, [2.0])
    after = made.stats()
    assert after[0] is before[0]
    assert (before[1].count, after[1].count) == (1, 2)


def test_percentiles_mix_ints_and_floats() -> None:
    """In one call whole and fractional percentiles keep their types."""
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
