"""Rows as columns."""

from __future__ import annotations

import math
import struct
import tracemalloc

import numpy as np
import pytest
from msgspec import Raw

from telemetry.aggregator.rows import loosen, read_rows, shift_ids
from telemetry.testing import batch, loose_rows
from telemetry.wire.rows import read

BIG_NS = 1 << 40


def test_canonical_rows_are_read_in_place() -> None:
    """Ids, times and values come back exactly, in order, and in aligned memory where they are computed with."""
    sent = batch(rows=[(3, BIG_NS + 1, 1.5), (0, (1 << 64) - 1, math.pi), (65_535, BIG_NS, 0.0)])
    rows = read_rows(sent.rows)
    assert sent.rows.body is not None
    assert rows.ids.tolist() == [4, 1, 65_536]
    assert rows.times.tolist() == [BIG_NS + 1, (1 << 64) - 1, BIG_NS]
    assert rows.values.tolist() == [1.5, math.pi, 0.0]
    assert rows.ids.flags.aligned
    assert rows.values.flags.aligned
    assert rows.values.flags.c_contiguous


def test_other_numbers_are_read_one_by_one() -> None:
    """Small integers, float times and integers as values mean the same as canonical rows."""
    rows = read_rows(read(loose_rows([1, 5, 7, 2.0, 6.9, 1 << 60, 0, -3, -2])))
    assert rows.ids.tolist() == [2, 3, 1]
    assert rows.times.tolist() == [5, 6, 0]
    assert rows.values.tolist() == [7.0, float(1 << 60), -2.0]


def test_numbers_of_the_same_size_are_not_taken_for_canonical_ones() -> None:
    """A time as int64 is read as one."""
    row = struct.pack(">BdBqBd", 0xCB, 1.0, 0xD3, BIG_NS, 0xCB, 2.0)
    assert read_rows(read(b"\x93" + row)).times.tolist() == [BIG_NS]


@pytest.mark.parametrize("bad", [-1, -0.5, 0.5, 65_536, 1e300, math.nan, math.inf, -math.inf])
def test_what_is_no_id_keeps_its_place(bad: float) -> None:
    """A bad id becomes 0 and its neighbours keep theirs."""
    assert shift_ids(np.array([3.0, bad, 4.0])).tolist() == [4, 0, 5]


def test_a_row_with_something_else_in_it_costs_only_itself() -> None:
    """Strings, nulls, booleans, nested arrays: that row has no id, the others are read."""
    numbers = [1, 2, 3, "id", 2, 3, 4, None, 3, 5, 6, True, 7, 8, 9, 1, [2], 3]
    rows = loosen(read(loose_rows(numbers)))
    assert rows.ids.tolist() == [2, 0, 0, 0, 8, 0]
    assert rows.values[[0, 4]].tolist() == [3.0, 9.0]


def test_rows_too_deep_to_read_are_all_without_an_id() -> None:
    """Nesting beyond the decoder's limit, which depends on the version of Python, neither raises nor hides how many
    rows there were."""
    deep = b"\x91" * 1_000_000 + b"\x00"
    rows = loosen(read(Raw(b"\x96\x01\x02\x03\x01\x02" + deep)))
    assert rows.ids.tolist() == [0, 0]


def test_wild_times_are_clamped() -> None:
    """A time that is not a number, negative or beyond 64 bits means "when the batch was made" or the latest."""
    rows = loosen(read(loose_rows([1, math.nan, 1, 1, -4, 1, 1, 1e300, 1, 1, math.inf, 1])))
    assert rows.times.tolist() == [0, 0, 0, 0]


def test_empty_rows_are_empty_columns() -> None:
    """A batch of records only has rows, too."""
    assert all(len(column) == 0 for column in read_rows(read(loose_rows([]))))


def test_a_row_of_nested_arrays_costs_no_more_memory_than_its_frame() -> None:
    """A reader never builds the inside of an element that is no number."""
    inner = 1_000_000
    nested = b"\x93\xdd" + inner.to_bytes(4, "big") + b"\x90" * inner + b"\x00\x00"
    tracemalloc.start()
    try:
        assert loosen(read(Raw(nested))).ids.tolist() == [0]
        assert tracemalloc.get_traced_memory()[1] < 4 * inner
    finally:
        tracemalloc.stop()
