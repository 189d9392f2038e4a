"""Indices of one history become those of all."""

from __future__ import annotations

import numpy as np
import pytest

from telemetry.errors import RunDirectoryError, UsageError
from telemetry.judge.merge.history import Instruments
from telemetry.statistics.hdr.layout import Layout
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, SeriesColumns, ValueColumns


def key(index: int, name: str, kind: str = "series", **facts: object) -> SeriesKey:
    return SeriesKey(index=index, name=name, kind=kind, **facts)  # type: ignore[arg-type]


def columns(kind: str, *numbers: float) -> bytes:
    return np.array(numbers, kind).tobytes()


INTERVAL = Interval(
    1,
    2,
    SeriesColumns(
        index=columns("<u4", 0, 2),
        count=columns("<u8", 3, 1),
        total=columns("<f8", 30.0, 5.0),
        min=columns("<f8", 1.0, 5.0),
        max=columns("<f8", 20.0, 5.0),
        occupied=columns("<u4", 2, 1),
        slots=columns("<u4", 1, 20, 5),
        counts=columns("<u4", 1, 2, 1),
    ),
    ValueColumns(columns("<u4", 0, 1), columns("<f8", 7.0, 8.0)),
    ValueColumns(columns("<u4", 0), columns("<f8", 9.0)),
)
KEYS = [key(0, "a"), key(2, "b"), key(0, "n", "counter"), key(1, "m", "counter"), key(0, "g", "gauge")]


def numbers(data: bytes, kind: str) -> list[float]:
    return np.frombuffer(data, kind).tolist()  # type: ignore[no-any-return]


def test_rows_move_with_their_slots() -> None:
    """Rows and slots get the indices of the merged run, in ascending order.

    Another run may have the same instruments in another order.
    """
    others = [key(0, "b"), key(1, "c"), key(2, "a"), key(5, "m", "counter"), key(7, "g", "gauge")]
    instruments = Instruments([("x", others), ("y", KEYS)])
    found = instruments.translation(KEYS).interval(INTERVAL)
    assert [(one.kind, one.index, one.name) for one in instruments.keys] == [
        *[("series", 0, "b"), ("series", 1, "c"), ("series", 2, "a"), ("counter", 0, "m"), ("gauge", 0, "g")],
        ("counter", 1, "n"),
    ]
    assert numbers(found.series.index, "<u4") == [0, 2]
    assert numbers(found.series.count, "<u8") == [1, 3]
    assert numbers(found.series.total, "<f8") == [5.0, 30.0]
    assert (numbers(found.series.min, "<f8"), numbers(found.series.max, "<f8")) == ([5.0, 1.0], [5.0, 20.0])
    assert numbers(found.series.occupied, "<u4") == [1, 2]
    assert (numbers(found.series.slots, "<u4"), numbers(found.series.counts, "<u4")) == ([5, 1, 20], [1, 1, 2])
    assert (numbers(found.counters.index, "<u4"), numbers(found.counters.value, "<f8")) == ([0, 1], [8.0, 7.0])
    assert (found.start_ns, found.end_ns, found.gauges) == (1, 2, INTERVAL.gauges)


def test_labels_tell_instruments_apart() -> None:
    """Labels tell instruments apart, whatever the order of their keys."""
    one, two = key(0, "a", labels={"x": "1", "y": "2"}), key(0, "a", labels={"y": "2", "x": "1"})
    assert len(Instruments([("x", [one]), ("y", [two])]).keys) == 1
    assert len(Instruments([("x", [one]), ("y", [key(0, "a", labels={"x": "1"})])]).keys) == 2


@pytest.mark.parametrize(("fine", "coarse"), [(3, 1), (5, 4), (3, 2), (5, 1)])
def test_finer_slots_lie_within_coarser_ones(fine: int, coarse: int) -> None:
    """The fewest digits count; each value is then where it would have been counted with so many."""
    ticks = np.unique(np.geomspace(1, 2**52, 500).astype(np.int64))
    slots = Layout.of(fine).slot_of(ticks)
    size = slots.size
    interval = Interval(
        1,
        2,
        SeriesColumns(
            *(columns("<u4", 0), columns("<u8", size), *[columns("<f8", 1.0)] * 3, columns("<u4", size)),
            *(slots.astype("<u4").tobytes(), columns("<u4", *[1] * size)),
        ),
    )
    own = [key(0, "a", digits=fine)]
    instruments = Instruments([("x", own), ("y", [key(0, "a", digits=coarse)])])
    assert [one.digits for one in instruments.keys] == [coarse]
    found = instruments.translation(own).interval(interval)
    assert numbers(found.series.slots, "<u4") == Layout.of(coarse).slot_of(ticks).tolist()


def test_other_ticks_are_refused() -> None:
    """Slots of other ticks are other values; both runs are named."""
    with pytest.raises(UsageError, match=r"lowest values of series 'a' differ: 0.5 in /x and 1 in /y") as error:
        Instruments([("/x", [key(0, "a", ticks_per_unit=2.0)]), ("/y", [key(0, "a")])])
    assert "`low`" in error.value.hint


def test_an_index_that_nobody_knows_is_refused() -> None:
    """An index without a definition is refused, because its numbers would be added to another's."""
    known = [one for one in KEYS if one.name != "b"]
    for missing in (known, []):
        with pytest.raises(RunDirectoryError, match="the history does not define series"):
            Instruments([("x", missing)]).translation(missing).interval(INTERVAL)
