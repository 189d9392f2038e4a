"""The series shown to the viewer, in order, with the figures of the chosen time range."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from telemetry.common import formatting, wording
from telemetry.common.formatting import printable
from telemetry.errors import UsageError
from telemetry.history.intervals.figures import Figures
from telemetry.history.rates import Paces
from telemetry.history.request_model import request_instruments, without_requests
from telemetry.statistics.hdr.percentiles import parse_percentile, rank
from telemetry.tui.model import numbers
from telemetry.tui.model.scene import RangeFigures, Scene, SeriesId, Trend, View, series_id
from telemetry.tui.model.sparkline import movement
from telemetry.wire.requests import INSTRUMENTS, OUTPUT_TOKENS, WINDOW, window_ages
from telemetry.wire.snapshot import TERMINAL, CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

PINNED: Final = "pinned"
WHOLE_RUN: Final = "whole run"
FEW: Final = 10
"""Number of values beyond a percentile below which it counts as uncertain: it is nearly one of these values."""
_DELTA: Final = "dp"
"""Prefix of the keys of difference columns; the percentile follows."""

_TOKENS: Final = INSTRUMENTS[OUTPUT_TOKENS][1]

_Item = TypeVar("_Item")
_Rated = TypeVar("_Rated", SeriesStat, CounterStat)
Stat = SeriesStat | CounterStat | GaugeStat


@dataclass(frozen=True, slots=True)
class VisibleSeries:
    """A series as shown. `figures` are those of the time range that `time_range_words` names."""

    series: SeriesId
    stat: SeriesStat
    figures: Figures
    rate: float | None
    """Values per second; None for numbers of tokens, and over the whole run for a series of requests."""
    trend: Trend
    base: SeriesStat | None
    """The same series of the baseline, if it has the same unit."""
    max: float | None = None
    """The greatest value of the time range. For a window only the maximum of the whole run is known."""
    pinned: bool = False

    def change(self, percentile: str) -> float | None:
        """Return the relative difference from the baseline's whole run."""
        before = self.base.percentiles.get(percentile) if self.base else None
        return numbers.change(self.figures.percentiles.get(percentile), before)


@dataclass(frozen=True, slots=True)
class Group:
    """A group of series. `heading` is empty without grouping."""

    heading: str
    members: tuple[VisibleSeries, ...]


@lru_cache(maxsize=1 << 12)  # twice as many as there are series
def key_of(series: SeriesId) -> str:
    """Return the key of a row, unique for each series."""
    return json.dumps(series, ensure_ascii=False)


def moment_words(moment: RangeFigures) -> str:
    """Return a time range such as `12:00:40–12:00:50`: whole seconds that keep its length."""
    start_s = round(moment.start_ns / 1e9)
    seconds = round((moment.end_ns - moment.start_ns) / 1e9)
    return "–".join(formatting.clock_time(at * 1_000_000_000)[:8] for at in (start_s, start_s + seconds))


def time_range_words(scene: Scene, view: View) -> str:
    """Return the time range of the figures: `last 10 s`, `whole run`, `12:00:40–12:00:50 UTC`."""
    if scene.moment:
        return f"{moment_words(scene.moment)} UTC"
    if view.figures == "run" or scene.snapshot is None:
        return WHOLE_RUN
    over = "" if scene.live else "the "
    return f"{over}last {scene.snapshot.window_s:g} s"


def is_over(scene: Scene) -> bool:
    """Return whether the run has ended."""
    return not scene.live or (scene.snapshot is not None and scene.snapshot.state in TERMINAL)


def is_read(scene: Scene) -> bool:
    """Return whether any history has arrived. Reading the history of a finished run takes a while."""
    return bool(scene.trends) or not is_over(scene)


def figures_of(stat: SeriesStat, scene: Scene, view: View, paces: Paces | None = None) -> Figures:
    """Return the figures of the chosen time range. The least and greatest values of a window are unknown.

    `paces`: those of the scene's snapshot, if they are at hand.
    """
    if scene.moment:
        seconds = (scene.moment.end_ns - scene.moment.start_ns) / 1e9
        return scene.moment.series.get(series_id(stat.name, stat.labels), Figures(seconds=seconds))
    if view.figures == "run" or scene.snapshot is None:
        return run_figures(stat, scene.snapshot, paces)
    window = stat.window
    return Figures(seconds=window.seconds, count=window.count, rate=window.rate, percentiles=window.percentiles)


def run_figures(stat: SeriesStat, snapshot: MetricsSnapshot | None, paces: Paces | None = None) -> Figures:
    """Return the figures of the whole run. `snapshot` is the one that the series is of."""
    if paces is None and snapshot is not None:
        paces = Paces(snapshot)
    return Figures(
        seconds=snapshot.elapsed_s if snapshot else 0.0,
        count=stat.count,
        rate=(paces.of(stat).per_s or 0.0) if paces else 0.0,
        total=stat.total,
        min=stat.min,
        max=stat.max,
        percentiles=stat.percentiles,
    )


def rated(stats: Sequence[_Rated], scene: Scene, view: View) -> Sequence[_Rated]:
    """Return the series or counters whose rates are shown in a table.

    Each instrument of a request counts over its own time. The rates of the requests have one time, so they are the
    only ones over the whole run.
    """
    if scene.snapshot is None or scene.moment or view.figures == "window":
        return stats
    return without_requests(stats, scene.snapshot)


def percentile_keys(snapshot: MetricsSnapshot | None) -> tuple[str, ...]:
    """Return all percentiles that any series has, ascending."""
    if snapshot is None:
        return ()
    keys = {key for stat in snapshot.series for part in (stat, stat.window) for key in part.percentiles}
    return tuple(sorted(keys, key=wording.by_number))


@lru_cache(maxsize=64)  # a snapshot has 32 at most
def ratio_of(percentile: str) -> tuple[int, int] | None:
    """Parse a percentile; None if it is invalid."""
    try:
        return parse_percentile(percentile)
    except UsageError:
        return None


def beyond(percentile: str, count: int) -> int | None:
    """Return how many of `count` values are above the rank of a percentile; None for an invalid percentile."""
    ratio = ratio_of(percentile)
    return None if ratio is None else count - min(count, rank(ratio, count))


def few_beyond(percentile: str, count: int) -> bool:
    """Return whether a percentile is based on few values: `(1 - p) * count < FEW`.

    False for the greatest value, "100".
    """
    ratio = ratio_of(percentile)
    return ratio is not None and 0 < (ratio[1] - ratio[0]) * count < FEW * ratio[1]


def matches(text: str, wanted: str) -> bool:
    """Return whether the text contains all words of the filter, ignoring case."""
    folded = text.casefold()
    return all(word in folded for word in wanted.casefold().split())


def shown(scene: Scene, view: View) -> tuple[Group, ...]:
    """Return the series that pass the filter: pinned ones, then group by group, each in the order of the view.

    Without a chosen order, series of requests come first: the first series of all is plotted.
    """
    everything = newest_window_first(passing(scene, view), lambda item: item.stat, scene.snapshot)
    if scene.snapshot is not None:
        requests = {id(instrument.stat) for instrument in request_instruments(scene.snapshot)}
        everything.sort(key=lambda item: id(item.stat) not in requests)
    ordered = in_order(everything, _sorter(view.sort), descending=view.descending)
    if not view.group:
        members = tuple(sorted(ordered, key=lambda item: not item.pinned))
        return (Group("", members),) if members else ()
    heads: dict[tuple[int, str], list[VisibleSeries]] = {}
    for item in ordered:
        heads.setdefault(_head(item, view.group), []).append(item)
    return tuple(Group(head[1], tuple(heads[head])) for head in sorted(heads))


def in_order(
    items: Iterable[_Item], sorter: Callable[[_Item], float | str | None] | None, *, descending: bool
) -> list[_Item]:
    """Sort items. Items without a value are last in either direction; equal items keep their order."""
    if sorter is None:
        return list(items)
    valued, empty = [], []
    for item in items:
        value = sorter(item)
        if value is None:
            empty.append(item)
        else:
            valued.append((value, item))
    valued.sort(key=lambda pair: pair[0], reverse=descending)
    return [item for _, item in valued] + empty


def newest_window_first(
    items: Iterable[_Item], stat_of: Callable[[_Item], Stat], snapshot: MetricsSnapshot | None
) -> list[_Item]:
    """Sort instruments with a tracking window last, those of the newest window first; keep the order of the rest.

    The current window matters more than the warm-up before it. `snapshot` is the one that the items are from.
    """
    if snapshot is None:
        return list(items)
    ages = window_ages(snapshot)
    stats: tuple[Stat, ...] = (*snapshot.counters, *snapshot.series, *snapshot.gauges)
    apart = {stat.name for stat in stats if WINDOW in stat.labels}

    def youth(item: _Item) -> int:
        stat = stat_of(item)
        return -ages[stat.labels.get(WINDOW, "")] if stat.name in apart else -len(ages)

    return sorted(items, key=youth)


def delta_column(percentile: str) -> str:
    return f"{_DELTA}{percentile}"


def passing(scene: Scene, view: View) -> Iterator[VisibleSeries]:
    """Yield the series that pass the filter, in order of definition."""
    stat_by_series = (
        {series_id(stat.name, stat.labels): stat for stat in scene.baseline.series} if scene.baseline else {}
    )
    paces = Paces(scene.snapshot) if scene.snapshot else None
    with_rate = {
        id(stat)
        for stat in (rated(scene.snapshot.series, scene, view) if scene.snapshot else ())
        if stat.unit != _TOKENS  # read as tokens per second
    }
    for stat in scene.snapshot.series if scene.snapshot else ():
        if view.filter and not matches(wording.instrument(stat.name, stat.labels, stat.unit), view.filter):
            continue
        series = series_id(stat.name, stat.labels)
        base = stat_by_series.get(series)
        figures = figures_of(stat, scene, view, paces)
        yield VisibleSeries(
            series,
            stat,
            figures,
            figures.rate if id(stat) in with_rate else None,
            trend=() if scene.moment else scene.trends.get(series, ()),
            base=base if base is not None and base.unit == stat.unit else None,
            max=figures.max if scene.moment else stat.max,
            pinned=series in view.pinned,
        )


def _head(item: VisibleSeries, label: str) -> tuple[int, str]:
    """Return the order and the heading of a series' group."""
    if item.pinned:
        return 0, PINNED
    value = item.stat.labels.get(label)
    return (2, printable(f"without {label}")) if value is None else (1, printable(f"{label}={value}"))


def _sorter(column: str) -> Callable[[VisibleSeries], float | str | None] | None:
    """Return the sort function of a column. It compares values, not their text."""
    fixed: dict[str, Callable[[VisibleSeries], float | str | None]] = {
        "name": lambda item: wording.instrument(item.stat.name, item.stat.labels).casefold(),
        "count": lambda item: item.figures.count,
        "rate": lambda item: item.rate,
        "max": lambda item: _comparable(item.max, item.stat.unit),
        "trend": lambda item: movement(item.trend),
    }
    if column in fixed:
        return fixed[column]
    if column.startswith(_DELTA):
        return lambda item: item.change(column.removeprefix(_DELTA))
    if column.startswith("p"):
        return lambda item: _comparable(item.figures.percentiles.get(column[1:]), item.stat.unit)
    return None


def _comparable(value: float | None, unit: str) -> float | None:
    return None if value is None else value * numbers.base_units(unit)
