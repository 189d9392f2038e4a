"""The comparison of each source with the others, to find one with an unusual tail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from msgspec.structs import replace

from telemetry.history.instrument_ids import series_id
from telemetry.merge.sources import Input, SeriesId, labels
from telemetry.wire.sources import ODD_FROM, SourceSeries, SourceStat


def sources_of(inputs: Sequence[Input]) -> list[SourceStat]:
    """Return the sources of all inputs in order, each compared with the others."""
    sources = [source for one in inputs for source in one.sources]
    names = labels([(source.name, source.host, source.run_id) for source in sources])
    first_ns = min(source.started_ns for source in sources)
    series_of = compared(sources)
    return [
        replace(source, label=label, start_offset_s=(source.started_ns - first_ns) / 1e9, series=series)
        for source, label, series in zip(sources, names, series_of, strict=True)
    ]


def compared(sources: Sequence[SourceStat]) -> list[list[SourceSeries]]:
    """Return the series of each source, compared with those of the others."""
    tails: dict[SeriesId, dict[int, float]] = {}
    for at, source in enumerate(sources):
        for stat in source.series:
            tail = _tail(stat)
            if tail is not None:
                tails.setdefault(series_id(stat), {})[at] = tail
    ratios = {series: _to_others(values) for series, values in tails.items()}
    odd = {series: _odd(found) for series, found in ratios.items()}
    return [
        [
            replace(
                stat,
                p99_to_others=ratios.get(series_id(stat), {}).get(at),
                odd=odd.get(series_id(stat)) == at,
            )
            for stat in source.series
        ]
        for at, source in enumerate(sources)
    ]


def _tail(stat: SourceSeries) -> float | None:
    """Return the p99 as a float. None if it is missing or an integer beyond floats, which no measurement yields."""
    try:
        return None if stat.p99 is None else float(stat.p99)
    except OverflowError:
        return None


def _to_others(values: dict[int, float]) -> dict[int, float]:
    """Return each value divided by the median of the others. Left out if that is 0 or there are no others."""
    found = {}
    for at, value in values.items():
        others = [other for place, other in values.items() if place != at]
        middle = median(others) if others else 0.0
        if middle > 0.0:
            found[at] = value / middle
    return found


def _odd(ratios: dict[int, float]) -> int | None:
    """Return the source with the ratio farthest from 1, or None if all are close. In a tie, the slower one."""
    far = {at: (_distance(ratio), ratio) for at, ratio in ratios.items()}
    at = max(far, key=far.__getitem__, default=None)
    return at if at is not None and far[at][0] >= ODD_FROM else None


def _distance(ratio: float) -> float:
    """Return the ratio or its inverse, whichever is larger. Rounded, so that x and 1 / x are equally far."""
    return round(max(ratio, 1.0 / ratio), 9) if ratio > 0.0 else math.inf
