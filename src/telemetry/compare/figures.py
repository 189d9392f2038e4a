"""The comparable figures of a run: percentiles, means, rates, counters, and the command's time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from telemetry.errors import UsageError
from telemetry.hdr.ranks import parse_percentile
from telemetry.request_model import request_counts, without_requests
from telemetry.statistics.confidence import least_count
from telemetry.store.calibrations import Of
from telemetry.wire import requests as words
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot, SeriesStat

PERCENTILES: Final = ("50", "90", "99", "99.9")
_COUNTED: Final = {words.LATENCY: "requests", words.OUTPUT_TOKENS: "tokens"}
"""Figure of requests → the unit of things that its rate counts."""


@dataclass(frozen=True, slots=True, order=True)
class Figure:
    """The identity of a figure, the same in all runs."""

    of: Of
    name: str
    labels: tuple[tuple[str, str], ...]
    """Label pairs, sorted."""
    statistic: str
    """Statistic: `p50`, `p99.9`, …, `mean`, `rate`; `value`, `rate`; `wall`, `cpu`."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The value of a figure in one run."""

    value: float | None
    """Value, or None if the run has too few values for the figure."""
    unit: str
    count: int = 0
    """Number of values behind it."""


def readings(
    report: Report, percentiles: Sequence[str] = PERCENTILES, *, every_rate: bool = False
) -> dict[Figure, Reading]:
    """Return all figures of a run. Percentiles that the run did not keep, and series without values, are missing.

    For requests, only latency and output tokens have a rate: the overall rate of reports. With `every_rate`, other
    figures of requests also have a rate over the whole run, as in gates.
    """
    snapshot = report.snapshot
    found = {figure: reading for stat in snapshot.series for figure, reading in _series(stat, percentiles)}
    for counter in snapshot.counters:
        value = Figure("counter", counter.name, _sorted(counter.labels), "value")
        found[value] = Reading(float(counter.value), counter.unit, counter.events)
    counters, series = snapshot.counters, snapshot.series
    if not every_rate:
        counters, series = without_requests(counters, snapshot), without_requests(series, snapshot)
    found |= _plain_rates(counters, series, duration_s(report))
    found |= _request_rates(snapshot)
    command = snapshot.command
    if command is not None and report.time_range is None:
        found[Figure("command", "", (), "wall")] = Reading(command.wall_s, "s", 1)
        found[Figure("command", "", (), "cpu")] = Reading(command.cpu_user_s + command.cpu_system_s, "s", 1)
    return found


def duration_s(report: Report) -> float:
    """Return the duration of the run, or of the report's time range."""
    if report.time_range is not None:
        return report.time_range.end_s - report.time_range.start_s
    return report.snapshot.elapsed_s


@cache
def needed(statistic: str) -> int:
    """Return the number of values that a run needs for this figure: enough to bound a percentile on both sides.

    Raises UsageError for the 100th percentile, which never has an upper bound, and for an invalid percentile.
    """
    if not statistic.startswith("p"):
        return 1
    least = least_count(parse_percentile(statistic[1:]))
    if least is None:
        raise UsageError(f"{statistic} can't be compared", hint="the maximum of one run does not predict the next")
    return least


def _series(stat: SeriesStat, percentiles: Sequence[str]) -> Iterator[tuple[Figure, Reading]]:
    if not stat.count:
        return
    labels = _sorted(stat.labels)
    for key in percentiles:
        if key in stat.percentiles:
            figure = Figure("series", stat.name, labels, f"p{key}")
            value = float(stat.percentiles[key]) if stat.count >= needed(figure.statistic) else None
            yield figure, Reading(value, stat.unit, stat.count)
    if stat.mean is not None:
        yield Figure("series", stat.name, labels, "mean"), Reading(stat.mean, stat.unit, stat.count)


def _plain_rates(
    counters: Sequence[CounterStat], series: Sequence[SeriesStat], seconds: float
) -> Iterator[tuple[Figure, Reading]]:
    """Yield rates over the run or the time range; none if it has no duration."""
    if seconds <= 0:
        return
    for stat in series:
        rate = Figure("series", stat.name, _sorted(stat.labels), "rate")
        yield rate, Reading(stat.count / seconds, "1", stat.count)
    for counter in counters:
        rate = Figure("counter", counter.name, _sorted(counter.labels), "rate")
        yield rate, Reading(counter.value / seconds, counter.unit, counter.events)


def _request_rates(snapshot: MetricsSnapshot) -> Iterator[tuple[Figure, Reading]]:
    """Yield the overall rate of reports for each kind of request and tracking window, if known."""
    own = {id(stat) for stat in snapshot.series}
    for whole in request_counts(snapshot):
        for part in whole.windows or (whole,):
            rate = part.rates.overall
            rates = {words.LATENCY: rate.requests_per_s, words.OUTPUT_TOKENS: rate.tokens_per_s}
            for word, value in rates.items():
                stat = part.series.get(word)
                # A sum over several windows is not a series of the run, so its rate has no name.
                if stat is not None and value is not None and id(stat) in own:
                    figure = Figure("series", stat.name, _sorted(stat.labels), "rate")
                    yield figure, Reading(value, _COUNTED[word], stat.count)


def _sorted(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))
