"""Columns come back from their planes as they were; planes that lie are refused before they take memory."""

from __future__ import annotations

import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from telemetry.store.intervals.planes import (
    CELLS,
    COUNTERS,
    GAUGES,
    MASKS,
    ROWS,
    ColumnLayout,
    Joined,
    apart,
    deflated,
    inflated,
    one_column,
    one_row,
    places_of,
)
from telemetry.wire.codec import Malformed

NUMBERS = st.integers(0, 2) | st.integers(0, 2**16) | st.integers(0, 2**64 - 1)


def columns_of(what: ColumnLayout, rows: list[list[int]]) -> list[NDArray[Any]]:
    return [
        np.array([row[at] % (1 << 8 * kind.itemsize) for row in rows], kind) for at, kind in enumerate(what.kinds)
    ]


def masks_of(what: ColumnLayout, own: bytes) -> bytes:
    """Return the masks of an interval whose other columns are all zero."""
    return bytes(what.masks.start) + own + bytes(MASKS - what.masks.stop)


@pytest.mark.parametrize("what", [ROWS, CELLS, COUNTERS, GAUGES], ids=["rows", "cells", "counters", "gauges"])
@given(st.lists(st.lists(NUMBERS, min_size=6, max_size=6), max_size=40), st.data())
def test_columns_come_back(what: ColumnLayout, rows: list[list[int]], data: st.DataObject) -> None:
    """All of them, one of them, and one row, in two pieces cut anywhere."""
    columns = columns_of(what, rows)
    taken = apart(columns, what)
    masks, cut = masks_of(what, taken.masks), data.draw(st.integers(0, len(rows)))
    joined = Joined(what, masks, len(rows))
    for own in (slice(0, cut), slice(cut, len(rows))):
        size = len(rows[own])
        (planes,) = inflated(deflated([(taken, own)]), [(places_of(what, masks), size)])
        joined.put(planes, own.start)
        for at, column in enumerate(columns):
            assert one_column(what, joined.places, planes, at).tolist() == column[own].tolist()
        for row in range(size):
            assert one_row(what, joined.places, planes, row) == [int(column[own][row]) for column in columns]
    assert [column.tolist() for column in joined.columns()] == [column.tolist() for column in columns]


def test_planes_of_zeros_are_not_there() -> None:
    """A mask has the bytes that are; a column of zeros takes none."""
    taken = apart([np.array([0, 0], "<u4"), np.array([0x0200_0001, 0x0300_0000], "<u4")], CELLS)
    assert taken.masks == bytes([0, 0b1001])
    assert deflated([(taken, slice(None))]) == bytes([2, 3, 1, 0])


def test_what_repeats_itself_takes_less() -> None:
    """Runs are packed, noise stays as long as it is, and both come back."""
    random = np.random.default_rng(3)
    for column, most in ((np.full(4_000, 7, "<u4"), 40), (random.integers(0, 256, 4_000).astype("<u4"), 4_000)):
        taken = apart([column, np.zeros(4_000, "<u4")], CELLS)
        data = deflated([(taken, slice(None))])
        assert len(data) <= most
        masks = masks_of(CELLS, taken.masks)
        (planes,) = inflated(data, [(places_of(CELLS, masks), 4_000)])
        assert one_column(CELLS, places_of(CELLS, masks), planes, 0).tolist() == column.tolist()


def raw(data: bytes) -> bytes:
    stream = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    return stream.compress(data) + stream.flush()


@pytest.mark.parametrize(
    "data",
    [raw(bytes(499)), raw(bytes(501)), raw(bytes(500)) + b"\0", raw(bytes(500))[:-1], b"\xff" * 30, b"", b"\x07"],
    ids=["short", "long", "more behind", "cut", "noise", "nothing", "bad block"],
)
def test_another_length_is_refused(data: bytes) -> None:
    """Planes are as long as their rows say, and end where their bytes end."""
    places = places_of(CELLS, masks_of(CELLS, b"\1\0"))
    assert inflated(raw(bytes(500)), [(places, 500)])[0].tolist() == [[0] * 500]
    with pytest.raises(Malformed, match="packed interval"):
        inflated(data, [(places, 500)])


def test_a_bomb_takes_no_memory() -> None:
    """A plane above the bound is never allocated."""
    bomb, places = raw(bytes(50_000_000)), places_of(CELLS, masks_of(CELLS, b"\1\0"))
    tracemalloc.start()
    with pytest.raises(Malformed):
        inflated(bomb, [(places, 1_000)])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 200_000
