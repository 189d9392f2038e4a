"""Confidence bounds of all percentiles of a report."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from telemetry.errors import UsageError
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.interval_sums import Added, SumRows
from telemetry.statistics.confidence import rank_bounds
from telemetry.statistics.hdr.layout import Integers
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.wire.cells import CELLS, edge
from telemetry.wire.report import Bounds, SeriesBounds
from telemetry.wire.snapshot import SeriesStat

CONFIDENCE: Final = 0.95


def series_bounds(
    stats: Sequence[SeriesStat], added: Added | None = None, rows: SumRows | None = None
) -> list[SeriesBounds]:
    """Return bounds of each series with values.

    They come from the history if it has all values of the series, else from the cells of its display histogram,
    which give wider bounds.
    """
    keys = [key for key in dict.fromkeys(key for stat in stats for key in stat.percentiles) if is_percentile(key)]
    fine: dict[SeriesId, tuple[int, Mapping[str, Bounds]]] = {}
    if added is not None and rows is not None:
        ids = (rows.ids[row] for row in added.rows.tolist())
        own = zip(added.count.tolist(), added.histograms(rows).bounds(keys, CONFIDENCE), strict=True)
        fine = dict(zip(ids, own, strict=True))
    result = []
    for stat in stats:
        if not stat.count or not stat.percentiles:
            continue
        count, bounds = fine.get(series_id(stat), (0, {}))
        if count != stat.count:
            bounds = _from_cells(stat)
        kept = {key: _around(bounds[key], value) for key, value in stat.percentiles.items() if key in bounds}
        result.append(SeriesBounds(name=stat.name, labels=stat.labels, confidence=CONFIDENCE, percentiles=kept))
    return result


def bound_ranks(counts: Integers, percentiles: Sequence[str]) -> Integers:
    """Return the ranks whose values are bounds: a line for each series, given its number of values.

    A missing bound has an arbitrary rank.
    """
    ratios = [parse_percentile(key) for key in percentiles]
    sides = [[rank_bounds(ratio, count, CONFIDENCE) for ratio in ratios] for count in counts.tolist()]
    lines = [[rank or 1 for pair in line for rank in pair] for line in sides]
    return np.array(lines, dtype=np.int64).reshape(len(sides), 2 * len(ratios))


def is_percentile(key: str) -> bool:
    """Return whether a key is a percentile. Results may be written by other programs."""
    try:
        parse_percentile(key)
    except UsageError:
        return False
    return True


def _from_cells(stat: SeriesStat) -> Mapping[str, Bounds]:
    """Return bounds from the display histogram.

    Unless its cells have all values, only the number of values beyond is known.
    """
    so_far = reached(stat)
    bounds = {}
    for key in filter(is_percentile, stat.percentiles):
        ratio = parse_percentile(key)
        low, high = (None, None) if so_far is None else rank_bounds(ratio, stat.count, CONFIDENCE)
        bounds[key] = Bounds(
            low=None if low is None or so_far is None else edges(stat, so_far, low)[0],
            high=None if high is None or so_far is None else edges(stat, so_far, high)[1],
            beyond=stat.count - rank(ratio, stat.count),
        )
    return bounds


def reached(stat: SeriesStat) -> list[int] | None:
    """Return the number of values up to the end of each cell; None if the cells lack values of the series."""
    so_far = list(accumulate(max(count, 0) for _, count in stat.histogram))
    usable = so_far and so_far[-1] == stat.count and all(0 <= cell < CELLS for cell, _ in stat.histogram)
    return so_far if usable else None


def edges(stat: SeriesStat, so_far: Sequence[int], wanted: int) -> tuple[float, float]:
    """Return the edges between which the value of a rank lies: those of its cell, within minimum and maximum.

    The first and the last cell also hold values outside the range of the series. `so_far` comes from `reached`.
    """
    index = bisect_left(so_far, wanted)
    cell = stat.histogram[index][0]
    low, high = edge(cell) * stat.cell_unit, edge(cell + 1) * stat.cell_unit
    if stat.min is not None:
        low = max(low, stat.min) if index else stat.min
    if stat.max is not None:
        high = min(high, stat.max) if index < len(so_far) - 1 else stat.max
    return low, high


def _around(bounds: Bounds, value: float) -> Bounds:
    """Extend bounds to include the value itself.

    It may be an order statistic outside of them, due to rounding to ticks.
    """
    low = None if bounds.low is None else min(bounds.low, value)
    high = None if bounds.high is None else max(bounds.high, value)
    return Bounds(low=low, high=high, beyond=bounds.beyond)
