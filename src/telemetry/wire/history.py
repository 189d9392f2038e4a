"""One interval of history: what happened between two moments, in columns.

Columns are little-endian arrays as bytes, so that neither side needs more than a copy to read them.
"""

from __future__ import annotations

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
    """`[start_ns, end_ns)` on the aggregator's wall clock."""

    start_ns: int
    end_ns: int
    series: SeriesColumns = SeriesColumns()
    counters: ValueColumns = ValueColumns()
    gauges: ValueColumns = ValueColumns()
