"""Rows of series that need nothing special, in C: what is usual, and that nothing else is touched."""

from __future__ import annotations

import contextlib
import math
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from telemetry.aggregator import compiled as usual
from telemetry.aggregator.series import group
from telemetry.aggregator.series.table import SeriesTable
from telemetry.aggregator.state import encode, save
from telemetry.hdr.layout import Layout

LAYOUT = Layout.of(3)
Record = Callable[..., float]


def cut(*entries: Any) -> Any:
    """The inner ones: what lies beside them in memory is as good."""
    return np.array(entries)[1:-1]


def columns(**changed: Any) -> dict[str, Any]:
    """Of two series, whole numbers and fractions, whose first pages are there; two usual rows of each."""
    table = np.ones(4 * LAYOUT.pages, np.int64)[LAYOUT.pages : -LAYOUT.pages]
    table[:] = 0
    table[0], table[1], table[LAYOUT.pages] = 1, 2, 3
    return {
        "index": np.array([0, 1, 0, 1], np.intp),
        "value": np.array([3.0, 0.75, 300.0, 0.0]),
        "shift": cut(0.0, 100.0, 0.0, 0.0),
        "sums": np.zeros(2, np.complex128),
        "least": np.array([3.5, math.inf]),
        "most": np.array([299.5, -math.inf]),
        "integral": cut(False, True, False, False),
        "scale": cut(1.0, 1.0, 2.0, 1.0),
        "highest_tick": cut(1e6, 1e6, 1e6, 1e6),
        "table": table,
        "fresh": np.zeros((4, 256), np.uint32),
        "fresh_sums": np.zeros(4, np.int64),
        "pages_per_row": LAYOUT.pages,
        "half_bits": LAYOUT.half_bits,
        "reached": 0.0,
    } | changed


def call(record: Record, given: dict[str, Any]) -> float:
    return record(*given.values())


def test_usual_rows_are_added_up(compiled: Record) -> None:
    """Deviations and their squares, minimum and maximum, counts by slot and by page; and how far the sums reach."""
    given = columns()
    assert call(compiled, given) == 4 * 300.0
    assert given["sums"].tolist() == [complex(-97 + 200, 97**2 + 200**2), complex(0.75, 0.5625)]
    assert given["least"].tolist() == [3.0, 0.0]
    assert given["most"].tolist() == [300.0, 0.75]
    assert given["fresh_sums"].tolist() == [0, 1, 1, 2]
    counted = [(int(page), int(slot)) for page, slot in zip(*given["fresh"].nonzero(), strict=True)]
    assert counted == [(1, 3), (2, 300 - 256), (3, 0), (3, 2)]


@pytest.mark.parametrize(
    "changed",
    [
        {"shift": np.array([100.0, math.nan])},
        {"integral": np.array([True, True])},
        {"value": np.array([3.0, 0.25, 300.0, 0.0])},
        {"highest_tick": np.array([299.0, 1e6])},
        {"value": np.array([3.0, 0.5, 600.0, 0.0])},
        {"value": np.array([2.0**53, 0.5, 2.0**53, 0.0]), "scale": np.array([2.0**-50, 2.0])},
        {"value": np.array([3.0, 0.5, -1.0, 0.0])},
        {"value": np.array([3.0, 0.5, math.nan, 0.0])},
        {"value": np.array([3.0, 0.5, math.inf, 0.0])},
        {"index": np.array([0, 1, 2, 1])},
        {"index": np.array([0, 1, 2, 1]), "table": np.ones(3 * LAYOUT.pages, np.int64)},
        {"index": np.array([0, 1, -1, 1])},
        {"table": np.zeros(2 * LAYOUT.pages, np.int64)},
        {"table": np.full(2 * LAYOUT.pages, 4)},
        {"table": np.ones(2 * LAYOUT.pages, np.int64)[: LAYOUT.pages]},
        {"reached": 2.0**53 - 1_200},
        {"reached": 2.0**53 - 4e4, "shift": np.array([100.0, 1e4])},
        {"reached": -1.0},
        {"value": np.array([3.0, 0.75, 300.0, -0.0])},
    ],
    ids=[
        *("a new series", "a first fraction", "below the range", "above it", "no page", "an imprecise integer"),
        *("negative", "no number", "infinite", "no such series", "pages of no series", "before all series"),
        *("no pages at all", "a page that is not there", "half a table", "values that reach too far"),
        *("a series that reaches too far", "a forged reach", "a negative zero"),
    ],
)
def test_one_unusual_row_and_nothing_changes(compiled: Record, changed: dict[str, Any]) -> None:
    """Also not for the rows before it."""
    given = columns(**changed)
    before = {name: np.copy(column) for name, column in given.items()}
    assert call(compiled, given) == -1.0
    for name, column in given.items():
        assert np.array_equal(column, before[name], equal_nan=before[name].dtype.kind == "f"), name


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"index": np.zeros(4, np.int32)}, TypeError),
        ({"sums": np.zeros(2)}, TypeError),
        ({"index": np.zeros(3, np.intp)}, ValueError),
        ({"half_bits": 64}, ValueError),
        ({"half_bits": -1}, ValueError),
        ({"pages_per_row": -1}, ValueError),
        ({"pages_per_row": 1 << 64}, OverflowError),
        ({"reached": "far"}, TypeError),
        ({"value": [3.0]}, TypeError),
        ({"value": np.zeros(8)[::2]}, ValueError),
    ],
)
def test_what_does_not_fit_together_is_refused(
    compiled: Record, changed: dict[str, Any], error: type[Exception]
) -> None:
    """Columns of another width would be read beyond their end."""
    with pytest.raises(error):
        call(compiled, columns(**changed))


def test_a_column_that_can_not_be_written_is_refused(compiled: Record) -> None:
    """It would be one that somebody else counts on."""
    given = columns()
    given["fresh"].setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        call(compiled, given)


@pytest.mark.parametrize("changed", [{}, {"reached": 1e16}, {"half_bits": 0}, {"fresh_sums": np.zeros(4, np.int8)}])
def test_columns_are_let_go(compiled: Record, changed: dict[str, Any]) -> None:
    """Whatever came of them."""
    given = columns(**changed)
    held = {name: sys.getrefcount(column) for name, column in given.items()}
    for _ in range(3):
        with contextlib.suppress(TypeError, ValueError):
            call(compiled, given)
    assert {name: sys.getrefcount(column) for name, column in given.items()} == held


@pytest.mark.parametrize(("of", "pages_per_row"), [(1, 1), (1, 2 * LAYOUT.pages), (3, 1 << 62)])
def test_no_page_is_looked_for_beyond_the_table(compiled: Record, of: int, pages_per_row: int) -> None:
    """However far an index would lead by the number of pages that each series is said to have."""
    given = columns(
        index=np.full(4, of),
        value=np.full(4, 300.0),
        table=np.ones(4 * LAYOUT.pages, np.int64)[:2],
        pages_per_row=pages_per_row,
    )
    for name in ("shift", "sums", "least", "most", "integral", "scale", "highest_tick"):
        given[name] = np.resize(given[name], 4)
    assert call(compiled, given) == -1.0


def test_what_was_made_from_another_source_is_not_used() -> None:
    """Whoever changes the source says so, and installs anew."""
    source = Path(usual.__file__).with_name("_compiled.c")
    found = zlib.crc32(source.read_bytes())
    assert found == usual.SOURCE_CRC, f"{source.name} has changed: SOURCE_CRC is 0x{found:08X} now; install anew"


def test_arguments_are_counted(compiled: Record) -> None:
    """None is optional."""
    with pytest.raises(TypeError, match="15 arguments, not 2"):
        compiled(1, 2)


def test_a_table_takes_usual_rows_at_once(compiled: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows of a series are special, the same once more are not; and what both leave is the same as what
    numpy does."""
    said: list[float] = []

    def listening(*columns: object) -> float:
        said.append(compiled(*columns))
        return said[-1]

    states = []
    for record in (listening, None):
        monkeypatch.setattr(group, "record_usual", record)
        table = SeriesTable(("50",), 1)
        table.add("s", {}, "ns")
        table.add("t", {}, "tokens")
        for _ in range(3):
            table.record(np.array([0, 1, 0], np.intp), np.array([1e6, 7.0, 3e6]))
        states.append(encode(save(table)))
    assert said == [-1.0, 9e6, 9e6]
    assert states[0] == states[1]


def test_squares_are_rounded_before_they_are_added(compiled: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused with the sum, as some processors would, they came out otherwise than numpy's. Many series of few values
    each, so that a last bit of a square is one of its sum."""
    index, values = np.arange(400) % 100, np.random.default_rng(3).lognormal(3.0, 0.5, 400)
    states = []
    for record in (compiled, None):
        monkeypatch.setattr(group, "record_usual", record)
        table = SeriesTable(("50",), 1)
        for number in range(100):
            table.add(f"s{number}", {}, "ms")
        for _ in range(2):  # all pages are there the second time
            table.record(index, values)
        states.append(encode(save(table)))
    assert states[0] == states[1]


def test_series_of_other_digits_are_taken_one_by_one(compiled: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their histograms are of another layout."""

    def unasked(*columns: object) -> float:
        raise AssertionError("asked")

    monkeypatch.setattr(group, "record_usual", unasked)
    table = SeriesTable(("50",), 1)
    table.add("s", {}, "ns")
    table.add("t", {}, "ns", digits=2)
    table.record(np.array([0, 1], np.intp), np.array([1e6, 2e6]))
    assert [stat.count for stat in table.stats()] == [1, 1]
