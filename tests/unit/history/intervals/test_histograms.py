"""Adding sparse histograms up, and their percentiles."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.errors import UsageError
from telemetry.history.intervals.figures import Figures
from telemetry.history.intervals.histograms import Histograms, added_up
from telemetry.wire.report import Bounds

ENTRIES = st.lists(st.tuples(st.integers(0, 30) | st.integers(0, 1 << 50), st.integers(1, 1 << 40)), max_size=60)


def histograms(*rows: dict[int, int], least: float = 0.0, most: float = 1e9, **others: Any) -> Histograms:
    """Ticks are units, slots below 2,048 are ticks."""
    size = len(rows)
    columns: dict[str, Any] = {
        "digits": np.full(size, 3),
        "ticks_per_unit": np.ones(size),
        "seconds": np.full(size, 2.0),
        "count": np.array([sum(row.values()) for row in rows]),
        "total": np.arange(size) + 0.5,
        "min": np.full(size, least),
        "max": np.full(size, most),
        "ends": np.cumsum([len(row) for row in rows], dtype=np.int64),
        "slots": np.array([slot for row in rows for slot in row], dtype=np.int64),
        "counts": np.array([count for row in rows for count in row.values()], dtype=np.int64),
    }
    return Histograms(**columns | others)


@given(ENTRIES)
def test_counts_of_equal_keys_are_added(entries: list[tuple[int, int]]) -> None:
    """Near or far apart, in any order and however often a key comes: one count for each, ascending."""
    expected: Counter[int] = Counter()
    for key, count in entries:
        expected[key] += count
    keys, counts = added_up(np.array([key for key, _ in entries]), np.array([count for _, count in entries]))
    assert list(zip(keys.tolist(), counts.tolist(), strict=True)) == sorted(expected.items())


def test_percentiles_are_those_of_their_own_row() -> None:
    """Each row is searched by itself, with empty ones between; those have figures without values."""
    found = histograms({}, {5: 1, 7: 98, 900: 1}, {}, {3: 10}).figures(("1", "50", "99", "99.1", "100"))
    empty = Figures(seconds=2.0)
    assert [found[0], found[2]] == [empty, empty]
    assert dict(found[1].percentiles) == {"1": 5.0, "50": 7.0, "99": 7.0, "99.1": 900.0, "100": 900.0}
    assert set(found[3].percentiles.values()) == {3.0}
    assert (found[1].count, found[1].rate, found[1].total, found[1].seconds) == (100, 50.0, 1.5, 2.0)


def test_percentiles_stay_within_the_values() -> None:
    """A slot is wider than the values in it: no percentile is above the maximum or below the minimum."""
    found = histograms({10: 1, 20: 1}, least=12.0, most=18.5).figures(("50", "100"))
    assert dict(found[0].percentiles) == {"50": 12.0, "100": 18.5}


def test_rows_may_differ_in_digits_and_ticks() -> None:
    """Slots are read with the layout and the unit of their row."""
    rows = histograms(
        {300: 1}, {300: 1}, {300: 1}, digits=np.array([3, 1, 3]), ticks_per_unit=np.array([1.0, 1.0, 10.0])
    )
    one, coarse, tenth = (found.percentiles["50"] for found in rows.figures(("50",)))
    assert (one, tenth) == (300.0, 30.0)
    assert coarse > 1e5


def test_repeated_slots_count_together() -> None:
    """A count too large for its column lies in two entries of one slot."""
    rows = histograms(
        {0: 0}, count=np.array([9]), ends=np.array([3]), slots=np.array([4, 4, 6]), counts=np.array([4, 4, 1])
    )
    assert dict(rows.figures(("80", "90")).pop().percentiles) == {"80": 4.0, "90": 6.0}


def test_figures_without_percentiles_or_time() -> None:
    """Asking for no percentile leaves the rest, and values in no time have no rate."""
    found = histograms({3: 10}, seconds=np.zeros(1)).figures(())[0]
    assert (found.count, found.rate, found.max, dict(found.percentiles)) == (10, 0.0, 1e9, {})
    assert histograms().figures(("50",)) == []


def test_percentiles_outside_their_range_are_refused() -> None:
    """The same words as everywhere else."""
    for ask in (histograms({3: 1}).figures, histograms({3: 1}).bounds):
        with pytest.raises(UsageError, match="outside"):
            ask(("101",))


def test_bounds_are_the_slots_of_two_ranks() -> None:
    """The median of 100 values is between the 40th and the 61st. The 99th percentile has a lower bound only."""
    [found] = histograms(dict.fromkeys(range(1, 101), 1), least=1.0, most=100.0).bounds(("50", "99", "100"))
    assert found == {
        "50": Bounds(low=40.0, high=61.0, beyond=50),
        "99": Bounds(low=97.0, high=None, beyond=1),
        "100": Bounds(beyond=0),
    }


def test_bounds_reach_over_their_slots() -> None:
    """Bounds reach from the lowest value of one slot to the highest of the other, within the values."""
    [found] = histograms({3_000: 30, 3_100: 40, 3_200: 30}, least=3_953.0, most=4_609.5).bounds(("10", "50", "90"))
    assert found["10"] == Bounds(low=3_953.0, high=3_953.0, beyond=90)
    assert found["50"] == Bounds(low=4_208.0, high=4_211.0, beyond=50)
    assert found["90"] == Bounds(low=4_608.0, high=4_609.5, beyond=10)


def test_bounds_include_what_lies_above_the_range() -> None:
    """The last slot holds all that is too large for the histogram, so only the maximum is above it."""
    [found] = histograms({5: 10, 100: 90}, most=1e6).bounds(("50",))
    assert found["50"] == Bounds(low=100.0, high=1e6, beyond=50)


def test_rows_have_bounds_of_their_own() -> None:
    """Rows have bounds by their count, digits and unit. Rows without values or percentiles have none."""
    rows = histograms(
        {}, {7: 20}, {}, {300: 400}, digits=np.array([3, 3, 3, 1]), ticks_per_unit=np.array([1.0, 10.0, 1.0, 1.0])
    )
    found = rows.bounds(("50", "99"))
    assert [found[0], found[2]] == [{}, {}]
    assert found[1]["50"] == Bounds(low=0.7, high=1e9, beyond=10)
    assert (found[1]["99"].low, found[1]["99"].high) == (0.7, None)
    assert found[3]["99"].high is not None
    assert rows.bounds(()) == [{}, {}, {}, {}]
    assert histograms().bounds(("50",)) == []


@given(
    st.lists(st.dictionaries(st.integers(0, 40_000), st.integers(1, 10**6), max_size=8), min_size=1, max_size=4),
    st.sampled_from([0.5, 0.95, 0.999]),
)
def test_percentiles_lie_within_their_bounds(rows: list[dict[int, int]], confidence: float) -> None:
    """Percentiles lie within their bounds, and the bounds lie within the values."""
    made = histograms(*({slot: row[slot] for slot in sorted(row)} for row in rows), least=50.0, most=1e12)
    percentiles = ("1", "50", "99.9", "100")
    for figures, bounds in zip(made.figures(percentiles), made.bounds(percentiles, confidence), strict=True):
        assert set(bounds) == set(figures.percentiles)
        for key, value in figures.percentiles.items():
            low, high = bounds[key].low, bounds[key].high
            assert 50.0 <= (value if low is None else low) <= value <= (value if high is None else high) <= 1e12
