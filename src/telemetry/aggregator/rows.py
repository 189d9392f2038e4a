"""Rows as columns: canonical rows are read in place and copied to aligned memory, others one by one.

An id column is shifted by one: 0 stands for "no id", so that a bad row keeps its place among its neighbours.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from telemetry import limits
from telemetry.wire import rows as wire_rows

ShiftedIds = NDArray[np.intp]
Buffer = bytes | bytearray | memoryview

_ROW: Final = np.dtype(
    [("id_mark", "u1"), ("id", ">f8"), ("time_mark", "u1"), ("time", ">u8"), ("value_mark", "u1"), ("value", ">f8")]
)
_APART: Final = wire_rows.ROW_BYTES // 3
_MARKS: Final = bytes((wire_rows.ID_MARK, wire_rows.TIME_MARK, wire_rows.VALUE_MARK)) * (
    limits.CHUNK_EVENTS + limits.BATCH_ROWS
)
"""Of as many rows as are ever joined: the marks lie at equal distances."""
_MAX_TIME: Final = (1 << 64) - 1
_ELEMENTS: Final = msgspec.msgpack.Decoder(list[Raw])
_NUMBER: Final[msgspec.msgpack.Decoder[int | float]] = msgspec.msgpack.Decoder(int | float)
_BAD_INPUT: Final = (msgspec.MsgspecError, RecursionError, ValueError)


class Rows(NamedTuple):
    """Columns of equal length."""

    ids: ShiftedIds
    times: NDArray[np.uint64]
    """The producer's clock; may be a view into the frame, to be gathered only where it is needed."""
    values: NDArray[np.float64]


class RowCount(NamedTuple):
    events: int
    readable: bool
    """An array of whole rows, no more than a frame of canonical ones could hold."""


_UNREADABLE: Final = RowCount(1, False)


def count_rows(rows: Raw) -> RowCount:
    """Events in the rows of a batch. What can't be read counts as one; by the producer's event numbers the rest of
    it is missing."""
    try:
        count = wire_rows.row_count(rows)
    except ValueError:
        return _UNREADABLE
    return RowCount(count, True) if count <= limits.BATCH_ROWS else _UNREADABLE


def canonical_body(rows: Raw) -> memoryview | None:
    """The rows' bytes if they have the size of canonical rows. Only for readable rows."""
    return wire_rows.canonical_body(rows)


def unpack(body: Buffer) -> Rows | None:
    """Canonical rows, of one batch or of several joined; None if a marker is wrong."""
    marks = np.frombuffer(body, np.uint8)[::_APART].tobytes()
    if marks != _MARKS[: len(marks)]:
        return None
    view = np.frombuffer(body, _ROW)
    return Rows(shift_ids(view["id"].astype(np.float64)), view["time"], view["value"].astype(np.float64))


def shift_ids(numbers: NDArray[np.float64]) -> ShiftedIds:
    """Ids plus one; 0 for numbers that are no id: negative, fractional, too large, not a number."""
    if not len(numbers):
        return np.zeros(0, np.intp)
    least, most = numbers.item(numbers.argmin()), numbers.item(numbers.argmax())
    if not (least >= 0 and most < limits.PRODUCER_IDS):  # false for a NaN anywhere
        numbers = np.where((numbers >= 0) & (numbers < limits.PRODUCER_IDS), numbers, -1.0)
    ids = numbers.astype(np.intp)
    ids += 1
    whole = np.rint(numbers) == numbers
    if not whole.item(whole.argmin()):
        ids[~whole] = 0
    return ids


def loosen(rows: Raw) -> Rows:
    """Rows of any msgpack numbers; a row with anything else in it gets no id. Only for readable rows."""
    try:
        flat = wire_rows.loose(rows)
    except _BAD_INPUT:
        flat = _salvage(rows)
    ids = shift_ids(np.array(flat[0::3], np.float64))
    times = np.array([_time(number) for number in flat[1::3]], np.uint64)
    return Rows(ids, times, np.array(flat[2::3], np.float64))


def decode_rows(rows: Raw) -> Rows:
    """The rows of one batch, canonical or not. Only for readable rows."""
    body = canonical_body(rows)
    return (None if body is None else unpack(body)) or loosen(rows)


def _salvage(rows: Raw) -> list[int | float]:
    """The same flat list with every row that holds anything but numbers replaced by one without an id."""
    try:
        elements = _ELEMENTS.decode(rows)
    except _BAD_INPUT:
        return [-1, 0, 0] * wire_rows.row_count(rows)
    flat: list[int | float] = []
    for at in range(0, len(elements), 3):
        try:
            flat += [_NUMBER.decode(element) for element in elements[at : at + 3]]
        except _BAD_INPUT:
            flat += (-1, 0, 0)
    return flat


def _time(number: int | float) -> int:
    """Nanoseconds within uint64; 0, "when the batch was made", for what is none."""
    if isinstance(number, int):
        return min(max(number, 0), _MAX_TIME)
    return int(number) if 0.0 < number < _MAX_TIME else 0
