"""One interval of a leaf as it goes to the root: new definitions, and sums of the interval in columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from telemetry.aggregator.nodes.columns import (
    Floats,
    Integers,
    SeriesArrays,
    read_counters,
    read_extents,
    read_gauges,
    read_series,
    write_counters,
    write_extents,
    write_gauges,
    write_series,
)
from telemetry.aggregator.nodes.interval_sums import (
    exact_sum,
    join_counters,
    join_extents,
    join_gauges,
    join_series,
)
from telemetry.wire.events import Define
from telemetry.wire.nodes import CounterSums, ExtentSums, GaugeSums, NodeInterval, SeriesSums

_SERIES_BYTES: Final = 109
_SLOT_BYTES: Final = 8
_COUNTER_BYTES: Final = 61
_GAUGE_BYTES: Final = 52
_EXTENT_BYTES: Final = 52
"""Size of a line in its columns."""
_RECORD_BYTES: Final = 320
"""Size of a record without its columns: numbers, and the heads of 40 byte strings."""


class OutgoingInterval(Struct, frozen=True):
    """Sums of one interval, or of several together."""

    defines: list[Define]
    """Instruments that are new since the interval before, or new within a series of durations."""
    series: SeriesSums
    counters: CounterSums
    gauges: GaugeSums
    extents: ExtentSums
    values: int
    """Number of values in all intervals so far: series values, increments and gauge values."""

    def records(self, roll: int, start_ns: int, end_ns: int, most_bytes: int) -> list[Define | NodeInterval]:
        """Return the definitions, then the interval in records of at most `most_bytes` each.

        There is at least one interval record, even without any value.
        """
        pieces = list(_split(self, max(most_bytes, 2 * _RECORD_BYTES) - _RECORD_BYTES))
        return [
            *self.defines,
            *(
                NodeInterval(roll, start_ns, end_ns, piece.series, piece.counters, piece.gauges, piece.extents)
                for piece in pieces
            ),
        ]

    @staticmethod
    def of_records(records: Iterable[Define | NodeInterval], values: int) -> OutgoingInterval:
        """Return the interval again of which these are the records, or several together."""
        defines, intervals = [], []
        for record in records:
            if isinstance(record, Define):
                defines.append(record)
            else:
                intervals.append(
                    OutgoingInterval([], record.series, record.counters, record.gauges, record.extents, values)
                )
        return replace(add_up(intervals), defines=_latest(defines), values=values)


_EMPTY: Final = OutgoingInterval([], SeriesSums(), CounterSums(), GaugeSums(), ExtentSums(), 0)


def add_up(parts: Sequence[OutgoingInterval]) -> OutgoingInterval:
    """Return one interval that means the same as several, given in their order."""
    if not parts:
        return _EMPTY
    return OutgoingInterval(
        defines=_latest(define for part in parts for define in part.defines),
        series=write_series(join_series([read_series(part.series) for part in parts])),
        counters=write_counters(join_counters([read_counters(part.counters) for part in parts])),
        gauges=write_gauges(join_gauges([read_gauges(part.gauges) for part in parts])),
        extents=write_extents(join_extents([read_extents(part.extents) for part in parts])),
        values=max(part.values for part in parts),
    )


def _latest(defines: Iterable[Define]) -> list[Define]:
    """Return the last definition of each id. A later one of an id only adds `within`."""
    return list({define.id: define for define in defines}.values())


def _split(interval: OutgoingInterval, most_bytes: int) -> Iterator[OutgoingInterval]:
    """Yield the interval in pieces whose columns take at most `most_bytes`, or little more."""
    series = _with_short_lines(read_series(interval.series), (most_bytes - _SERIES_BYTES) // _SLOT_BYTES)
    counters, gauges = read_counters(interval.counters), read_gauges(interval.gauges)
    extents = read_extents(interval.extents)
    sizes = np.concatenate(
        (
            _SERIES_BYTES + _SLOT_BYTES * series.occupied,
            np.full(counters.id.size, _COUNTER_BYTES),
            np.full(gauges.id.size, _GAUGE_BYTES),
            np.full(extents.id.size, _EXTENT_BYTES),
        )
    )
    bounds = np.cumsum([0, series.id.size, counters.id.size, gauges.id.size, extents.id.size]).tolist()
    for start, end in _runs(sizes, series.id, most_bytes):
        lines = [slice(max(start, low) - low, max(min(end, high), low) - low) for low, high in pairwise(bounds)]
        yield OutgoingInterval(
            [],
            write_series(series.take(lines[0])),
            write_counters(counters.take(lines[1])),
            write_gauges(gauges.take(lines[2])),
            write_extents(extents.take(lines[3])),
            interval.values,
        )


def _runs(sizes: Integers, series: Integers, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of lines of at most `most_bytes`, or one line. A series is at most once in a range."""
    start = taken = 0
    ids = series.tolist()
    for line, size in enumerate(sizes.tolist()):
        again = 0 < line < len(ids) and ids[line] == ids[line - 1]
        if line > start and (taken + size > most_bytes or again):
            yield start, line
            start, taken = line, 0
        taken += size
    yield start, sizes.size


def _with_short_lines(series: SeriesArrays, most_slots: int) -> SeriesArrays:
    """Divide series with more slots into several lines, whose sums are those of the series."""
    most = max(1, most_slots)
    pieces = -(-series.occupied // most)
    if series.id.size == 0 or pieces.max() == 1:
        return series
    line = np.repeat(np.arange(series.id.size), pieces)
    number = np.arange(line.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    occupied = np.minimum(series.occupied[line] - number * most, most)
    count = np.add.reduceat(series.counts, np.cumsum(occupied) - occupied, dtype=np.int64)
    before = np.cumsum(count) - count
    before -= before[np.searchsorted(line, line)]
    total, rest = _shares(series, pieces, count)
    return SeriesArrays(
        id=series.id[line],
        count=count,
        total=total,
        rest=rest,
        mean=series.mean[line],
        squares=series.squares[line] * (count / series.count[line]),
        min=series.min[line],
        max=series.max[line],
        integral=series.integral[line],
        imprecise=_dealt(series.imprecise[line], before, count),
        below=_dealt(series.below[line], before, count),
        above=_dealt(series.above[line], before, count),
        occupied=occupied,
        slots=series.slots,
        counts=series.counts,
        first_ns=series.first_ns[line],
        last_ns=series.last_ns[line],
    )


def _shares(series: SeriesArrays, pieces: Integers, count: Integers) -> tuple[Floats, Floats]:
    """Return the total and the rest of each piece: the mean times its count, and for the first what is left."""
    share = np.minimum(np.repeat(series.mean, pieces) * count, np.finfo(np.float64).max)
    share = np.where(np.repeat(series.integral, pieces), np.floor(share), share)
    rest = np.zeros(share.size)
    ends = np.cumsum(pieces)
    for line, (first, end) in enumerate(zip((ends - pieces).tolist(), ends.tolist(), strict=True)):
        whole = [series.total.item(line), series.rest.item(line)]
        share[first], rest[first] = exact_sum([*whole, *(-share[first + 1 : end]).tolist()])
    return share, rest


def _dealt(number: Integers, before: Integers, count: Integers) -> Integers:
    """Return the share of each piece in a number, at most the count of the piece."""
    dealt: NDArray[np.int64] = np.clip(number - before, 0, count)
    return dealt
