"""Rows as columns, read in place if they are canonical, and the route of each row to its instrument."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw
from numpy.typing import NDArray

from telemetry import limits
from telemetry.statistics.hdr.layout import constant
from telemetry.wire import rows as wire_rows
from telemetry.wire.events import Kind
from telemetry.wire.rows import RowArray

ShiftedIds = NDArray[np.intp]
Buffer = bytes | bytearray | memoryview

_ROW: Final = np.dtype(
    [("id_mark", "u1"), ("id", ">f8"), ("time_mark", "u1"), ("time", ">u8"), ("value_mark", "u1"), ("value", ">f8")]
)
_ONE: Final = constant(1)
_TOO_LARGE: Final = int(np.array(float(limits.PRODUCER_IDS)).view(np.uint64))
"""Bits of the first id that is too large. Bits of negative numbers and NaN are at least this large."""
_MAX_TIME: Final = (1 << 64) - 1
_ELEMENTS: Final = msgspec.msgpack.Decoder(list[Raw])
_NUMBER: Final[msgspec.msgpack.Decoder[int | float]] = msgspec.msgpack.Decoder(int | float)
_BAD_INPUT: Final = (msgspec.MsgspecError, RecursionError, ValueError)


class Rows(NamedTuple):
    """Columns of equal length."""

    ids: ShiftedIds
    times: NDArray[np.uint64]
    """Times on the producer's clock. May be a view into the frame, to be gathered only when needed."""
    values: NDArray[np.float64]


def read_rows(array: RowArray) -> Rows:
    """Return the rows of one readable batch."""
    return loosen(array) if array.body is None else unpack(array.body)


def unpack(body: Buffer) -> Rows:
    """Return canonical rows of one batch, or of several joined batches."""
    view = np.frombuffer(body, _ROW)
    return Rows(shift_ids(view["id"].astype(np.float64)), view["time"], view["value"].astype(np.float64))


def shift_ids(numbers: NDArray[np.float64]) -> ShiftedIds:
    """Return ids plus one, or 0 for numbers that are no id: negative, fractional, too large, NaN."""
    if not len(numbers):
        return np.zeros(0, np.intp)
    bits = numbers.view(np.uint64)
    if bits.item(bits.argmax()) >= _TOO_LARGE:
        numbers = np.where((numbers >= 0) & (numbers < limits.PRODUCER_IDS), numbers, -1.0)
    ids = numbers.astype(np.intp)
    whole = ids == numbers
    ids += _ONE
    if not whole.item(whole.argmin()):
        ids[~whole] = 0
    return ids


def loosen(array: RowArray) -> Rows:
    """Return readable rows of any msgpack numbers. A row with anything else in it gets no id."""
    try:
        flat = wire_rows.loose(array)
    except _BAD_INPUT:
        flat = _salvage(array)
    ids = shift_ids(np.array(flat[0::3], np.float64))
    times = np.array([_time(number) for number in flat[1::3]], np.uint64)
    return Rows(ids, times, np.array(flat[2::3], np.float64))


def _salvage(array: RowArray) -> list[int | float]:
    """Return the same flat list, but replace every row with other elements than numbers.

    The replacement row has no id.
    """
    try:
        elements = _ELEMENTS.decode(array.data)
    except _BAD_INPUT:
        return [-1, 0, 0] * array.events
    flat: list[int | float] = []
    for at in range(0, len(elements), 3):
        try:
            flat += [_NUMBER.decode(element) for element in elements[at : at + 3]]
        except _BAD_INPUT:
            flat += (-1, 0, 0)
    return flat


def _time(number: int | float) -> int:
    """Return nanoseconds within uint64. For an invalid number return 0, "when the batch was made"."""
    if isinstance(number, int):
        return min(max(number, 0), _MAX_TIME)
    return int(number) if 0.0 < number < _MAX_TIME else 0


Routes = NDArray[np.intp]

INDEX_BITS: Final = 24
KIND_CODES: Final[dict[Kind, int]] = {"series": 0, "counter": 1, "gauge": 2}

UNKNOWN: Final = -1
"""Missing definition: the row waits."""
CONFLICT: Final = -2
"""Definition that contradicts an earlier one."""
INVALID: Final = -3
"""Definition that can't be used."""
MALFORMED: Final = -4
"""Invalid id or invalid row."""


def route(kind: Kind, index: int) -> int:
    """Return the route to an instrument by its kind and index."""
    return KIND_CODES[kind] << INDEX_BITS | index
