"""An interval of history: the events between two moments, in columns.

Columns are little-endian arrays as bytes, so both sides can read them with a single copy.
"""

from __future__ import annotations

from struct import Struct as Layout
from typing import Final, NamedTuple

from msgspec import Struct


class SeriesColumns(Struct, array_like=True, frozen=True):
    """Series with at least one value in the interval, by ascending index."""

    index: bytes = b""  # u32
    count: bytes = b""  # u64
    total: bytes = b""  # f64
    min: bytes = b""  # f64
    max: bytes = b""  # f64
    occupied: bytes = b""  # u32: histogram slots of each series that follow
    slots: bytes = b""  # u32: HDR slots, ascending within a series
    counts: bytes = b""  # u32: their counts


class ValueColumns(Struct, array_like=True, frozen=True):
    """Counters (increase during the interval) or gauges (value at its end), by ascending index."""

    index: bytes = b""  # u32
    value: bytes = b""  # f64


class Interval(Struct, array_like=True, frozen=True):
    """The time range `[start_ns, end_ns)` on the aggregator's wall clock, with its values."""

    start_ns: int
    end_ns: int
    series: SeriesColumns = SeriesColumns()
    counters: ValueColumns = ValueColumns()
    gauges: ValueColumns = ValueColumns()


class Slice(NamedTuple):
    """A part of an interval of the history, about a tenth of a second long."""

    roll: int
    """Number of the interval."""
    place: int
    """Number of slices before it in the interval."""
    interval: Interval


_U32: Final = 4
_WIDE: Final = 8  # u64 and f64


def fits_together(interval: Interval) -> bool:
    """Return whether the length of each column agrees with the others.

    Readers then never allocate more memory than the columns take.
    """
    series = interval.series
    count = len(series.index) // _U32
    wide = (series.count, series.total, series.min, series.max)
    lengths = len(series.index) == len(series.occupied) == _U32 * count
    if not lengths or any(len(column) != _WIDE * count for column in wide):
        return False
    slots = sum(Layout(f"<{count}I").unpack(series.occupied))
    if not len(series.slots) == len(series.counts) == _U32 * slots:
        return False
    return all(
        len(values.index) * 2 == len(values.value) and not len(values.index) % _U32
        for values in (interval.counters, interval.gauges)
    )
