"""Requests, gathered from the counters and series of a snapshot: their outcomes and rates.

A kind of request exists if there is a counter `<kind>.issued` in requests. Kinds with different labels are
separate, and so are tracking windows, finish reasons, failure reasons and turns, which are labels too. Pure.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Final, TypeVar

from msgspec.structs import replace

from telemetry.wire import requests as words
from telemetry.wire.cells import CELLS, PER_DOUBLING, edge
from telemetry.wire.report import Rate, Rates
from telemetry.wire.snapshot import CounterStat, Extent, MetricsSnapshot, SeriesStat, WindowStat

Labels = tuple[tuple[str, str], ...]
"""Pairs of label and value, sorted."""
Number = int | float
_Stat = TypeVar("_Stat", CounterStat, SeriesStat)

_OWN: Final = frozenset({words.WINDOW, words.FINISH, words.REASON, words.TURN})
_COUNTERS: Final = frozenset(word for word, (kind, _) in words.INSTRUMENTS.items() if kind == "counter")
_OF_TURNS: Final = frozenset({words.TURN_LATENCY, words.TURN_TTFT})
_CELL_BOUND: Final = 1.0 / PER_DOUBLING
_PERCENTILE: Final = re.compile(r"(\d{1,3})(?:\.(\d{1,7}))?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCounts:
    """Requests of one kind, in one tracking window or in total."""

    kind: str
    labels: Mapping[str, str]
    """Labels of the kind, without window, finish reason, reason and turn."""
    window: str | None = None
    """Tracking window. None: the total. Empty: requests outside any window."""
    issued: Number = 0
    completed: Number = 0
    failed: Mapping[str, Number] = field(default_factory=dict)
    """Failed requests by reason."""
    expired: Number = 0
    in_flight: Number = 0
    """Issued requests without an outcome yet. Below 0 if issues are not counted, as in a time range of a run."""
    after_end: Number = 0
    """Number of calls for requests that had ended, or for unknown requests."""
    out_of_order: Number = 0
    """Number of durations left out because their end lies before their beginning."""
    finishes: Mapping[str, Number] = field(default_factory=dict)
    """Completed requests by finish reason, without those that have no finish reason."""
    series: Mapping[str, SeriesStat] = field(default_factory=dict)
    """Series by word of `telemetry.wire.requests`. `together` merges those of several windows."""
    turns: Mapping[str, Mapping[str, SeriesStat]] = field(default_factory=dict)
    """Series by turn of the conversation, in order of turns, then by word."""
    rates: Rates = field(default_factory=Rates)
    windows: Sequence[RequestCounts] = ()
    """List of the tracking windows, and of the requests outside any window if there are any. Only in the total."""

    @property
    def failures(self) -> Number:
        """Number of failed requests, for any reason."""
        return _sum(self.failed.values())


def request_counts(snapshot: MetricsSnapshot) -> list[RequestCounts]:
    """Return the requests of each kind and labels, in the order of the snapshot; empty if there are none."""
    kinds = set(_kinds(snapshot.counters))
    if not kinds:
        return []
    gathered: dict[tuple[str, Labels], dict[str, _Part]] = {}
    stats: list[CounterStat | SeriesStat] = [*snapshot.counters, *snapshot.series]
    for stat in stats:
        kind, word = _split(stat, kinds)
        if word:
            labels, window = _place(stat.labels)
            gathered.setdefault((kind, labels), {}).setdefault(window, _Part()).add(word, stat)
    return [_counts(kind, dict(labels), parts) for (kind, labels), parts in gathered.items()]


def without_requests(stats: Sequence[_Stat], snapshot: MetricsSnapshot) -> list[_Stat]:
    """Return the counters or series of a snapshot that do not belong to requests."""
    kinds = set(_kinds(snapshot.counters))
    return [stat for stat in stats if not _split(stat, kinds)[1]] if kinds else list(stats)


def issued_kind(name: str, unit: str) -> str:
    """Return the kind of request that a counter of this name and unit counts the issues of; empty if none."""
    kind, _, word = name.rpartition(".")
    return kind if word == words.ISSUED and unit == words.INSTRUMENTS[word][1] else ""


def rates_of(snapshot: MetricsSnapshot, kind: str, labels: Mapping[str, str]) -> Rates:
    """Return the rates of one kind of request, in the tracking window of these labels.

    `labels` are those of one of its series. All rates are unknown if there are no such requests.
    """
    if kind not in _kinds(snapshot.counters):
        return Rates()
    names = {words.name_of(kind, word) for word in (words.COMPLETED, *words.WITHIN)}
    part, place = _Part(), _place(labels)
    stats: list[CounterStat | SeriesStat] = [*snapshot.counters, *snapshot.series]
    for stat in stats:
        if stat.name in names and _place(stat.labels) == place:
            _, word = _split(stat, {kind})
            if word:
                part.add(word, stat)
    return part.rates


def _place(labels: Mapping[str, str]) -> tuple[Labels, str]:
    """Return the labels of the kind, and the tracking window."""
    return tuple(sorted(item for item in labels.items() if item[0] not in _OWN)), labels.get(words.WINDOW, "")


def _kinds(counters: Iterable[CounterStat]) -> Iterator[str]:
    return filter(None, (issued_kind(stat.name, stat.unit) for stat in counters))


def _split(stat: CounterStat | SeriesStat, kinds: set[str]) -> tuple[str, str]:
    """Return kind and word; an empty word if the instrument does not belong to a request.

    `turn.latency` is a word only if the instrument has the label of the turn.
    """
    head, _, last = stat.name.rpartition(".")
    kind, _, before = head.rpartition(".")
    for one, word in ((kind, f"{before}.{last}"), (head, last)):
        known = one in kinds and word in words.INSTRUMENTS and (word in _COUNTERS) == isinstance(stat, CounterStat)
        if known and (word in _OF_TURNS) == (words.TURN in stat.labels):
            return one, word
    return "", ""


@dataclass(slots=True)
class _Part:
    """The instruments of one window."""

    counts: dict[str, Number] = field(default_factory=dict)
    failed: dict[str, Number] = field(default_factory=dict)
    finishes: dict[str, Number] = field(default_factory=dict)
    series: dict[str, SeriesStat] = field(default_factory=dict)
    turns: dict[str, dict[str, SeriesStat]] = field(default_factory=dict)

    def add(self, word: str, stat: CounterStat | SeriesStat) -> None:
        if isinstance(stat, SeriesStat):
            turn = stat.labels.get(words.TURN)
            (self.series if turn is None else self.turns.setdefault(turn, {}))[word] = stat
            return
        self.counts[word] = _sum((self.counts.get(word, 0), stat.value))
        if word == words.FAILED and stat.value:
            reason = stat.labels.get(words.REASON, "")
            self.failed[reason] = _sum((self.failed.get(reason, 0), stat.value))
        elif word == words.COMPLETED and words.FINISH in stat.labels:
            finish = stat.labels[words.FINISH]
            self.finishes[finish] = _sum((self.finishes.get(finish, 0), stat.value))

    @property
    def has_requests(self) -> bool:
        return any(self.counts.get(word) for word in (words.ISSUED, words.COMPLETED, words.FAILED, words.EXPIRED))

    def request_counts(
        self, kind: str, labels: Mapping[str, str], window: str | None, windows: Sequence[RequestCounts] = ()
    ) -> RequestCounts:
        issued, completed, failed, expired = (
            self.counts.get(word, 0) for word in (words.ISSUED, words.COMPLETED, words.FAILED, words.EXPIRED)
        )
        return RequestCounts(
            kind=kind,
            labels=labels,
            window=window,
            issued=issued,
            completed=completed,
            failed=self.failed,
            expired=expired,
            in_flight=_sum((issued, -completed, -failed, -expired)),
            after_end=self.counts.get(words.AFTER_END, 0),
            out_of_order=self.counts.get(words.OUT_OF_ORDER, 0),
            finishes=self.finishes,
            series=self.series,
            turns={turn: self.turns[turn] for turn in sorted(self.turns, key=_turn_order)},
            rates=self.rates,
            windows=windows,
        )

    @property
    def rates(self) -> Rates:
        """Completion rates; unknown without an extent, or without time between its ends."""
        completed = self.counts.get(words.COMPLETED, 0)
        latency, tokens = self.series.get(words.LATENCY), self.series.get(words.OUTPUT_TOKENS)
        extent = latency.extent if latency is not None else None
        if extent is None:
            return Rates()
        total = tokens.total if tokens is not None and tokens.count > 0 else None
        own = tokens.extent if total is not None and tokens is not None else None
        tokens_inside = own.inside_total if own is not None else None
        return Rates(
            while_issuing=_rate(extent.inside, tokens_inside, extent, extent.last_ns),
            loadgen=_rate(max(completed - 1, 0), total, extent, extent.last_done_ns),
            overall=_rate(completed, total, extent, extent.end_ns),
        )


def _rate(requests: Number, tokens: Number | None, extent: Extent, until_ns: int) -> Rate:
    seconds = _quotient(until_ns - extent.first_ns, 1e9)
    if seconds is None or seconds <= 0.0:
        return Rate()
    return Rate(
        requests_per_s=_quotient(requests, seconds),
        tokens_per_s=None if tokens is None else _quotient(tokens, seconds),
    )


def _sum(numbers: Iterable[Number]) -> Number:
    """Return the sum; infinity if no float can hold it."""
    try:
        return sum(numbers)
    except OverflowError:
        return math.inf


def _quotient(one: Number, other: Number) -> float | None:
    """Return the quotient; None if no float can hold it."""
    try:
        return one / other
    except (OverflowError, ZeroDivisionError):
        return None


def _counts(kind: str, labels: Mapping[str, str], parts: Mapping[str, _Part]) -> RequestCounts:
    order = sorted(parts, key=bool)  # outside any window first, the rest in the order of the snapshot
    named = any(window and parts[window].has_requests for window in order)
    shown = [window for window in order if named and parts[window].has_requests]
    windows = [parts[window].request_counts(kind, labels, window) for window in shown]
    return _added([parts[window] for window in order]).request_counts(kind, labels, None, windows)


def _added(parts: Sequence[_Part]) -> _Part:
    """Return the sum of all windows. A single window is returned unchanged."""
    if len(parts) == 1:
        return parts[0]
    turns = dict.fromkeys(turn for part in parts for turn in part.turns)
    return _Part(
        counts=_sums(part.counts for part in parts),
        failed=_sums(part.failed for part in parts),
        finishes=_sums(part.finishes for part in parts),
        series=_by_word([part.series for part in parts]),
        turns={turn: _by_word([part.turns.get(turn, {}) for part in parts]) for turn in turns},
    )


def _sums(parts: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    sums: dict[str, Number] = {}
    for part in parts:
        for name, value in part.items():
            sums[name] = _sum((sums.get(name, 0), value))
    return sums


def _by_word(parts: Sequence[Mapping[str, SeriesStat]]) -> dict[str, SeriesStat]:
    known = dict.fromkeys(word for part in parts for word in part)
    return {word: together([part[word] for part in parts if word in part]) for word in known}


def _turn_order(turn: str) -> tuple[bool, int, str]:
    """Sort turns by number; "32+" and other texts come last."""
    number = turn.isascii() and turn.isdigit()
    return not number, int(turn) if number else 0, turn


def joined(extents: Sequence[Extent | None]) -> Extent | None:
    """Return the extent of several things, from the first beginning to the last end; None if one is unknown.

    The number of events inside is then unknown, so `last_ns` is 0. `last_done_ns` is 0 too if one of the extents
    was already such a sum.
    """
    known = [extent for extent in extents if extent is not None]
    if not known or len(known) < len(extents):
        return None
    if len(known) == 1:
        return known[0]
    last = max(known, key=lambda extent: extent.last_ns)
    return Extent(
        first_ns=min(extent.first_ns for extent in known),
        last_done_ns=last.last_done_ns if all(extent.last_ns for extent in known) else 0,
        end_ns=max(extent.end_ns for extent in known),
    )


def shifted(extent: Extent | None, by_ns: int) -> Extent | None:
    """Return the extent on a clock that is ahead by `by_ns`. A time of 0 means "unknown" and stays 0."""
    if extent is None or not by_ns:
        return extent
    times = ("first_ns", "last_ns", "last_done_ns", "end_ns")
    return replace(extent, **{name: getattr(extent, name) and getattr(extent, name) + by_ns for name in times})


# --- several series as one -----------------------------------------------------------------------


def together(stats: Sequence[SeriesStat]) -> SeriesStat:
    """Merge the windows of one series, and remove the label of the window.

    A single window with values is unchanged.

    Count, total, extremes, mean and deviation are those of all values. A percentile is the highest possible one, by
    the percentiles of the windows and their display histograms; `error_bound` is the largest possible excess.
    """
    stats = [stat for stat in stats if stat.count > 0] or list(stats[:1])
    if len(stats) == 1:
        return stats[0]
    count, total = sum(stat.count for stat in stats), _sum(stat.total for stat in stats)
    mean = _quotient(total, count)
    keys = [key for key in stats[0].percentiles if all(key in stat.percentiles for stat in stats)]
    cells = _cells(stats)
    between = {key: span for key in keys if (span := _between(key, stats, cells)) is not None}
    return replace(
        stats[0],
        labels={key: value for key, value in stats[0].labels.items() if key != words.WINDOW},
        count=count,
        total=total,
        min=min((stat.min for stat in stats if stat.min is not None), default=None),
        max=max((stat.max for stat in stats if stat.max is not None), default=None),
        mean=mean,
        stddev=_stddev(stats, count, mean),
        percentiles={key: high for key, (_, high) in between.items()},
        exact=False,
        error_bound=_error(between.values(), stats),
        resolution=max(stat.resolution for stat in stats),
        below=sum(stat.below for stat in stats),
        above=sum(stat.above for stat in stats),
        imprecise=sum(stat.imprecise for stat in stats),
        histogram=cells,
        window=_window([stat.window for stat in stats]),
        extent=joined([stat.extent for stat in stats]),
    )


def _stddev(stats: Sequence[SeriesStat], count: int, mean: float | None) -> float | None:
    squares = 0.0
    for stat in stats:
        if stat.stddev is None or stat.mean is None or mean is None:
            return None
        share = _quotient(stat.count, count) or 0.0
        apart = stat.mean - mean
        squares += share * (stat.stddev * stat.stddev + apart * apart)
    return math.sqrt(squares)


def _cells(stats: Sequence[SeriesStat]) -> list[tuple[int, int]]:
    sums: dict[int, int] = {}
    for stat in stats:
        for cell, count in stat.histogram:
            sums[cell] = sums.get(cell, 0) + count
    return sorted(sums.items())


def _between(
    key: str, stats: Sequence[SeriesStat], cells: Sequence[tuple[int, int]]
) -> tuple[Number, Number] | None:
    """Return bounds of a percentile of all values: those of the parts, narrowed by the cell of its rank.

    Return None for a key that is not a number.
    """
    match = _PERCENTILE.fullmatch(key)
    if match is None:
        return None
    values = [stat.percentiles[key] for stat in stats]
    low, high = min(values), max(values)
    whole, decimals = match[1], match[2] or ""
    wanted = -(-int(whole + decimals) * sum(stat.count for stat in stats) // (100 * 10 ** len(decimals)))
    reached = accumulate(count for _, count in cells)
    cell = next((cell for (cell, _), so_far in zip(cells, reached, strict=True) if so_far >= wanted), None)
    if cell is not None and 0 <= cell < CELLS:
        unit = stats[0].cell_unit
        low, high = max(low, min(edge(cell) * unit, high)), min(high, max(edge(cell + 1) * unit, low))
    return low, high


def _error(between: Iterable[tuple[Number, Number]], stats: Sequence[SeriesStat]) -> float | None:
    """Return the largest relative error; None if a part has no bound."""
    bounds = [stat.error_bound for stat in stats if stat.error_bound is not None]
    if len(bounds) < len(stats):
        return None
    widths = [(_quotient(high, low) or 1.0) - 1.0 if low > 0 else _CELL_BOUND for low, high in between]
    return max(widths, default=0.0) + max(bounds)


def _window(windows: Sequence[WindowStat]) -> WindowStat:
    """Merge the last seconds. Percentiles are kept only if a single window has values."""
    busy = [window for window in windows if window.count]
    if len(busy) < 2:
        return busy[0] if busy else windows[0]
    return WindowStat(
        seconds=max(window.seconds for window in busy),
        count=sum(window.count for window in busy),
        rate=sum(window.rate for window in busy),
    )
