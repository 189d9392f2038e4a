"""The creation of a merged run directory, which appears only when it is complete."""

from __future__ import annotations

import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Final

from msgspec.structs import replace

from telemetry.common.formatting import number_of
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.history.instrument_ids import series_id
from telemetry.history.request_model import joined, shifted, time_range_of
from telemetry.judge.merge.history import MergedHistory, OnProgress, add_histories
from telemetry.judge.merge.result import (
    MergedMoments,
    Number,
    carried,
    mean_of,
    merged_snapshot,
    plain,
    stddev_of,
    total_of,
)
from telemetry.judge.merge.sources import Input, SeriesId, labels, name_of
from telemetry.statistics.hdr.layout import Layout
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.store.append_file import describe
from telemetry.store.atomic import sync_directory
from telemetry.store.final_snapshot import write_final
from telemetry.store.merge_sources import write_sources
from telemetry.store.request_log import RequestLogReader, RequestLogWriter
from telemetry.store.run_directory import MergedRun, RunDirectory, directory_name, manifest_for, slug
from telemetry.wire.cells import CELLS, PER_DOUBLING, edge
from telemetry.wire.codec import carriable
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat, WindowStat
from telemetry.wire.sources import ODD_FROM, SourceSeries, SourceStat

_CELL_BOUND: Final = 1.0 / PER_DOUBLING
Refine = Callable[[Sequence[Input], list[SeriesStat], Sequence[str]], tuple[list[SeriesStat], list[str]]]
"""Function (runs, merged series, percentiles) → the series with exact percentiles, and why some have none."""


@dataclass(frozen=True, kw_only=True)
class MergeTarget:
    """The place and name of the merged run. An empty name is derived from the names of the runs."""

    root: Path
    """Parent directory for a new directory with a standard name."""
    directory: Path | None = None
    """Exact directory instead, which must not exist yet."""
    name: str = ""


@dataclass(frozen=True, kw_only=True)
class Merged:
    directory: RunDirectory
    snapshot: MetricsSnapshot
    sources: tuple[SourceStat, ...]


def merge(
    inputs: Sequence[Input],
    target: MergeTarget,
    *,
    coarse: bool = False,
    refine: Refine | None = None,
    argv: Sequence[str] = (),
    on_progress: OnProgress = lambda *_: None,
) -> Merged:
    """Create the run directory of all `inputs` from `gather`. Reads their histories and blocks on the disk.

    A series of several runs gets its percentiles from a histogram of all values, with the bound of that histogram,
    unless `refine` finds exact ones. A series of a single run keeps its percentiles. `coarse`: see `merged_series`.
    The link `latest` does not change.

    Raises UsageError for runs that can't be added, RunDirectoryError for files that can't be read or written.
    """
    run_id, name = secrets.token_hex(4), target.name or name_of(inputs)
    began_ns = min(source_run.begin_ns for source_run in inputs)
    path = (target.directory or target.root / directory_name(name, run_id, began_ns)).absolute()
    run = RunDirectory(path, run_id, slug(name), began_ns)
    percentiles = percentiles_of(inputs)
    sources = sources_of(inputs)
    with _appearing(path) as building:
        built = RunDirectory(building, run_id, slug(name), began_ns)
        added = add_histories(inputs, built.history, percentiles, on_progress)
        series, warnings = merged_series(inputs, added, percentiles, coarse=coarse)
        if refine is not None:
            series, reasons = refine(inputs, series, percentiles)
            warnings += reasons
        if not added.written:
            lacking = ", ".join(
                source_run.label for source_run in inputs if not source_run.directory.history.is_dir()
            )
            warnings.append(f"no history was written: {lacking} has none")
        warnings += join_request_logs(inputs, built)
        snapshot = merged_snapshot(
            inputs, series, run_id=run_id, name=name, directory=carriable(str(path)), warnings=warnings
        )
        built.write_manifest(
            replace(
                manifest_for(built, name, run_id, argv, ""),
                pid=0,
                merged_from=[
                    MergedRun(run_id=source.run_id, name=source.name, host=source.host, directory=source.directory)
                    for source in sources
                ],
            )
        )
        write_sources(built, sources)
        write_final(snapshot, [built.final])
    return Merged(directory=run, snapshot=snapshot, sources=tuple(sources))


@contextmanager
def _appearing(path: Path) -> Iterator[Path]:
    """Yield a new directory. It is renamed to `path` after success and removed after an error.

    Raises RunDirectoryError if `path` exists or can't be written.
    """
    building = path.with_name(f".{path.name[:100]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    if os.path.lexists(path):
        raise RunDirectoryError(f"{path} exists already", hint="choose another -o, or move it away")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        building.mkdir(mode=0o700)
        yield building
        os.rename(building, path)
        sync_directory(path.parent)
    except OSError as error:
        raise RunDirectoryError(
            f"can't write the merged run: {describe(error)}", hint="choose a writable location with -o"
        ) from error
    finally:
        shutil.rmtree(building, ignore_errors=True)


def sources_of(inputs: Sequence[Input]) -> list[SourceStat]:
    """Return the sources of all inputs in order, each compared with the others."""
    sources = [source for run in inputs for source in run.sources]
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
    odd = {series: _odd(series_ratios) for series, series_ratios in ratios.items()}
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
    ratios = {}
    for at, value in values.items():
        others = [other for index, other in values.items() if index != at]
        middle = median(others) if others else 0.0
        if middle > 0.0:
            ratios[at] = value / middle
    return ratios


def _odd(ratios: dict[int, float]) -> int | None:
    """Return the source with the ratio farthest from 1, or None if all are close. In a tie, the slower one."""
    far = {at: (_distance(ratio), ratio) for at, ratio in ratios.items()}
    at = max(far, key=far.__getitem__, default=None)
    return at if at is not None and far[at][0] >= ODD_FROM else None


def _distance(ratio: float) -> float:
    """Return the ratio or its inverse, whichever is larger. Rounded, so that x and 1 / x are equally far."""
    return round(max(ratio, 1.0 / ratio), 9) if ratio > 0.0 else math.inf


def join_request_logs(inputs: Sequence[Input], directory: RunDirectory) -> list[str]:
    """Write the requests of all runs, moved as the runs are, and return warnings about what can't be read.

    Raises RunDirectoryError if the log can't be written.
    """
    warnings = []
    log = RequestLogWriter(directory.requests)
    for run in inputs:
        reader = RequestLogReader(run.directory.requests)
        try:
            for frame in reader.frames():
                moved = replace(frame, offset_ns=frame.offset_ns + run.shift_ns)
                log.append([moved], log.next_number)
        except RunDirectoryError as error:
            warnings.append(f"{run.label}: {error.message}")
        if reader.damaged_bytes or reader.unreadable:
            warnings.append(f"{run.label}: a part of its request log can't be read and is left out")
    log.close()
    if log.failed:
        raise RunDirectoryError(f"can't write the request log: {log.failed}")
    return warnings


@dataclass(frozen=True)
class _Share:
    """The part of a series in one run."""

    stat: SeriesStat
    lacking: str
    """Reason why the history lacks values of the series; empty if it is complete."""


def percentiles_of(inputs: Iterable[Input]) -> list[str]:
    """Return all computable percentiles of any result, ascending."""
    keys = {key for run in inputs for stat in run.snapshot.series for key in stat.percentiles}
    fractions = {}
    for key in keys:
        try:
            numerator, denominator = parse_percentile(key)
        except UsageError:  # from a file of another program
            continue
        fractions[key] = numerator / denominator
    return sorted(fractions, key=lambda key: (fractions[key], key))


def merged_series(
    inputs: Sequence[Input], added: MergedHistory, percentiles: Sequence[str], *, coarse: bool
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


def _shares(inputs: Sequence[Input], added: MergedHistory) -> dict[SeriesId, list[_Share]]:
    shares: dict[SeriesId, list[_Share]] = {}
    for run, counts in zip(inputs, added.counts, strict=True):
        for stat in run.snapshot.series:
            share = _Share(shifted(stat, run.shift_ns), _lack(run, stat, counts))
            shares.setdefault(series_id(stat), []).append(share)
    return shares


def _lack(run: Input, stat: SeriesStat, counts: Mapping[SeriesId, int]) -> str:
    """Return the reason why a run's history can't represent the series, or an empty string."""
    count = counts.get(series_id(stat), 0)
    if count == stat.count:
        return ""
    if not counts:
        return f"run {run.label} has no history"
    if 0 <= count < stat.count:
        return f"the history of run {run.label} has {count:,} of {number_of(stat.count, 'value')}"
    return f"the history of run {run.label} does not match its result"


def _fine(stats: Sequence[SeriesStat], series: SeriesId, added: MergedHistory) -> SeriesStat:
    figures, key = added.figures[series], added.keys[series]
    values = {name: plain(value) for name, value in figures.percentiles.items()}
    bound = Layout.of(key.digits).error_bound
    return _together(stats, key.digits, values, bound, 1.0 / key.ticks_per_unit)


def _coarse(
    stats: Sequence[SeriesStat], series: SeriesId, added: MergedHistory, percentiles: Sequence[str]
) -> SeriesStat:
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
    moments = [MergedMoments(stat.count, stat.total, stat.stddev) for stat in stats]
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
