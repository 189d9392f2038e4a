"""Reading of a whole history within a budget."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from telemetry.history.interval_source import IntervalSource
from telemetry.wire.history import Interval


def everything(past: IntervalSource, until_ns: int, second_bytes: float) -> Iterator[Interval]:
    """Yield the whole history, each moment once.

    The newest part comes at full resolution. Older parts come in steps of ten seconds and of a minute if full
    resolution would exceed the budget, given that a second takes `second_bytes`. At least the last minute is at
    full resolution.
    """
    seconds = max(60.0, past.budget / 2 / max(second_bytes, 1.0))
    start_ns = 0
    for interval in past.intervals(0, until_ns - int(11 * seconds * 1e9), 60):  # half for tens, half for seconds
        yield interval
        start_ns = interval.end_ns
    tens = past.intervals(start_ns, until_ns - int(seconds * 1e9), 10)
    first = next(tens, None)
    if first is not None:
        yield from past.intervals(start_ns, first.start_ns, 60)  # minutes reach further back than tens of seconds
        for interval in chain([first], tens):
            yield interval
            start_ns = interval.end_ns
    yield from past.fine(start_ns)


def size(interval: Interval) -> int:
    """Return the approximate size in bytes on the wire and on disk."""
    series = interval.series
    return 2 * len(series.slots) + 10 * len(series.index)  # as many counts as slots; 4 narrow columns, 3 wide ones
