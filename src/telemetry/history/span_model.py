"""Spans, gathered from the series and counters of a snapshot: where the time goes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from telemetry.wire import spans as words
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot, SeriesStat

_Stat = TypeVar("_Stat", CounterStat, SeriesStat)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTimes:
    """The spans of one name."""

    name: str
    durations: SeriesStat
    self_ms: float | None = None
    """Time without the spans inside. None if it is not known, as of spans that are recorded by their times."""
    share: float | None = None
    """Part of the self time of all spans, from 0 to 1."""


def span_times(snapshot: MetricsSnapshot) -> list[SpanTimes]:
    """Return the spans of a snapshot, the largest self time first, then the longest total."""
    own = {
        stat.name.removeprefix(words.SELF): float(stat.value)
        for stat in snapshot.counters
        if _is(stat, words.SELF) and stat.events  # a counter without increments knows nothing, and has the value 0
    }
    whole_ms = sum(own.values())
    spans = []
    for stat in snapshot.series:
        if _is(stat, words.DURATION) and stat.count:
            name = stat.name.removeprefix(words.DURATION)
            self_ms = own.get(name)
            share = self_ms / whole_ms if self_ms is not None and whole_ms else None
            spans.append(SpanTimes(name=name, durations=stat, self_ms=self_ms, share=share))
    return sorted(spans, key=lambda span: (-(span.self_ms or 0.0), -span.durations.total, span.name))


def without_spans(stats: Sequence[_Stat]) -> list[_Stat]:
    """Return the counters or series that do not belong to spans."""
    return [stat for stat in stats if not _is(stat, words.DURATION) and not _is(stat, words.SELF)]


def _is(stat: CounterStat | SeriesStat, prefix: str) -> bool:
    return stat.name.startswith(prefix) and stat.unit == words.UNIT and not stat.labels
