"""Requests of a report: counts by state, rates, and bounds of percentiles.

Cheap for reports without requests: no further module is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from telemetry import limits
from telemetry.common import formatting, wording
from telemetry.common.formatting import number_of, printable
from telemetry.history.request_model import RequestCounts, late_at, request_counts
from telemetry.statistics.confidence import wilson
from telemetry.wire import requests as words
from telemetry.wire.report import EarlyRule, EarlyStop, Report, RequestFigures
from telemetry.wire.snapshot import MetricsSnapshot, SeriesStat

if TYPE_CHECKING:
    from telemetry.history.interval_sums import Added, SumRows

BOUNDED: Final = (words.LATENCY, words.CORRECTED, words.TTFT, words.TPOT)
"""Series with early stopping: limits are set on these."""

_KINDS: Final = 8
"""Kinds, and windows of each kind, with findings."""

Stops = Callable[[SeriesStat], dict[str, EarlyStop]]


def with_requests(
    report: Report, added: Added | None = None, rows: SumRows | None = None, *, part: bool = False
) -> Report:
    """Return the report with its `requests`.

    `added` is the sum of the history over the same time range, `rows` the rows it was made of. Without them bounds
    come from display histograms. `part` is True for a report of a part of the run.
    """
    kinds = request_counts(report.snapshot)
    if not kinds:
        return report
    from telemetry.history.early_stopping import early_stops

    rule = report.early_rule
    own = {id(stat) for stat in report.snapshot.series}

    def stops(stat: SeriesStat) -> dict[str, EarlyStop]:
        # The sum of windows is not a series: its values are not in order.
        return early_stops(stat, added, rows, rule) if id(stat) in own else {}

    return replace(report, requests=[_figures(kind, stops, part, rule) for kind in kinds])


def of_requests(report: Report) -> Iterator[str]:
    """Yield findings about requests, for the busiest kinds and the first windows."""
    kinds = sorted(request_counts(report.snapshot), key=lambda kind: -kind.issued)
    for kind in kinds[:_KINDS]:
        yield from filter(None, map(late_words, kind.windows[:_KINDS] or (kind,)))
        if report.final and report.time_range is None:
            yield from _unended(kind)
            yield from _uncounted(kind)


def unended(report: Report) -> Iterator[str]:
    """Yield findings about requests that have no latency, for the busiest kinds."""
    for kind in sorted(request_counts(report.snapshot), key=lambda kind: -kind.issued)[:_KINDS]:
        yield from _unended(kind)


def late_words(of: RequestCounts) -> str:
    """Return a finding about late requests: the lateness, and the latency counted from the planned times.

    Empty unless that latency is clearly worse than the one measured from the issue.
    """
    return next((_late(of, percentile) for percentile in late_at(of)), "")


def bounded_series(snapshot: MetricsSnapshot) -> Iterable[SeriesStat]:
    """Yield the series with early stopping."""
    for kind in request_counts(snapshot):
        for part in (kind, *kind.windows):
            yield from (part.series[word] for word in BOUNDED if word in part.series)


def _late(of: RequestCounts, percentile: str) -> str:
    raw, corrected, delay = (of.series[word] for word in (words.LATENCY, words.CORRECTED, words.QUEUE_DELAY))
    late = formatting.quantity(delay.max, delay.unit)
    before, after = (formatting.quantity(stat.percentiles[percentile], stat.unit) for stat in (raw, corrected))
    planned = ""
    if corrected.count != raw.count:
        planned = f" of the {formatting.count(corrected.count)} of {formatting.count(raw.count)} that were planned"
    return printable(
        f"requests of {_name(of)} started up to {late} late: counted from the planned time, "
        f"p{percentile} latency{planned} is {after} instead of {before}"
    )


def _unended(of: RequestCounts) -> Iterator[str]:
    """Yield findings about requests that have no latency."""
    for what, number in (("in flight at the end", of.in_flight), ("expired", of.expired)):
        if number > 0:
            share = f"{formatting.count(number)} of {number_of(of.issued, 'request')}"
            yield printable(f"{what}: {share} of {_name(of)}, not included in latency")


def _uncounted(of: RequestCounts) -> Iterator[str]:
    """Yield a finding if tokens per second cover only some of the requests."""
    tokens = of.series.get(words.OUTPUT_TOKENS)
    if tokens is not None and 0 < tokens.count < of.completed:
        coverage = f"{formatting.count(tokens.count)} of {number_of(of.completed, 'completed request')}"
        yield printable(
            f"output tokens are known for {coverage} of {_name(of)}: the real tokens per second are higher"
        )


def _name(of: RequestCounts) -> str:
    window = f", window {of.window}" if of.window else ""
    return f"{wording.instrument(of.kind, of.labels)}{window}"


def _attainment_bounds(of: RequestCounts) -> tuple[float | None, float | None]:
    """Return the bounds of the attainment; unknown without limits, and for numbers that a file can't mean."""
    good, ended = of.good, of.ended
    if good is None or not 0 <= good <= ended or not 0 < ended <= limits.EVENT_NUMBERS:
        return None, None
    return wilson(good, ended)


def _figures(of: RequestCounts, stops: Stops, part: bool, rule: EarlyRule) -> RequestFigures:
    bounds = {word: stops(of.series[word]) for word in BOUNDED if word in of.series}
    low, high = _attainment_bounds(of)
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
        input_tokens_per_s=of.input_tokens_per_s,
        output_tokens_per_s=of.output_tokens_per_s,
        total_tokens_per_s=of.total_tokens_per_s,
        offered_per_s=None if part else of.offered_per_s,
        concurrency_mean=of.concurrency_mean,
        tokens_per_chunk=of.tokens_per_chunk,
        slo=of.slo,
        good=of.good,
        met=dict(of.met),
        goodput_per_s=of.goodput_per_s,
        attainment=of.attainment,
        attainment_low=low,
        attainment_high=high,
        early_stopping={word: bound for word, bound in bounds.items() if bound},
        confidence=rule.confidence,
        tolerance=rule.tolerance,
        windows=[_figures(window, stops, part, rule) for window in of.windows],
    )
