"""Rows: counted from the header, read in place if canonical, decoded if not."""

from __future__ import annotations

import struct

import msgspec
import pytest
from msgspec import Raw

from telemetry.wire import rows

TIME_NS = 1 << 33


def encoded(numbers: list[float]) -> Raw:
    return Raw(msgspec.msgpack.encode(numbers))


@pytest.mark.parametrize("count", [0, 1, 4, 5, 6, 21_845, 21_846, 30_000])
def test_rows_are_counted_for_every_size_of_header(count: int) -> None:
    """msgpack has three array headers: one, three and five bytes."""
    assert rows.row_count(encoded([1.0, TIME_NS, 2.0] * count)) == count


@pytest.mark.parametrize("count", [1, 5, 6, 30_000])
def test_our_own_rows_are_canonical(count: int) -> None:
    """What msgspec makes of float, clock, float is exactly 27 bytes an event."""
    body = rows.canonical_body(encoded([3.0, TIME_NS, 2.5] * count))
    assert body is not None
    assert len(body) == count * rows.ROW_BYTES
    marker_id, row_id, marker_time, time_ns, marker_value, value = struct.unpack(">BdBQBd", body[:27])
    assert (marker_id, marker_time, marker_value) == (rows.ID_MARK, rows.TIME_MARK, rows.VALUE_MARK)
    assert (row_id, time_ns, value) == (3.0, TIME_NS, 2.5)


@pytest.mark.parametrize("numbers", [[1, TIME_NS, 2.0], [1.0, 5, 2.0], [1.0, TIME_NS, 2]])
def test_small_integers_take_the_loose_path(numbers: list[float]) -> None:
    """Other producers may write numbers in any form msgpack has."""
    raw = encoded(numbers)
    assert rows.canonical_body(raw) is None
    assert rows.loose(raw) == numbers


@pytest.mark.parametrize("length", [1, 2, 4, 5])
def test_a_broken_row_is_refused(length: int) -> None:
    """A number too few would move every field of what follows."""
    raw = encoded([1.0] * length)
    with pytest.raises(ValueError, match="multiple of 3"):
        rows.row_count(raw)
    assert rows.canonical_body(raw) is None


@pytest.mark.parametrize("value", [None, {}, "rows", 5, True])
def test_rows_that_are_no_array_are_refused(value: object) -> None:
    """Only an array has rows."""
    with pytest.raises(ValueError, match="not with an array"):
        rows.row_count(Raw(msgspec.msgpack.encode(value)))


@pytest.mark.parametrize("data", [b"\xdc", b"\xdc\x00", b"\xdd\x00\x00\x00"])
def test_a_header_that_is_cut_off_is_refused(data: bytes) -> None:
    """Half a length is no length."""
    with pytest.raises(ValueError, match="cut off"):
        rows.row_count(Raw(data))


def test_empty_rows_are_refused() -> None:
    """No bytes at all are not an empty array."""
    with pytest.raises(ValueError, match="empty"):
        rows.row_count(Raw(b""))


@pytest.mark.parametrize("numbers", [[1.0, None, 2.0], [1.0, "now", 2.0], [1.0, True, 2.0], [1.0, [], 2.0]])
def test_only_numbers_are_loose_rows(numbers: list[object]) -> None:
    """A string in a row is no number, however it is spelt."""
    with pytest.raises(msgspec.ValidationError):
        rows.loose(Raw(msgspec.msgpack.encode(numbers)))
