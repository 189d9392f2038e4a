"""Readings from snapshots: the result of a run, and the last seconds of a run without a history. Pure."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from typing import Final

from telemetry.backends.items import CounterReading, GaugeReading, Reading, SeriesReading
from telemetry.history.rates import Paces
from telemetry.wire.cells import CELLS, edge
from telemetry.wire.snapshot import GaugeStat, MetricsSnapshot, SeriesStat

CELLS_MOST: Final = 200  # per series in a reading; further cells are merged with their neighbours
_LARGEST: Final = sys.float_info.max
_Cells = list[tuple[float, float, int]]


def final_reading(result: MetricsSnapshot) -> Reading:
    """Return the reading of a whole run, with the percentiles of its result, and the rates of its report."""
    seconds, paces = max(result.elapsed_s, 0.0), Paces(result)

    return Reading(
        key="final",
        time_ns=result.time_ns,
        elapsed_s=seconds,
        seconds=seconds,
        series=[_whole(stat, finite(paces.of(stat).per_s or 0.0)) for stat in result.series],
        counters=[
            CounterReading(
                name=stat.name,
                labels=stat.labels,
                unit=stat.unit,
                value=finite(stat.value),
                rate=finite(paces.of(stat).per_s or 0.0),
            )
            for stat in result.counters
        ],
        gauges=_gauges(result.gauges),
        final=True,
    )


def window_reading(snapshot: MetricsSnapshot, elapsed_s: float) -> Reading:
    """Return a live snapshot's window as the reading at `elapsed_s` since the start, without totals and cells."""
    time_ns = snapshot.started_ns + round(elapsed_s * 1e9)
    return Reading(
        key=f"t{time_ns}",
        time_ns=time_ns,
        elapsed_s=elapsed_s,
        seconds=snapshot.window_s,
        series=[
            SeriesReading(
                name=stat.name,
                labels=stat.labels,
                unit=stat.unit,
                count=stat.window.count,
                rate=stat.window.rate,
                percentiles={key: finite(value) for key, value in stat.window.percentiles.items()},
            )
            for stat in snapshot.series
            if stat.window.count
        ],
        counters=[
            CounterReading(
                name=stat.name, labels=stat.labels, unit=stat.unit, value=finite(stat.value), rate=finite(stat.rate)
            )
            for stat in snapshot.counters
        ],
        gauges=_gauges(snapshot.gauges),
    )


def finite(number: float) -> float:
    """Return the nearest finite float: sums of huge floats may overflow, and integers may not fit."""
    try:
        value = float(number)
    except OverflowError:
        return _LARGEST if number > 0 else -_LARGEST
    return value if math.isfinite(value) else math.copysign(_LARGEST, value) if math.isinf(value) else 0.0


def cells_within(cells: Sequence[tuple[int, int]], unit: float) -> _Cells:
    """Return (from, to, count) of a display histogram: at most `CELLS_MOST` cells, ascending, none empty."""
    counts = {cell: count for cell, count in cells if count > 0 and 0 <= cell < CELLS}
    width = 1
    while len(counts) > CELLS_MOST:
        width *= 2
        wider: dict[int, int] = {}
        for cell, count in counts.items():
            wider[cell // 2] = wider.get(cell // 2, 0) + count
        counts = wider
    return [
        (finite(edge(cell * width) * unit), finite(edge((cell + 1) * width) * unit), count)
        for cell, count in sorted(counts.items())
    ]


def _whole(stat: SeriesStat, rate: float) -> SeriesReading:
    return SeriesReading(
        name=stat.name,
        labels=stat.labels,
        unit=stat.unit,
        count=stat.count,
        rate=rate,
        total=finite(stat.total),
        min=None if stat.min is None else finite(stat.min),
        max=None if stat.max is None else finite(stat.max),
        mean=None if stat.mean is None else finite(stat.mean),
        percentiles={key: finite(value) for key, value in stat.percentiles.items()},
        cells=cells_within(stat.histogram, stat.cell_unit),
    )


def _gauges(gauges: Iterable[GaugeStat]) -> list[GaugeReading]:
    """Return the gauges that were ever set."""
    return [
        GaugeReading(name=stat.name, labels=stat.labels, unit=stat.unit, value=finite(stat.value))
        for stat in gauges
        if stat.value is not None
    ]
