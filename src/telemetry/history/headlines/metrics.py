"""Figures of metrics that belong to no request and no steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from telemetry.common.directions import words_of
from telemetry.common.formatting import count, duration_s, quantity, rate, with_share
from telemetry.common.wording import instrument
from telemetry.history.headlines.model import (
    Figure,
    Headline,
    failures_second,
    largest,
    per_second,
    percentile,
)
from telemetry.history.rates import Pace, Paces, is_trouble, recent_rate
from telemetry.history.request_model import without_requests
from telemetry.history.span_model import span_times, without_spans
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat
from telemetry.wire.units import TIME_NS

_LATENCY: Final = frozenset({"latency", "latencies", "duration", "rtt", "response"})
_OF_STEPS: Final = frozenset({"step", "steps"})
"""Words in names of times that no request took: `step_latency_ms`."""
_COUNTED: Final = "requests"
"""Last word of a counter of requests."""
_OWN: Final = "telemetry."
"""Beginning of the names of counters that are about this package: masked values, artifacts that were not copied."""
_OF_A_KIND: Final = 2
"""Largest number of counters, and of gauges."""


def metrics_headline(snapshot: MetricsSnapshot, *, recent: bool) -> list[Headline]:
    """Return the headline of the busiest series, or of counters and gauges; empty if there are none."""
    series = [stat for stat in without_spans(without_requests(snapshot.series, snapshot)) if stat.count]
    own = without_spans(without_requests(snapshot.counters, snapshot))
    own = [stat for stat in own if not is_of_machine(stat.name) and not stat.name.startswith(_OWN)]
    counters = [stat for stat in own if stat.events or stat.value]  # a time range has no number of events
    if series:
        return [_of_series(series, counters, snapshot, recent=recent)]
    gauges = [stat for stat in snapshot.gauges if stat.value is not None and not is_of_machine(stat.name)]
    figures = _of_counters(counters, snapshot, recent=recent)[:_OF_A_KIND]
    figures += [gauge(stat) for stat in gauges[:_OF_A_KIND]]
    if not figures:
        spans = span_times(snapshot)
        return [_of_series([spans[0].durations], [], snapshot, recent=recent)] if spans else []
    return [Headline("metrics", "", (*figures, *_troubles(counters)))]


def gauge(stat: GaugeStat) -> Figure:
    """Return the newest value of a gauge, with its range as the note."""
    number = None if stat.value is None else float(stat.value)
    note = f"{quantity(stat.min, stat.unit)} to {quantity(stat.max, stat.unit)}" if stat.min != stat.max else ""
    text = quantity(stat.value, stat.unit)
    return Figure(instrument(stat.name, stat.labels, stat.unit), text, note, value=number, unit=stat.unit)


def counter_rate(stat: CounterStat, snapshot: MetricsSnapshot, *, recent: bool) -> Figure:
    """Return the rate of a counter, with its total as the note. Without time to divide by, return the total."""
    per_s = recent_rate(stat, snapshot) if recent else Paces(snapshot).of(stat).per_s
    name, total = instrument(stat.name, stat.labels), quantity(stat.value, stat.unit)
    if per_s is None:
        return Figure(name, total, value=float(stat.value), unit=stat.unit)
    return Figure(name, rate(per_s, stat.unit), f"{total} in total", value=per_s, unit=f"{stat.unit}/s")


def series_rate(stat: SeriesStat, snapshot: MetricsSnapshot, title: str, *, recent: bool) -> Figure:
    """Return the number of values per second of a series, with their number as the note."""
    per_s = recent_rate(stat, snapshot) if recent else Paces(snapshot).of(stat).per_s
    return per_second(title, per_s, "" if recent else f"{count(stat.count)} in total")


def _busiest(series: Sequence[SeriesStat]) -> SeriesStat:
    """Return the series with the most values; the first one of those that have at least half as many.

    Otherwise about equally busy series would alternate.
    """
    most = max(stat.count for stat in series)
    return next(stat for stat in series if 2 * stat.count >= most)


def _of_series(
    series: Sequence[SeriesStat], counters: Sequence[CounterStat], snapshot: MetricsSnapshot, *, recent: bool
) -> Headline:
    """Return the rate of all label sets of the busiest name, and percentiles of the busiest label set."""
    stat = _busiest(series)
    alike = [other for other in series if (other.name, other.unit) == (stat.name, stat.unit)]
    is_load = _is_latency(stat)
    name = subject = instrument(stat.name, stat.labels, stat.unit)
    if len(alike) > 1:
        subject = instrument(stat.name, {}, stat.unit)
        name = f"{subject} {instrument('', _apart(stat, alike)).strip('{}') or 'no labels'}"
    requests = _requests(counters, stat.name) if is_load else []
    figures = [
        _total_rate(requests or alike, snapshot, "requests/s" if is_load else "values/s", recent=recent),
        percentile(f"{name} p50", stat, "50", recent=recent),
        percentile(f"{name} p99", stat, "99", recent=recent),
        *([] if recent else [largest(f"{name} max", stat)]),
        *_troubles(counters, series),
    ]
    return Headline("load" if is_load else "metrics", subject, failures_second(figures))


def _apart(stat: SeriesStat, alike: Sequence[SeriesStat]) -> dict[str, str]:
    """Return the labels of the series that others of its name do not share."""
    return {key: text for key, text in stat.labels.items() if any(other.labels.get(key) != text for other in alike)}


def _requests(counters: Sequence[CounterStat], series: str) -> list[CounterStat]:
    """Return the counters of the requests whose times are in a series: `http.requests` for `http.latency`."""
    name = f"{series.rpartition('.')[0]}.{_COUNTED}".lstrip(".")
    return [stat for stat in counters if stat.name == name]


def _total_rate(
    of: Sequence[CounterStat | SeriesStat], snapshot: MetricsSnapshot, title: str, *, recent: bool
) -> Figure:
    """Return the rate of several counters or series together, with their total as the note."""
    if recent:
        return per_second(title, sum(recent_rate(stat, snapshot) for stat in of))
    pace = Paces(snapshot).of(*of)
    return per_second(title, pace.per_s, _counted(pace), pace.seconds)


def _counted(pace: Pace) -> str:
    """Return what a rate was made of: `500 in 1.58 s`."""
    if pace.seconds is None:
        return f"{count(pace.number)} in total"
    return f"{count(pace.number)} in {duration_s(pace.seconds)}{' of the run' if pace.is_of_run else ''}"


def _of_counters(counters: Sequence[CounterStat], snapshot: MetricsSnapshot, *, recent: bool) -> list[Figure]:
    return [counter_rate(stat, snapshot, recent=recent) for stat in counters if not is_trouble(stat)]


def attempts(
    alike: Sequence[CounterStat], counters: Sequence[CounterStat], series: Sequence[SeriesStat]
) -> float | None:
    """Return the number of requests among which counters of one name count errors; None if that is unknown.

    It is the total of the counter of requests beside it, `http.requests` of `http.errors`, as far as its labels
    agree, or else the number of values of the busiest series of latencies beside it.
    """
    if not is_trouble(alike[0]):
        return None
    beside = alike[0].name.rpartition(".")[0]
    latencies = [stat for stat in series if stat.name.rpartition(".")[0] == beside and _is_latency(stat)]
    for stats in (_requests(counters, alike[0].name), latencies):
        totals: dict[str, float] = {}
        for stat in stats:
            if any(_agree(stat.labels, counter.labels) for counter in alike):
                totals[stat.name] = totals.get(stat.name, 0.0) + _number(stat)
        if total := max(totals.values(), default=0.0):
            return total if _sum(alike) <= total else None
    return None


def _number(stat: CounterStat | SeriesStat) -> float:
    return float(stat.value if isinstance(stat, CounterStat) else stat.count)


def _is_latency(stat: SeriesStat) -> bool:
    parts = set(words_of(stat.name))
    return stat.unit in TIME_NS and bool(_LATENCY & parts) and not _OF_STEPS & parts


def _agree(labels: Mapping[str, str], others: Mapping[str, str]) -> bool:
    return all(others.get(key, text) == text for key, text in labels.items())


def _troubles(counters: Sequence[CounterStat], series: Sequence[SeriesStat] = ()) -> list[Figure]:
    """Return the counter of errors and the like with the most of them, all its label sets together."""
    by_name: dict[str, list[CounterStat]] = {}
    for stat in counters:
        if is_trouble(stat):
            by_name.setdefault(stat.name, []).append(stat)
    groups = sorted(by_name.values(), key=lambda alike: -_sum(alike))
    return [
        Figure(
            instrument(alike[0].name, alike[0].labels if len(alike) == 1 else {}),
            with_share(_sum(alike), attempts(alike, counters, series)),
            health="warn" if _sum(alike) else "plain",
            value=_sum(alike),
            unit=alike[0].unit,
        )
        for alike in groups[:1]
    ]


def _sum(counters: Sequence[CounterStat]) -> float:
    return float(sum(float(stat.value) for stat in counters))
