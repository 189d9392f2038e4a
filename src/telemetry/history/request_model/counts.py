"""Requests, gathered from the counters and series of a snapshot: their outcomes and rates.

A kind of request exists if there is a counter `<kind>.issued` in requests. Kinds with different labels are
separate, and so are tracking windows, finish reasons, failure reasons and turns, which are labels too. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from telemetry.history.request_model.figures import RequestCounts
from telemetry.history.request_model.merging import Number, quotient, sum_of, together
from telemetry.wire import requests as words
from telemetry.wire.report import Rate, Rates
from telemetry.wire.snapshot import CounterStat, Extent, MetricsSnapshot, SeriesStat

Labels = tuple[tuple[str, str], ...]
"""Pairs of label and value, sorted."""
_Stat = TypeVar("_Stat", CounterStat, SeriesStat)

_OWN: Final = frozenset({words.WINDOW, words.FINISH, words.REASON, words.TURN, words.SLO})
_COUNTERS: Final = frozenset(word for word, (kind, _) in words.INSTRUMENTS.items() if kind == "counter")
_OF_TURNS: Final = frozenset({words.TURN_LATENCY, words.TURN_TTFT})


def request_counts(snapshot: MetricsSnapshot) -> list[RequestCounts]:
    """Return the requests of each kind and labels, in the order of the snapshot; empty if there are none."""
    gathered: dict[tuple[str, Labels], dict[str, _WindowInstruments]] = {}
    for instrument in request_instruments(snapshot):
        gathered.setdefault((instrument.kind, instrument.labels), {}).setdefault(
            instrument.window, _WindowInstruments()
        ).add(instrument.word, instrument.stat)
    return [
        _counts(kind, dict(labels), parts, _limits(snapshot, kind, labels))
        for (kind, labels), parts in gathered.items()
    ]


class RequestInstrument(NamedTuple):
    """A counter or series that belongs to requests."""

    kind: str
    labels: Labels
    window: str
    """Tracking window; empty for requests outside any window."""
    word: str
    """Word of `telemetry.wire.requests`."""
    stat: CounterStat | SeriesStat


def request_instruments(snapshot: MetricsSnapshot) -> Iterator[RequestInstrument]:
    """Yield the counters and series that belong to requests, in the order of the snapshot."""
    kinds = set(_kinds(snapshot.counters))
    if not kinds:
        return
    stats: list[CounterStat | SeriesStat] = [*snapshot.counters, *snapshot.series]
    for stat in stats:
        kind, word = _split(stat, kinds)
        if word:
            labels, window = _place(stat.labels)
            yield RequestInstrument(kind, labels, window, word, stat)


def _limits(snapshot: MetricsSnapshot, kind: str, labels: Labels) -> str:
    """Return the limits of the kind with these labels, by the parameter that its program sent."""
    return str(snapshot.params.get(words.limits_param(kind, dict(labels)), ""))


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
    part, window = _WindowInstruments(), _place(labels)
    stats: list[CounterStat | SeriesStat] = [*snapshot.counters, *snapshot.series]
    for stat in stats:
        if stat.name in names and _place(stat.labels) == window:
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
    for candidate, word in ((kind, f"{before}.{last}"), (head, words.canonical(last))):
        is_instrument = (
            candidate in kinds
            and word in words.INSTRUMENTS
            and (word in _COUNTERS) == isinstance(stat, CounterStat)
        )
        if is_instrument and (word in _OF_TURNS) == (words.TURN in stat.labels):
            return candidate, word
    return "", ""


@dataclass(slots=True)
class _WindowInstruments:
    """The instruments of one window."""

    counts: dict[str, Number] = field(default_factory=dict)
    failed: dict[str, Number] = field(default_factory=dict)
    finishes: dict[str, Number] = field(default_factory=dict)
    series: dict[str, SeriesStat] = field(default_factory=dict)
    turns: dict[str, dict[str, SeriesStat]] = field(default_factory=dict)
    met: dict[str, Number] = field(default_factory=dict)

    def add(self, word: str, stat: CounterStat | SeriesStat) -> None:
        if isinstance(stat, SeriesStat):
            turn = stat.labels.get(words.TURN)
            series_by_word = self.series if turn is None else self.turns.setdefault(turn, {})
            series_by_word[word] = together([series_by_word[word], stat]) if word in series_by_word else stat
            return
        self.counts[word] = sum_of((self.counts.get(word, 0), stat.value))
        if word == words.FAILED and stat.value:
            reason = stat.labels.get(words.REASON, "")
            self.failed[reason] = sum_of((self.failed.get(reason, 0), stat.value))
        elif word == words.COMPLETED and words.FINISH in stat.labels:
            finish = stat.labels[words.FINISH]
            self.finishes[finish] = sum_of((self.finishes.get(finish, 0), stat.value))
        elif word == words.MET:
            key = stat.labels.get(words.SLO, "")
            self.met[key] = sum_of((self.met.get(key, 0), stat.value))

    @property
    def has_requests(self) -> bool:
        return any(self.counts.get(word) for word in (words.ISSUED, words.COMPLETED, words.FAILED, words.EXPIRED))

    def request_counts(
        self,
        kind: str,
        labels: Mapping[str, str],
        window: str | None,
        slo: str,
        windows: Sequence[RequestCounts] = (),
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
            in_flight=sum_of((issued, -completed, -failed, -expired)),
            after_end=self.counts.get(words.AFTER_END, 0),
            out_of_order=self.counts.get(words.OUT_OF_ORDER, 0),
            finishes=self.finishes,
            series=self.series,
            turns={turn: self.turns[turn] for turn in sorted(self.turns, key=_turn_order)},
            rates=self.rates,
            slo=slo,
            good=self.counts.get(words.GOOD),
            met=self.met,
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
    seconds = quotient(until_ns - extent.first_ns, 1e9)
    if seconds is None or seconds <= 0.0:
        return Rate()
    return Rate(
        requests_per_s=quotient(requests, seconds),
        tokens_per_s=None if tokens is None else quotient(tokens, seconds),
    )


def _counts(
    kind: str, labels: Mapping[str, str], parts: Mapping[str, _WindowInstruments], slo: str
) -> RequestCounts:
    order = sorted(parts, key=bool)  # outside any window first, the rest in the order of the snapshot
    named = any(window and parts[window].has_requests for window in order)
    shown = [window for window in order if named and parts[window].has_requests]
    windows = [parts[window].request_counts(kind, labels, window, slo) for window in shown]
    return _added([parts[window] for window in order]).request_counts(kind, labels, None, slo, windows)


def _added(parts: Sequence[_WindowInstruments]) -> _WindowInstruments:
    """Return the sum of all windows. A single window is returned unchanged."""
    if len(parts) == 1:
        return parts[0]
    turns = dict.fromkeys(turn for part in parts for turn in part.turns)
    return _WindowInstruments(
        counts=_sums(part.counts for part in parts),
        failed=_sums(part.failed for part in parts),
        finishes=_sums(part.finishes for part in parts),
        met=_sums(part.met for part in parts),
        series=_by_word([part.series for part in parts]),
        turns={turn: _by_word([part.turns.get(turn, {}) for part in parts]) for turn in turns},
    )


def _sums(parts: Iterable[Mapping[str, Number]]) -> dict[str, Number]:
    sums: dict[str, Number] = {}
    for part in parts:
        for name, value in part.items():
            sums[name] = sum_of((sums.get(name, 0), value))
    return sums


def _by_word(parts: Sequence[Mapping[str, SeriesStat]]) -> dict[str, SeriesStat]:
    distinct = dict.fromkeys(word for part in parts for word in part)
    return {word: together([part[word] for part in parts if word in part]) for word in distinct}


def _turn_order(turn: str) -> tuple[bool, int, str]:
    """Sort turns by number; "32+" and other texts come last."""
    number = turn.isascii() and turn.isdigit()
    return not number, int(turn) if number else 0, turn
