"""Counts and rates of each kind of request in the chosen time range, with similar outcomes combined."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec import structs
from msgspec.structs import replace

from telemetry.history.intervals.figures import Figures
from telemetry.history.request_model import RequestCounts, issued_kind, request_counts, time_range_of
from telemetry.tui.model.scene import RangeFigures, Scene, View, series_id
from telemetry.wire import requests as words
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot

_SUFFIX: Final = f".{words.ISSUED}"
_UNIT: Final = words.INSTRUMENTS[words.ISSUED][1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A kind of request, or a tracking window of it.

    Counts cover the whole run; rates are per second over the last seconds. In the past, both cover the chosen time
    range. None means unknown.
    """

    counts: RequestCounts
    issued: float | None = None
    in_flight: float | None = None
    completed: float | None = None
    failed: float | None = None
    expired: float | None = None
    issuing: float | None = None
    completing: float | None = None
    failing: float | None = None
    tokens: float | None = None
    """Output tokens per second of completed requests."""
    input_tokens: float | None = None
    """Input tokens per second of completed requests."""
    good: float | None = None
    """Requests within their limits per second; None also without limits."""
    attained: float | None = None
    """Share of the ended requests that are within their limits."""
    windows: tuple[Flow, ...] = ()

    @property
    def parts(self) -> tuple[Flow, ...]:
        """Parts that have series in the run: the windows, or the kind itself without windows."""
        return self.windows or (self,)


def has_requests(scene: Scene) -> bool:
    """Return whether there is any kind of request."""
    counters = scene.snapshot.counters if scene.snapshot else ()
    return any(stat.name.endswith(_SUFFIX) and stat.name != _SUFFIX and stat.unit == _UNIT for stat in counters)


def flows(scene: Scene, view: View) -> tuple[Flow, ...]:
    """Return one flow for each kind and labels, in order of appearance."""
    if scene.snapshot is None:
        return ()
    all_counts = request_counts(scene.snapshot)
    if scene.moment is not None:
        return tuple(
            _whole(counts, [_past(part, scene.moment) for part in counts.windows or [counts]])
            for counts in all_counts
        )
    if view.figures == "run":
        return tuple(
            _whole(
                counts,
                [_counted(part) for part in counts.windows or [counts]],
                counts.goodput_per_s,
                counts.attainment,
            )
            for counts in all_counts
        )
    rates = {
        _key(part): part for counts in request_counts(_speeds(scene.snapshot)) for part in (counts, *counts.windows)
    }
    return tuple(
        _whole(
            counts,
            [_going(part, rates.get(_key(part)), scene) for part in counts.windows or [counts]],
            rates[_key(counts)].good if _key(counts) in rates else None,
            rates[_key(counts)].attainment if _key(counts) in rates else None,
        )
        for counts in all_counts
    )


def _whole(
    counts: RequestCounts, parts: list[Flow], good: float | None = None, attained: float | None = None
) -> Flow:
    """Return the sum of all windows. `good` and `attained` are those of all windows."""
    if not counts.windows:
        return parts[0]
    return Flow(
        counts=counts,
        issued=_sum(part.issued for part in parts),
        in_flight=_sum(part.in_flight for part in parts),
        completed=_sum(part.completed for part in parts),
        failed=_sum(part.failed for part in parts),
        expired=_sum(part.expired for part in parts),
        issuing=_sum(part.issuing for part in parts),
        completing=_sum(part.completing for part in parts),
        failing=_sum(part.failing for part in parts),
        tokens=_sum(part.tokens for part in parts),
        input_tokens=_sum(part.input_tokens for part in parts),
        good=good,
        attained=attained,
        windows=tuple(parts),
    )


def _sum(values: Iterator[float | None]) -> float | None:
    """Return the sum of the known values, or None."""
    summands = [value for value in values if value is not None]
    return sum(summands) if summands else None


def _counted(counts: RequestCounts) -> Flow:
    return Flow(
        counts=counts,
        issued=counts.issued,
        in_flight=counts.in_flight,
        completed=counts.completed,
        failed=counts.failures,
        expired=counts.expired,
        good=counts.goodput_per_s,
        attained=counts.attainment,
    )


def _going(counts: RequestCounts, rates: RequestCounts | None, scene: Scene) -> Flow:
    """Return a flow with current rates. `rates` is the same funnel with rates in place of counts."""
    return Flow(
        counts=counts,
        issued=counts.issued,
        in_flight=counts.in_flight,
        completed=counts.completed,
        failed=counts.failures,
        expired=counts.expired,
        issuing=rates.issued if rates else 0.0,
        completing=rates.completed if rates else 0.0,
        failing=rates.failures if rates else 0.0,
        tokens=_watched(counts, words.OUTPUT_TOKENS, scene),
        input_tokens=_watched(counts, words.INPUT_TOKENS, scene),
        good=rates.good if rates else None,
        attained=rates.attainment if rates else None,
    )


def _watched(counts: RequestCounts, word: str, scene: Scene) -> float | None:
    """Return the tokens per second since watching began."""
    stat = counts.series.get(word)
    return scene.tokens_per_s.get(series_id(stat.name, stat.labels)) if stat else None


def _past(counts: RequestCounts, moment: RangeFigures) -> Flow:
    """Return a flow of the past.

    The history has series only: it knows completed and failed requests, not issued ones.
    """
    seconds = (moment.end_ns - moment.start_ns) / 1e9
    completed = _figures(counts, words.LATENCY, moment).count
    failed = _figures(counts, words.FAILED_LATENCY, moment).count
    return Flow(
        counts=counts,
        completed=completed,
        failed=failed,
        completing=completed / seconds,
        failing=failed / seconds,
        tokens=_tokens(counts, words.OUTPUT_TOKENS, moment, seconds),
        input_tokens=_tokens(counts, words.INPUT_TOKENS, moment, seconds),
    )


def _tokens(counts: RequestCounts, word: str, moment: RangeFigures, seconds: float) -> float | None:
    return _figures(counts, word, moment).total / seconds if word in counts.series else None


def _figures(counts: RequestCounts, word: str, moment: RangeFigures) -> Figures:
    stat = counts.series.get(word)
    return moment.series.get(series_id(stat.name, stat.labels), Figures()) if stat else Figures()


def _speeds(snapshot: MetricsSnapshot) -> MetricsSnapshot:
    """Return the snapshot with counters only, whose values are replaced by their rates.

    Sums of them are rates too.
    """
    counters = [structs.replace(stat, value=stat.rate) for stat in snapshot.counters]
    return structs.replace(snapshot, counters=counters, series=[])


def _key(counts: RequestCounts) -> tuple[str, tuple[tuple[str, str], ...], str | None]:
    return counts.kind, tuple(sorted(counts.labels.items())), counts.window


_OUTCOMES: Final = (words.COMPLETED, words.FAILED)


def summed(counters: Sequence[CounterStat]) -> list[tuple[CounterStat, list[CounterStat]]]:
    """Return counters, each with the counters that it is the sum of.

    Failed requests of one kind and labels are one counter for all reasons. Completed requests are one counter for
    all finish reasons. Other counters stay single.
    """
    kinds = {kind for stat in counters if (kind := issued_kind(stat.name, stat.unit))}
    alike: dict[tuple[str, frozenset[tuple[str, str]]], list[CounterStat]] = {}
    for stat in counters:
        alike.setdefault((stat.name, frozenset(_labels(stat, kinds).items())), []).append(stat)
    return [(_one(stats, dict(labels)), stats) for (_, labels), stats in alike.items()]


def _labels(stat: CounterStat, kinds: set[str]) -> Mapping[str, str]:
    """Return the labels without the one that tells reasons apart."""
    kind, _, word = stat.name.rpartition(".")
    apart = words.LABEL_OF.get(word) if kind in kinds and word in _OUTCOMES else None
    return {key: value for key, value in stat.labels.items() if key != apart}


def _one(stats: Sequence[CounterStat], labels: dict[str, str]) -> CounterStat:
    if len(stats) == 1 and len(stats[0].labels) == len(labels):
        return stats[0]
    try:
        value: int | float = sum(stat.value for stat in stats)
    except OverflowError:
        value = math.inf  # too large for a float
    rate = sum(stat.rate for stat in stats)
    events, (began_ns, ended_ns) = sum(stat.events for stat in stats), time_range_of(stats)
    summed = replace(stats[0], labels=labels, value=value, events=events, rate=rate)
    return replace(summed, began_ns=began_ns, ended_ns=ended_ns)
