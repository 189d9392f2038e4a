"""Findings of a report: warnings about its numbers in plain words, most important first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from telemetry.common import formatting, wording
from telemetry.common.formatting import number_of, printable
from telemetry.history.backends import of_backends
from telemetry.history.bounds import series_bounds
from telemetry.history.request_log import why_not_all
from telemetry.history.requests import of_requests, with_requests
from telemetry.statistics.confidence import least_count
from telemetry.statistics.hdr.percentiles import parse_percentile
from telemetry.wire import requests as words
from telemetry.wire.feeds import NO_TEXT, NO_TOKENIZER, REFUSED, TOOL_CALLS, UNCOUNTED, interruption
from telemetry.wire.report import Report, SeriesBounds
from telemetry.wire.snapshot import CounterStat, SeriesStat

_WHY: Final = {
    NO_TOKENIZER: "no tokenizer was given: pass --tokenizer tokenizer.json, the file that belongs to the model",
    TOOL_CALLS: "the answer contains tool calls, which can't be counted without a chat template",
    NO_TEXT: "the benchmark sent no text for the answer",
}
"""Map of reason of UNCOUNTED → explanation and advice."""
_NAMED: Final = 3
"""Series named in one line; further ones are counted."""
_LINES: Final = 8
"""Lines about series with too few values. They are grouped by missing percentiles, but there can be many groups."""
_EDGE_S: Final = 2.0
"""Tolerance for the start and the end of a history: it consists of intervals of seconds."""
_LATE: Final = 0.05
"""Share of late ticks. Below it the machine was a little busy now and then."""
_CLOCK_S: Final = 1.0
_OF_TURNS: Final = tuple(f".{word}" for word in (words.TURN_LATENCY, words.TURN_TTFT))
_PARTS: Final = {
    "given": "the chosen time range",
    "trim_warmup": "the time range after the warm-up",
    "steady": "the steady time range",
}


@dataclass(frozen=True, slots=True)
class Covered:
    """The coverage of a report's time range by the history; in seconds since the run's start."""

    start_s: float
    end_s: float
    seconds: float
    values: int
    """Number of values, over all series."""
    whole: bool = True
    """True for the whole run, also if a requested time range was not found in it."""


def alone(report: Report, passed_over: str = "") -> Report:
    """Return a result with everything that needs no other files.

    This adds bounds from its display histograms, figures of requests, and findings. For `passed_over` see
    `findings`.
    """
    report = with_requests(replace(report, bounds=series_bounds(report.snapshot.series)))
    return replace(report, findings=findings(report, None, passed_over))


def findings(report: Report, covered: Covered | None, passed_over: str = "") -> list[str]:
    """Return all findings. One line is about one issue, for all series that share it.

    `covered` is None for a report made without its history; `passed_over` then has the reason, if any.
    """
    return [
        *lost(report),
        *part_of_run(report, whole=covered is None or covered.whole),
        *_history(report, covered, passed_over),
        *of_backends(report),
        *of_feeds(report),
        *of_requests(report),
        *request_log(report),
        *too_few(report),
        *late_ticks(report),
        *_clock(report),
        *_over_time(report),
    ]


def lost(report: Report) -> Iterator[str]:
    """Yield findings about events that are not in the numbers."""
    account = report.snapshot.accounting
    if account.lost:
        yield (
            f"{report.completeness}: the result lacks {formatting.count(account.lost)} of "
            f"{number_of(account.emitted, 'event')}"
        )
    if account.waiting:
        are, their = ("is", "its id") if account.waiting == 1 else ("are", "their ids")
        yield (f"{number_of(account.waiting, 'event')} {are} not counted: the definition for {their} is missing")
    if report.unknown:
        yield f"{report.completeness}: {report.unknown}"


def part_of_run(report: Report, *, whole: bool) -> Iterator[str]:
    """Yield findings about a time range. `whole`: the figures are those of the whole run."""
    time_range = report.time_range
    if time_range is None:
        return
    span = (
        f"{formatting.duration_s(time_range.start_s)} to {formatting.duration_s(time_range.end_s)} after its start"
    )
    if not time_range.found:
        yield printable(f"{time_range.reason}: these numbers cover {'the whole run' if whole else span}")
    if not whole:
        yield (
            f"series, counters and gauges cover {_PARTS[time_range.chosen]}, {span}; events, "
            "producers and losses cover the whole run"
        )


def _history(report: Report, covered: Covered | None, passed_over: str) -> Iterator[str]:
    values = sum(stat.count for stat in report.snapshot.series)
    if covered is None:
        if passed_over:
            yield printable(f"{passed_over}: bounds are wider than necessary, and figures over time are missing")
        return
    if covered.whole:
        if covered.start_s > _EDGE_S:
            yield f"the history starts {formatting.duration_s(covered.start_s)} after the start of the run"
        if covered.values != values:
            yield (
                f"the history has {formatting.count(covered.values)} of "
                f"{number_of(values, 'value')}: series with missing values have wider bounds than "
                "necessary"
            )
    missing_s = covered.end_s - covered.start_s - covered.seconds
    if missing_s > _EDGE_S:
        yield f"the history has a gap of {formatting.duration_s(missing_s)}"


def request_log(report: Report) -> Iterator[str]:
    """Yield a finding if the request log lacks requests. All of them are in the numbers."""
    stat = report.snapshot.request_log
    if stat is not None and (lack := why_not_all(stat, is_merged=bool(report.sources))):
        yield lack


def too_few(report: Report) -> Iterator[str]:
    """Yield lines about percentiles without bounds, grouped by missing percentiles, groups with most values first.

    Turns of conversations lack different percentiles, and share one line.
    """
    groups: dict[tuple[str, ...], list[SeriesStat]] = {}
    turns: list[tuple[SeriesStat, tuple[str, ...]]] = []
    for stat in report.snapshot.series:
        bounds = report.bounds_of(stat)
        lacking = tuple(key for key in stat.percentiles if not report.trusted(stat, key))
        if bounds is None or not lacking:
            continue
        if words.TURN in stat.labels and stat.name.endswith(_OF_TURNS):
            turns.append((stat, lacking))
            continue
        all_of_them = all(not report.trusted(stat, key) for key in stat.percentiles if _claims(key))
        groups.setdefault(() if all_of_them else lacking, []).append(stat)
    ordered = sorted(groups.items(), key=lambda group: -sum(stat.count for stat in group[1]))
    for lacking, stats in ordered[:_LINES]:
        yield _short(report, lacking, stats)
    if len(ordered) > _LINES:
        left = sum(len(stats) for _, stats in ordered[_LINES:])
        have, their = ("has", "its") if left == 1 else ("have", "their")
        yield f"{formatting.count(left)} more series {have} too few values for some of {their} percentiles"
    if turns:
        yield _short_turns(turns)


def _short(report: Report, lacking: Sequence[str], stats: Sequence[SeriesStat]) -> str:
    names = [wording.instrument(stat.name, stat.labels) for stat in stats]
    if not lacking:
        return f"too few values for any percentile of {_names(names)}: {_samples(stats)}"
    bounds = [report.bounds_of(stat) for stat in stats]
    have = "has" if len(lacking) == 1 else "have"
    missing = f"{have} {_sides(bounds, lacking)} yet (95 % confidence)"
    return f"{_keys(lacking)} of {_names(names)} {missing}: {_needed(lacking, stats)}"


def _short_turns(turns: Sequence[tuple[SeriesStat, tuple[str, ...]]]) -> str:
    """Return the line about turns. Each named percentile is missing in at least one turn."""
    stats = [stat for stat, _ in turns]
    labels = [{key: value for key, value in stat.labels.items() if key != words.TURN} for stat in stats]
    names = dict.fromkeys(wording.instrument(stat.name, own) for stat, own in zip(stats, labels, strict=True))
    lacking = [key for key in dict.fromkeys(key for stat in stats for key in stat.percentiles) if _claims(key)]
    lacking = [key for key in lacking if any(key in own for _, own in turns)]
    different = {stat.labels[words.TURN] for stat in stats}
    turns_lacking = number_of(len(different), "turn")
    have = "has" if len(lacking) == 1 else "have"
    missing = f"{have} no bounds yet in {turns_lacking} (95 % confidence)"
    return f"by turn, {_keys(lacking)} of {_names(list(names))} {missing}: {_needed(lacking, stats)}"


def _keys(lacking: Sequence[str]) -> str:
    return _and([f"p{key}" for key in lacking])


def _samples(stats: Sequence[SeriesStat]) -> str:
    least, most = min(stat.count for stat in stats), max(stat.count for stat in stats)
    return (
        number_of(most, "sample") if least == most else f"{formatting.count(least)} to {number_of(most, 'sample')}"
    )


def _sides(bounds: Sequence[SeriesBounds | None], lacking: Sequence[str]) -> str:
    intervals = [
        series.percentiles[key]
        for series in bounds
        if series is not None
        for key in lacking
        if key in series.percentiles
    ]
    if all(interval.low is not None for interval in intervals):
        return "no upper bound"
    return "no lower bound" if all(interval.high is not None for interval in intervals) else "no bounds"


def _needed(lacking: Sequence[str], stats: Sequence[SeriesStat]) -> str:
    """`needs 36,887 samples, has 12,000`."""
    counts = [count for key in lacking if (count := least_count(parse_percentile(key))) is not None]
    needs, has = ("needs", "has") if len(lacking) == 1 else ("need", "have")
    wanted = f"{_and([formatting.count(count) for count in counts])} samples"
    return f"{needs} {wanted}, {has} {_samples(stats).partition(' sample')[0]}"


def _names(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    return _and([*names[:_NAMED], f"{formatting.count(more)} more"] if more > 0 else names)


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _claims(key: str) -> bool:
    """Return whether a percentile is an estimate. The maximum, 100, is not."""
    return not key.startswith("100")


def late_ticks(report: Report) -> Iterator[str]:
    """Yield a finding if the aggregator was often late."""
    cost = report.snapshot.cost
    if cost.ticks and cost.ticks_late > _LATE * cost.ticks:
        share, were = formatting.percent(cost.ticks_late / cost.ticks), "was" if cost.ticks_late == 1 else "were"
        yield (
            f"{formatting.count(cost.ticks_late)} of {number_of(cost.ticks, 'tick')} of the "
            f"aggregator {were} late ({share}): the machine was busy, so rates over a second or "
            "two may be inaccurate"
        )


def _clock(report: Report) -> Iterator[str]:
    """Yield a finding if the wall clock was set, and the history followed it, as that of older runs did."""
    snapshot = report.snapshot
    if not snapshot.started_ns or not snapshot.time_ns or report.sources:
        return
    stepped_s = (snapshot.time_ns - snapshot.started_ns) / 1e9 - snapshot.elapsed_s
    if abs(stepped_s) > _CLOCK_S:
        which = "forward" if stepped_s > 0 else "back"
        yield (
            f"the clock was set {which} by {formatting.duration_s(abs(stepped_s))} during the run: "
            "times since its start follow the clock"
        )


def _over_time(report: Report) -> Iterator[str]:
    series = sum(stat.count > 0 for stat in report.snapshot.series)
    if report.over_time and len(report.over_time) < series:
        yield (
            f"figures over time show the {formatting.count(len(report.over_time))} series with the "
            f"most values, of {formatting.count(series)}"
        )


def of_feeds(report: Report) -> Iterator[str]:
    """Yield findings about feeds.

    The accounting of events does not cover messages that a feed missed or could not use.
    """
    counters = report.snapshot.counters
    if cause := interruption(counters):
        yield printable(f"{cause}: figures lack everything it had not done yet")
    refused = _named(counters, REFUSED)
    if refused:
        reasons = ", ".join(f"{stat.labels.get('reason', '')} {formatting.count(stat.value)}" for stat in refused)
        yield printable(f"a feed ignored some messages: {reasons}")
    for stat in _named(counters, UNCOUNTED):
        reason = stat.labels.get("reason", "")
        why = _WHY.get(reason, reason)
        yield printable(f"the output tokens of {number_of(stat.value, 'completed request')} are unknown: {why}")


def _named(counters: list[CounterStat], name: str) -> list[CounterStat]:
    return [stat for stat in counters if stat.name == name and stat.value]
