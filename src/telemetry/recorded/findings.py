"""What a reader of a report should know before trusting its numbers, in plain words, most important first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from telemetry import humane, phrases
from telemetry.histogram.ranks import parse_percentile
from telemetry.humane import printable
from telemetry.recorded.backends import of_backends
from telemetry.recorded.feeds import of_feeds
from telemetry.recorded.requests import of_requests
from telemetry.statistics.confidence import least_count
from telemetry.wire.report import Report, SeriesBounds
from telemetry.wire.snapshot import SeriesStat

_NAMED: Final = 3
"""Series in one line; the others are counted."""
_LINES: Final = 8
"""About series with too few values: they are grouped, but there are many ways to be short."""
_EDGE_S: Final = 2.0
"""A history begins with the run and ends with it, within the seconds it is made of."""
_LATE: Final = 0.05
"""Of the ticks: below that a machine was a little busy now and then."""
_CLOCK_S: Final = 1.0
_PARTS: Final = {
    "given": "a part of the run",
    "trim_warmup": "the run without its warm-up",
    "steady": "the steady part of the run",
}


@dataclass(frozen=True, slots=True)
class Covered:
    """What the history has of what a report is of; seconds since the run's start."""

    start_s: float
    end_s: float
    seconds: float
    values: int
    """Of all series together."""
    whole: bool = True
    """Not of a part of the run, or of one that was looked for and not found."""


def findings(report: Report, covered: Covered | None, passed_over: str = "") -> list[str]:
    """`covered`: None if the report is made without its history; `passed_over` says why, if there is one. A line is
    about one thing, however many series share it."""
    return [
        *_losses(report),
        *_part(report, covered),
        *_history(report, covered, passed_over),
        *of_backends(report),
        *of_feeds(report),
        *of_requests(report),
        *_too_few(report),
        *_ticks(report),
        *_clock(report),
        *_over_time(report),
    ]


def _losses(report: Report) -> Iterator[str]:
    account = report.snapshot.accounting
    if account.lost:
        yield (
            f"{report.completeness}: the numbers lack {humane.count(account.lost)} of"
            f" {humane.count(account.emitted)} events"
        )
    if account.waiting:
        yield f"{humane.count(account.waiting)} events are in no number: no definition has come for their ids"
    if report.unknown:
        yield f"{report.completeness}: {report.unknown}"


def _part(report: Report, covered: Covered | None) -> Iterator[str]:
    stretch = report.stretch
    if stretch is None:
        return
    whole = covered is None or covered.whole
    span = f"{humane.duration_s(stretch.start_s)} to {humane.duration_s(stretch.end_s)} after its start"
    if not stretch.found:
        yield printable(f"{stretch.reason}: these are the numbers of {'the whole run' if whole else span}")
    if not whole:
        yield (
            f"series, counters and gauges are of {_PARTS[stretch.chosen]}, {span};"
            " events, producers and losses are of the whole run"
        )


def _history(report: Report, covered: Covered | None, passed_over: str) -> Iterator[str]:
    values = sum(stat.count for stat in report.snapshot.series)
    if covered is None:
        if passed_over:
            yield printable(f"{passed_over}: bounds are wider than they could be, and nothing is told over time")
        return
    if covered.whole:
        if covered.start_s > _EDGE_S:
            yield f"the history begins {humane.duration_s(covered.start_s)} after the start of the run"
        if covered.values != values:
            yield (
                f"the history holds {humane.count(covered.values)} of {humane.count(values)} values:"
                " bounds of the series it lacks values of are wider than they could be"
            )
    missing_s = covered.end_s - covered.start_s - covered.seconds
    if missing_s > _EDGE_S:
        yield f"the history knows nothing of {humane.duration_s(missing_s)} in between"


def _too_few(report: Report) -> Iterator[str]:
    """Percentiles without bounds, series that lack the same ones together; those of many values come first."""
    groups: dict[tuple[str, ...], list[SeriesStat]] = {}
    for stat in report.snapshot.series:
        bounds = report.bounds_of(stat)
        lacking = tuple(key for key in stat.percentiles if not report.trusted(stat, key))
        if bounds is None or not lacking:
            continue
        all_of_them = all(not report.trusted(stat, key) for key in stat.percentiles if _claims(key))
        groups.setdefault(() if all_of_them else lacking, []).append(stat)
    ordered = sorted(groups.items(), key=lambda group: -sum(stat.count for stat in group[1]))
    for lacking, stats in ordered[:_LINES]:
        yield _short(report, lacking, stats)
    if len(ordered) > _LINES:
        left = sum(len(stats) for _, stats in ordered[_LINES:])
        yield f"{humane.count(left)} more series have too few values for some of their percentiles"


def _short(report: Report, lacking: Sequence[str], stats: Sequence[SeriesStat]) -> str:
    counts = [stat.count for stat in stats]
    least, most = humane.count(min(counts)), humane.count(max(counts))
    samples = f"{most} {'sample' if most == '1' else 'samples'}" if least == most else f"{least} to {most} samples"
    names = _names(stats)
    if not lacking:
        return f"too few values for any percentile of {names}: {samples}"
    bounds = [report.bounds_of(stat) for stat in stats]
    percentiles = _and([f"p{key}" for key in lacking])
    verb = "rests" if len(lacking) == 1 else "rest"
    return f"{percentiles} of {names} {verb} on {samples}: {_sides(bounds, lacking)} at 95 %{_needed(lacking)}"


def _sides(bounds: Sequence[SeriesBounds | None], lacking: Sequence[str]) -> str:
    found = [one.percentiles[key] for one in bounds if one is not None for key in lacking if key in one.percentiles]
    if all(one.low is not None for one in found):
        return "no upper bound"
    return "no lower bound" if all(one.high is not None for one in found) else "no bounds"


def _needed(lacking: Sequence[str]) -> str:
    counts = [least_count(parse_percentile(key)) for key in lacking]
    return f"; it takes {_and([humane.count(count) for count in counts if count is not None])}"


def _names(stats: Sequence[SeriesStat]) -> str:
    names = [phrases.instrument(stat.name, stat.labels) for stat in stats[:_NAMED]]
    return _and([*names, f"{humane.count(len(stats) - _NAMED)} more"] if len(stats) > _NAMED else names)


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _claims(key: str) -> bool:
    """Whether a percentile says anything beyond the values themselves."""
    return not key.startswith("100")


def _ticks(report: Report) -> Iterator[str]:
    cost = report.snapshot.cost
    if cost.ticks and cost.ticks_late > _LATE * cost.ticks:
        share = humane.percent(cost.ticks_late / cost.ticks)
        yield (
            f"{humane.count(cost.ticks_late)} of {humane.count(cost.ticks)} ticks of the aggregator were late"
            f" ({share}): the machine was busy, and rates over a second or two may be off"
        )


def _clock(report: Report) -> Iterator[str]:
    """Times of the history are those of the wall clock; how long the run took is not."""
    snapshot = report.snapshot
    if not snapshot.started_ns or not snapshot.time_ns or report.sources:
        return
    stepped_s = (snapshot.time_ns - snapshot.started_ns) / 1e9 - snapshot.elapsed_s
    if abs(stepped_s) > _CLOCK_S:
        which = "forward" if stepped_s > 0 else "back"
        yield (
            f"the clock was set {which} by {humane.duration_s(abs(stepped_s))} during the run: seconds since its"
            " start follow the clock"
        )


def _over_time(report: Report) -> Iterator[str]:
    series = sum(stat.count > 0 for stat in report.snapshot.series)
    if report.over_time and len(report.over_time) < series:
        yield (
            f"figures over time are those of the {humane.count(len(report.over_time))} series with the most values,"
            f" of {humane.count(series)}"
        )
