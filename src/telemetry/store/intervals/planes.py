"""Splitting the columns of a packed interval into byte planes, and joining them again.

A plane is one byte of each number of a column. A mask has a bit for each byte that is not zero in the whole
interval; planes of zeros are not stored. Planes lie one after the other in a raw deflate stream, or uncompressed if
that is not longer.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry.store.append_file import Buffer
from telemetry.wire.codec import Malformed
from telemetry.wire.drop_reasons import Reason

Bytes = NDArray[np.uint8]
Place = tuple[int, int]
"""A pair (column, byte of its numbers)."""
Places = tuple[Place, ...]
Blocks = tuple[Places, ...]

U32: Final = np.dtype("<u4")
U64: Final = np.dtype("<u8")
U32_END: Final = 1 << 32

_MEMORY: Final = 8  # of the compressor: 256 KiB, and at most 16,384 bytes per block of deflate
_REMEMBERED: Final = 256  # masks; the intervals of a history have a few
_WORTH_IT: Final = 64  # bytes; fewer hardly compress


def _down(column: int, highest: int) -> tuple[Place, ...]:
    return tuple((column, byte) for byte in range(highest, -1, -1))


@dataclass(frozen=True, eq=False)
class ColumnLayout:
    """The kinds of columns of one length, and the order of their planes.

    The planes of each item of `blocks` share a deflate block with its own code. This separates nearly constant,
    skewed and random bytes, which compress badly together.
    """

    kinds: tuple[np.dtype[Any], ...]
    masks: slice
    blocks: Blocks


ROWS: Final = ColumnLayout(
    (U32, U64, U32, U64, U64, U64),  # index, count, occupied, total, min, max
    slice(0, 6),
    (
        (*_down(0, 3), *_down(1, 7), *_down(2, 3)),
        ((3, 7), (4, 7), (5, 7)),
        ((3, 6), (4, 6), (5, 6)),
        (*_down(3, 5), *_down(4, 5), *_down(5, 5)),
    ),
)
CELLS: Final = ColumnLayout(
    (U32, U32), slice(6, 8), tuple((position,) for column in (0, 1) for position in _down(column, 3))
)
COUNTERS: Final = ColumnLayout((U32, U64), slice(8, 10), (_down(0, 3), *((position,) for position in _down(1, 7))))
GAUGES: Final = replace(COUNTERS, masks=slice(10, 12))
MASKS: Final = 12


class SplitColumns(NamedTuple):
    """Columns split into planes."""

    masks: bytes
    blocks: Blocks
    """Planes that are present."""
    planes: dict[Place, Bytes]


def apart(columns: Sequence[NDArray[Any]], what: ColumnLayout) -> SplitColumns:
    masks = bytes(map(_mask, columns))
    views = [_bytes(column) for column in columns]
    blocks = _there(masks, what)
    places = (position for block in blocks for position in block)
    return SplitColumns(
        masks, blocks, {position: np.ascontiguousarray(views[position[0]][:, position[1]]) for position in places}
    )


def _mask(column: NDArray[Any]) -> int:
    union = int(np.bitwise_or.reduce(column)) if column.size else 0
    return sum(1 << byte for byte in range(column.itemsize) if union >> 8 * byte & 0xFF)


def _there(masks: bytes, what: ColumnLayout) -> Blocks:
    """Return the layout without planes of zeros only."""
    blocks = (
        tuple(position for position in block if masks[position[0]] >> position[1] & 1) for block in what.blocks
    )
    return tuple(block for block in blocks if block)


@lru_cache(_REMEMBERED)
def _places(masks: bytes, what: ColumnLayout) -> Places:
    return tuple(position for block in _there(masks, what) for position in block)


def deflated(parts: Sequence[tuple[SplitColumns, slice]]) -> bytes:
    """Return the planes of some rows of each part, compressed.

    Neighbours repeat or are random, so the compressor searches for runs only.
    """
    blocks = [
        [columns.planes[position][rows].tobytes() for position in block]
        for columns, rows in parts
        for block in columns.blocks
    ]
    stored = b"".join([plane for block in blocks for plane in block])
    if len(stored) < _WORTH_IT:
        return stored
    stream = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS, _MEMORY, zlib.Z_RLE)
    pieces = []
    for block in blocks:
        pieces += [stream.compress(plane) for plane in block]
        pieces.append(stream.flush(zlib.Z_BLOCK))
    packed = b"".join((*pieces, stream.flush()))
    return packed if len(packed) < len(stored) else stored


def places_of(what: ColumnLayout, masks: bytes) -> Places:
    """Return the planes that an interval with these masks has."""
    return _places(masks[what.masks], what)


def inflated(data: Buffer, parts: Sequence[tuple[Places, int]]) -> list[Bytes]:
    """Undo `deflated`: return one row per plane for each part with its number of rows. Raises Malformed.

    Never allocates more than the planes need.
    """
    sizes = [len(places) * rows for places, rows in parts]
    planes = np.frombuffer(_inflated(data, sum(sizes)), np.uint8)
    return [
        planes[end - size : end].reshape(len(places), rows)
        for (places, rows), size, end in zip(parts, sizes, accumulate(sizes), strict=True)
    ]


def _inflated(data: Buffer, size: int) -> Buffer:
    if len(data) == size:
        return data
    stream = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        planes = stream.decompress(data, size + 1)
    except zlib.error as error:
        raise damaged(str(error)) from None
    if len(planes) != size or not stream.eof or stream.unused_data:
        raise damaged("its planes have another length")
    return planes


class Joined:
    """Columns that are joined from the planes of neighbouring rows."""

    def __init__(self, what: ColumnLayout, masks: bytes, size: int) -> None:
        self.size = size
        self.places = places_of(what, masks)
        self._what = what
        self._planes = np.empty((len(self.places), size), np.uint8)

    def put(self, planes: Bytes, first: int = 0) -> None:
        """Store planes, one row for each place, from row `first` on. The caller must store all rows."""
        self._planes[:, first : first + planes.shape[1]] = planes

    def columns(self) -> list[NDArray[Any]]:
        return [one_column(self._what, self.places, self._planes, at) for at in range(len(self._what.kinds))]


def one_column(what: ColumnLayout, places: Places, planes: Bytes, wanted: int) -> NDArray[Any]:
    """Join one column from planes, one row for each place."""
    kind = what.kinds[wanted]
    own = [(byte, plane) for (column, byte), plane in zip(places, planes, strict=True) if column == wanted]
    if not own:
        return np.zeros(planes.shape[1], kind)
    numbers = _moved(*own[0], kind)
    for byte, plane in own[1:]:
        numbers |= _moved(byte, plane, kind)
    return numbers


def _moved(byte: int, plane: Bytes, kind: np.dtype[Any]) -> NDArray[Any]:
    """Return numbers with only this byte set."""
    numbers = plane.astype(kind)
    if byte:
        numbers <<= 8 * byte
    return numbers


def one_row(what: ColumnLayout, places: Places, planes: Bytes, row: int) -> list[int]:
    """Return the number of each column in one row."""
    numbers = [0] * len(what.kinds)
    for (column, byte), value in zip(places, planes[:, row].tolist(), strict=True):
        numbers[column] |= value << 8 * byte
    return numbers


def _bytes(column: NDArray[Any]) -> Bytes:
    """Return a view with one row of bytes for each number."""
    return column.view(np.uint8).reshape(-1, column.itemsize)


def damaged(what: str) -> Malformed:
    return Malformed(Reason.FRAME_UNREADABLE, f"a packed interval: {what}")
