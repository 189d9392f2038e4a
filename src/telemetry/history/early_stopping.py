"""Bounds of percentiles by MLPerf's early stopping, computed from the files of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import numpy as np

from telemetry.history.bounds import edges, is_percentile, reached
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.interval_sums import Added, SumRows
from telemetry.statistics.early_stopping import bound_rank, samples_needed
from telemetry.statistics.hdr.layout import Integers, Layout
from telemetry.statistics.hdr.percentiles import Ratio, parse_percentile
from telemetry.wire.report import EarlyRule, EarlyStop
from telemetry.wire.snapshot import SeriesStat

_USUAL: Final = EarlyRule()
_FROM: Final = (1, 2)
"""The lowest percentile with a bound: limits are set from the median on."""
_MOST: Final = 10**12
"""Largest number of samples. No run has more; a file that claims more would take hours to compute."""


def early_stops(
    stat: SeriesStat, added: Added | None = None, rows: SumRows | None = None, rule: EarlyRule = _USUAL
) -> dict[str, EarlyStop]:
    """Return the bound of each percentile of a series from the median on, except the maximum.

    A bound is the highest value of the bucket that holds the sample: a bucket of the history if that has all values
    of the series, else a cell of the display histogram. If neither has all values, there is no bound.
    """
    ratios = _ratios(stat.percentiles)
    if stat.count > _MOST:
        return {}
    ranks = {key: bound_rank(ratio, stat.count, rule.confidence, rule.tolerance) for key, ratio in ratios.items()}
    wanted = {key: rank for key, rank in ranks.items() if rank is not None}
    bounds = _from_history(stat, wanted, added, rows) if added is not None and rows is not None else None
    bounds = _from_cells(stat, wanted) if bounds is None else bounds
    stops = {}
    for key, ratio in ratios.items():
        needed = samples_needed(ratio, rule.confidence, rule.tolerance)
        stops[key] = EarlyStop(bound=bounds.get(key), needed=needed, missing=max(needed - max(stat.count, 0), 0))
    return stops


def early_ranks(
    counts: Integers,
    percentiles: Sequence[str],
    rows: SumRows,
    series: Collection[SeriesId],
    rule: EarlyRule = _USUAL,
) -> Integers:
    """Return the ranks of the samples that are bounds: a line for each row, given its number of values.

    A missing bound, and rows of other series, have an arbitrary rank.
    """
    ratios = _ratios(percentiles) if series else {}
    lines = np.ones((len(rows), len(ratios)), dtype=np.int64)
    for row in (rows.place[identity] for identity in series if identity in rows.place):
        if counts[row] <= _MOST:
            count = int(counts[row])
            ranks = (bound_rank(ratio, count, rule.confidence, rule.tolerance) for ratio in ratios.values())
            lines[row] = [rank or 1 for rank in ranks]
    return lines


def _ratios(percentiles: Collection[str]) -> dict[str, Ratio]:
    ratios = {key: parse_percentile(key) for key in percentiles if is_percentile(key)}
    least = _FROM[0] / _FROM[1]
    return {key: (part, whole) for key, (part, whole) in ratios.items() if least <= part / whole < 1.0}


def _from_history(
    stat: SeriesStat, ranks: Mapping[str, int], added: Added, rows: SumRows
) -> dict[str, float] | None:
    """Return bounds from the history, or None if it lacks values of the series."""
    row = rows.place.get(series_id(stat))
    histogram = None if row is None else added.only(row, rows)
    if histogram is None or int(histogram.count[0]) != stat.count or int(histogram.counts.sum()) != stat.count:
        return None
    places = np.searchsorted(np.cumsum(histogram.counts), list(ranks.values()))
    highest = Layout.of(int(histogram.digits[0])).highest_of(histogram.slots[places]) / float(
        histogram.ticks_per_unit[0]
    )
    # The last slot also counts values above the range of the histogram.
    values = np.where(
        places == histogram.slots.size - 1, histogram.max[0], np.clip(highest, histogram.min[0], histogram.max[0])
    )
    return dict(zip(ranks, values.tolist(), strict=True))


def _from_cells(stat: SeriesStat, ranks: Mapping[str, int]) -> dict[str, float]:
    so_far = reached(stat)
    return {} if so_far is None else {key: edges(stat, so_far, rank)[1] for key, rank in ranks.items()}
