"""History intervals: columns as bytes."""

from __future__ import annotations

from struct import pack

import msgspec
import pytest

from telemetry.wire import codec
from telemetry.wire.drop_reasons import Reason
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns

SERIES = [
    *(pack("<I", 3), pack("<Q", 2), pack("<d", 4.0), pack("<d", 1.5), pack("<d", 2.5), pack("<I", 2)),
    *(pack("<2I", 7, 9), pack("<2I", 1, 1)),
]
VALUES = [pack("<I", 3), pack("<d", 4.0)]


def test_an_interval_without_values_is_small() -> None:
    """A quiet second costs a few bytes."""
    quiet = codec.encode_interval(Interval(1 << 60, (1 << 60) + 1))
    assert len(quiet) < 64
    assert codec.decode_interval(quiet) == Interval(1 << 60, (1 << 60) + 1)


def test_columns_that_came_later_are_ignored() -> None:
    """A reader of 1.0 skips trailing columns of a later minor version."""
    data = msgspec.msgpack.encode([1, 2, [*SERIES, b"later"], VALUES, VALUES, "later"])
    read = codec.decode_interval(data)
    assert read.series == SeriesColumns(*SERIES)
    assert read.gauges == ValueColumns(*VALUES)


@pytest.mark.parametrize("column", range(len(SERIES)))
@pytest.mark.parametrize("change", [b"", pack("<2Q", 0xFFFFFFFF, 0), b"123"], ids=["empty", "long", "torn"])
def test_columns_that_do_not_fit_together_are_refused(column: int, change: bytes) -> None:
    """A lying count of slots could ask its reader for 32 GiB."""
    series = [*SERIES[:column], change, *SERIES[column + 1 :]]
    refused(msgspec.msgpack.encode([1, 2, series, VALUES, VALUES]))


@pytest.mark.parametrize("values", [[VALUES[0], b""], [b"", VALUES[1]], [b"1", b"12"], [b"12345", VALUES[1]]])
def test_values_without_an_index_are_refused(values: list[bytes]) -> None:
    """Counters and gauges alike."""
    refused(msgspec.msgpack.encode([1, 2, SERIES, values, VALUES]))
    refused(msgspec.msgpack.encode([1, 2, SERIES, VALUES, values]))


def test_a_lying_number_of_slots_is_refused() -> None:
    """All columns have the right length, but the series together claim more slots than there are."""
    refused(msgspec.msgpack.encode([1, 2, [*SERIES[:5], pack("<I", 0xFFFFFFFF), *SERIES[6:]], VALUES, VALUES]))


def refused(data: bytes) -> None:
    with pytest.raises(codec.Malformed) as caught:
        codec.decode_interval(data)
    assert caught.value.reason == Reason.FRAME_UNREADABLE
