"""What each source says beside the others: whose tail is not like theirs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from msgspec.structs import replace

from telemetry.merge.sources import Input, SeriesId, labels
from telemetry.wire.sources import ODD_FROM, SourceSeries, SourceStat


def sources_of(inputs: Sequence[Input]) -> list[SourceStat]:
    """The sources of all inputs, in their order, each measured against the others."""
    sources = [source for one in inputs for source in one.sources]
    names = labels([(source.name, source.host, source.run_id) for source in sources])
    first_ns = min(source.started_ns for source in sources)
    series_of = compared(sources)
    return [
        replace(source, label=label, start_offset_s=(source.started_ns - first_ns) / 1e9, series=series)
        for source, label, series in zip(sources, names, series_of, strict=True)
    ]


def compared(sources: Sequence[SourceStat]) -> list[list[SourceSeries]]:
    """The series of each source, measured against those of the others."""
    tails: dict[SeriesId, dict[int, float]] = {}
    for at, source in enumerate(sources):
        for stat in source.series:
            tail = _tail(stat)
            if tail is not None:
                tails.setdefault(_identity(stat), {})[at] = tail
    ratios = {series: _to_others(values) for series, values in tails.items()}
    odd = {series: _odd(found) for series, found in ratios.items()}
    return [
        [
            replace(
                stat,
                p99_to_others=ratios.get(_identity(stat), {}).get(at),
                odd=odd.get(_identity(stat)) == at,
            )
            for stat in source.series
        ]
        for at, source in enumerate(sources)
    ]


def _identity(stat: SourceSeries) -> SeriesId:
    return stat.name, tuple(sorted(stat.labels.items()))


def _tail(stat: SourceSeries) -> float | None:
    """None also for an integer that is larger than floats go: somebody wrote it, and nothing measured it."""
    try:
        return None if stat.p99 is None else float(stat.p99)
    except OverflowError:
        return None


def _to_others(values: dict[int, float]) -> dict[int, float]:
    """Each value over the median of the others; none where that is 0, or there are no others."""
    found = {}
    for at, value in values.items():
        others = [other for place, other in values.items() if place != at]
        middle = median(others) if others else 0.0
        if middle > 0.0:
            found[at] = value / middle
    return found


def _odd(ratios: dict[int, float]) -> int | None:
    """Which one is farthest from 1, above or below; of two that are as far, the slower. None if none is far."""
    far = {at: (_distance(ratio), ratio) for at, ratio in ratios.items()}
    at = max(far, key=far.__getitem__, default=None)
    return at if at is not None and far[at][0] >= ODD_FROM else None


def _distance(ratio: float) -> float:
    """How many times more or less; rounded, so that x and 1 / x are as far."""
    return round(max(ratio, 1.0 / ratio), 9) if ratio > 0.0 else math.inf
