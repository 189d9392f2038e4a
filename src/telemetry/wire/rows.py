"""Rows: one flat msgpack array `id, time, value, id, time, value, …`.

In canonical form id and value are float64 (0xcb) and time is uint64 (0xcf), so that every event is exactly 27 bytes
and the array can be read in place. Other msgpack numbers are accepted on a slower path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw, Struct

from telemetry import limits

ROW_BYTES: Final = 27
ID_MARK: Final = 0xCB
TIME_MARK: Final = 0xCF
VALUE_MARK: Final = 0xCB

_APART: Final = ROW_BYTES // 3
_MARKS: Final = bytes((ID_MARK, TIME_MARK, VALUE_MARK))
_LONG_ARRAYS: Final = {0xDC: 2, 0xDD: 4}
"""First byte of each long array type, and the number of bytes of its length field."""
_HEAD_BYTES: Final = 1_024  # of a batch without records; a longer search costs more than it saves
_LOOSE: Final[msgspec.msgpack.Decoder[list[int | float]]] = msgspec.msgpack.Decoder(
    Annotated[list[int | float], Meta(max_length=limits.FRAME_BYTES)],  # a number takes at least a byte
)


Finder = Callable[[bytes, int], int]
"""Function that finds canonical rows, as `find`."""


class RowArray(Struct, frozen=True, gc=False):
    """The rows of a batch, read up to the header and the markers."""

    data: memoryview
    """Raw bytes as received."""
    count: int | None = None
    """Number of rows; None if the bytes are not an array of whole rows, or more rows than a frame can hold."""
    body: memoryview | None = None
    """The 27-byte rows, if all are canonical."""

    @property
    def events(self) -> int:
        """Number of events.

        Unreadable rows count as one; the producer's event numbers report the rest as missing.
        """
        return 1 if self.count is None else self.count


def read(rows: Raw | bytes) -> RowArray:
    """Read any msgpack value as rows."""
    data = memoryview(rows)
    length, header = _array_header(data)
    count = length // 3
    if length < 0 or length % 3 or count > limits.BATCH_ROWS:
        return RowArray(data)
    body = data[header:]
    if len(body) != count * ROW_BYTES or bytes(body)[::_APART] != _MARKS * count:
        return RowArray(data, count)
    return RowArray(data, count, body)


def find(data: bytes, begin: int) -> int:
    """Return the position of the array of canonical rows at the end of `data`; −1 if none is found."""
    size = len(data)
    for mark, width in _LONG_ARRAYS.items():
        header = 1 + width
        first = begin + (size - begin - header) % ROW_BYTES
        for start in range(first, min(size - header, begin + _HEAD_BYTES), ROW_BYTES):
            count = (size - start - header) // ROW_BYTES
            if data[start] == mark and int.from_bytes(data[start + 1 : start + header], "big") == 3 * count:
                return start if data[start + header :: _APART] == _MARKS * count else -1
    return -1


def at_end(data: bytes, begin: int, find: Finder = find) -> RowArray | None:
    """Return the canonical rows at the end of `data`, without a walk through all numbers; None if none are found.

    The caller must decode the bytes between `begin` and the rows, to check that they are the rest of a batch. It
    may give a faster `find`.
    """
    start = find(data, begin)
    if start < 0:
        return None
    rows = memoryview(data)[start:]
    body = rows[1 + _LONG_ARRAYS[data[start]] :]
    return RowArray(rows, len(body) // ROW_BYTES, body)


def loose(rows: RowArray) -> list[int | float]:
    """Return the rows as a flat list of any msgpack numbers. Raises msgspec.MsgspecError for anything else."""
    return _LOOSE.decode(rows.data)


def _array_header(data: memoryview) -> tuple[int, int]:
    """Return (elements, bytes of the header); −1 elements if the value is not an array."""
    first = data[0] if len(data) else 0
    if first & 0xF0 == 0x90:
        return first & 0x0F, 1
    width = _LONG_ARRAYS.get(first)
    if width is None or len(data) <= width:
        return -1, 0
    return int.from_bytes(data[1 : 1 + width], "big"), 1 + width
