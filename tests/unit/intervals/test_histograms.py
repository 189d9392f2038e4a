"""Adding sparse histograms up, and their percentiles."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.errors import UsageError
from telemetry.intervals.figures import Figures
from telemetry.intervals.histograms import Histograms, added_up

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
    with pytest.raises(UsageError, match="outside"):
        histograms({3: 1}).figures(("101",))
