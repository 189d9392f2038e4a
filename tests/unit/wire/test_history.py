"""History intervals: columns as bytes."""

from __future__ import annotations

import msgspec

from telemetry.wire import codec
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns


def test_an_interval_without_values_is_small() -> None:
    """A quiet second costs a few bytes."""
    quiet = codec.encode_interval(Interval(1 << 60, (1 << 60) + 1))
    assert len(quiet) < 64
    assert codec.decode_interval(quiet) == Interval(1 << 60, (1 << 60) + 1)


def test_columns_that_came_later_are_ignored() -> None:
    """A reader of 1.0 skips trailing columns of a later minor version."""
    series = [b"i", b"c", b"t", b"a", b"b", b"o", b"s", b"n", b"later"]
    data = msgspec.msgpack.encode([1, 2, series, [b"i", b"v"], [b"i", b"v"], "later"])
    read = codec.decode_interval(data)
    assert read.series == SeriesColumns(b"i", b"c", b"t", b"a", b"b", b"o", b"s", b"n")
    assert read.gauges == ValueColumns(b"i", b"v")
