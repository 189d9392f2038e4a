"""Columns of an interval of a leaf as arrays and back, with checks before anything is added."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from telemetry.wire.nodes import CounterSums, ExtentSums, GaugeSums, SeriesSums

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_Sums = SeriesSums | CounterSums | GaugeSums | ExtentSums
Lines = NDArray[np.intp] | NDArray[np.bool_] | slice

_SERIES: Final = (
    *("<u4", "<i8", "<f8", "<f8", "<f8", "<f8", "<f8", "<f8", "u1"),
    *("<i8", "<i8", "<i8", "<u4", "<u4", "<u4", "<i8", "<i8"),
)
_COUNTERS: Final = ("<u4", "<i8", "<i8", "<f8", "<f8", "u1", "<i8", "<i8", "<i8")
_GAUGES: Final = ("<u4", "<i8", "<f8", "<i8", "<f8", "<f8", "<i8")
_EXTENTS: Final = ("<u4", "<i8", "<i8", "<i8", "<i8", "<i8", "<f8")
"""Types of the columns, in order. Unsigned numbers of 64 bits are read as signed ones."""
_LARGEST_COUNT: Final = (1 << 32) - 1
_SLOT_COLUMNS: Final = (13, 14)
"""Numbers of the columns of series that have a value for each slot."""
_TIMES: Final = 2
"""Number of the last columns, which leaves of older versions do not send."""


class _Arrays:
    """Columns of one kind of instrument."""

    __slots__: tuple[str, ...] = ()

    @classmethod
    def of(cls, columns: Iterable[NDArray[Any]]) -> Self:
        """Return an object with these columns, in order."""
        return cls(*columns)

    def columns(self) -> list[NDArray[Any]]:
        """Return all columns, in order."""
        return [getattr(self, name) for name in self.__slots__]

    def with_ids(self, ids: Integers) -> Self:
        """Return the same lines with other ids."""
        return self.of([ids, *self.columns()[1:]])

    def take(self, lines: Lines) -> Self:
        """Return some lines."""
        return self.of(column[lines] for column in self.columns())


@dataclass(frozen=True, slots=True)
class SeriesArrays(_Arrays):
    """Columns of SeriesSums, one line for each series."""

    id: Integers
    """Id of the leaf, or index of the series."""
    count: Integers
    total: Floats
    rest: Floats
    mean: Floats
    squares: Floats
    min: Floats
    max: Floats
    integral: NDArray[np.bool_]
    imprecise: Integers
    below: Integers
    above: Integers
    occupied: Integers
    slots: NDArray[np.uint32]
    counts: NDArray[np.uint32]
    first_ns: Integers
    last_ns: Integers

    def take(self, lines: Lines) -> Self:
        """Return some lines with their slots, in the order in which they are."""
        chosen = np.zeros(self.id.size, np.bool_)
        chosen[lines] = True
        slots = np.repeat(chosen, self.occupied)
        return self.of(
            column[slots if number in _SLOT_COLUMNS else chosen] for number, column in enumerate(self.columns())
        )


@dataclass(frozen=True, slots=True)
class CounterArrays(_Arrays):
    """Columns of CounterSums."""

    id: Integers
    events: Integers
    whole: Integers
    huge: Floats
    fraction: Floats
    fractional: NDArray[np.bool_]
    imprecise: Integers
    first_ns: Integers
    last_ns: Integers

    def integers(self) -> list[int]:
        """Return the exact sum of the integers of each line."""
        pairs = zip(self.whole.tolist(), self.huge.tolist(), strict=True)
        return [whole + (int(huge) if huge else 0) for whole, huge in pairs]


@dataclass(frozen=True, slots=True)
class GaugeArrays(_Arrays):
    """Columns of GaugeSums."""

    id: Integers
    events: Integers
    value: Floats
    time_ns: Integers
    min: Floats
    max: Floats
    imprecise: Integers


@dataclass(frozen=True, slots=True)
class ExtentArrays(_Arrays):
    """Columns of ExtentSums."""

    id: Integers
    first_ns: Integers
    last_ns: Integers
    last_done_ns: Integers
    end_ns: Integers
    inside: Integers
    inside_total: Floats


def read_series(*parts: SeriesSums) -> SeriesArrays:
    """Return the columns of series. Lines of several intervals follow each other."""
    columns = _read(parts, _SERIES, _SLOT_COLUMNS, timed=True)
    series = SeriesArrays.of(
        [*columns[:8], _flags(columns[8]), *columns[9:12], columns[12].astype(np.int64), *columns[13:]]
    )
    slots_before = np.cumsum([0, *(len(part.slots) // 4 for part in parts)])
    occupied_before = np.append(0, np.cumsum(series.occupied))[np.cumsum([0, *map(lines_of, parts)])]
    if len(series.slots) != len(series.counts) or (occupied_before != slots_before).any():
        raise ValueError("columns of different lengths")
    return series


def read_counters(*parts: CounterSums) -> CounterArrays:
    """Return the columns of counters, as of series."""
    columns = _read(parts, _COUNTERS, timed=True)
    return CounterArrays.of([*columns[:5], _flags(columns[5]), *columns[6:]])


def read_gauges(*parts: GaugeSums) -> GaugeArrays:
    """Return the columns of gauges, as of series."""
    return GaugeArrays.of(_read(parts, _GAUGES))


def read_extents(*parts: ExtentSums) -> ExtentArrays:
    """Return the columns of extents, as of series."""
    return ExtentArrays.of(_read(parts, _EXTENTS))


def lines_of(sums: _Sums) -> int:
    """Return the number of lines of an interval."""
    return len(sums.id) // 4


def write_series(arrays: SeriesArrays) -> SeriesSums:
    """Return the columns as bytes."""
    return SeriesSums(*_write(arrays, _SERIES))


def write_counters(arrays: CounterArrays) -> CounterSums:
    """Return the columns as bytes."""
    return CounterSums(*_write(arrays, _COUNTERS))


def write_gauges(arrays: GaugeArrays) -> GaugeSums:
    """Return the columns as bytes."""
    return GaugeSums(*_write(arrays, _GAUGES))


def write_extents(arrays: ExtentArrays) -> ExtentSums:
    """Return the columns as bytes."""
    return ExtentSums(*_write(arrays, _EXTENTS))


def _read(
    parts: Sequence[_Sums], forms: Sequence[str], of_slots: Sequence[int] = (), *, timed: bool = False
) -> list[NDArray[Any]]:
    """Return the columns of several intervals. `timed`: the last two may be missing, and are 0 then.

    Raises ValueError if the columns of an interval differ in length, apart from those `of_slots`.
    """
    widths = [np.dtype(form).itemsize for form in forms]
    rows = [_checked(part, widths, of_slots, timed=timed) for part in parts]
    columns: list[NDArray[Any]] = [
        np.frombuffer(b"".join(pieces), form) for pieces, form in zip(zip(*rows, strict=True), forms, strict=True)
    ]
    columns[0] = columns[0].astype(np.int64)  # ids
    return columns


def _checked(part: _Sums, widths: Sequence[int], of_slots: Sequence[int], *, timed: bool) -> tuple[bytes, ...]:
    columns = astuple(part)
    lines = lines_of(part)
    if timed and lines and not columns[-1] and not columns[-2]:
        columns = (*columns[:-_TIMES], *(bytes(8 * lines) for _ in range(_TIMES)))
    for number, (column, width) in enumerate(zip(columns, widths, strict=True)):
        if len(column) != lines * width and number not in of_slots:
            raise ValueError("columns of different lengths")
    return columns


def _write(arrays: _Arrays, forms: Sequence[str]) -> list[bytes]:
    return [column.astype(form, copy=False).tobytes() for column, form in zip(arrays.columns(), forms, strict=True)]


def _flags(column: NDArray[Any]) -> NDArray[np.bool_]:
    if column.size and column.max() > 1:
        raise ValueError("a flag that is neither 0 nor 1")
    return column.view(np.bool_)


def divide_counts(
    slots: NDArray[np.uint32], counts: NDArray[Any]
) -> tuple[Integers, NDArray[np.uint32], NDArray[np.uint32]]:
    """Repeat slots whose count does not fit into 32 bits.

    Return how often each appears, the slots, and their counts.
    """
    wide = counts.astype(np.int64)
    pieces = np.maximum(-(-wide // _LARGEST_COUNT), 1)
    divided = np.full(int(pieces.sum()), _LARGEST_COUNT, np.int64)
    divided[np.cumsum(pieces) - 1] = wide - (pieces - 1) * _LARGEST_COUNT
    return pieces, np.repeat(slots, pieces), divided.astype(np.uint32)


_MOST: Final = 1 << 53
"""Bound of the number of events of one kind in one interval."""
_LARGEST_FRACTION: Final = 2.0**53
"""Bound of an increment that is no integer."""
_ROUNDING: Final = 1e-7
"""Bound of the relative rounding error of a sum."""


def check_series(sums: SeriesArrays, owner: Integers) -> None:
    """Check that numbers are possible and agree with each other. Slots are checked only for their order here.

    `owner` is the number of the interval of each line.
    """
    if not sums.id.size:
        return
    _check_counts(sums.id, owner, sums.count, 1)
    if (sums.imprecise | sums.below | sums.above).any():
        for part in (sums.imprecise, sums.below, sums.above):
            _require((part >= 0) & (part <= sums.count))
    # total and squares are infinite after an overflow, but no NaN
    ordered = (sums.min >= 0.0) & (sums.min <= sums.mean) & (sums.mean <= sums.max) & (sums.max < np.inf)
    _require(ordered & (sums.squares >= 0.0) & np.isfinite(sums.rest) & (sums.occupied > 0))
    least, most, widest = bounds_of_sums(sums.count, sums.min, sums.max, _ROUNDING)
    _require((least <= sums.total) & (sums.total <= most) & (sums.squares <= widest))
    if not sums.counts.item(sums.counts.argmin()):
        raise ValueError("a slot without a count")
    starts = np.cumsum(sums.occupied)
    starts -= sums.occupied
    _require(np.add.reduceat(sums.counts, starts, dtype=np.int64) == sums.count)
    ascends = sums.slots[1:] >= sums.slots[:-1]  # equal ones share a count of more than 32 bits
    ascends[starts[1:] - 1] = True
    _require(ascends)
    _check_times(sums)


def bounds_of_sums(
    count: Integers, least: Floats, most: Floats, rounding: float = 0.0
) -> tuple[Floats, Floats, Floats]:
    """Return the smallest and the largest total of values between two extremes, and their most squared deviations.

    `rounding` widens all of them by this share.
    """
    with np.errstate(over="ignore"):
        widest = count * (most - least + rounding * most) ** 2
        return (1.0 - rounding) * count * least, (1.0 + rounding) * count * most, widest


def last_slots_of(sums: SeriesArrays) -> NDArray[np.uint32]:
    """Return the last slot of each line."""
    return sums.slots[np.cumsum(sums.occupied) - 1]


def first_slots_of(sums: SeriesArrays) -> NDArray[np.uint32]:
    """Return the first slot of each line."""
    first: NDArray[np.uint32] = sums.slots[np.cumsum(sums.occupied) - sums.occupied]
    return first


def check_counters(sums: CounterArrays, owner: Integers) -> None:
    """Check that numbers are possible."""
    _check_counts(sums.id, owner, sums.events, 1)
    possible = (sums.imprecise >= 0) & (sums.imprecise <= sums.events) & (sums.whole >= 0)
    _require(possible & (sums.fraction >= 0.0) & (sums.fraction <= sums.events * _LARGEST_FRACTION))
    if sums.huge.any():
        _require((sums.huge >= 0.0) & (sums.huge < np.inf) & (np.floor(sums.huge) == sums.huge))
    _check_times(sums)


def _check_times(sums: SeriesArrays | CounterArrays) -> None:
    _require((sums.first_ns >= 0) & (sums.first_ns <= sums.last_ns))


def check_gauges(sums: GaugeArrays, owner: Integers) -> None:
    """Check that numbers are possible."""
    _check_counts(sums.id, owner, sums.events, 1)
    _require((sums.imprecise >= 0) & (sums.imprecise <= sums.events) & (sums.time_ns >= 0))
    _require((sums.min > -np.inf) & (sums.min <= sums.value) & (sums.value <= sums.max) & (sums.max < np.inf))


def check_extents(sums: ExtentArrays, owner: Integers) -> None:
    """Check that numbers are possible, and that times are in order."""
    _check_counts(sums.id, owner, sums.inside, 0)
    _require((sums.inside_total >= 0.0) & (sums.inside_total < np.inf))
    _require((sums.first_ns >= 0) & (sums.first_ns <= sums.last_ns))
    _require((sums.last_ns <= sums.last_done_ns) & (sums.last_done_ns <= sums.end_ns))


def _check_counts(ids: Integers, owner: Integers, counts: Integers, least: int) -> None:
    """Check that ids ascend in each interval, and the range of counts and of their sum."""
    order = (owner << 32) + ids
    _require(order[1:] > order[:-1])
    _require((counts >= least) & (counts <= _MOST))
    if counts.sum(dtype=np.float64) > _MOST:  # a sum of integers could overflow
        raise ValueError("more events than one interval can have")


def _require(condition: NDArray[np.bool_]) -> None:
    if not condition.all():
        raise ValueError("impossible columns")
