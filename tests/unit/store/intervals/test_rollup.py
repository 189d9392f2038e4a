"""Adding intervals up loses nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from telemetry.store.intervals import rollup
from telemetry.store.intervals.rollup import merge
from telemetry.wire.codec import Malformed
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns

pytestmark = pytest.mark.slow

Series = dict[int, tuple[int, float, float, float, dict[int, int]]]
Values = dict[int, float]

FLOATS = st.integers(-(10**6), 10**6).map(float)
SERIES = st.dictionaries(
    st.integers(0, 6),
    st.tuples(
        st.integers(1, 2**40),
        FLOATS,
        FLOATS,
        FLOATS,
        st.dictionaries(st.integers(0, 2**32 - 1) | st.integers(0, 5), st.integers(1, 2**32 - 1), max_size=5),
    ),
    max_size=5,
)
VALUES = st.dictionaries(st.integers(0, 5), FLOATS, max_size=4)
PLAIN = st.lists(st.tuples(SERIES, VALUES, VALUES), min_size=1, max_size=7)


def column(values: Any, kind: str) -> bytes:
    return np.array(list(values), kind).tobytes()


def interval(at: int, series: Series, counters: Values, gauges: Values) -> Interval:
    rows = sorted(series.items())
    cells = [sorted(row[4].items()) for _, row in rows]
    flat = [cell for row in cells for cell in row]
    return Interval(
        at,
        at + 1,
        SeriesColumns(
            column((index for index, _ in rows), "<u4"),
            column((row[0] for _, row in rows), "<u8"),
            *(column((row[field] for _, row in rows), "<f8") for field in (1, 2, 3)),
            column(map(len, cells), "<u4"),
            column((slot for slot, _ in flat), "<u4"),
            column((count for _, count in flat), "<u4"),
        ),
        values(counters),
        values(gauges),
    )


def values(of: Values) -> ValueColumns:
    return ValueColumns(column(sorted(of), "<u4"), column((of[index] for index in sorted(of)), "<f8"))


def plain(found: Interval) -> tuple[Series, Values, Values]:
    """Back to dictionaries; a slot that comes twice counts twice."""
    got = found.series
    slots = iter(np.frombuffer(got.slots, "<u4").tolist())
    counts = iter(np.frombuffer(got.counts, "<u4").tolist())
    series: Series = {}
    for index, count, total, low, high, occupied in zip(
        *(
            np.frombuffer(data, kind).tolist()
            for data, kind in zip(
                (got.index, got.count, got.total, got.min, got.max, got.occupied),
                ("<u4", "<u8", "<f8", "<f8", "<f8", "<u4"),
                strict=True,
            )
        ),
        strict=True,
    ):
        cells: Counter[int] = Counter()
        for _ in range(occupied):
            cells[next(slots)] += next(counts)
        series[index] = (count, total, low, high, dict(cells))
    assert next(slots, None) is None
    assert next(counts, None) is None
    assert list(series) == sorted(series)
    return series, of_columns(found.counters), of_columns(found.gauges)


def of_columns(columns: ValueColumns) -> Values:
    index = np.frombuffer(columns.index, "<u4").tolist()
    assert index == sorted(set(index))
    return dict(zip(index, np.frombuffer(columns.value, "<f8").tolist(), strict=True))


def oracle(parts: list[tuple[Series, Values, Values]]) -> tuple[Series, Values, Values]:
    series: Series = {}
    counters: Counter[int] = Counter()
    gauges: Values = {}
    for part, increases, last in parts:
        for index, (count, total, low, high, cells) in part.items():
            old = series.get(index, (0, 0.0, low, high, {}))
            added = Counter(old[4])
            added.update(cells)
            series[index] = (old[0] + count, old[1] + total, min(old[2], low), max(old[3], high), dict(added))
        for index, value in increases.items():
            counters[index] += value
        gauges.update(last)
    return series, dict(counters), gauges


@given(PLAIN)
def test_merge_is_what_dictionaries_say(parts: list[tuple[Series, Values, Values]]) -> None:
    """Counts add, extremes widen, counters add, gauges keep the last; nothing overflows its column."""
    merged = merge(interval(at, *part) for at, part in enumerate(parts))
    assert plain(merged) == oracle(parts)
    assert (merged.start_ns, merged.end_ns) == (0, len(parts))


@given(PLAIN, st.integers(0, 6))
def test_merge_of_merges_is_the_merge(parts: list[tuple[Series, Values, Values]], cut: int) -> None:
    """A roll-up of roll-ups says the same as one of all the seconds."""
    seconds = [interval(at, *part) for at, part in enumerate(parts)]
    halves = [merge(half) for half in (seconds[:cut], seconds[cut:]) if half]
    assert plain(merge(halves)) == plain(merge(seconds))


def test_a_slot_that_was_split_is_added_up_again() -> None:
    """A slot that was split is added up, also beside an interval that adds nothing to it."""
    full = {0: (1, 0.0, 0.0, 0.0, {7: 2**32 - 1})}
    one = {0: (1, 0.0, 0.0, 0.0, {7: 1})}
    split = merge([interval(0, full, {}, {}), interval(1, one, {}, {})])
    merged = merge([split, interval(2, {}, {}, {})])
    assert plain(merged)[0][0][4] == {7: 2**32}


def test_sums_along_the_way_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Merging early, as it does when many slots wait, gives the same sum."""
    seconds = [interval(at, {1: (3, 1.0, 0.5, 2.0, {at % 3: 2, 9: 1})}, {0: 1.0}, {}) for at in range(20)]
    late = merge(seconds)
    monkeypatch.setattr(rollup, "_PENDING_SLOTS", 3)
    assert merge(seconds) == late


@given(PLAIN, st.integers(1, 20))
def test_merging_in_blocks_changes_nothing(parts: list[tuple[Series, Values, Values]], block_slots: int) -> None:
    """However few slots are merged at once, none falls between two blocks."""
    seconds = [interval(at, *part) for at, part in enumerate(parts)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollup, "_BLOCK_SLOTS", block_slots)
        assert plain(merge(seconds)) == oracle(parts)


def test_one_interval_is_its_own_merge() -> None:
    """Adding up one interval gives it back."""
    one = interval(7, {2: (5, 10.0, 1.0, 3.0, {4: 3, 5: 2})}, {0: 1.0}, {1: 2.0})
    assert merge([one]) == one
    empty = Interval(1, 2)
    assert merge([empty]) == empty


@pytest.mark.parametrize(
    ("index", "occupied", "slots"), [([2, 1], [1, 1], [5, 5]), ([1, 1], [1, 1], [5, 6]), ([1], [2], [6, 5])]
)
def test_columns_out_of_order_are_refused(index: list[int], occupied: list[int], slots: list[int]) -> None:
    """Sums are found by bisection: what is not sorted would be added up wrongly."""
    series = SeriesColumns(
        column(index, "<u4"),
        *(column([1] * len(index), kind) for kind in ("<u8", "<f8", "<f8", "<f8")),
        *(column(values, "<u4") for values in (occupied, slots, [1] * len(slots))),
    )
    with pytest.raises(Malformed):
        merge([Interval(0, 1, series)])
