"""Distributions and heat maps of series."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from telemetry.hdr.layout import Floats
from telemetry.history.pictures.cumulative import Cumulative
from telemetry.wire.cells import CELLS, edge
from telemetry.wire.pictures import Distribution, HeatMap
from telemetry.wire.snapshot import SeriesStat

BARS: Final = 72
"""Largest number of bars of a distribution on a log scale."""
LINEAR_BARS: Final = 100
"""Largest number of bars on a linear scale, where their width is a round number: 40 or more are left."""
_LEAST_BARS: Final = 24
_BARS_PER_ROOT: Final = 3
"""Few values have fewer bars, in proportion to the root of their number: more bars would show noise."""
ROWS: Final = 24
_LOG_FROM: Final = 5.0
"""Ratio of the edges from which a log scale shows more."""
_ROUND: Final = (1.0, 2.0, 5.0, 10.0)
LARGEST_UNIT: Final = 1e290
"""Larger units of a damaged file would make edges that no float can hold."""
_DIGITS: Final = 12
_THOUSAND: Final = 1_000


def distribution(stat: SeriesStat, values: Cumulative) -> Distribution:
    """Return the distribution between the percentiles 0.1 and 99.9, with the number of values outside.

    There are fewer bars if the histogram is not fine enough for more.
    """
    low, high = values.low, values.high
    is_log = low > 0.0 and high > _LOG_FROM * low
    most = max(_BARS_PER_ROOT * math.isqrt(values.count), _LEAST_BARS)
    if is_log:
        edges = _log_edges(values, low, high, min(most, BARS))
    else:
        edges = _linear_edges(values, low, high, min(most, LINEAR_BARS))
    below = values.below(edges)
    return Distribution(
        name=stat.name,
        labels=stat.labels,
        unit=stat.unit,
        scale="log" if is_log else "linear",
        edges=_plain(edges),
        counts=np.diff(below).tolist(),
        below=int(below[0]),
        above=values.count - int(below[-1]),
    )


def coarse_distribution(stat: SeriesStat) -> Distribution | None:
    """Return the distribution by the display histogram of a result; None without values, or if it is unreadable."""
    known = {cell: count for cell, count in sorted(stat.histogram) if 0 <= cell < CELLS and count > 0}
    count = sum(known.values())
    if not count or not 0.0 < stat.cell_unit < LARGEST_UNIT:
        return None
    reached = list(accumulate(known.values()))
    cells = list(known)
    first = cells[bisect_left(reached, -(-count // _THOUSAND))]
    last = cells[bisect_left(reached, count - count // _THOUSAND)]
    shown = range(first, last + 1)
    return Distribution(
        name=stat.name,
        labels=stat.labels,
        unit=stat.unit,
        scale="cells",
        edges=[edge(cell) * stat.cell_unit for cell in (*shown, last + 1)],
        counts=[known.get(cell, 0) for cell in shown],
        below=sum(known[cell] for cell in cells if cell < first),
        above=sum(known[cell] for cell in cells if cell > last),
    )


def heat_map(stat: SeriesStat, whole: Cumulative, steps: Sequence[Cumulative | None]) -> HeatMap:
    """Return the heat map of a series from percentile 0.1 to the maximum. `whole` has the values of all steps."""
    low = whole.low
    if low <= 0.0:  # the first row has the zeros too
        low = float(whole.ends[0] if whole.lows.size == 1 else whole.lows[1])
    edges = _log_edges(whole, low, max(whole.end, low), ROWS)
    counts: list[list[int]] = []
    for values in steps:
        if values is None:
            counts.append([])
            continue
        below = values.below(edges)
        below[0], below[-1] = 0, values.count
        counts.append(np.diff(below).tolist())
    return HeatMap(name=stat.name, labels=stat.labels, unit=stat.unit, edges=_plain(edges), counts=counts)


def _log_edges(values: Cumulative, low: float, high: float, most: int) -> Floats:
    """Return edges with equal ratios, which are not finer than the slots in the middle."""
    if high <= low:
        return np.array([low, low + values.slot_at(low)])
    middle = math.sqrt(low) * math.sqrt(high)
    number = int(math.log(high / low) / math.log1p(values.slot_at(middle) / middle))
    return np.asarray(np.geomspace(low, high, min(max(number, 1), most) + 1), np.float64)


def _linear_edges(values: Cumulative, low: float, high: float, most: int) -> Floats:
    """Return edges at multiples of a round width, which is not finer than the slots between them."""
    least = max((high - low) / (most - 2), values.slot_at(high), values.slot_at(low))
    power = 10.0 ** math.floor(math.log10(least))
    width = next(one * power for one in _ROUND if one * power >= least * (1.0 - 1e-9))
    first, last = math.floor(low / width * (1.0 + 1e-12)), math.ceil(high / width * (1.0 - 1e-12))
    return np.arange(first, max(last, first + 1) + 1, dtype=np.float64) * width


def _plain(edges: Floats) -> list[float]:
    """Return edges without the noise of the last bits."""
    return [float(f"{value:.{_DIGITS}g}") for value in edges.tolist()]
