"""Rows: one flat msgpack array `id, time, value, id, time, value, …`.

In canonical form id and value are float64 (0xcb) and time is uint64 (0xcf), so that every event is exactly
27 bytes and the array can be read in place. Any other msgpack numbers are accepted on a slower path.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Raw

from telemetry import limits

ROW_BYTES: Final = 27
ID_MARK: Final = 0xCB
TIME_MARK: Final = 0xCF
VALUE_MARK: Final = 0xCB

_APART: Final = ROW_BYTES // 3
_MARKS: Final = bytes((ID_MARK, TIME_MARK, VALUE_MARK))
_LONG_ARRAYS: Final = {0xDC: 2, 0xDD: 4}
"""How they begin, and how many bytes say how long they are."""
_HEAD_BYTES: Final = 1_024  # of a batch, without records; looking further costs more than it saves
_LOOSE: Final[msgspec.msgpack.Decoder[list[int | float]]] = msgspec.msgpack.Decoder(
    Annotated[list[int | float], Meta(max_length=limits.FRAME_BYTES)],  # a number is at least a byte
)


def row_count(rows: Raw) -> int:
    """Rows in the array, read from its header. Raises ValueError unless it is an array of whole rows."""
    data = memoryview(rows)
    length, _ = _array_header(data)
    if length % 3:
        raise ValueError(f"rows hold {length} numbers, not a multiple of 3")
    return length // 3


def canonical_body(rows: Raw) -> memoryview | None:
    """The 27-byte rows if the array has the size canonical rows would have, else None.

    The markers inside still have to be checked by whoever reads the body.
    """
    data = memoryview(rows)
    length, header = _array_header(data)
    body = data[header:]
    return body if len(body) == length // 3 * ROW_BYTES and length % 3 == 0 else None


def at_end(data: bytes, begin: int) -> int:
    """Where canonical rows begin that `data` ends with, found without a walk through all numbers; −1 if it can't be
    seen. That what lies between `begin` and them is all the rest of a batch has to be shown by reading it."""
    size = len(data)
    for mark, width in _LONG_ARRAYS.items():
        header = 1 + width
        first = begin + (size - begin - header) % ROW_BYTES
        for start in range(first, min(size - header, begin + _HEAD_BYTES), ROW_BYTES):
            length = (size - start - header) // ROW_BYTES * 3
            if data[start] == mark and int.from_bytes(data[start + 1 : start + header], "big") == length:
                return start if data[start + header :: _APART] == _MARKS * (length // 3) else -1
    return -1


def loose(rows: Raw) -> list[int | float]:
    """Any msgpack numbers, flat. Raises msgspec.MsgspecError for anything else."""
    return _LOOSE.decode(rows)


def _array_header(data: memoryview) -> tuple[int, int]:
    """(elements, bytes of the header). Raises ValueError for anything but an array."""
    if not len(data):
        raise ValueError("rows are empty")
    first = data[0]
    if first & 0xF0 == 0x90:
        return first & 0x0F, 1
    width = _LONG_ARRAYS.get(first)
    if width is None:
        raise ValueError(f"rows begin with 0x{first:02x}, not with an array")
    if len(data) <= width:
        raise ValueError("the header of rows is cut off")
    return int.from_bytes(data[1 : 1 + width], "big"), 1 + width
