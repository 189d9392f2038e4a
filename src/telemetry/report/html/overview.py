"""The first chart over time: how much was done, how slow it was, and what failed, on one time axis."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from telemetry.common import wording
from telemetry.common.directions import TROUBLE, words_of
from telemetry.history.rates import Pace, Paces
from telemetry.history.request_model import request_counts
from telemetry.report.html.data import Column
from telemetry.report.html.main_series import NameGroup, latencies
from telemetry.report.series import part_s
from telemetry.wire import requests as words
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.pictures import CounterOverTime, Pictures
from telemetry.wire.report import Report, SeriesOverTime, SeriesPoint
from telemetry.wire.snapshot import CounterStat, SeriesStat
from telemetry.wire.units import TIME_NS

_KEY: Final = "99"
_SLOW: Final = 3
"""Largest number of label sets, or of kinds of request, with their p99."""
_OURS: Final = "telemetry."
"""Beginning of the names of counters that are about this package."""
_OF_REQUESTS: Final = (words.LATENCY, words.TTFT)

Identity = tuple[str, tuple[tuple[str, str], ...]]


class RateLine(NamedTuple):
    """Events per second. `drawn` is `area`, `bars` or empty for a line; `tone` is `good`, `bad` or empty."""

    name: str
    values: Column
    drawn: str = ""
    tone: str = ""
    whole: Pace | None = None
    """Rate of the whole run with its time, if they are known."""


class Slowness(NamedTuple):
    """A percentile over time."""

    name: str
    points: Sequence[SeriesPoint]
    key: str
    stat: SeriesStat

    @property
    def values(self) -> Column:
        """One value for each point."""
        return [point.percentiles.get(self.key) for point in self.points]


class Overview(NamedTuple):
    """Lines of the chart. `rates` belong to the steps of time of `times`, which begin and end there."""

    title: str
    times: tuple[list[float], list[float]]
    rates: list[RateLine]
    slow: list[Slowness]


def of_requests(
    report: Report,
    pictures: Pictures,
    groups: Sequence[NameGroup],
    over: dict[Identity, SeriesOverTime],
    seconds: float | None,
) -> Overview | None:
    """Return completed requests per second, failures, and p99: those of all kinds, with p99 of the busiest ones.

    `seconds` is the time of the rates of requests; None if it is unknown.
    """
    kinds = pictures.requests
    counts = request_counts(report.snapshot)
    rates = [RateLine("requests/s", added([kind.completed_per_s for kind in kinds]), "area")]
    good = added([kind.good_per_s for kind in kinds]) if all(kind.good_per_s for kind in kinds) else []
    if any(good):
        good_counts = [kind.good for kind in counts if kind.good is not None]
        number = sum(good_counts) if good_counts else None
        rates.append(RateLine("within limits/s", good, tone="good", whole=_pace(number, seconds)))
    failed = added([kind.failed_per_s for kind in kinds])
    if any(failed):
        number = sum(kind.failures + kind.expired for kind in counts)
        rates.append(RateLine("failed/s", failed, "bars", "bad", _pace(number, seconds)))
    if len(kinds) > 1:
        named = latencies(report, _SLOW)
    else:
        by_word = {group.main.name.rpartition(".")[2]: group for group in groups if group.is_request}
        named = [(_short(word, by_word[word]), by_word[word]) for word in _OF_REQUESTS if word in by_word]
    slow = [line for name, group in named for line in _of_windows(name, group, over)]
    edges = pictures.edges_s
    if not any(any(rate.values) for rate in rates):
        return None
    return Overview(_title("Requests", failed, slow), (edges[:-1], edges[1:]), rates, slow)


def of_series(
    report: Report, pictures: Pictures, groups: Sequence[NameGroup], over: dict[Identity, SeriesOverTime], what: str
) -> Overview | None:
    """Return the rate of the main series, which are durations, with their p99 and the failures beside them.

    None for series in another unit, and if not all label sets have figures over time. `what` names the values.
    """
    group = groups[0] if groups else None
    if group is None or group.main.unit not in TIME_NS:
        return None
    alike = [
        stat for stat in report.snapshot.series if (stat.name, stat.unit) == (group.main.name, group.main.unit)
    ]
    candidates = [over.get(identity_of(stat)) for stat in alike if stat.count]
    parts = [part for part in candidates if part is not None]
    if not parts or len(parts) < len(candidates) or len({len(part.points) for part in parts}) > 1:
        return None
    times = [point.start_s for point in parts[0].points], [point.end_s for point in parts[0].points]
    rates = [RateLine(f"{what}/s", added([[point.rate for point in part.points] for part in parts]), "area")]
    edges = pictures.edges_s
    trouble = troubles(pictures)
    failed = added([counter.rates for counter in trouble])
    if any(failed) and (edges[:-1], edges[1:]) == times:
        rates.append(RateLine("failures/s", failed, "bars", "bad", pace_of(report, trouble)))
    slow = []
    for name, stat in group.lines[:_SLOW]:
        points = over[identity_of(stat)].points
        key = _key(points)
        if key:
            slow.append(Slowness(f"p{key}" if len(group.lines) == 1 else f"p{key} {name}", points, key, stat))
    return Overview(_title(what.capitalize(), failed, slow), times, rates, slow)


def troubles(pictures: Pictures) -> list[CounterOverTime]:
    """Return counters of errors and the like that counted something."""
    own = (
        counter
        for counter in pictures.counters
        if not is_of_machine(counter.name) and not counter.name.startswith(_OURS)
    )
    return [counter for counter in own if TROUBLE & set(words_of(counter.name)) and any(counter.rates)]


def pace_of(report: Report, drawn: Sequence[CounterOverTime | SeriesOverTime]) -> Pace | None:
    """Return the rate of some counters or series together, as tables have it."""
    named = {identity_of(item) for item in drawn}
    counters = [stat for stat in report.snapshot.counters if identity_of(stat) in named]
    series = [stat for stat in report.snapshot.series if identity_of(stat) in named]
    stats = counters if isinstance(drawn[0], CounterOverTime) else series
    return Paces(report.snapshot, part_s(report)).of(*stats) if stats else None


def _pace(number: float | None, seconds: float | None) -> Pace | None:
    return Pace(number, seconds) if number is not None and seconds else None


def added(columns: Sequence[Column]) -> list[float | None]:
    """Return the sums of columns step by step; None where no column has a value."""
    rows = zip(*columns, strict=False)
    return [sum(known) if (known := [value for value in row if value is not None]) else None for row in rows]


def busiest_points(parts: Sequence[SeriesOverTime]) -> list[SeriesPoint]:
    """Return for each step the point of the series with the most values in it."""
    best: dict[tuple[float, float], SeriesPoint] = {}
    for part in parts:
        for point in part.points:
            step = point.start_s, point.end_s
            if step not in best or point.count > best[step].count:
                best[step] = point
    return [best[step] for step in sorted(best)]


def identity_of(stat: SeriesStat | CounterStat | SeriesOverTime | CounterOverTime) -> Identity:
    """Return name and labels as a key."""
    return stat.name, tuple(sorted(stat.labels.items()))


def _short(word: str, group: NameGroup) -> str:
    return {words.TTFT: "TTFT" if group.has_tokens else "first byte"}.get(word, word)


def _of_windows(name: str, group: NameGroup, over: dict[Identity, SeriesOverTime]) -> Iterator[Slowness]:
    """Yield the percentile of the busiest tracking window in each step."""
    points = busiest_points([over[identity_of(stat)] for _, stat in group.lines if identity_of(stat) in over])
    key = _key(points)
    if key:
        yield Slowness(f"p{key} {name}", points, key, group.whole or group.main)


def _key(points: Sequence[SeriesPoint]) -> str:
    """Return 99, or the highest percentile that the points have; empty without any."""
    keys = {key for point in points for key in point.percentiles}
    return _KEY if _KEY in keys else max(keys, key=wording.by_number, default="")


def _title(what: str, failed: Column, slow: Sequence[Slowness]) -> str:
    parts = [f"{what} per second", *(["failures"] if any(failed) else []), *(["p99"] if slow else [])]
    if slow and slow[0].key != _KEY:
        parts[-1] = f"p{slow[0].key}"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
