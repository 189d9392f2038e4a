"""Search of a root for exact values in the journals of its nodes.

The root pushes `search` to each leaf: the ranges of values that hold wanted percentiles. A leaf streams its journal
past them and sends `found`: the values of small ranges, and finer counts of large ones. Both may take several
messages. Columns are little-endian arrays as bytes. A value is described by its ordinal, which is its 64 bits read
as an integer: values >= 0 and their ordinals have the same order.
"""

from __future__ import annotations

from typing import Annotated, Final

from msgspec import Meta, Struct

from telemetry import limits
from telemetry.wire.events import Natural, ProducerId, Text

DISAGREES: Final = 1
"""Reason of a leaf: its journal and its histogram have different numbers of values."""
OTHER_LAYOUT: Final = 2
"""Reason of a leaf: its series has other digits, ticks or another upper bound than that of the root."""


class _Message(Struct, kw_only=True, frozen=True, tag_field="type"):
    id: int = 0


class SearchedSeries(Struct, array_like=True, frozen=True):
    """Series of a leaf, and the layout of the root's histogram."""

    id: bytes = b""  # u32: id of the leaf's definition
    digits: bytes = b""  # u8
    ticks: bytes = b""  # f64: number of ticks in one unit
    highest: bytes = b""  # f64: last tick of the range


class SearchedRanges(Struct, array_like=True, frozen=True):
    """Ranges of values. Each lies in one slot of a histogram.

    The ranges of all messages of a search are numbered from 0.
    """

    series: bytes = b""  # u32: position in the series of the same message
    slot: bytes = b""  # u32
    first: bytes = b""  # i64: ordinal of the smallest value
    last: bytes = b""  # i64: ordinal of the largest value
    count: bytes = b""  # u64: number of values of all nodes together
    whole: bytes = b""  # u8: 1 for all values of the slot, whatever `first` and `last` are
    kept: bytes = b""  # u8: 1 if the values are wanted, 0 if counts are


class Search(_Message, tag="search", kw_only=True, frozen=True):
    """A push of the root to a leaf: ranges of values that hold wanted percentiles."""

    number: Natural
    """Number of the search. A new number replaces the search before."""
    part: Annotated[int, Meta(ge=0, lt=limits.SEARCH_PARTS)] = 0
    last: bool = True
    bins: Annotated[int, Meta(ge=1, le=limits.SEARCH_BINS)] = 1
    """Number of bins into which a range is divided if its values are not kept."""
    series: SearchedSeries = SearchedSeries()
    ranges: SearchedRanges = SearchedRanges()


class FoundValues(Struct, array_like=True, frozen=True):
    """Values of ranges that are kept."""

    range: bytes = b""  # u32: number of the range
    count: bytes = b""  # u32: how many of the values that follow are in it
    values: bytes = b""  # f64


class FoundBins(Struct, array_like=True, frozen=True):
    """Occupied bins of ranges that are counted."""

    range: bytes = b""  # u32: number of the range
    bin: bytes = b""  # u32
    count: bytes = b""  # u64
    low: bytes = b""  # i64: ordinal of the smallest value in the bin
    high: bytes = b""  # i64: ordinal of the largest value in the bin


class UnfitRanges(Struct, array_like=True, frozen=True):
    """Ranges for which the leaf can't give the right values."""

    range: bytes = b""  # u32
    why: bytes = b""  # u8: DISAGREES or OTHER_LAYOUT


class Found(_Message, tag="found", kw_only=True, frozen=True):
    """A part of a leaf's answer to `search`. The next part follows once this one is answered with `noted`.

    Part 0 is empty: the leaf has the whole search. It is repeated while the leaf works.
    """

    producer: ProducerId
    number: Natural
    part: Natural = 0
    last: bool = False
    reason: Text = ""
    """Reason why the leaf can't answer; empty if it can."""
    values: FoundValues = FoundValues()
    bins: FoundBins = FoundBins()
    unfit: UnfitRanges = UnfitRanges()
