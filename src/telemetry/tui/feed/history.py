"""All of a history at once, as far as that may be read."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from telemetry.history.interval_source import IntervalSource
from telemetry.wire.history import Interval


def everything(past: IntervalSource, until_ns: int, second_bytes: float) -> Iterator[Interval]:
    """The whole history, each moment once: the newest as fine as it is kept, what is older in tens of seconds and
    in minutes where it would come to more than the budget, if a second takes `second_bytes`. A minute is fine
    whatever it takes."""
    seconds = max(60.0, past.budget / 2 / max(second_bytes, 1.0))
    start_ns = 0
    for interval in past.intervals(0, until_ns - int(11 * seconds * 1e9), 60):  # half for tens, half for seconds
        yield interval
        start_ns = interval.end_ns
    tens = past.intervals(start_ns, until_ns - int(seconds * 1e9), 10)
    first = next(tens, None)
    if first is not None:
        yield from past.intervals(start_ns, first.start_ns, 60)  # tens are not kept as far back as minutes
        for interval in chain([first], tens):
            yield interval
            start_ns = interval.end_ns
    yield from past.intervals(start_ns)


def size(interval: Interval) -> int:
    """About as many bytes as it takes on the wire and on disk."""
    series = interval.series
    return 2 * len(series.slots) + 10 * len(series.index)  # as many counts as slots; 4 narrow columns, 3 wide ones
