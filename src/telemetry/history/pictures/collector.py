"""A collector of figures for pictures, from the windows of a history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from telemetry import limits
from telemetry.hdr.layout import Integers
from telemetry.history.fair_rates import Activity, Steps
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.interval_sums import Added, Rows
from telemetry.history.intervals.histograms import added_up
from telemetry.history.pictures.cumulative import Cumulative
from telemetry.history.pictures.instruments import (
    Kind,
    drawn_counters,
    drawn_gauges,
    drawn_heat_maps,
    drawn_kinds,
    ids_of,
)
from telemetry.history.pictures.spreads import coarse_distribution, distribution, heat_map
from telemetry.history.range_totals import RangeTotals
from telemetry.rates import Paces, Stat
from telemetry.request_model import number_of_events
from telemetry.wire import requests as words
from telemetry.wire.control import SeriesKey
from telemetry.wire.pictures import (
    CounterOverTime,
    Distribution,
    GaugeOverTime,
    HeatMap,
    Pictures,
    RequestsOverTime,
)
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

_GAP_S: Final = 0.5
"""Time without history that is a step of its own; intervals of a history take a second."""
_ENDED: Final = (words.COMPLETED, words.FAILED, words.EXPIRED)
_NO_ROWS: Final = Rows([])
Figures = list[float | None]


class _Window(NamedTuple):
    seconds: float
    counters: Mapping[SeriesId, float]
    gauges: Mapping[SeriesId, float]


class PictureCollector:
    """Figures over time of the busiest instruments of a run. Not thread-safe."""

    def __init__(self, snapshot: MetricsSnapshot, over_time: Sequence[SeriesStat]) -> None:
        """Choose the instruments of the whole run. `over_time` has the series with distributions."""
        self._kinds = drawn_kinds(snapshot)
        self._counters, self._gauges = drawn_counters(snapshot), drawn_gauges(snapshot)
        self._heat_maps = drawn_heat_maps(snapshot)
        self._distributions = over_time
        self._paces, self._started_ns = Paces(snapshot), snapshot.started_ns
        stats: list[Stat] = [*snapshot.series, *snapshot.counters]
        self._stats = {series_id(stat): stat for stat in stats if number_of_events(stat)}
        self._edges_s: list[float] = []
        self._windows: list[_Window | None] = []
        """None: a gap."""
        self._tokens: list[list[float]] = [[] for _ in self._kinds]
        """Increases of output tokens by kind, for each window."""
        self._slots: list[list[tuple[Integers, Integers] | None]] = [[] for _ in self._heat_maps]
        """Slots and counts by heat map, for each window."""

    @property
    def has_requests(self) -> bool:
        return bool(self._kinds)

    def add(self, window: RangeTotals) -> None:
        """Add a window, in order of time."""
        start_s = window.start_s
        if not self._edges_s:
            self._edges_s.append(start_s)
        elif start_s - self._edges_s[-1] > _GAP_S:
            self._append(None, start_s)
        self._append(window, window.end_s)

    def pictures(
        self, rows: Rows, values_of: Callable[[Integers], Added], before: Mapping[SeriesId, float]
    ) -> Pictures:
        """Return the figures.

        `values_of` sums all values of some rows of `rows`. `before` has the increases of counters from the run's
        start to the first window.
        """
        return Pictures(
            edges_s=self._edges_s,
            requests=[
                self._requests(kind, tokens, before) for kind, tokens in zip(self._kinds, self._tokens, strict=True)
            ],
            counters=[
                CounterOverTime(name=stat.name, labels=stat.labels, unit=stat.unit, rates=self._rates([one]))
                for stat, one in zip(self._counters, ids_of(self._counters), strict=True)
            ],
            gauges=[
                GaugeOverTime(
                    name=stat.name,
                    labels=stat.labels,
                    unit=stat.unit,
                    values=[None if window is None else window.gauges.get(one) for window in self._windows],
                )
                for stat, one in zip(self._gauges, ids_of(self._gauges), strict=True)
            ],
            heat_maps=self._drawn_heat_maps(rows),
            distributions=self._drawn_distributions(rows, values_of),
        )

    # --- over time -------------------------------------------------------------------------------

    def _append(self, window: RangeTotals | None, end_s: float) -> None:
        self._edges_s.append(max(end_s, self._edges_s[-1]))  # the clock may have been set back
        self._windows.append(None if window is None else _Window(window.seconds, window.counters, window.gauges))
        added, rows = (window.added, window.rows) if window is not None else (None, _NO_ROWS)
        for kind, tokens in zip(self._kinds, self._tokens, strict=True):
            tokens.append(_total(added, rows, kind.output_tokens))
        for one, slots in zip(ids_of(self._heat_maps), self._slots, strict=True):
            slots.append(_slots_of(added, rows, one))

    def _requests(self, kind: Kind, tokens: Sequence[float], before: Mapping[SeriesId, float]) -> RequestsOverTime:
        counters = kind.counters
        ended = [one for word in _ENDED for one in counters.get(word, ())]
        issued = counters.get(words.ISSUED, [])
        good = counters.get(words.GOOD)
        lost = [one for word in (words.FAILED, words.EXPIRED) for one in counters.get(word, ())]
        return RequestsOverTime(
            kind=kind.kind,
            labels=kind.labels,
            completed_per_s=self._rates(counters.get(words.COMPLETED, [])),
            failed_per_s=self._rates(lost),
            in_flight=self._in_flight(issued, ended, before),
            output_tokens_per_s=self._per_s(tokens, kind.output_tokens) if kind.output_tokens else [],
            good_per_s=self._rates(good) if good is not None else [],
        )

    def _rates(self, counters: Sequence[SeriesId]) -> Figures:
        """Return the increase of several counters together, per second."""
        increases = [0.0 if window is None else _sum(window.counters, counters) for window in self._windows]
        return self._per_s(increases, counters)

    def _per_s(self, increases: Sequence[float], of: Sequence[SeriesId]) -> Figures:
        stats = [self._stats[one] for one in of if one in self._stats]
        seconds = [0.0 if window is None else window.seconds for window in self._windows]
        steps = Steps(self._edges_s[:-1], self._edges_s[1:], seconds)
        return steps.rates(increases, Activity.of(self._paces, stats, self._started_ns))

    def _in_flight(
        self, issued: Sequence[SeriesId], ended: Sequence[SeriesId], before: Mapping[SeriesId, float]
    ) -> Figures:
        """Return the issued requests without an outcome at the end of each window. Unknown after a gap."""
        now: float | None = _sum(before, issued) - _sum(before, ended)
        found: Figures = []
        for window in self._windows:
            if now is not None and window is not None:
                now += _sum(window.counters, issued) - _sum(window.counters, ended)
            else:
                now = None
            found.append(None if now is None else max(now, 0.0))
        return found

    # --- spread ----------------------------------------------------------------------------------

    def _drawn_heat_maps(self, rows: Rows) -> list[HeatMap]:
        found = []
        for stat, one, parts in zip(self._heat_maps, ids_of(self._heat_maps), self._slots, strict=True):
            known = [part for part in parts if part is not None]
            if not known or not _is_drawable(key := rows.key_of(one)):
                continue
            slots, counts = added_up(*(np.concatenate(column) for column in zip(*known, strict=True)))
            steps = [None if part is None else Cumulative.of(key, *part) for part in parts]
            found.append(heat_map(stat, Cumulative.of(key, slots, counts), steps))
        return found

    def _drawn_distributions(self, rows: Rows, values_of: Callable[[Integers], Added]) -> list[Distribution]:
        drawn = [one for one in ids_of(self._distributions) if one in rows.place]
        added = values_of(np.array(sorted(rows.place[one] for one in drawn), np.int64))
        found = []
        for stat, one in zip(self._distributions, ids_of(self._distributions), strict=True):
            slots = _slots_of(added, rows, one)
            if slots is not None and _is_drawable(key := rows.key_of(one)):
                found.append(distribution(stat, Cumulative.of(key, *slots)))
        return found


def result_pictures(stats: Sequence[SeriesStat]) -> Pictures:
    """Return what a result alone has: the distributions of these series, in coarse cells."""
    return Pictures(distributions=[one for stat in stats if (one := coarse_distribution(stat)) is not None])


def _is_drawable(key: SeriesKey) -> bool:
    """Return False for a resolution that no instrument can have, as in a damaged history."""
    return limits.LOWEST_BOUND <= key.ticks_per_unit <= limits.HIGHEST_BOUND


def _sum(values: Mapping[SeriesId, float], of: Iterable[SeriesId]) -> float:
    return sum(values.get(one, 0.0) for one in of)


def _total(added: Added | None, rows: Rows, of: Iterable[SeriesId]) -> float:
    """Return the sum of the values of several series."""
    if added is None:
        return 0.0
    wanted = [rows.place[one] for one in of if one in rows.place]
    return float(added.total[np.isin(added.rows, wanted)].sum()) if wanted else 0.0


def _slots_of(added: Added | None, rows: Rows, of: SeriesId) -> tuple[Integers, Integers] | None:
    """Return the slots of a series, ascending, and their counts; None without values."""
    row = rows.place.get(of)
    if added is None or row is None:
        return None
    first = row * rows.span
    begin, end = np.searchsorted(added.places, (first, first + rows.span))
    return (added.places[begin:end] - first, added.counts[begin:end].copy()) if end > begin else None
