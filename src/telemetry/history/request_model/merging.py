"""Several series as one: those of several tracking windows. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final, TypeVar

from msgspec.structs import replace

from telemetry.wire import requests as words
from telemetry.wire.cells import CELLS, PER_DOUBLING, edge
from telemetry.wire.snapshot import AxisStat, CounterStat, Extent, SeriesStat, WindowStat

Number = int | float
_Stat = TypeVar("_Stat", CounterStat, SeriesStat)
_Struct = TypeVar("_Struct", CounterStat, SeriesStat, Extent)

_CELL_BOUND: Final = 1.0 / PER_DOUBLING
_PERCENTILE: Final = re.compile(r"(\d{1,3})(?:\.(\d{1,7}))?", re.ASCII)


def sum_of(numbers: Iterable[Number]) -> Number:
    """Return the sum; infinity if no float can hold it."""
    try:
        return sum(numbers)
    except OverflowError:
        return math.inf


def quotient(dividend: Number, other: Number) -> float | None:
    """Return the quotient; None if no float can hold it."""
    try:
        return dividend / other
    except (OverflowError, ZeroDivisionError):
        return None


def joined(extents: Sequence[Extent | None]) -> Extent | None:
    """Return the extent of several things, from the first beginning to the last end; None if one is unknown.

    The number of events inside is then unknown, so `last_ns` is 0. `last_done_ns` is 0 too if one of the extents
    was already such a sum.
    """
    known_extents = [extent for extent in extents if extent is not None]
    if not known_extents or len(known_extents) < len(extents):
        return None
    if len(known_extents) == 1:
        return known_extents[0]
    last = max(known_extents, key=lambda extent: extent.last_ns)
    return Extent(
        first_ns=min(extent.first_ns for extent in known_extents),
        last_done_ns=last.last_done_ns if all(extent.last_ns for extent in known_extents) else 0,
        end_ns=max(extent.end_ns for extent in known_extents),
    )


def time_range_of(stats: Sequence[CounterStat | SeriesStat | AxisStat]) -> tuple[int, int]:
    """Return the beginning and end of several instruments together; 0 if the beginning of one is unknown."""
    used = [stat for stat in stats if number_of_events(stat)]
    if not used or not all(stat.began_ns for stat in used):
        return 0, 0
    return min(stat.began_ns for stat in used), max(stat.ended_ns for stat in used)


def number_of_events(stat: CounterStat | SeriesStat | AxisStat) -> Number:
    """Return the number of events; of a counter in a time range its value, since the history lacks their number."""
    if isinstance(stat, AxisStat):
        return stat.closed + stat.open
    return stat.count if isinstance(stat, SeriesStat) else stat.events or stat.value


def shifted(stat: _Stat, by_ns: int) -> _Stat:
    """Return the instrument on a clock that is ahead by `by_ns`. A time of 0 means "unknown" and stays 0."""
    if not by_ns:
        return stat
    extent = stat.extent
    if extent is not None:
        extent = _moved(extent, by_ns, ("first_ns", "last_ns", "last_done_ns", "end_ns"))
    return replace(_moved(stat, by_ns, ("began_ns", "ended_ns")), extent=extent)


def _moved(struct: _Struct, by_ns: int, times: Iterable[str]) -> _Struct:
    return replace(struct, **{name: getattr(struct, name) and getattr(struct, name) + by_ns for name in times})


def together(stats: Sequence[SeriesStat]) -> SeriesStat:
    """Merge the windows of one series, and remove the label of the window.

    A single window with values is unchanged.

    Count, total, extremes, mean and deviation are those of all values. A percentile is the highest possible one, by
    the percentiles of the windows and their display histograms; `error_bound` is the largest possible excess.
    """
    stats = [stat for stat in stats if stat.count > 0] or list(stats[:1])
    if len(stats) == 1:
        return stats[0]
    count, total = sum(stat.count for stat in stats), sum_of(stat.total for stat in stats)
    mean = quotient(total, count)
    keys = [key for key in stats[0].percentiles if all(key in stat.percentiles for stat in stats)]
    cells = _cells(stats)
    began_ns, ended_ns = time_range_of(stats)
    between = {key: span for key in keys if (span := _between(key, stats, cells)) is not None}
    return replace(
        stats[0],
        labels={key: value for key, value in stats[0].labels.items() if key != words.WINDOW},
        count=count,
        total=total,
        min=min((stat.min for stat in stats if stat.min is not None), default=None),
        max=max((stat.max for stat in stats if stat.max is not None), default=None),
        mean=mean,
        stddev=_stddev(stats, count, mean),
        percentiles={key: high for key, (_, high) in between.items()},
        exact=False,
        error_bound=_error(between.values(), stats),
        resolution=max(stat.resolution for stat in stats),
        below=sum(stat.below for stat in stats),
        above=sum(stat.above for stat in stats),
        imprecise=sum(stat.imprecise for stat in stats),
        histogram=cells,
        window=_window([stat.window for stat in stats]),
        extent=joined([stat.extent for stat in stats]),
        began_ns=began_ns,
        ended_ns=ended_ns,
    )


def _stddev(stats: Sequence[SeriesStat], count: int, mean: float | None) -> float | None:
    squares = 0.0
    for stat in stats:
        if stat.stddev is None or stat.mean is None or mean is None:
            return None
        share = quotient(stat.count, count) or 0.0
        apart = stat.mean - mean
        squares += share * (stat.stddev * stat.stddev + apart * apart)
    return math.sqrt(squares)


def _cells(stats: Sequence[SeriesStat]) -> list[tuple[int, int]]:
    sums: dict[int, int] = {}
    for stat in stats:
        for cell, count in stat.histogram:
            sums[cell] = sums.get(cell, 0) + count
    return sorted(sums.items())


def _between(
    key: str, stats: Sequence[SeriesStat], cells: Sequence[tuple[int, int]]
) -> tuple[Number, Number] | None:
    """Return bounds of a percentile of all values: those of the parts, narrowed by the cell of its rank.

    Return None for a key that is not a number.
    """
    match = _PERCENTILE.fullmatch(key)
    if match is None:
        return None
    values = [stat.percentiles[key] for stat in stats]
    low, high = min(values), max(values)
    whole, decimals = match[1], match[2] or ""
    wanted = -(-int(whole + decimals) * sum(stat.count for stat in stats) // (100 * 10 ** len(decimals)))
    reached = accumulate(count for _, count in cells)
    cell = next((cell for (cell, _), so_far in zip(cells, reached, strict=True) if so_far >= wanted), None)
    if cell is not None and 0 <= cell < CELLS:
        unit = stats[0].cell_unit
        low, high = max(low, min(edge(cell) * unit, high)), min(high, max(edge(cell + 1) * unit, low))
    return low, high


def _error(between: Iterable[tuple[Number, Number]], stats: Sequence[SeriesStat]) -> float | None:
    """Return the largest relative error; None if a part has no bound."""
    bounds = [stat.error_bound for stat in stats if stat.error_bound is not None]
    if len(bounds) < len(stats):
        return None
    widths = [(quotient(high, low) or 1.0) - 1.0 if low > 0 else _CELL_BOUND for low, high in between]
    return max(widths, default=0.0) + max(bounds)


def _window(windows: Sequence[WindowStat]) -> WindowStat:
    """Merge the last seconds. Percentiles are kept only if a single window has values."""
    busy = [window for window in windows if window.count]
    if len(busy) < 2:
        return busy[0] if busy else windows[0]
    return WindowStat(
        seconds=max(window.seconds for window in busy),
        count=sum(window.count for window in busy),
        rate=sum(window.rate for window in busy),
    )
