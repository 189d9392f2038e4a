"""The comparable figures of a run, their directions, and the patterns that select them by name."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cache
from typing import Final

from msgspec.structs import replace

from telemetry.common import wording
from telemetry.common.directions import TROUBLE, Better, better_of_name, words_of
from telemetry.common.formatting import printable
from telemetry.errors import UsageError
from telemetry.history.headlines.metrics import attempts
from telemetry.history.rates import Paces
from telemetry.history.request_model import RequestCounts, issued_kind, request_counts, without_requests
from telemetry.statistics.confidence import least_count
from telemetry.statistics.hdr.percentiles import parse_percentile
from telemetry.store.calibrations import Of
from telemetry.wire import requests as words
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.report import Report
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot, SeriesStat
from telemetry.wire.units import BYTES, TIME_NS

PERCENTILES: Final = ("50", "90", "99", "99.9")
ATTAINMENT: Final = "attainment"
SHARE: Final = "share"
"""Errors and the like, as a share of the requests that they are among."""
AXIS: Final = "axis"
"""Label of a value of steps: the name of its axis."""
_COUNTED: Final = {words.LATENCY: "requests", words.OUTPUT_TOKENS: "tokens"}
"""Figure of requests → the unit of things that its rate counts."""


@dataclass(frozen=True, slots=True, order=True)
class FigureKey:
    """The identity of a figure, the same in all runs."""

    of: Of
    name: str
    labels: tuple[tuple[str, str], ...]
    """Label pairs, sorted."""
    statistic: str
    """Statistic.

    Of a series `p50`, `p99.9`, …, `mean`, `rate`; of a counter `value`, `rate` or `share`; of the command `wall`,
    `cpu`; of requests `goodput`, `attainment`, `share`; of a value of steps `last`, `best`; of an axis `steps`,
    `rate`.
    """


@dataclass(frozen=True, slots=True)
class FigureValue:
    """The value of a figure in one run."""

    value: float | None
    """Value, or None if the run has too few values for the figure."""
    unit: str
    count: int = 0
    """Number of values behind it."""


def readings(
    report: Report, percentiles: Sequence[str] = PERCENTILES, *, every_rate: bool = False
) -> dict[FigureKey, FigureValue]:
    """Return all figures of a run. Percentiles that the run did not keep, and series without values, are missing.

    For requests, only latency and output tokens have a rate: the overall rate of reports. With `every_rate`, other
    figures of requests also have a rate, as in gates.
    """
    snapshot = _with_present_words(report.snapshot)
    result = {figure: reading for stat in snapshot.series for figure, reading in _series(stat, percentiles)}
    value_counters = snapshot.counters if every_rate else _told(snapshot)
    for counter in value_counters:
        value = FigureKey("counter", counter.name, _sorted(counter.labels), "value")
        result[value] = FigureValue(float(counter.value), counter.unit, counter.events)
    counters, series = value_counters, snapshot.series
    if not every_rate:
        counters, series = without_requests(counters, snapshot), without_requests(series, snapshot)
    paces = Paces(snapshot, duration_s(report))
    result |= _plain_rates(counters, series, paces)
    shares = dict(_failed_shares(snapshot)) | dict(_shares(snapshot))
    if not every_rate:  # a shorter run with as many errors has a higher rate, and no higher share
        for figure in shares:
            result.pop(FigureKey(figure.of, figure.name, figure.labels, "rate"), None)
    result |= shares
    result |= _request_rates(snapshot)
    result |= _within_limits(snapshot)
    result |= _steps(report, paces)
    command = snapshot.command
    if command is not None and report.time_range is None:
        result[FigureKey("command", "", (), "wall")] = FigureValue(command.wall_s, "s", 1)
        result[FigureKey("command", "", (), "cpu")] = FigureValue(command.cpu_user_s + command.cpu_system_s, "s", 1)
    return result


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


def _series(stat: SeriesStat, percentiles: Sequence[str]) -> Iterator[tuple[FigureKey, FigureValue]]:
    if not stat.count:
        return
    labels = _sorted(stat.labels)
    for key in percentiles:
        if key in stat.percentiles:
            figure = FigureKey("series", stat.name, labels, f"p{key}")
            value = float(stat.percentiles[key]) if stat.count >= needed(figure.statistic) else None
            yield figure, FigureValue(value, stat.unit, stat.count)
    if stat.mean is not None:
        yield FigureKey("series", stat.name, labels, "mean"), FigureValue(stat.mean, stat.unit, stat.count)


def _plain_rates(
    counters: Sequence[CounterStat], series: Sequence[SeriesStat], paces: Paces
) -> Iterator[tuple[FigureKey, FigureValue]]:
    """Yield the rates of instruments that have one."""
    for stat in series:
        if (per_s := paces.of(stat).per_s) is not None:
            yield FigureKey("series", stat.name, _sorted(stat.labels), "rate"), FigureValue(per_s, "1", stat.count)
    for counter in counters:
        if (per_s := paces.of(counter).per_s) is not None:
            rate = FigureKey("counter", counter.name, _sorted(counter.labels), "rate")
            yield rate, FigureValue(per_s, counter.unit, counter.events)


def _shares(snapshot: MetricsSnapshot) -> Iterator[tuple[FigureKey, FigureValue]]:
    """Yield counters of errors as a share of the requests that they are among, if the run counts those."""
    counters = without_requests(snapshot.counters, snapshot)
    series = without_requests(snapshot.series, snapshot)
    for counter in counters:
        total = attempts([counter], counters, series)
        if total is not None:
            figure = FigureKey("counter", counter.name, _sorted(counter.labels), SHARE)
            yield figure, FigureValue(float(counter.value) / total, "", int(total))


def without_errors(snapshot: MetricsSnapshot, figure: FigureKey) -> FigureValue | None:
    """Return a figure of errors for a run that counted none; None if it counted no requests."""
    if figure.of != "counter" or figure.statistic not in (SHARE, "value"):
        return None
    nothing = CounterStat(name=figure.name, labels=dict(figure.labels))
    counters = without_requests(snapshot.counters, snapshot)
    total = attempts([nothing], counters, without_requests(snapshot.series, snapshot))
    return None if total is None else FigureValue(0.0, "", int(total))


def _failed_shares(snapshot: MetricsSnapshot) -> Iterator[tuple[FigureKey, FigureValue]]:
    """Yield the failed and expired requests of each kind and tracking window, as a share of those that ended."""
    for whole in request_counts(snapshot):
        for part in whole.windows or (whole,):
            share = part.failed_share
            if share is not None:
                name = words.name_of(part.kind, words.FAILED)
                yield (
                    FigureKey("requests", name, _sorted(labels_of(part)), SHARE),
                    FigureValue(share, "", int(part.ended)),
                )


def _request_rates(snapshot: MetricsSnapshot) -> Iterator[tuple[FigureKey, FigureValue]]:
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
                    figure = FigureKey("series", stat.name, _sorted(stat.labels), "rate")
                    yield figure, FigureValue(value, _COUNTED[word], stat.count)


def _within_limits(snapshot: MetricsSnapshot) -> Iterator[tuple[FigureKey, FigureValue]]:
    """Yield goodput and attainment of each kind of request and tracking window with limits."""
    for whole in request_counts(snapshot):
        for part in whole.windows or (whole,):
            if part.good is None:
                continue
            labels, ended = _sorted(labels_of(part)), int(part.ended)
            if part.goodput_per_s is not None:
                figure = FigureKey("requests", part.kind, labels, "goodput")
                yield figure, FigureValue(part.goodput_per_s, _COUNTED[words.LATENCY], ended)
            shares = {"": part.attainment} | {key: part.attainment_of(key) for key in part.met}
            for key, share in shares.items():
                if share is not None:
                    name = words.name_of(part.kind, key) if key else part.kind
                    yield FigureKey("requests", name, labels, ATTAINMENT), FigureValue(share, "", ended)


def _told(snapshot: MetricsSnapshot) -> list[CounterStat]:
    """Return the counters, without those of requests within their limits: attainment has their figures."""
    kinds = _kinds(snapshot)
    within = {words.name_of(kind, word) for kind in kinds for word in (words.GOOD, words.MET)}
    return [stat for stat in snapshot.counters if stat.name not in within]


def _kinds(snapshot: MetricsSnapshot) -> set[str]:
    return {issued_kind(stat.name, stat.unit) for stat in snapshot.counters} - {""}


def labels_of(part: RequestCounts) -> dict[str, str]:
    """Return the labels of requests of one tracking window."""
    return {**part.labels, **({words.WINDOW: part.window} if part.window else {})}


def _steps(report: Report, paces: Paces) -> Iterator[tuple[FigureKey, FigureValue]]:
    """Yield the number of steps of each axis and their speed, and the last and the best value of each name."""
    curves = {(curve.axis, curve.name): curve for curve in report.curves}
    for axis in report.snapshot.axes:
        yield FigureKey("steps", axis.name, (), "steps"), FigureValue(float(axis.closed), "", axis.closed)
        if (per_s := paces.steps_per_s(axis.name)) is not None:
            yield FigureKey("steps", axis.name, (), "rate"), FigureValue(per_s, "1", axis.closed)
        for name, newest in axis.values.items():
            labels, curve = ((AXIS, axis.name),), curves.get((axis.name, name))
            count = 0 if curve is None else curve.count
            last = math.nan if newest is None else newest
            yield FigureKey("steps", name, labels, "last"), FigureValue(last, "", count)
            better = better_of_name(name)
            if curve is not None and better != "neither":
                best = curve.min if better == "lower" else curve.max
                if best is None or newest is None:  # a value that ended as NaN has no best
                    best = math.nan
                yield FigureKey("steps", name, labels, "best"), FigureValue(best, "", count)


def _with_present_words(snapshot: MetricsSnapshot) -> MetricsSnapshot:
    """Rename series of requests that have a word of an earlier version, so that old and new runs compare."""
    kinds = _kinds(snapshot)
    renamed = {stat.name: _present(stat.name, kinds) for stat in snapshot.series} if kinds else {}
    if all(old == new for old, new in renamed.items()):
        return snapshot
    return replace(snapshot, series=[replace(stat, name=renamed[stat.name]) for stat in snapshot.series])


def _present(name: str, kinds: Collection[str]) -> str:
    kind, _, word = name.rpartition(".")
    return words.name_of(kind, words.canonical(word)) if kind in kinds else name


def _sorted(labels: dict[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(labels.items()))


COMMAND: Final = "command"
"""Name of the figures of the command."""
COMMAND_WORDS: Final = {"wall": "wall time", "cpu": "CPU time"}
"""Statistics of the command, as printed."""

_LABELS: Final = "{"
_REST: Final = re.compile(r"(?: \[.*\])?(?:[: ](?P<statistic>.+))?", re.DOTALL)
"""Text after a name: the unit and the statistic."""
_SHOWN: Final = 3
_ALIKE: Final = 0.6


def matches(figure: FigureKey, pattern: str) -> bool:
    """Check whether a pattern selects this figure."""
    name = _in_full(figure) if _LABELS in pattern else _bare(figure)
    held = (name, f"{name}:{figure.statistic}")
    return any(fnmatchcase(text, pattern) for text in held) or _is_printed(figure, pattern)


def check(patterns: Iterable[str], figures: Sequence[FigureKey], gauges: Collection[str] = ()) -> None:
    """Check patterns. Raises UsageError for the first one that matches no figure, with the nearest names.

    `gauges`: names of gauges, which have no figures.
    """
    for pattern in patterns:
        if not any(matches(figure, pattern) for figure in figures):
            message = f"the runs have no figure {pattern!r}"
            raise UsageError(message, hint=_instead(pattern, figures, gauges))


def _is_printed(figure: FigureKey, text: str) -> bool:
    spellings = (figure.statistic, COMMAND_WORDS.get(figure.statistic) if figure.of == "command" else None)
    for name in (_bare(figure), printable(_bare(figure)), _in_full(figure)):
        rest = _REST.fullmatch(text, len(name)) if text.startswith(name) else None
        if rest is not None and (rest["statistic"] is None or rest["statistic"] in spellings):
            return True
    return False


def _bare(figure: FigureKey) -> str:
    return COMMAND if figure.of == "command" else figure.name


def _in_full(figure: FigureKey) -> str:
    return wording.instrument(_bare(figure), dict(figure.labels))


def _instead(pattern: str, figures: Sequence[FigureKey], gauges: Collection[str]) -> str:
    """Suggest the nearest figures or the existing ones. Returns an empty string if there are none."""
    name, tail = pattern, ""
    for separator in (":", " "):
        head, delimiter, statistic = pattern.rpartition(separator)
        if own := sorted({figure.statistic for figure in figures if delimiter and matches(figure, head)}):
            return f"{printable(head)} has: {', '.join(own)}"
        if delimiter and not tail and any(figure.statistic == statistic for figure in figures):
            name, tail = head, f"{separator}{statistic}"
    bare, labels, _ = name.partition(_LABELS)
    if bare in gauges:
        return f"{printable(name)} is a gauge, and gauges can't be compared"
    having = [figure for figure in figures if not tail or figure.statistic == tail[1:]]
    siblings = {_in_full(figure) for figure in having if labels and _bare(figure) == bare}
    existing = sorted(siblings or {_in_full(figure) if labels else printable(_bare(figure)) for figure in having})
    near = get_close_matches(name, existing, n=_SHOWN, cutoff=0.0 if siblings else _ALIKE)
    if near:
        return f"did you mean {' or '.join(f'{candidate}{tail}' for candidate in near)}?"
    return f"the runs have: {_listed(existing)}" if existing else ""


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"


_PER_TIME: Final = re.compile(r".*(/|\bper\b) ?(s|sec|second|min|minute|h|hour)")


@dataclass(frozen=True)
class Directions:
    """The user's patterns for directions. Their syntax: `telemetry.judge.compare.figures`."""

    lower: Sequence[str] = ()
    higher: Sequence[str] = ()

    def of(self, figure: FigureKey, unit: str) -> Better:
        """Return the better direction of a figure. Patterns of `lower` take precedence."""
        for patterns, better in ((self.lower, "lower"), (self.higher, "higher")):
            if any(matches(figure, pattern) for pattern in patterns):
                return "lower" if better == "lower" else "higher"
        of_machine = figure.of == "counter" and is_of_machine(figure.name)
        return "neither" if of_machine else _by_rule(figure, unit)


def _by_rule(figure: FigureKey, unit: str) -> Better:
    if figure.of in ("requests", "steps") and figure.statistic != SHARE:
        named: dict[str, Better] = {"steps": "neither", "rate": "higher"}
        return "higher" if figure.of == "requests" else named.get(figure.statistic, better_of_name(figure.name))
    if figure.of == "command" or not TROUBLE.isdisjoint(words_of(figure.name)):
        return "lower"
    if figure.statistic == "rate":
        return "neither" if unit in TIME_NS else "higher"
    if figure.of == "counter":
        return "neither"
    if unit in TIME_NS or unit in BYTES or unit in ("B", "bytes"):
        return "lower"
    return "higher" if _PER_TIME.fullmatch(unit) else better_of_name(figure.name)
