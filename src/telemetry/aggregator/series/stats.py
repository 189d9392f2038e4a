"""Builder of SeriesStat structs. It recomputes only the parts that changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from telemetry import limits
from telemetry.aggregator.event_times import EventTimes
from telemetry.aggregator.series.group import Definition, SeriesGroup
from telemetry.aggregator.series.summary import SeriesSummary
from telemetry.aggregator.series.ticks import Indices
from telemetry.aggregator.snapshot_numbers import LARGEST, bounded, grown, plain
from telemetry.statistics.hdr.cells import count_cells
from telemetry.statistics.hdr.layout import Floats
from telemetry.statistics.hdr.percentiles import Ratio, parse_percentile, ranks
from telemetry.wire.snapshot import SeriesStat, WindowStat

Number = int | float
Percentiles = dict[str, Number]


class RollWindow(NamedTuple):
    """Combined length of the last rolls, or of one roll, and the extremes of each series that existed then."""

    seconds: float
    min: Floats
    max: Floats


class StatBuilder:
    """Cache of percentiles, display histogram and window of each series between calls.

    Raises UsageError for a percentile outside (0, 100].
    """

    STATE: ClassVar[Mapping[str, Any]] = {
        "_exact": dict[int, tuple[int, Percentiles]],
        "_loosened": dict[int, tuple[float, float]],
    }
    ADDED: ClassVar[tuple[str, ...]] = ("_loosened",)
    DERIVED: ClassVar[tuple[str, ...]] = (
        *("keys", "ratios", "_times", "_definitions"),
        *("_built", "_percentiles", "_histograms", "_windows", "_outside", "_stats"),
    )

    def __init__(self, keys: tuple[str, ...], times: EventTimes) -> None:
        self.keys = keys
        self._times = times
        self.ratios: list[Ratio] = [parse_percentile(key) for key in keys]
        self._built = np.zeros(0, np.int64)
        """Count of each series for which percentiles are cached."""
        self._definitions: list[Definition] = []
        self._percentiles: list[Percentiles] = []
        self._histograms: list[list[tuple[int, int]]] = []
        self._windows: list[WindowStat] = []
        self._stats: list[SeriesStat] = []
        self._exact: dict[int, tuple[int, Percentiles]] = {}
        """Series index → number of values, and their order statistics."""
        self._outside: list[tuple[int, int]] = []
        self._loosened: dict[int, tuple[float, float]] = {}
        """Series index → error bound and resolution that replace those of the definition."""

    def loosen(self, index: int, error_bound: float, resolution: float) -> None:
        """Widen the bounds of a series. They appear with its next values."""
        before = self._loosened.get(index, (0.0, 0.0))
        self._loosened[index] = max(before[0], error_bound), max(before[1], resolution)

    def add(self, definition: Definition) -> None:
        self._definitions.append(definition)
        self._percentiles.append({})
        self._histograms.append([])
        self._windows.append(WindowStat())
        self._outside.append((0, 0))
        self._stats.append(empty_stat(definition, self._windows[-1]))

    def set_exact(self, values: dict[int, Percentiles], summary: SeriesSummary) -> None:
        """Replace bucket bounds by order statistics until the series changes. Keys keep their order."""
        for index, percentiles in values.items():
            exact = {key: plain(percentiles[key]) for key in self.keys if key in percentiles}
            self._exact[index] = int(summary.count[index]), exact
        self._rebuild(np.array(sorted(values), dtype=np.intp), summary)

    def build(
        self, groups: Sequence[SeriesGroup], summary: SeriesSummary, window: RollWindow | None
    ) -> list[SeriesStat]:
        """Return all series by index. Pass `window` if it moved since the last call."""
        size = len(self._definitions)
        self._built = grown(self._built, size)
        changed = summary.count != self._built[:size]
        self._built[:size] = summary.count
        for group in groups:
            self._refresh_counts(group, summary, changed)
            if window is not None:
                self._refresh_window(group, window, summary)
        stale = np.flatnonzero(changed) if window is None else np.arange(size)
        self._rebuild(stale, summary)
        return self._stats.copy()

    def _refresh_counts(self, group: SeriesGroup, summary: SeriesSummary, changed: NDArray[np.bool_]) -> None:
        rows = np.flatnonzero(changed[group.members])
        if not rows.size:
            return
        members = group.members[rows]
        index = group.index(group.counts)
        wanted = ranks(self.ratios, summary.count[members])
        values = group.percentiles(index, rows, wanted)
        lines = self._percentile_lines(values, summary.min[members], summary.max[members])
        cells = count_cells(index, group.layout, rows, group.cells_per_tick[rows])
        pairs = list(zip(cells.cells.tolist(), cells.counts.tolist(), strict=True))
        starts = cells.starts.tolist()
        below, above = group.ticks.below[rows].tolist(), group.ticks.above[rows].tolist()
        for line, member in enumerate(members.tolist()):
            self._percentiles[member] = lines[line]
            self._histograms[member] = pairs[starts[line] : starts[line + 1]]
            self._outside[member] = (below[line], above[line])

    def _refresh_window(self, group: SeriesGroup, window: RollWindow, summary: SeriesSummary) -> None:
        seconds = window.seconds
        own_seconds = self._times.window_seconds(seconds, summary.count)
        index = group.index(group.window)
        counts = index.row_counts()
        rows = np.flatnonzero(counts)
        members = group.members[rows]
        wanted = ranks(self.ratios, counts[rows])
        values = group.percentiles(index, rows, wanted)
        lines = self._percentile_lines(values, window.min[members], window.max[members])
        empty = WindowStat(seconds=seconds)
        for member in group.members.tolist():
            if member < window.min.size:
                self._windows[member] = empty
        for member, line, count, own in zip(
            members.tolist(), lines, counts[rows].tolist(), own_seconds[members].tolist(), strict=True
        ):
            rate = count / own if own > 0.0 else 0.0
            self._windows[member] = WindowStat(seconds=own, count=count, rate=rate, percentiles=line)

    def _percentile_lines(self, values: Floats, least: Floats, most: Floats) -> list[Percentiles]:
        """Return one dict per series, with percentiles limited to the range of its values."""
        np.maximum(values, least[:, None], out=values)
        np.minimum(values, most[:, None], out=values)
        keys = self.keys
        return [dict(zip(keys, line, strict=True)) for line in _number_lines(values)]

    def _rebuild(self, stale: Indices, summary: SeriesSummary) -> None:
        counts = summary.count[stale]
        with np.errstate(invalid="ignore"):
            deviations = np.sqrt(summary.squares[stale] / np.maximum(counts, 1))
        columns = zip(
            stale.tolist(),
            counts.tolist(),
            summary.exact_totals(stale),
            _numbers(summary.min[stale]),
            _numbers(summary.max[stale]),
            deviations.tolist(),
            summary.imprecise[stale].tolist(),
            strict=True,
        )
        times = self._times.ranges(summary.count)
        for index, count, total, least, most, deviation, imprecise in columns:
            self._stats[index] = (
                self._stat(index, count, total, least, most, deviation, imprecise, times[index])
                if count
                else empty_stat(self._definitions[index], self._windows[index])
            )

    def _stat(  # noqa: PLR0917 - one line of the columns above; called for every series of every snapshot
        self,
        index: int,
        count: int,
        total: Number,
        least: Number,
        most: Number,
        deviation: float,
        imprecise: int,
        times: tuple[int, int],
    ) -> SeriesStat:
        definition = self._definitions[index]
        of_count, statistics = self._exact.get(index, (0, None))
        if of_count != count:
            statistics = None
        exact = statistics is not None and not imprecise
        below, above = self._outside[index]
        error_bound, resolution = self._loosened.get(index, (definition.error_bound, definition.resolution))
        mean = total / count
        return SeriesStat(
            name=definition.name,
            labels=definition.labels,
            unit=definition.unit,
            digits=definition.digits,
            count=count,
            total=bounded(total),
            min=least,
            max=most,
            mean=mean if mean <= LARGEST else None,
            stddev=deviation if deviation <= LARGEST else None,
            percentiles=self._percentiles[index] if statistics is None else statistics,
            exact=exact,
            error_bound=0.0 if exact else None if above else error_bound,
            resolution=0.0 if exact else resolution,
            below=below,
            above=above,
            imprecise=imprecise,
            histogram=self._histograms[index],
            cell_unit=definition.cell_unit,
            window=self._windows[index],
            began_ns=times[0],
            ended_ns=times[1],
        )


def empty_stat(definition: Definition, window: WindowStat) -> SeriesStat:
    """Return the stat of a series without values."""
    return SeriesStat(
        name=definition.name,
        labels=definition.labels,
        unit=definition.unit,
        digits=definition.digits,
        error_bound=definition.error_bound,
        resolution=definition.resolution,
        cell_unit=definition.cell_unit,
        window=window,
    )


def _numbers(values: Floats) -> list[Number]:
    return [line[0] for line in _number_lines(values[:, None])]


def _number_lines(values: Floats) -> list[list[Number]]:
    whole = (np.rint(values) == values) & (values >= 0.0) & (values < limits.EXACT_INTEGER)
    if whole.all():
        return values.astype(np.int64).tolist()  # type: ignore[no-any-return]
    lines: list[list[Number]] = values.tolist()
    for line, column in zip(*(places.tolist() for places in np.nonzero(whole)), strict=True):
        lines[line][column] = int(lines[line][column])
    return lines
