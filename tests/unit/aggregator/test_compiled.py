"""Rows of series that need nothing special, in C: what is usual, and that nothing else is touched."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable
from struct import pack
from typing import Any
from unittest import mock

import numpy as np
import pytest

from telemetry.aggregator import Aggregator, AggregatorConfig, fast_rows
from telemetry.aggregator.checkpoint import encode, save
from telemetry.aggregator.series import group
from telemetry.aggregator.series.table import SeriesTable
from telemetry.statistics.hdr.layout import Layout
from telemetry.testing import batch
from telemetry.testing.builders import MONO_NS, WALL_NS
from telemetry.wire.events import Define

LAYOUT = Layout.of(3)
Columns = Callable[..., Any]
ROW_NAMES = ("index", "value", "reached")


def cut(*entries: Any) -> Any:
    """The inner ones: what lies beside them in memory is as good."""
    return np.array(entries)[1:-1]


def columns(**changed: Any) -> dict[str, Any]:
    """Return columns of two series, whole numbers and fractions, with their first pages.

    Each series has two usual rows.
    """
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


def call(compiled: Columns, given: dict[str, Any]) -> float:
    """Record the rows."""
    held = compiled(tuple(value for name, value in given.items() if name not in ROW_NAMES), *[None] * 5)
    found: float = held.record(*(given[name] for name in ROW_NAMES))
    return found


def test_usual_rows_are_added_up(compiled: Columns) -> None:
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
def test_one_unusual_row_and_nothing_changes(compiled: Columns, changed: dict[str, Any]) -> None:
    """One unusual row changes nothing, not even for the rows before it."""
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
        ({"half_bits": "many"}, TypeError),
        ({"pages_per_row": -1}, ValueError),
        ({"pages_per_row": 1 << 64}, OverflowError),
        ({"reached": "far"}, TypeError),
        ({"value": [3.0]}, TypeError),
        ({"value": np.zeros(8)[::2]}, ValueError),
    ],
)
def test_what_does_not_fit_together_is_refused(
    compiled: Columns, changed: dict[str, Any], error: type[Exception]
) -> None:
    """Columns of another width would be read beyond their end."""
    with pytest.raises(error):
        call(compiled, columns(**changed))


def test_a_column_that_can_not_be_written_is_refused(compiled: Columns) -> None:
    """A column that cannot be written is refused, because other code counts on it."""
    given = columns()
    given["fresh"].setflags(write=False)
    with pytest.raises(ValueError, match="read-only"):
        call(compiled, given)


@pytest.mark.parametrize("changed", [{}, {"reached": 1e16}, {"half_bits": 0}, {"fresh_sums": np.zeros(4, np.int8)}])
def test_columns_are_let_go(compiled: Columns, changed: dict[str, Any]) -> None:
    """Columns are let go, whatever came of them. Small integers are shared with all other threads."""
    given = columns(**changed)
    arrays = {name: column for name, column in given.items() if isinstance(column, np.ndarray)}
    held = {name: sys.getrefcount(column) for name, column in arrays.items()}
    for _ in range(3):
        with contextlib.suppress(TypeError, ValueError):
            call(compiled, given)
    assert {name: sys.getrefcount(column) for name, column in arrays.items()} == held


@pytest.mark.parametrize(("of", "pages_per_row"), [(1, LAYOUT.pages), (1, 2 * LAYOUT.pages), (3, 1 << 62)])
def test_no_page_is_looked_for_beyond_the_table(compiled: Columns, of: int, pages_per_row: int) -> None:
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


def test_arguments_are_counted(compiled: Columns, find_rows: Callable[..., int]) -> None:
    """Every argument is counted, and none is optional."""
    held = compiled(*[None] * 6)
    with pytest.raises(TypeError, match="record takes 3 arguments, not 2"):
        held.record(1, 2)
    with pytest.raises(TypeError, match="ingest takes 5 arguments, not 1"):
        held.ingest([])
    with pytest.raises(TypeError, match="find_rows takes 2 arguments, not 1"):
        find_rows(b"")
    with pytest.raises(TypeError):
        compiled(None)


def test_a_table_takes_usual_rows_at_once(compiled: Columns, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first rows of a series are special, the same once more are not; and what both leave is the same as what
    numpy does."""
    said: list[float] = []

    class Listening:
        def __init__(self, *columns: object) -> None:
            self._held = compiled(*columns)

        def record(self, *rows: object) -> float:
            said.append(self._held.record(*rows))
            return said[-1]

    states = []
    for columns in (Listening, None):
        monkeypatch.setattr(group, "Columns", columns)
        table = SeriesTable(("50",), 1)
        table.add("s", {}, "ns")
        table.add("t", {}, "tokens")
        for _ in range(3):
            table.record(np.array([0, 1, 0], np.intp), np.array([1e6, 7.0, 3e6]))
        states.append(encode(save(table)))
    assert said == [-1.0, 18e6, 27e6]
    assert states[0] == states[1]


def test_squares_are_rounded_before_they_are_added(compiled: Columns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fused with the sum, as some processors would, they came out otherwise than numpy's. Many series of few values
    each, so that a last bit of a square is one of its sum."""
    index, values = np.arange(400) % 100, np.random.default_rng(3).lognormal(3.0, 0.5, 400)
    states = []
    for columns in (compiled, None):
        monkeypatch.setattr(group, "Columns", columns)
        table = SeriesTable(("50",), 1)
        for number in range(100):
            table.add(f"s{number}", {}, "ms")
        for _ in range(2):  # all pages are there the second time
            table.record(index, values)
        states.append(encode(save(table)))
    assert states[0] == states[1]


def test_series_of_other_digits_are_taken_one_by_one(compiled: Columns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Series of other digits are taken one by one, because their histograms have another layout."""

    def unasked(*columns: object) -> float:
        raise AssertionError("asked")

    monkeypatch.setattr(group, "Columns", unasked)
    table = SeriesTable(("50",), 1)
    table.add("s", {}, "ns")
    table.add("t", {}, "ns", digits=2)
    table.record(np.array([0, 1], np.intp), np.array([1e6, 2e6]))
    assert [stat.count for stat in table.stats()] == [1, 1]


# --- batches -------------------------------------------------------------------------------------

ENTRIES = np.array([-4, 0, 1, 1 << 24, 2 << 24, -2, -1], np.int32)
"""Routes of the ids 0 to 4: two series, a counter, a gauge, and a definition that contradicts another."""
NOW_NS = 1_000
NEVER = (1 << 63) - 1


def rows(*given: tuple[float, int, float]) -> memoryview:
    """Canonical rows: id, time, value."""
    return memoryview(b"".join(pack(">BdBQBd", 0xCB, row[0], 0xCF, row[1], 0xCB, row[2]) for row in given))


def tables(**changed: Any) -> dict[str, Any]:
    """Columns of two series, a counter and a gauge."""
    return (
        columns()
        | {
            "whole": cut(0, 7, 0),
            "events": cut(0, 2, 0),
            "increase": cut(0.0, 0.5, 0.0),
            "gauge": cut(0.0, 3.0, 0.0),
            "lowest": cut(0.0, 3.0, 0.0),
            "highest": cut(0.0, 3.0, 0.0),
            "time": cut(0, 50, 0),
            "set": cut(0, 1, 0),
            "touched": cut(False, False, False),
            "first": cut(0, NEVER, 100, 0),
            "last": cut(0, 0, 200, 0),
            "duration_ns": cut(0.0, 2.0, 1.0, 0.0),
            "counter_first": cut(0, 100, 0),
            "counter_last": cut(0, 200, 0),
            "no_duration": cut(0.0, 0.0, 0.0),
            "watched": [np.zeros(0, np.bool_)] * 3,
        }
        | changed
    )


def hold(compiled: Columns, given: dict[str, Any]) -> Any:
    """Let compiled code have the columns."""
    values = {name: value for name, value in given.items() if name not in ROW_NAMES}
    names = list(values)
    kinds = (names[:12], names[12:15], names[15:21], names[21:24], names[24:27])
    series, counters, gauges, *times = (tuple(values[name] for name in kind) for kind in kinds)
    return compiled(series, counters, gauges, tuple(given["watched"]), *times)


def ingest(compiled: Columns, given: dict[str, Any], *parts: Any, chunk: int = 100) -> Any:
    """Apply rows of producers whose clock is 10 ns behind. A row without time came 5 ns ago."""
    whole = [part if isinstance(part, tuple) else (part, ENTRIES, 10, NOW_NS - 5) for part in parts]
    return hold(compiled, given).ingest(whole, NOW_NS, given["reached"], chunk, 2.0**39)


def test_a_batch_is_added_up_by_kind(compiled: Columns) -> None:
    """Values of series as above, increments as integers, and of a gauge the newest value."""
    given = tables()
    body = rows((0, 1, 3.0), (2, 1, 5.0), (3, 60, -9.0), (3, 45, 8.0), (1, 1, 0.75), (2, 1, 0.0), (0, 1, 300.0))
    assert ingest(compiled, given, body) == (3, 3 * 300.0, None)
    assert given["sums"].tolist() == [complex(-97 + 200, 97**2 + 200**2), complex(0.75, 0.5625)]
    assert given["fresh_sums"].tolist() == [0, 1, 1, 1]
    assert [given[name].tolist() for name in ("whole", "events", "increase")] == [[12], [4], [5.5]]
    assert [given[name].tolist() for name in ("gauge", "lowest", "highest")] == [[-9.0], [-9.0], [8.0]]
    assert [given[name].tolist() for name in ("time", "set", "touched")] == [[70], [3], [True]]


@pytest.mark.parametrize(
    ("time_ns", "run_ns"),
    [(0, NOW_NS - 5), (100, 110), (NOW_NS, NOW_NS), (1 << 63, NOW_NS), ((1 << 64) - 1, NOW_NS)],
    ids=["none", "usual", "to come", "no time", "the last one"],
)
def test_times_are_those_of_the_run(compiled: Columns, time_ns: int, run_ns: int) -> None:
    """The times of rows come from the producer's clock, and are not in the future."""
    given = tables()
    ingest(compiled, given, rows((3, time_ns, 1.0)))
    assert given["time"].tolist() == [run_ns]


def test_the_first_beginning_and_the_last_end_are_kept(compiled: Columns) -> None:
    """A value of a unit of time begins before its row, an increment at it."""
    given = tables()
    body = rows((0, 300, 20.0), (0, 310, 3.0), (1, 150, 80.0), (1, 140, 7.0), (2, 50, 1.0), (2, 120, 1.0))
    ingest(compiled, given, body)
    assert [given[name].tolist() for name in ("first", "last")] == [[270, 80], [320, 200]]
    assert [given[name].tolist() for name in ("counter_first", "counter_last")] == [[60], [200]]
    ingest(compiled, given, rows((0, 400, 300.0), (2, 300, 0.0)))
    assert [given["first"].tolist(), given["counter_last"].tolist()] == [[0, 80], [310]]


def test_each_part_has_ids_and_a_clock_of_its_own(compiled: Columns) -> None:
    """Each part has ids and a clock of its own, as ids of two producers mean different things."""
    given = tables()
    other = np.array([-4, 2 << 24, -1], np.int32)
    found = ingest(compiled, given, rows((3, 100, 1.0)), (rows((0, 100, 2.0)), other, 40, 0), rows((2, 0, 1.0)))
    assert found[0] == 0
    assert (given["gauge"].item(), given["time"].item(), given["whole"].item()) == (2.0, 140, 8)


@pytest.mark.parametrize(
    ("row", "changed"),
    [
        ((-1.0, 1, 1.0), {}),
        ((0.5, 1, 1.0), {}),
        ((math.nan, 1, 1.0), {}),
        ((4.0, 1, 1.0), {}),
        ((5.0, 1, 1.0), {}),
        ((2.0**53, 1, 1.0), {}),
        ((-math.inf, 1, 1.0), {}),
        ((0.0, 1, -1.0), {}),
        ((0.0, 1, math.nan), {}),
        ((1.0, 1, 0.25), {}),
        ((0.0, 1, 3.0), {"reached": 2.0**53}),
        ((2.0, 1, -1.0), {}),
        ((2.0, 1, 0.5), {}),
        ((2.0, 1, math.nan), {}),
        ((2.0, 1, 2.0**39), {}),
        ((2.0, 1, 1.0), {"whole": np.array([1 << 61])}),
        ((2.0, 1, 1.0), {"whole": np.zeros(0, np.int64)}),
        ((3.0, 1, math.nan), {}),
        ((3.0, 1, -math.inf), {}),
        ((3.0, 1, 2.0**53), {}),
        ((3.0, 1, -0.0), {}),
        ((3.0, 1, 0.0), {"lowest": np.array([-0.0])}),
        ((3.0, 1, 0.0), {"highest": np.array([-0.0])}),
        ((3.0, 1, 1.0), {"touched": np.zeros(0, np.bool_)}),
    ],
)
def test_one_special_row_and_no_batch_is_added(
    compiled: Columns, row: tuple[float, int, float], changed: dict[str, Any]
) -> None:
    """One special row keeps all batches out, even the rows before it."""
    given = tables(**changed)
    before = {name: np.copy(column) for name, column in given.items()}
    first_rows = rows((0, 1, 3.0), (2, 1, 5.0), (3, 60, -9.0))
    assert ingest(compiled, given, first_rows, rows((2, 1, 1.0), row)) is None
    for name, column in given.items():
        if name != "watched":
            assert np.array_equal(column, before[name], equal_nan=before[name].dtype.kind == "f"), name


def test_missing_pages_are_named_chunk_by_chunk(compiled: Columns) -> None:
    """Missing pages are listed by key, chunk by chunk, before anything is added.

    A chunk's list has the pages for all values that are added up at once, as they are allocated.
    """
    given = tables()
    far = 33_333.0
    body = rows((1, 1, 300.0), (2, 1, 1.0), (0, 1, 3.0), (0, 1, far), (3, 1, 1.0), (1, 1, 600.0))
    slots = LAYOUT.slot_of(np.array([300 * 2, int(far), 600 * 2], np.int64)) >> 8
    keys = [LAYOUT.pages + int(slots[0]), int(slots[1]), LAYOUT.pages + int(slots[2])]
    assert ingest(compiled, given, body, chunk=2) == [keys[:1], keys[1:]]
    assert ingest(compiled, given, body) == [keys]
    assert not given["fresh"].any()
    assert given["events"].tolist() == [2]


def test_watched_rows_are_returned(compiled: Columns) -> None:
    """Watched rows are returned by kind: index, value, time, and their number in each part."""
    given = tables(watched=[np.array([False, True]), np.zeros(0, np.bool_), np.array([True])])
    first, second = rows((1, 70, 0.75), (0, 71, 3.0)), rows((3, 72, 5.0), (1, 73, 0.0), (2, 74, 1.0))
    values, _, (series, counters, gauges) = ingest(compiled, given, first, rows(), second)
    assert (values, counters) == (3, None)
    forms = (np.int64, np.float64, np.uint64, np.int64)
    found = [np.frombuffer(column, form).tolist() for column, form in zip(series, forms, strict=True)]
    assert found == [[1, 1], [0.75, 0.0], [70, 73], [1, 0, 1]]
    found = [np.frombuffer(column, form).tolist() for column, form in zip(gauges, forms, strict=True)]
    assert found == [[0], [5.0], [72], [0, 0, 1]]


def test_increments_are_rounded_chunk_by_chunk(compiled: Columns) -> None:
    """Increments are rounded chunk by chunk.

    As in numpy, the sum of each chunk is added to an increase with a fraction.
    """
    given = tables(increase=np.array([2.0**52 + 0.5]))
    ingest(compiled, given, rows(*[(2, 1, 0.0)] * 2, *[(2, 1, 3.0)] * 3), chunk=2)
    assert given["increase"].tolist() == [2.0**52 + 0.5 + 0.0 + 6.0 + 3.0]
    assert given["whole"].tolist() == [16]


@pytest.mark.parametrize(
    ("part", "error"),
    [
        ((b"row", ENTRIES, 0, 0), ValueError),
        ((rows((0, 1, 1.0)), ENTRIES[:1], 0, 0), ValueError),
        ((rows((0, 1, 1.0)), ENTRIES.astype(np.int64), 0, 0), ValueError),
        ((rows((0, 1, 1.0)), [1], 0, 0), TypeError),
        (("rows", ENTRIES, 0, 0), TypeError),
        ((rows((0, 1, 1.0)), ENTRIES, 1 << 63, 0), OverflowError),
        ((rows((0, 1, 1.0)), ENTRIES, 0, "now"), TypeError),
        ((rows((0, 1, 1.0)), ENTRIES), TypeError),
    ],
)
def test_what_is_no_part_is_refused(compiled: Columns, part: Any, error: type[Exception]) -> None:
    """A part that is none is refused, also behind one that is a part, which is let go."""
    given = tables()
    held = sys.getrefcount(ENTRIES)
    with pytest.raises(error):
        ingest(compiled, given, rows((2, 1, 1.0)), part)
    assert sys.getrefcount(ENTRIES) == held
    assert given["events"].tolist() == [2]


def test_what_is_no_call_is_refused(compiled: Columns) -> None:
    """A list of parts, and a chunk of at least one row."""
    held = hold(compiled, tables())
    for arguments in (((), 1, 0.0, 1, 1.0), ([], 1, 0.0, 0, 1.0)):
        with pytest.raises(ValueError, match="no list of rows"):
            held.ingest(*arguments)
    for arguments in (([None], 1, 0.0, 1, 1.0), ([], "", 0.0, 1, 1.0), ([], 1, "", 1, 1.0), ([], 1, 0.0, 1, "")):
        with pytest.raises((TypeError, ValueError)):
            held.ingest(*arguments)


def test_columns_are_held_as_long_as_their_object(compiled: Columns) -> None:
    """Columns are held as long as their object, so no array is freed under it.

    No array is kept afterwards, whatever came of a call.
    """
    given = tables()

    def counts() -> dict[str, int]:
        return {name: sys.getrefcount(column) for name, column in given.items()}

    before = counts()
    held = hold(compiled, given)
    assert {counts()[name] - before[name] for name in ("shift", "fresh_sums", "whole", "touched")} == {1}
    held.ingest([(rows((2, 1, 1.0)), ENTRIES, 0, 0)], NOW_NS, 0.0, 1, 2.0**39)
    held.ingest([(rows((9, 1, 1.0)), ENTRIES, 0, 0)], NOW_NS, 0.0, 1, 2.0**39)
    del held
    for width in (
        {"whole": np.zeros(1, np.int32)},
        {"touched": np.zeros(1, np.int32)},
        {"scale": np.zeros(1, np.int8)},
    ):
        with pytest.raises(TypeError):
            hold(compiled, given | width)
    assert counts() == before


def test_new_arrays_are_noticed(compiled: Columns) -> None:
    """More instruments, pages and followers between batches, until every column has grown."""
    results = []
    for columns_class in (compiled, None):
        with (
            mock.patch.object(fast_rows, "Columns", columns_class),
            mock.patch.object(group, "Columns", columns_class),
        ):
            aggregator = Aggregator(AggregatorConfig())
            for turn in range(60):
                kind = ("series", "counter", "gauge")[turn % 3]
                define = Define(turn, f"m{turn}", kind, "ns", within="m0" if turn % 4 else "")
                lines = [(float(at), MONO_NS + turn, float(3**at % 10**7)) for at in range(turn)] * 2
                one = batch(seq=turn, first=turn * (turn - 1), rows=lines, records=[define])
                assert aggregator.admit(one, MONO_NS)
                aggregator.apply([one], MONO_NS + turn, WALL_NS)
            results.append(aggregator.checkpoint())
    assert results[0] == results[1]
