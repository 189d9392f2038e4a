"""Intervals made of plain numbers, for the tests of what is stored of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from telemetry.wire.history import Interval, SeriesColumns, ValueColumns

_SECOND_NS = 1_000_000_000
_U32 = 2**32 - 1
_U64 = 2**64 - 1


class Row(NamedTuple):
    """A row of one series in an interval: count, total, extremes and cells."""

    count: int
    total: float
    min: float
    max: float
    cells: list[tuple[int, int]]
    """(slot, count), slots ascending."""


def column(values: Iterable[float], kind: str) -> bytes:
    return np.array(list(values), kind).tobytes()


def interval(
    rows: Mapping[int, Row],
    counters: Mapping[int, float] | None = None,
    gauges: Mapping[int, float] | None = None,
    start_ns: int = 0,
    end_ns: int = 1,
) -> Interval:
    """Return an interval of series, counters and gauges by index."""
    index = sorted(rows)
    ordered = [rows[at] for at in index]
    cells = [cell for row in ordered for cell in row.cells]
    return Interval(
        start_ns,
        end_ns,
        SeriesColumns(
            column(index, "<u4"),
            column((row.count for row in ordered), "<u8"),
            column((row.total for row in ordered), "<f8"),
            column((row.min for row in ordered), "<f8"),
            column((row.max for row in ordered), "<f8"),
            column((len(row.cells) for row in ordered), "<u4"),
            column((slot for slot, _ in cells), "<u4"),
            column((count for _, count in cells), "<u4"),
        ),
        values(counters or {}),
        values(gauges or {}),
    )


def values(of: Mapping[int, float]) -> ValueColumns:
    return ValueColumns(column(sorted(of), "<u4"), column((of[index] for index in sorted(of)), "<f8"))


def many(series: int, cells: int = 10, seed: int = 1, at_s: int = 0) -> Interval:
    """Second `at_s`, as a real one: so many values of each series, spread over some octaves. The same on every
    machine: golden files were made of it."""
    random = Random(seed + 1_000_003 * at_s)
    rows = {}
    for at in range(series):
        slots = sorted(11_000 + int(2_600 * (sum(random.random() for _ in range(4)) - 2)) for _ in range(cells))
        found = Counter(slots)
        rows[at] = Row(cells, float(sum(slots)), float(slots[0]), float(slots[-1]), sorted(found.items()))
    start_ns = (1_700_000_000 + at_s) * _SECOND_NS
    return interval(rows, {0: 7.0}, {0: 0.25, 3: -1.0}, start_ns, start_ns + _SECOND_NS)


_SMALL_OR_ANY = st.integers(0, 3) | st.integers(0, 70_000) | st.integers(0, _U32)
_FLOATS = st.floats(width=64) | st.integers(-(10**9), 10**9).map(float)
_CELLS = st.lists(st.tuples(_SMALL_OR_ANY, _SMALL_OR_ANY), max_size=12).map(sorted)
_ROWS = st.builds(Row, st.integers(0, 3) | st.integers(0, _U64), _FLOATS, _FLOATS, _FLOATS, _CELLS) | _FLOATS.map(
    lambda value: Row(1, value, value, value, [(5, 1)])
)
_VALUES = st.dictionaries(st.integers(0, 9) | st.integers(0, _U32), _FLOATS, max_size=6)
INTERVALS = st.builds(
    interval,
    st.dictionaries(st.integers(0, 12) | st.integers(0, _U32), _ROWS, max_size=10),
    _VALUES,
    _VALUES,
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
)
"""Of every kind that fits together and is in order."""
