"""Runs as the tests of the model see them, and their screens as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np

from telemetry.common.formatting import columns
from telemetry.history.intervals.timeline import Timeline
from telemetry.tui.model.grid import Grid, Line
from telemetry.tui.model.scene import Scene
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, SeriesColumns
from telemetry.wire.snapshot import (
    Accounting,
    CounterStat,
    GaugeStat,
    MarkStat,
    MetricsSnapshot,
    ProducerStat,
    Progress,
    SelfCost,
    SeriesStat,
    WindowStat,
)

SECOND = 1_000_000_000
NOON = 1_772_366_400 * SECOND
"""2026-03-01 12:00:00 UTC, when all runs here have begun."""


def series(name: str = "latency", **changes: Any) -> SeriesStat:
    """20,000 values of some milliseconds, 5,000 of them in the window, twice as slow there."""
    percentiles = {"50": 1.25, "90": 2.5, "99": 4.0, "99.9": 9.5}
    window = WindowStat(
        seconds=10.0, count=5_000, rate=500.0, percentiles={key: 2 * value for key, value in percentiles.items()}
    )
    stat = SeriesStat(
        name=name,
        unit="ms",
        count=20_000,
        total=30_000.0,
        min=0.5,
        max=80.0,
        mean=1.5,
        stddev=0.75,
        percentiles=percentiles,
        error_bound=0.001,
        resolution=1e-6,
        histogram=[(72, 5_000), (74, 14_000), (80, 1_000)],
        cell_unit=1e-6,
        window=window,
    )
    return msgspec.structs.replace(stat, **changes)


def slowed(stat: SeriesStat, factor: float) -> SeriesStat:
    """The same with all percentiles of its window times the factor."""
    slow = {key: value * factor for key, value in stat.window.percentiles.items()}
    return msgspec.structs.replace(stat, window=msgspec.structs.replace(stat.window, percentiles=slow))


def snapshot(**changes: Any) -> MetricsSnapshot:
    """A benchmark of 40 s that goes on, with everything a run can have."""
    whole = MetricsSnapshot(
        run_id="5ab920cc",
        name="bench",
        state="LIVE",
        started_ns=NOON,
        time_ns=NOON + 40 * SECOND,
        elapsed_s=40.0,
        refresh_hz=10.0,
        window_s=10.0,
        accounting=Accounting(emitted=225_123, received=225_123, applied=225_123),
        producers=[producer("a")],
        progress=[Progress(name="requests", done=20_000.0, total=50_000.0)],
        counters=[CounterStat(name="requests", value=20_000, events=20_000, rate=500.0)],
        gauges=[GaugeStat(name="connections", value=16, min=0, max=16, events=2)],
        series=[
            series(labels={"route": "/fast"}),
            slowed(series(labels={"route": "/slow"}), 3),
            series("body", unit="B", labels={}),
        ],
        marks=[MarkStat(text="load begins", time_ns=NOON + SECOND, producer="a")],
        cost=SelfCost(
            cpu_percent=9.1,
            rss_bytes=47 << 20,
            events_per_s=18_400.0,
            ticks=400,
            tick_ms=2.1,
            journal_bytes=12 << 20,
        ),
    )
    return msgspec.structs.replace(whole, **changes)


def producer(identity: str, **changes: Any) -> ProducerStat:
    stat = ProducerStat(
        producer=identity,
        name="http",
        host="node1",
        pid=4711,
        status="live",
        emitted=1_000,
        received=1_000,
        applied=1_000,
        events_per_s=100.0,
        lag_s=0.05,
        last_seen_ns=NOON + 40 * SECOND,
    )
    return msgspec.structs.replace(stat, **changes)


def scene(**changes: Any) -> Scene:
    """Changes of the snapshot; `scene` of a snapshot is `Scene(snapshot=…)`."""
    return Scene(snapshot=snapshot(**changes))


def timeline(seconds: Mapping[int, Iterable[int]], name: str = "latency", unit: str = "ms") -> Timeline:
    """Return the timeline of a series whose values come in these seconds after noon.

    The values are whole microseconds below 2048.
    """
    known = Timeline(SeriesKey(index=0, name=name, kind="series", unit=unit, digits=3, ticks_per_unit=1e3))
    for second, values in seconds.items():
        start_ns = NOON + second * SECOND
        known.add(Interval(start_ns, start_ns + SECOND, _columns(sorted(values))))
    return known


def _columns(values: list[int]) -> SeriesColumns:
    if not values:
        return SeriesColumns()
    slots, counts = np.unique(values, return_counts=True)
    return SeriesColumns(
        index=np.array([0], "<u4").tobytes(),
        count=np.array([len(values)], "<u8").tobytes(),
        total=np.array([sum(values) / 1e3], "<f8").tobytes(),
        min=np.array([values[0] / 1e3], "<f8").tobytes(),
        max=np.array([values[-1] / 1e3], "<f8").tobytes(),
        occupied=np.array([slots.size], "<u4").tobytes(),
        slots=slots.astype("<u4").tobytes(),
        counts=counts.astype("<u4").tobytes(),
    )


def text(line: Line) -> str:
    return "".join(cell.text for cell in line)


def texts(lines: Iterable[Line]) -> list[str]:
    return [text(line).rstrip() for line in lines]


def column(grid: Grid, key: str) -> list[str]:
    """Return the texts of a column, row by row, without headings."""
    return [row.cells[_index(grid, key)].text for row in grid.rows if not row.heading]


def tones(grid: Grid, key: str) -> list[str]:
    return [row.cells[_index(grid, key)].tone for row in grid.rows if not row.heading]


def drawn(grid: Grid, width: int) -> list[str]:
    """The grid without headings, as a table of at most so many columns, as far as `keep` lets columns go."""
    lines = [
        [head.title for head in grid.columns],
        *([cell.text for cell in row.cells] for row in grid.rows if not row.heading),
    ]
    widths = [max(columns(line[index]) for line in lines) for index in range(len(grid.columns))]
    kept = list(range(len(widths)))
    while sum(widths[index] + 2 for index in kept) - 2 > width:
        last = max(kept, key=lambda index: grid.columns[index].keep)
        assert grid.columns[last].keep, "there is no room for what must stay"
        kept.remove(last)
    said = []
    for line in lines:
        cells = []
        for index in kept:
            space = " " * (widths[index] - columns(line[index]))
            cells.append(space + line[index] if grid.columns[index].right else line[index] + space)
        said.append("  ".join(cells).rstrip())
    return said


def _index(grid: Grid, key: str) -> int:
    return [head.key for head in grid.columns].index(key)
