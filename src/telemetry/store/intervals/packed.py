"""A compact form of one interval, from which a single series can be read without the others.

    packed    = opening, directory, u32 crc, group …, counters, gauges
    opening   = i64 start_ns, i64 end_ns, u32 groups, u32 rows and u32 bytes of counters, the same of gauges,
                u8[12] masks
    directory = (u32 first index, u32 rows, u32 cells, u32 bytes, u32 crc) for each group

A group holds neighbouring rows of `SeriesColumns` and their cells: slots and counts, as small differences
(`_small`), split into byte planes (`telemetry.store.intervals.planes`).

The first CRC covers length, stamp and kind of the frame, the opening and the directory. If it is right, a reader
can skip to the next frame, or read a single group, whose own CRC is in the directory.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.store.append_file import Buffer
from telemetry.store.intervals.planes import (
    CELLS,
    COUNTERS,
    GAUGES,
    MASKS,
    ROWS,
    U32,
    U32_END,
    U64,
    ColumnLayout,
    Joined,
    SplitColumns,
    apart,
    damaged,
    deflated,
    inflated,
    one_column,
    one_row,
    places_of,
)
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns

_Array = NDArray[Any]

_OPENING: Final = struct.Struct(f"<qqIIIII{MASKS}s")
_ENTRY: Final = struct.Struct("<5I")
_CRC: Final = struct.Struct("<I")
_FRAME: Final = struct.Struct("<IQB")
_BITS: Final = struct.Struct("<3Q")
_FLOATS: Final = struct.Struct("<3d")
_I64: Final = range(-(1 << 63), 1 << 63)
_ZERO: Final = np.uint64(0)

_INDEX, _OCCUPIED = 0, 2  # in the columns of `ROWS`
_SLOTS, _COUNTS = 0, 1  # in `CELLS`
_GROUP_BYTES: Final = 16_384  # of planes: half as many take 2 % more on disk, twice as many slow down `pick`
_ROW_BYTES: Final = 40  # of the columns of an interval
_CELL_BYTES: Final = 8
_VALUE_BYTES: Final = 12

OPENING_BYTES: Final = _OPENING.size


class PackedGroup(NamedTuple):
    """The position of some series."""

    first: int
    """Index of the first series."""
    rows: int
    cells: int
    bytes: int
    crc: int
    begin: int
    """Offset in the payload."""


class PackedRow(NamedTuple):
    """A series of one interval."""

    values: int
    """Number of its values."""
    total: float
    min: float
    max: float
    slots: NDArray[np.uint32]
    counts: NDArray[np.uint32]


def unpacked_bytes(interval: Interval) -> int:
    """Return the size of its columns in bytes. The columns must fit together."""
    series, values = interval.series, len(interval.counters.index) + len(interval.gauges.index)
    return _unpacked(len(series.index) // U32.itemsize, len(series.slots) // U32.itemsize, values // U32.itemsize)


def _unpacked(rows: int, cells: int, values: int) -> int:
    """Return the size of the columns of an interval in bytes."""
    return _ROW_BYTES * rows + _CELL_BYTES * cells + _VALUE_BYTES * values


def _most(length: int) -> int:
    """Return the largest unpacked size allowed for a payload of this length."""
    return max(limits.HISTORY_UNPACKED_BYTES, limits.HISTORY_UNPACKED_TIMES * length)


def _crc(head: Buffer, length: int, stamp: int, kind: int) -> int:
    return zlib.crc32(head, zlib.crc32(_FRAME.pack(length, stamp, kind)))


# --- pack ----------------------------------------------------------------------------------------


def pack(interval: Interval, stamp: int, kind: int) -> bytes | None:
    """Return the payload of a frame with this stamp and kind. The columns must fit together and be in order.

    Return None for intervals that `Head` would refuse: times beyond i64, and unpacked data above
    `limits.HISTORY_UNPACKED_BYTES` that is also too many times larger than the payload.
    """
    if interval.start_ns not in _I64 or interval.end_ns not in _I64:
        return None
    rows, cells, begins = _small(interval.series)
    groups, entries = _groups(np.frombuffer(interval.series.index, U32), rows, cells, begins)
    values = [
        _apart_values(columns, what) for columns, what in ((interval.counters, COUNTERS), (interval.gauges, GAUGES))
    ]
    pieces = [deflated([(columns, slice(None))]) for columns in values]
    counters, gauges = (len(columns.index) // U32.itemsize for columns in (interval.counters, interval.gauges))
    sizes = (len(groups), counters, len(pieces[0]), gauges, len(pieces[1]))
    masks = b"".join(columns.masks for columns in (rows, cells, *values))
    head = _OPENING.pack(interval.start_ns, interval.end_ns, *sizes, masks) + b"".join(entries)
    body = b"".join((*groups, *pieces))
    length = len(head) + _CRC.size + len(body)
    if length >= U32_END or unpacked_bytes(interval) > _most(length):
        return None
    return head + _CRC.pack(_crc(head, length, stamp, kind)) + body


def _small(series: SeriesColumns) -> tuple[SplitColumns, SplitColumns, _Array]:
    """Return the columns of rows, the columns of cells, and the offset of each row's first cell; last, their end.

    Small numbers are stored. For an index: the number of indices skipped before it. For a count: its difference
    from the sum of its cells. For a slot: its distance from the previous slot of the row. For the count of a cell:
    its excess over 1. If a row has a single value, that is minimum, maximum and total at once: maximum and total
    are then stored as the bits in which they differ from the minimum. All arithmetic is modulo 2**32 or 2**64.
    """
    index, occupied, slots, counts = (
        np.frombuffer(data, U32) for data in (series.index, series.occupied, series.slots, series.counts)
    )
    count, total, least, most = (
        np.frombuffer(data, U64) for data in (series.count, series.total, series.min, series.max)
    )
    begins = np.append(0, np.cumsum(occupied, dtype=np.int64))
    steps = slots.copy()
    steps[1:] -= slots[:-1]
    firsts = begins[:-1][occupied > 0]
    steps[firsts] = slots[firsts]
    base = np.where(count == 1, least, _ZERO)
    rows = (_passed(index), count - _sums(counts, begins), occupied, total ^ base, least, most ^ base)
    return apart(rows, ROWS), apart((steps, counts - np.uint32(1)), CELLS), begins


def _passed(index: _Array) -> _Array:
    """Return the number of skipped indices before each index."""
    passed = index.copy()
    passed[1:] -= index[:-1]
    passed[1:] -= np.uint32(1)
    return passed


def _sums(cells: _Array, begins: _Array) -> _Array:
    """Return the sum of the cells of each row; 0 for rows without cells. Every cell belongs to a row."""
    sums = np.zeros(begins.size - 1, np.uint64)
    filled = np.flatnonzero(begins[1:] != begins[:-1])
    if filled.size:  # an empty row would take the first cell of the next row
        sums[filled] = np.add.reduceat(cells, begins[filled], dtype=np.uint64)
    return sums


def _apart_values(columns: ValueColumns, what: ColumnLayout) -> SplitColumns:
    return apart((_passed(np.frombuffer(columns.index, U32)), np.frombuffer(columns.value, U64)), what)


def _groups(
    index: _Array, rows: SplitColumns, cells: SplitColumns, begins: _Array
) -> tuple[list[bytes], list[bytes]]:
    """Return groups of about `_GROUP_BYTES` of planes, and their entries in the directory."""
    costs = begins[1:] * len(cells.planes) + np.arange(1, index.size + 1) * max(len(rows.planes), 1)
    cuts = np.flatnonzero(np.diff((costs - 1) // _GROUP_BYTES, prepend=-1)).tolist()
    groups, entries = [], []
    for first, end in zip(cuts, [*cuts[1:], index.size], strict=False):
        begin, last = int(begins[first]), int(begins[end])
        group = deflated([(rows, slice(first, end)), (cells, slice(begin, last))])
        groups.append(group)
        entries.append(_ENTRY.pack(index[first], end - first, last - begin, len(group), zlib.crc32(group)))
    return groups, entries


# --- unpack --------------------------------------------------------------------------------------


class Head(NamedTuple):
    """The head before the groups. Its sizes are checked against the bounds."""

    start_ns: int
    end_ns: int
    masks: bytes
    directory: NDArray[np.uint32]
    """Table with a row for each group: first index, rows, cells, bytes, CRC."""
    body: int
    """Offset of the first group in the payload."""
    values: tuple[int, int, int, int]
    """Rows and bytes of the counters, then of the gauges."""

    @staticmethod
    def size(opening: Buffer) -> int:
        """Return the size of the head, from its first `OPENING_BYTES`."""
        groups: int = _OPENING.unpack_from(opening)[2]
        return OPENING_BYTES + _ENTRY.size * groups + _CRC.size

    @staticmethod
    def of(data: Buffer, length: int) -> Head:
        """Read the head from `data`, the beginning of a payload of `length` bytes.

        Raises Malformed, also if `data` is too short.
        """
        if len(data) < OPENING_BYTES or len(data) < (body := Head.size(data)):
            raise damaged("it is cut short")
        start_ns, end_ns, groups, counters, counter_bytes, gauges, gauge_bytes, masks = _OPENING.unpack_from(data)
        directory = np.frombuffer(data, U32, 5 * groups, OPENING_BYTES).reshape(groups, 5)
        rows, cells, held = directory[:, 1:4].sum(axis=0, dtype=np.int64).tolist()
        if body + held + counter_bytes + gauge_bytes != length or not directory[:, 1].all():
            raise damaged("its parts don't make it up")
        if _unpacked(rows, cells, counters + gauges) > _most(length):
            raise damaged("it comes to too much")
        return Head(start_ns, end_ns, masks, directory, body, (counters, counter_bytes, gauges, gauge_bytes))

    def groups(self) -> Iterator[PackedGroup]:
        begins = accumulate(self.directory[:, 3].tolist(), initial=self.body)
        for (first, rows, cells, size, crc), begin in zip(self.directory.tolist(), begins, strict=False):
            yield PackedGroup(first, rows, cells, size, crc, begin)

    def group_of(self, index: int) -> PackedGroup | None:
        """Return the group that holds the series, or None."""
        at = int(np.searchsorted(self.directory[:, 0], index, "right")) - 1
        if at < 0:
            return None
        first, rows, cells, size, crc = self.directory[at].tolist()
        return PackedGroup(
            first, rows, cells, size, crc, self.body + int(self.directory[:at, 3].sum(dtype=np.int64))
        )


def intact(head: Buffer, length: int, stamp: int, kind: int) -> bool:
    """Return whether the head of a payload (its first `Head.size` bytes) is unchanged since it was written."""
    end = len(head) - _CRC.size
    (crc,) = _CRC.unpack_from(head, end)
    return bool(crc == _crc(memoryview(head)[:end], length, stamp, kind))


def unpack(data: Buffer, stamp: int, kind: int) -> Interval:
    """Return the interval with columns that fit together and are in order. Raises Malformed for any other data."""
    view = memoryview(data)
    head = Head.of(view, len(view))
    if not intact(view[: head.body], len(view), stamp, kind):
        raise damaged("its head is not what was written")
    all_rows, all_cells = head.directory[:, 1:3].sum(axis=0, dtype=np.int64).tolist()
    rows, cells = Joined(ROWS, head.masks, all_rows), Joined(CELLS, head.masks, all_cells)
    row = cell = 0
    for group in head.groups():
        piece = _checked(group, view[group.begin : group.begin + group.bytes])
        of_rows, of_cells = inflated(piece, [(rows.places, group.rows), (cells.places, group.cells)])
        rows.put(of_rows, row)
        cells.put(of_cells, cell)
        row, cell = row + group.rows, cell + group.cells
    counters, counter_bytes, gauges, gauge_bytes = head.values
    end = len(view) - gauge_bytes
    return Interval(
        head.start_ns,
        head.end_ns,
        _series(head.directory, rows, cells),
        _value_columns(Joined(COUNTERS, head.masks, counters), view[end - counter_bytes : end]),
        _value_columns(Joined(GAUGES, head.masks, gauges), view[end:]),
    )


def pick(head: Head, group: PackedGroup, data: bytes, index: int) -> PackedRow | None:
    """Return one series of a group from the group's bytes; None if the group does not hold it. Raises Malformed."""
    rows, cells = places_of(ROWS, head.masks), places_of(CELLS, head.masks)
    of_rows, of_cells = inflated(_checked(group, data), [(rows, group.rows), (cells, group.cells)])
    ahead = _indices(one_column(ROWS, rows, of_rows, _INDEX)[1:]) + np.uint64(1)
    row = int(np.searchsorted(ahead, index - group.first)) + 1 if index > group.first else 0
    if index < group.first or row == group.rows or (row and ahead[row - 1] != index - group.first):
        return None
    occupied = one_column(ROWS, rows, of_rows, _OCCUPIED)
    begin = int(occupied[:row].sum(dtype=np.int64))
    end = begin + int(occupied[row])
    if end > group.cells:
        raise damaged("a row has more cells than there are")
    own = of_cells[:, begin:end]
    slots = np.cumsum(one_column(CELLS, cells, own, _SLOTS), dtype=np.uint64)
    if slots.size and slots[-1] >= U32_END:
        raise damaged("its columns are not in order")
    counts = one_column(CELLS, cells, own, _COUNTS) + np.uint32(1)
    _, more, _, total, least, most = one_row(ROWS, rows, of_rows, row)
    values = (more + int(counts.sum(dtype=np.uint64))) % (1 << 64)
    base = least if values == 1 else 0
    exact, lowest, highest = _FLOATS.unpack(_BITS.pack(total ^ base, least, most ^ base))
    return PackedRow(values, exact, lowest, highest, slots.astype(U32), counts)


def _checked(group: PackedGroup, data: Buffer) -> Buffer:
    if zlib.crc32(data) != group.crc:
        raise damaged("a group is not what was written")
    return data


def _series(directory: _Array, rows: Joined, cells: Joined) -> SeriesColumns:
    passed, more, occupied, total, least, most = rows.columns()
    steps, counts = cells.columns()
    begins = np.append(0, np.cumsum(occupied, dtype=np.int64))
    firsts = np.append(0, np.cumsum(directory[:, 1], dtype=np.int64))
    index = _indices(passed)
    if (np.diff(begins[firsts]) != directory[:, 2]).any() or (index[firsts[:-1]] != directory[:, 0]).any():
        raise damaged("its groups are not what the directory says")
    ends = _sums(steps, begins)
    if max(int(index.max(initial=0)), int(ends.max(initial=0))) >= U32_END:
        raise damaged("its columns are not in order")
    # Each row begins at 0 again: its first step subtracts the end of the previous row, modulo 2**32.
    filled = np.flatnonzero(occupied)
    steps[begins[filled[1:]]] -= ends[filled[:-1]].astype(U32)
    slots = np.cumsum(steps, dtype=U32)
    counts += np.uint32(1)
    count = more + _sums(counts, begins)
    base = np.where(count == 1, least, _ZERO)
    columns = (index.astype(U32), count, total ^ base, least, most ^ base, occupied, slots, counts)
    return SeriesColumns(*(column.tobytes() for column in columns))


def _indices(passed: _Array) -> _Array:
    """Return the indices as u64, wider than on disk, so that an overflow is visible."""
    indices: _Array = np.cumsum(passed, dtype=np.uint64) + np.arange(passed.size, dtype=np.uint64)
    return indices


def _value_columns(columns: Joined, data: Buffer) -> ValueColumns:
    (planes,) = inflated(data, [(columns.places, columns.size)])
    columns.put(planes)
    passed, value = columns.columns()
    return ValueColumns(_indices(passed).astype(U32).tobytes(), value.tobytes())
