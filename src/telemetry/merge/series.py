"""The sum of several runs' series: slot by slot if the histories are complete, else cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from msgspec.structs import replace

from telemetry.errors import UsageError
from telemetry.formatting import number_of
from telemetry.hdr.layout import Layout
from telemetry.hdr.ranks import parse_percentile, rank
from telemetry.history.instrument_ids import series_id
from telemetry.merge.history import Added
from telemetry.merge.numbers import Moments, Number, carried, mean_of, plain, stddev_of, total_of
from telemetry.merge.sources import Input, SeriesId
from telemetry.request_model import joined, shifted, time_range_of
from telemetry.wire.cells import CELLS, PER_DOUBLING, edge
from telemetry.wire.snapshot import SeriesStat, WindowStat

_CELL_BOUND: Final = 1.0 / PER_DOUBLING


@dataclass(frozen=True)
class _Share:
    """The part of a series in one run."""

    stat: SeriesStat
    lacking: str
    """Reason why the history lacks values of the series; empty if it is complete."""


def percentiles_of(inputs: Iterable[Input]) -> list[str]:
    """Return all computable percentiles of any result, ascending."""
    keys = {key for one in inputs for stat in one.snapshot.series for key in stat.percentiles}
    found = {}
    for key in keys:
        try:
            numerator, denominator = parse_percentile(key)
        except UsageError:  # from a file of another program
            continue
        found[key] = numerator / denominator
    return sorted(found, key=lambda key: (found[key], key))


def merged_series(
    inputs: Sequence[Input], added: Added, percentiles: Sequence[str], *, coarse: bool
) -> tuple[list[SeriesStat], list[str]]:
    """Return all series in order of first appearance, and warnings.

    A series gets the `percentiles` that any run has for it. `coarse`: use display histograms if histories are
    incomplete. Without it, raises UsageError in that case.
    """
    stats, warnings = [], []
    for series, shares in _shares(inputs, added).items():
        whole = [share for share in shares if share.stat.count]
        lacking = [share.lacking for share in whole if share.lacking]
        if len(whole) < 2:
            only = whole[0] if whole else shares[0]
            stats.append(replace(only.stat, window=WindowStat()))
        elif not lacking:
            stats.append(_fine([share.stat for share in whole], series, added))
        elif coarse:
            stats.append(_coarse([share.stat for share in whole], series, added, percentiles))
            warnings.append(
                f"{stats[-1].name}: {lacking[0]}, so its percentiles are computed from display histograms"
            )
        else:
            raise UsageError(
                f"can't add the histograms of {shares[0].stat.name!r} exactly: {lacking[0]}",
                hint="pass `--coarse` to add display histograms instead: percentiles are then accurate to 25 %",
            )
    return stats, warnings


def _shares(inputs: Sequence[Input], added: Added) -> dict[SeriesId, list[_Share]]:
    found: dict[SeriesId, list[_Share]] = {}
    for one, counts in zip(inputs, added.counts, strict=True):
        for stat in one.snapshot.series:
            share = _Share(shifted(stat, one.shift_ns), _lack(one, stat, counts))
            found.setdefault(series_id(stat), []).append(share)
    return found


def _lack(one: Input, stat: SeriesStat, counts: Mapping[SeriesId, int]) -> str:
    """Return the reason why a run's history can't represent the series, or an empty string."""
    known = counts.get(series_id(stat), 0)
    if known == stat.count:
        return ""
    if not counts:
        return f"run {one.label} has no history"
    if 0 <= known < stat.count:
        return f"the history of run {one.label} has {known:,} of {number_of(stat.count, 'value')}"
    return f"the history of run {one.label} does not match its result"


def _fine(stats: Sequence[SeriesStat], series: SeriesId, added: Added) -> SeriesStat:
    figures, key = added.figures[series], added.keys[series]
    values = {name: plain(value) for name, value in figures.percentiles.items()}
    bound = Layout.of(key.digits).error_bound
    return _together(stats, key.digits, values, bound, 1.0 / key.ticks_per_unit)


def _coarse(stats: Sequence[SeriesStat], series: SeriesId, added: Added, percentiles: Sequence[str]) -> SeriesStat:
    """Merge display histograms.

    A slot counts in the cell of its lowest value, so the bound adds the slot's width.
    """
    key = added.keys.get(series)
    digits = min(stat.digits for stat in stats)
    slot_bound = Layout.of(digits).error_bound
    bound = (1.0 + _CELL_BOUND) * (1.0 + slot_bound) - 1.0
    resolution = max(stats[0].cell_unit, 1.0 / key.ticks_per_unit if key else 0.0, *(s.resolution for s in stats))
    cells = _cells(stats)
    least, most = _extremes(stats)
    unit = stats[0].cell_unit
    values = {name: _of_cells(cells, name, unit, least, most) for name in percentiles if cells}
    return _together(stats, digits, values, bound, resolution)


def _together(
    stats: Sequence[SeriesStat],
    digits: int,
    percentiles: Mapping[str, Number],
    error_bound: float,
    resolution: float,
) -> SeriesStat:
    count, total = sum(stat.count for stat in stats), total_of(stat.total for stat in stats)
    moments = [Moments(stat.count, stat.total, stat.stddev) for stat in stats]
    above = sum(stat.above for stat in stats)
    least, most = _extremes(stats)
    wanted = dict.fromkeys(name for stat in stats for name in stat.percentiles)
    began_ns, ended_ns = time_range_of(stats)
    return SeriesStat(
        name=stats[0].name,
        labels=stats[0].labels,
        unit=stats[0].unit,
        digits=digits,
        count=count,
        total=carried(total),
        min=least,
        max=most,
        mean=mean_of(total, count) if all(stat.mean is not None for stat in stats) else None,
        stddev=stddev_of(moments),
        percentiles={name: value for name, value in percentiles.items() if name in wanted},
        error_bound=None if above else error_bound,
        resolution=resolution,
        below=sum(stat.below for stat in stats),
        above=above,
        imprecise=sum(stat.imprecise for stat in stats),
        histogram=_cells(stats),
        cell_unit=stats[0].cell_unit,
        extent=joined([stat.extent for stat in stats]),
        began_ns=began_ns,
        ended_ns=ended_ns,
    )


def _extremes(stats: Sequence[SeriesStat]) -> tuple[Number | None, Number | None]:
    least = min((stat.min for stat in stats if stat.min is not None), default=None)
    return least, max((stat.max for stat in stats if stat.max is not None), default=None)


def _cells(stats: Sequence[SeriesStat]) -> list[tuple[int, int]]:
    """Add up cells. Their edges depend only on the unit, so they match in all runs."""
    sums: dict[int, int] = {}
    for stat in stats:
        for cell, count in stat.histogram:
            sums[cell] = sums.get(cell, 0) + count
    return sorted(sums.items())


def _of_cells(
    cells: Sequence[tuple[int, int]], key: str, unit: float, least: Number | None, most: Number | None
) -> Number:
    """Return the highest value of the cell that holds the rank, limited to the minimum and maximum."""
    wanted = rank(parse_percentile(key), sum(count for _, count in cells))
    reached = accumulate(count for _, count in cells)
    cell = next((cell for (cell, _), so_far in zip(cells, reached, strict=True) if so_far >= wanted), cells[-1][0])
    value: Number = plain((edge(min(max(cell, 0), CELLS - 1) + 1) - 1) * unit)
    value = value if least is None else max(value, least)
    return value if most is None else min(value, most)
