"""Sums of intervals are the same however they are made, and no series gets the values of another."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.history import interval_sums
from telemetry.history.bounds import bound_ranks
from telemetry.history.interval_sums import Added, Sum, SumRows
from telemetry.history.intervals.columns import Columns
from telemetry.wire.control import SeriesKey

Entry = tuple[int, dict[int, int]]
"""(index of a series, its counts by slot)"""


def key(index: int, digits: int = 3) -> SeriesKey:
    return SeriesKey(index=index, name=f"s{index}", kind="series", digits=digits)


def columns(*entries: Entry) -> Columns:
    """Values are their slots."""
    return Columns(
        index=np.array([index for index, _ in entries], "<u4"),
        count=np.array([sum(counts.values()) for _, counts in entries], "<i8"),
        total=np.array([sum(slot * n for slot, n in counts.items()) for _, counts in entries], "<f8"),
        min=np.array([min(counts) for _, counts in entries], "<f8"),
        max=np.array([max(counts) for _, counts in entries], "<f8"),
        occupied=np.array([len(counts) for _, counts in entries], "<u4"),
        slots=np.array([slot for _, counts in entries for slot in sorted(counts)], "<u4"),
        counts=np.array([counts[slot] for _, counts in entries for slot in sorted(counts)], "<u4"),
    )


def contents(added: Added, rows: SumRows) -> dict[int, dict[int, int]]:
    """Counts by slot, by index of the series."""
    found: dict[int, dict[int, int]] = {}
    for place, count in zip(added.places.tolist(), added.counts.tolist(), strict=True):
        row, slot = divmod(place, rows.span)
        found.setdefault(rows.keys[row].index, {})[slot] = count
    return found


@pytest.mark.parametrize("pending", [1 << 20, 0], ids=["sorted", "paged"])
def test_counts_add_up(monkeypatch: pytest.MonkeyPatch, pending: int) -> None:
    """Few intervals are sorted and many go into pages: counts, totals and extremes are the same."""
    monkeypatch.setattr(interval_sums, "_PENDING_SLOTS", pending)
    monkeypatch.setattr(interval_sums, "_BLOCK_PAGES", 7)
    random = np.random.default_rng(5)
    rows = SumRows([key(7), key(2), key(300, digits=5)])
    total, expected = Sum(rows), {2: {}, 7: {}, 300: {}}  # type: ignore[var-annotated]
    for _ in range(40):
        entries = []
        for index in (2, 7, 300):
            slots = random.integers(0, 9_000, random.integers(1, 30))
            counts = {int(slot): int(random.integers(1, 9)) for slot in slots}
            entries.append((index, counts))
            for slot, count in counts.items():
                expected[index][slot] = expected[index].get(slot, 0) + count
        total.add(columns(*entries), 1.0)
    added = total.added()
    assert contents(added, rows) == expected
    assert added.seconds == pytest.approx(40.0)
    assert added.count.tolist() == [sum(expected[index].values()) for index in (2, 7, 300)]
    assert added.min.tolist() == [min(expected[index]) for index in (2, 7, 300)]
    assert added.max.tolist() == [max(expected[index]) for index in (2, 7, 300)]
    histograms = added.histograms(rows)
    assert np.diff(histograms.ends, prepend=0).tolist() == [len(expected[index]) for index in (2, 7, 300)]
    assert histograms.slots.tolist() == [slot for index in (2, 7, 300) for slot in sorted(expected[index])]
    assert contents(total.added(), rows) == expected  # and once more: nothing is consumed


def test_what_no_key_stands_for_is_passed_over() -> None:
    """Series below, between and above those that are known."""
    rows = SumRows([key(2), key(5)])
    total = Sum(rows)
    total.add(columns((1, {3: 1}), (2, {4: 2}), (3, {5: 3}), (5, {6: 4}), (9, {7: 5})), 1.0)
    assert contents(total.added(), rows) == {2: {4: 2}, 5: {6: 4}}


def test_one_row_alone() -> None:
    """One with values has its own slots; one without has none, in the same time."""
    rows = SumRows([key(0), key(1), key(2)])
    total = Sum(rows)
    total.add(columns((0, {3: 1}), (2, {4: 2, 9: 1})), 1.0)
    alone = total.added().only(2, rows)
    assert (alone.count.tolist(), alone.slots.tolist(), alone.counts.tolist()) == ([3], [4, 9], [2, 1])
    empty = total.added().only(1, rows)
    assert (empty.count.tolist(), empty.slots.tolist(), empty.seconds.tolist()) == ([0], [], [1.0])


def test_some_rows_alone() -> None:
    """Each of the chosen ones that have values keeps all of its slots, and no others do."""
    rows = SumRows([key(index) for index in range(4)])
    total = Sum(rows)
    total.add(columns((0, {3: 1}), (1, {4: 2, 9: 1, 45_000: 5}), (3, {0: 7, 8: 1})), 1.0)
    some = total.added().some(np.array([False, True, True, True]), rows)
    assert contents(some, rows) == {1: {4: 2, 9: 1, 45_000: 5}, 3: {0: 7, 8: 1}}
    assert (some.rows.tolist(), some.count.tolist(), some.max.tolist()) == ([1, 3], [8, 8], [45_000.0, 8.0])
    none = total.added().some(np.zeros(4, dtype=np.bool_), rows)
    assert (none.rows.size, none.places.size, none.counts.size) == (0, 0, 0)


def test_sums_beyond_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages widen before a count could overflow, and a slot that comes twice counts twice."""
    monkeypatch.setattr(interval_sums, "_PENDING_SLOTS", 0)
    rows = SumRows([key(0)])
    total = Sum(rows)
    many = columns((0, {3: (1 << 32) - 1, 4: 1}))
    twice = Columns(
        **{name: getattr(many, name) for name in Columns.__slots__} | {"slots": np.array([3, 3], "<u4")}
    )
    for _ in range(3):
        total.add(twice, 1.0)
    assert contents(total.added(), rows) == {0: {3: 3 << 32}}


def test_nothing_is_a_sum_too() -> None:
    """The sum of no series and the sum of no intervals are empty."""
    assert Sum(SumRows([])).added().histograms(SumRows([])).figures(["50"]) == []
    assert contents(Sum(SumRows([key(1)])).added(), SumRows([key(1)])) == {}
    none = Sum(SumRows([]))
    none.add(columns((1, {3: 1})), 1.0)
    assert none.added().rows.size == 0


def test_what_is_left_together_changes_no_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that names its ranks gets far fewer slots, and the same values of these ranks."""
    monkeypatch.setattr(interval_sums, "_PENDING_SLOTS", 0)
    random = np.random.default_rng(9)
    keys, percentiles = [key(index) for index in range(6)], ["1", "50", "99", "99.9"]
    rows = SumRows(keys)
    total = Sum(rows)
    for _ in range(60):
        entries = []
        for index in range(5):  # the last one has no values
            slots = np.unique(
                np.minimum(random.lognormal(8.0, 0.1 + index / 4, 50 * index + 1), 40_000).astype(int)
            )
            entries.append((index, {int(slot): 1 for slot in slots}))
        total.add(columns(*entries), 1.0)
    whole = total.added()
    part = total.added(lambda counts: bound_ranks(counts, percentiles))
    assert part.places.size < whole.places.size / 2
    assert part.counts.sum() == whole.counts.sum()
    assert (np.diff(part.places) > 0).all()
    assert part.histograms(rows).bounds(percentiles) == whole.histograms(rows).bounds(percentiles)


@pytest.mark.parametrize("pending", [1 << 20, 0], ids=["sorted", "paged"])
def test_the_sum_of_some_rows(monkeypatch: pytest.MonkeyPatch, pending: int) -> None:
    """The sum of some rows is that part of the whole sum, also for the lowest page of the first row."""
    monkeypatch.setattr(interval_sums, "_PENDING_SLOTS", pending)
    rows = SumRows([key(0), key(1, digits=5), key(2), key(3)])
    total = Sum(rows)
    assert total.of_rows(np.array([0, 2])).rows.size == 0
    for _ in range(3):
        total.add(columns((0, {3: 2, 9_000: 1}), (1, {100_000: 4}), (2, {0: 1, 255: 2, 256: 3})), 1.0)
    some = total.of_rows(np.array([0, 2, 3]))
    assert contents(some, rows) == {0: {3: 6, 9_000: 3}, 2: {0: 3, 255: 6, 256: 9}}
    assert (some.rows.tolist(), some.count.tolist(), some.seconds) == ([0, 2], [9, 18], 3.0)
    whole = total.added().some(np.array([True, False, True, True]), rows)
    for name in ("rows", "count", "total", "min", "max", "places", "counts"):
        assert (getattr(some, name) == getattr(whole, name)).all()
    assert total.of_rows(np.array([], np.int64)).places.size == 0
