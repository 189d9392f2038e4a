"""A collector of figures for pictures, from the windows of a history, with cumulative counts of values."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from telemetry import limits
from telemetry.common import headline_choice
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.interval_sums import Added, RangeTotals, SumRows
from telemetry.history.intervals.histograms import added_up
from telemetry.history.rates import Activity, Paces, RateSteps, Stat
from telemetry.history.request_model import number_of_events, request_instruments, without_requests
from telemetry.history.span_model import without_spans
from telemetry.statistics.hdr.layout import Floats, Integers, Layout
from telemetry.wire import requests as words
from telemetry.wire.cells import CELLS, edge
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.control import SeriesKey
from telemetry.wire.pictures import (
    CounterOverTime,
    Distribution,
    GaugeOverTime,
    HeatMap,
    Pictures,
    RequestsOverTime,
)
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat, without_single_nodes
from telemetry.wire.units import TIME_NS

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
COUNTERS: Final = 40
GAUGES: Final = 40
MACHINE: Final = 160
"""Largest number of gauges of machine, GPUs and processes."""
HEAT_MAPS: Final = 4
KINDS: Final = 20
"""Largest number of kinds of requests."""
_GAP_S: Final = 0.5
"""Time without history that is a step of its own; intervals of a history take a second."""
_ENDED: Final = (words.COMPLETED, words.FAILED, words.EXPIRED)
_NO_ROWS: Final = SumRows([])
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
        self, rows: SumRows, values_of: Callable[[Integers], Added], before: Mapping[SeriesId, float]
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
                CounterOverTime(name=stat.name, labels=stat.labels, unit=stat.unit, rates=self._rates([series]))
                for stat, series in zip(self._counters, ids_of(self._counters), strict=True)
            ],
            gauges=[
                GaugeOverTime(
                    name=stat.name,
                    labels=stat.labels,
                    unit=stat.unit,
                    values=[None if window is None else window.gauges.get(series) for window in self._windows],
                )
                for stat, series in zip(self._gauges, ids_of(self._gauges), strict=True)
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
        for series, slots in zip(ids_of(self._heat_maps), self._slots, strict=True):
            slots.append(_slots_of(added, rows, series))

    def _requests(
        self, kind: KindInstruments, tokens: Sequence[float], before: Mapping[SeriesId, float]
    ) -> RequestsOverTime:
        counters = kind.counters
        ended = [series for word in _ENDED for series in counters.get(word, ())]
        issued = counters.get(words.ISSUED, [])
        good = counters.get(words.GOOD)
        lost = [series for word in (words.FAILED, words.EXPIRED) for series in counters.get(word, ())]
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
        stats = [self._stats[series] for series in of if series in self._stats]
        seconds = [0.0 if window is None else window.seconds for window in self._windows]
        steps = RateSteps(self._edges_s[:-1], self._edges_s[1:], seconds)
        return steps.rates(increases, Activity.of(self._paces, stats, self._started_ns))

    def _in_flight(
        self, issued: Sequence[SeriesId], ended: Sequence[SeriesId], before: Mapping[SeriesId, float]
    ) -> Figures:
        """Return the issued requests without an outcome at the end of each window. Unknown after a gap."""
        now: float | None = _sum(before, issued) - _sum(before, ended)
        in_flight: Figures = []
        for window in self._windows:
            if now is not None and window is not None:
                now += _sum(window.counters, issued) - _sum(window.counters, ended)
            else:
                now = None
            in_flight.append(None if now is None else max(now, 0.0))
        return in_flight

    # --- spread ----------------------------------------------------------------------------------

    def _drawn_heat_maps(self, rows: SumRows) -> list[HeatMap]:
        heat_maps = []
        for stat, series, parts in zip(self._heat_maps, ids_of(self._heat_maps), self._slots, strict=True):
            present = [part for part in parts if part is not None]
            if not present or not _is_drawable(key := rows.key_of(series)):
                continue
            slots, counts = added_up(*(np.concatenate(column) for column in zip(*present, strict=True)))
            steps = [None if part is None else Cumulative.of(key, *part) for part in parts]
            heat_maps.append(heat_map(stat, Cumulative.of(key, slots, counts), steps))
        return heat_maps

    def _drawn_distributions(self, rows: SumRows, values_of: Callable[[Integers], Added]) -> list[Distribution]:
        drawn = [series for series in ids_of(self._distributions) if series in rows.place]
        added = values_of(np.array(sorted(rows.place[series] for series in drawn), np.int64))
        distributions = []
        for stat, series in zip(self._distributions, ids_of(self._distributions), strict=True):
            slots = _slots_of(added, rows, series)
            if slots is not None and _is_drawable(key := rows.key_of(series)):
                distributions.append(distribution(stat, Cumulative.of(key, *slots)))
        return distributions


def result_pictures(stats: Sequence[SeriesStat]) -> Pictures:
    """Return what a result alone has: the distributions of these series, in coarse cells."""
    return Pictures(distributions=[coarse for stat in stats if (coarse := coarse_distribution(stat)) is not None])


def _is_drawable(key: SeriesKey) -> bool:
    """Return False for a resolution that no instrument can have, as in a damaged history."""
    return limits.LOWEST_BOUND <= key.ticks_per_unit <= limits.HIGHEST_BOUND


def _sum(values: Mapping[SeriesId, float], of: Iterable[SeriesId]) -> float:
    return sum(values.get(series, 0.0) for series in of)


def _total(added: Added | None, rows: SumRows, of: Iterable[SeriesId]) -> float:
    """Return the sum of the values of several series."""
    if added is None:
        return 0.0
    wanted = [rows.place[series] for series in of if series in rows.place]
    return float(added.total[np.isin(added.rows, wanted)].sum()) if wanted else 0.0


def _slots_of(added: Added | None, rows: SumRows, of: SeriesId) -> tuple[Integers, Integers] | None:
    """Return the slots of a series, ascending, and their counts; None without values."""
    row = rows.place.get(of)
    if added is None or row is None:
        return None
    first = row * rows.span
    begin, end = np.searchsorted(added.places, (first, first + rows.span))
    return (added.places[begin:end] - first, added.counts[begin:end].copy()) if end > begin else None


@dataclass(slots=True)
class KindInstruments:
    """The instruments of one kind of request, of all tracking windows, by word of `telemetry.wire.requests`."""

    kind: str
    labels: dict[str, str]
    counters: dict[str, list[SeriesId]] = field(default_factory=dict)
    output_tokens: list[SeriesId] = field(default_factory=list)
    issued: int | float = 0


def drawn_kinds(snapshot: MetricsSnapshot) -> list[KindInstruments]:
    """Return the busiest kinds of requests, in the order of the snapshot."""
    kinds: dict[tuple[str, tuple[tuple[str, str], ...]], KindInstruments] = {}
    for instrument in request_instruments(snapshot):
        own_kind = kinds.setdefault(
            (instrument.kind, instrument.labels), KindInstruments(instrument.kind, dict(instrument.labels))
        )
        if isinstance(instrument.stat, CounterStat):
            own_kind.counters.setdefault(instrument.word, []).append(series_id(instrument.stat))
            if instrument.word == words.ISSUED:
                own_kind.issued += instrument.stat.value
        elif instrument.word == words.OUTPUT_TOKENS:
            own_kind.output_tokens.append(series_id(instrument.stat))
    busiest = sorted(kinds.values(), key=lambda kind: -kind.issued)[:KINDS]
    return [kind for kind in kinds.values() if kind in busiest]


def drawn_counters(snapshot: MetricsSnapshot) -> list[CounterStat]:
    """Return the counters with the most events that belong to no request and no span."""
    own = without_spans(without_requests(snapshot.counters, snapshot))
    return sorted((stat for stat in own if stat.events), key=lambda stat: -stat.events)[:COUNTERS]


def drawn_gauges(snapshot: MetricsSnapshot) -> list[GaugeStat]:
    """Return the gauges that were set most often, in the order of the snapshot.

    Those of the machine do not count: collectors set them all alike.
    """
    stats = without_single_nodes(snapshot.gauges)
    busiest = sorted(range(len(stats)), key=lambda index: -stats[index].events)
    own = [index for index in busiest if not is_of_machine(stats[index].name)][:GAUGES]
    machine = [index for index in busiest if is_of_machine(stats[index].name)][:MACHINE]
    return [stats[index] for index in sorted([*own, *machine]) if stats[index].events]


def drawn_heat_maps(snapshot: MetricsSnapshot) -> list[SeriesStat]:
    """Return series in a unit of time: latencies of requests, then those of the headline, then the busiest."""
    latencies = {
        series_id(instrument.stat)
        for instrument in request_instruments(snapshot)
        if instrument.word == words.LATENCY
    }
    named = {choice.name for choice in headline_choice.chosen(snapshot.params)}

    def order(stat: SeriesStat) -> tuple[bool, bool, int]:
        return series_id(stat) not in latencies, stat.name not in named, -stat.count

    timed = [stat for stat in snapshot.series if stat.unit in TIME_NS and stat.count]
    return sorted(timed, key=order)[:HEAT_MAPS]


def ids_of(stats: Sequence[CounterStat] | Sequence[GaugeStat] | Sequence[SeriesStat]) -> list[SeriesId]:
    """Return the identities of these instruments."""
    return [series_id(stat) for stat in stats]


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
    counts = {cell: count for cell, count in sorted(stat.histogram) if 0 <= cell < CELLS and count > 0}
    count = sum(counts.values())
    if not count or not 0.0 < stat.cell_unit < LARGEST_UNIT:
        return None
    reached = list(accumulate(counts.values()))
    cells = list(counts)
    first = cells[bisect_left(reached, -(-count // _THOUSAND))]
    last = cells[bisect_left(reached, count - count // _THOUSAND)]
    shown = range(first, last + 1)
    return Distribution(
        name=stat.name,
        labels=stat.labels,
        unit=stat.unit,
        scale="cells",
        edges=[edge(cell) * stat.cell_unit for cell in (*shown, last + 1)],
        counts=[counts.get(cell, 0) for cell in shown],
        below=sum(counts[cell] for cell in cells if cell < first),
        above=sum(counts[cell] for cell in cells if cell > last),
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
    width = next(factor * power for factor in _ROUND if factor * power >= least * (1.0 - 1e-9))
    first, last = math.floor(low / width * (1.0 + 1e-12)), math.ceil(high / width * (1.0 - 1e-12))
    return np.arange(first, max(last, first + 1) + 1, dtype=np.float64) * width


def _plain(edges: Floats) -> list[float]:
    """Return edges without the noise of the last bits."""
    return [float(f"{value:.{_DIGITS}g}") for value in edges.tolist()]


@dataclass(frozen=True, slots=True)
class Cumulative:
    """Values of one series in slots with values. Inside a slot, values are spread evenly."""

    lows: Floats
    """Lower edge of each slot, ascending, in the unit of the series."""
    ends: Floats
    """Upper edge of each slot, exclusive."""
    reached: Integers
    """Number of values up to the end of each slot."""

    @staticmethod
    def of(key: SeriesKey, slots: Integers, counts: Integers) -> Cumulative:
        """Return the values in some slots, ascending, of the histogram of a series."""
        layout = Layout.of(key.digits)
        slots = np.minimum(slots, layout.slots - 1)  # a damaged history may have others
        lows, ends = layout.lowest_of(slots), layout.highest_of(slots) + 1
        return Cumulative(lows / key.ticks_per_unit, ends / key.ticks_per_unit, np.cumsum(counts))

    @property
    def count(self) -> int:
        return int(self.reached[-1]) if self.reached.size else 0

    @property
    def low(self) -> float:
        """Lower edge of the slot of percentile 0.1."""
        return float(self.lows[self._place(-(-self.count // _THOUSAND))])

    @property
    def high(self) -> float:
        """Upper edge of the slot of percentile 99.9."""
        return float(self.ends[self._place(self.count - self.count // _THOUSAND)])

    @property
    def end(self) -> float:
        """Upper edge of the last slot."""
        return float(self.ends[-1])

    def slot_at(self, value: float) -> float:
        """Return the width of the last slot that begins at or below a value, or of the first slot."""
        index = max(int(np.searchsorted(self.lows, value, side="right")) - 1, 0)
        return float(self.ends[index] - self.lows[index])

    def below(self, edges: Floats) -> Integers:
        """Return the number of values below each edge, rounded to whole values."""
        places = np.maximum(np.searchsorted(self.lows, edges, side="right") - 1, 0)
        lows, ends = self.lows[places], self.ends[places]
        share = np.clip((edges - lows) / (ends - lows), 0.0, 1.0)
        before = np.append(0, self.reached[:-1])[places]
        rounded: Integers = np.rint(before + (self.reached[places] - before) * share).astype(np.int64)
        return rounded

    def _place(self, rank: int) -> int:
        return int(np.searchsorted(self.reached, rank))
