"""Requests of a report: where they are, how fast they went, and what their percentiles are surely below.

Light where there are none: nothing is loaded for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from telemetry import formatting, wording
from telemetry.formatting import number_of, printable
from telemetry.request_model import RequestCounts, request_counts
from telemetry.wire import requests as words
from telemetry.wire.report import EarlyRule, EarlyStop, Report, RequestFigures
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

if TYPE_CHECKING:
    from telemetry.history.interval_sums import Added, Rows

BOUNDED: Final = (words.LATENCY, words.CORRECTED, words.TTFT, words.TPOT)
"""What early stopping is about: limits are set on these."""

_KINDS: Final = 8
"""That findings are about; so of windows."""
_LATE_AT: Final = "99"
_CLEARLY: Final = (5, 4)
"""Of the raw percentile: below that a load generator was a little late, as all are. Being late has to account for
it: where only some requests were planned, they may have been slower by themselves."""

Stops = Callable[[SeriesStat], dict[str, EarlyStop]]


def with_requests(
    report: Report, added: Added | None = None, rows: Rows | None = None, *, part: bool = False
) -> Report:
    """The report with its `requests`.

    `added` is the sum of the history over the same time range, `rows` what it was made of. Without them bounds come
    from display histograms. `part`: the report is not of the whole run.
    """
    found = request_counts(report.snapshot)
    if not found:
        return report
    from telemetry.history.early_stopping import early_stops

    rule = report.early_rule
    own = {id(stat) for stat in report.snapshot.series}

    def stops(stat: SeriesStat) -> dict[str, EarlyStop]:
        # Windows together are no series: nobody has their values in order.
        return early_stops(stat, added, rows, rule) if id(stat) in own else {}

    return replace(report, requests=[_figures(one, stops, part, rule) for one in found])


def of_requests(report: Report) -> Iterator[str]:
    """What a reader of the numbers should know of requests, of the busiest kinds and windows."""
    kinds = sorted(request_counts(report.snapshot), key=lambda one: -one.issued)
    for one in kinds[:_KINDS]:
        yield from filter(None, map(late_words, one.windows[:_KINDS] or (one,)))
        if report.final and report.time_range is None:
            yield from _unended(one)
            yield from _uncounted(one)


def late_words(of: RequestCounts) -> str:
    """That its requests went out late, and what users who came on time saw; empty unless that is clearly worse than
    what was measured from the issue on."""
    return _late(of) if _is_late(of) else ""


def bounded_series(snapshot: MetricsSnapshot) -> Iterable[SeriesStat]:
    """Those that early stopping is about."""
    for one in request_counts(snapshot):
        for part in (one, *one.windows):
            yield from (part.series[word] for word in BOUNDED if word in part.series)


def _is_late(of: RequestCounts) -> bool:
    raw, corrected = of.series.get(words.LATENCY), of.series.get(words.CORRECTED)
    if raw is None or corrected is None or words.QUEUE_DELAY not in of.series:
        return False
    stats = (raw, corrected, of.series[words.QUEUE_DELAY])
    before, after, late = (one.percentiles.get(_LATE_AT) for one in stats)
    if before is None or after is None or late is None:
        return False
    more, whole = _CLEARLY
    return whole * after > more * before and more * late > (more - whole) * after


def _late(of: RequestCounts) -> str:
    raw, corrected, delay = (of.series[word] for word in (words.LATENCY, words.CORRECTED, words.QUEUE_DELAY))
    late = formatting.quantity(delay.max, delay.unit)
    before, after = (formatting.quantity(one.percentiles[_LATE_AT], one.unit) for one in (raw, corrected))
    planned = ""
    if corrected.count != raw.count:
        planned = f" of the {formatting.count(corrected.count)} of {formatting.count(raw.count)} that were planned"
    return printable(
        f"requests of {_name(of)} went out up to {late} late: from when they were planned,"
        f" p{_LATE_AT} latency{planned} is {after}, not {before}"
    )


def _unended(of: RequestCounts) -> Iterator[str]:
    """What became of requests that are in no latency."""
    for what, number in (("in flight at the end", of.in_flight), ("expired", of.expired)):
        if number > 0:
            share = f"{formatting.count(number)} of {number_of(of.issued, 'request')}"
            yield printable(f"{what}: {share} of {_name(of)}, which no latency has")


def _uncounted(of: RequestCounts) -> Iterator[str]:
    """That tokens a second are of some of the requests alone."""
    tokens = of.series.get(words.OUTPUT_TOKENS)
    if tokens is not None and 0 < tokens.count < of.completed:
        known = f"{formatting.count(tokens.count)} of {number_of(of.completed, 'completed request')}"
        yield printable(f"output tokens are known of {known} of {_name(of)}: tokens a second are at least so many")


def _name(of: RequestCounts) -> str:
    window = f", window {of.window}" if of.window else ""
    return f"{wording.instrument(of.kind, of.labels)}{window}"


def _figures(of: RequestCounts, stops: Stops, part: bool, rule: EarlyRule) -> RequestFigures:
    bounds = {word: stops(of.series[word]) for word in BOUNDED if word in of.series}
    return RequestFigures(
        kind=of.kind,
        labels=dict(of.labels),
        window=of.window,
        issued=of.issued,
        completed=of.completed,
        failed=dict(of.failed),
        expired=of.expired,
        in_flight=None if part else of.in_flight,
        after_end=of.after_end,
        out_of_order=of.out_of_order,
        finishes=dict(of.finishes),
        rates=of.rates,
        early_stopping={word: found for word, found in bounds.items() if found},
        confidence=rule.confidence,
        tolerance=rule.tolerance,
        windows=[_figures(window, stops, part, rule) for window in of.windows],
    )
