"""Rows: counted from the header, read in place if canonical, decoded if not."""

from __future__ import annotations

import struct

import msgspec
import pytest
from msgspec import Raw

from telemetry import limits
from telemetry.wire import rows

TIME_NS = 1 << 33


def encoded(numbers: object) -> Raw:
    return Raw(msgspec.msgpack.encode(numbers))


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 21_845, 21_846, 30_000])
def test_rows_are_counted_for_every_size_of_header(count: int) -> None:
    """Rows are counted with all three array headers of msgpack: one, three and five bytes."""
    array = rows.read(encoded([1.0, TIME_NS, 2.0] * count))
    assert array.count == array.events == count


@pytest.mark.parametrize("count", [1, 5, 6, 30_000])
def test_our_own_rows_are_canonical(count: int) -> None:
    """Rows that msgspec makes of float, clock, float are canonical: exactly 27 bytes an event."""
    body = rows.read(encoded([3.0, TIME_NS, 2.5] * count)).body
    assert body is not None
    assert len(body) == count * rows.ROW_BYTES
    marker_id, row_id, marker_time, time_ns, marker_value, value = struct.unpack(">BdBQBd", body[:27])
    assert (marker_id, marker_time, marker_value) == (rows.ID_MARK, rows.TIME_MARK, rows.VALUE_MARK)
    assert (row_id, time_ns, value) == (3.0, TIME_NS, 2.5)


@pytest.mark.parametrize("numbers", [[1, TIME_NS, 2.0], [1.0, 5, 2.0], [1.0, TIME_NS, 2]])
def test_small_integers_take_the_loose_path(numbers: list[float]) -> None:
    """Other producers may write numbers in any form msgpack has."""
    array = rows.read(encoded(numbers))
    assert (array.count, array.body) == (1, None)
    assert rows.loose(array) == numbers


@pytest.mark.parametrize(("at", "mark"), [(0, rows.TIME_MARK), (9, 0xD3), (18, rows.TIME_MARK)])
@pytest.mark.parametrize("row", [0, 6])
def test_every_marker_is_checked(row: int, at: int, mark: int) -> None:
    """An array with the size of canonical rows but other types inside is not taken for them."""
    data = bytearray(encoded([1.0, TIME_NS, 2.0] * 7))
    data[len(data) - (7 - row) * rows.ROW_BYTES + at] = mark
    array = rows.read(bytes(data))
    assert (array.count, array.body) == (7, None)


@pytest.mark.parametrize("length", [1, 2, 4, 5])
def test_a_broken_row_can_not_be_read(length: int) -> None:
    """A number too few would move every field of what follows. All of it counts as one event."""
    array = rows.read(encoded([1.0] * length))
    assert (array.count, array.events, array.body) == (None, 1, None)


def test_more_rows_than_a_frame_can_hold_can_not_be_read() -> None:
    """Small integers take a byte each: ten times as many would fit."""
    assert rows.read(encoded([0] * 3 * limits.BATCH_ROWS)).count == limits.BATCH_ROWS
    assert rows.read(encoded([0] * 3 * (limits.BATCH_ROWS + 1))).count is None


@pytest.mark.parametrize("value", [None, {}, "rows", 5, True])
def test_what_is_no_array_has_no_rows(value: object) -> None:
    """A value that is no array has no rows, and counts as one event all the same."""
    array = rows.read(encoded(value))
    assert (array.count, array.events) == (None, 1)


@pytest.mark.parametrize("data", [b"", b"\xdc", b"\xdc\x00", b"\xdd\x00\x00\x00"])
def test_half_a_header_is_none(data: bytes) -> None:
    """Half a header has no count of rows, and neither has no header at all."""
    assert rows.read(Raw(data)).count is None


@pytest.mark.parametrize("numbers", [[1.0, None, 2.0], [1.0, "now", 2.0], [1.0, True, 2.0], [1.0, [], 2.0]])
def test_only_numbers_are_loose_rows(numbers: list[object]) -> None:
    """A string in a row is no number, however it is spelt."""
    with pytest.raises(msgspec.ValidationError):
        rows.loose(rows.read(encoded(numbers)))


@pytest.mark.parametrize("count", [6, 21_845, 21_846])
def test_rows_at_the_end_are_found_as_they_are_read(count: int) -> None:
    """Rows at the end of a message are read as they are alone, behind anything of a few bytes."""
    raw = bytes(encoded([1.0, TIME_NS, 2.0] * count))
    assert rows.at_end(b"topic and the head of a batch" + raw, 5) == rows.read(raw)


@pytest.mark.parametrize("data", [b"", b"\xdc\x00\x03", b"\xdc" * 40, bytes(200)])
def test_what_is_not_at_the_end_is_not_found(data: bytes) -> None:
    """Nor are few rows, whose header says too little to be sure."""
    assert rows.at_end(data, 0) is None
    assert rows.at_end(data + bytes(encoded([1.0, TIME_NS, 2.0])), 0) is None
