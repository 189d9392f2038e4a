"""Shares of values within a limit, and requests within theirs: attainment and goodput."""

from __future__ import annotations

import math
from collections.abc import Iterator

from telemetry.common.formatting import number_of, printable
from telemetry.history.request_model import RequestCounts, request_counts
from telemetry.judge.gates.evidence import Evidence, GateInstrument, Labels
from telemetry.judge.gates.functions import function_of
from telemetry.judge.gates.lexer import wrong
from telemetry.judge.gates.tree import GateMetric, Term
from telemetry.judge.gates.units import PLAIN, shown, unit_of
from telemetry.judge.gates.value import CONFIDENCE, Range, Unknown, Value, fits
from telemetry.statistics.confidence import wilson
from telemetry.wire import requests as words
from telemetry.wire.report import Rate
from telemetry.wire.snapshot import MetricsSnapshot

_ENDED = (words.COMPLETED, words.FAILED, words.EXPIRED)


def share(term: Term, series: GateInstrument, limit: Value, evidence: Evidence, text: str) -> Value:
    """Return the share of the values of a series that fulfil the condition of a term.

    Raises Unknown without values, UsageError for a limit in another unit.
    """
    assert term.condition is not None
    unit = unit_of(series.unit)
    alone = Value(value=0.0, unit=unit, possible=Range(0, 0), likely=Range(0, 0))
    if not fits(alone, limit):
        problem = f"`{term.condition.limit}` is {limit.unit.kind()} and `{term.metric}` is {unit.kind()}"
        raise wrong(text, term.condition.limit.span, f"{problem}: they can't be compared")
    counts = evidence.share(series, term.condition.relation, limit.within(unit).value)
    if counts is None:
        raise Unknown(f"{term.metric} has no values")
    doubt = ""
    if counts.slot is not None:
        low, high = (shown(end, unit) for end in counts.slot)
        many = number_of(counts.most - counts.least, "value")
        doubt = f"the limit {term.condition.limit} lies between {low} and {high}, where a histogram has {many}"
    lost = evidence.loss.most
    possible = Range(0.0, 1.0)
    if math.isfinite(lost):
        total = counts.samples + lost
        possible = Range(counts.least / total, (counts.most + lost) / total)
    return _proportion(counts.least, counts.most, counts.samples, possible, doubt)


def attainment(term: Term, met: GateInstrument, evidence: Evidence) -> Value:
    """Return the share of ended requests within their limits. `met`: the counter of those requests.

    Raises Unknown if no request has ended.
    """
    good, ended = float(evidence.counted(met)[0]), _counted(met, evidence, _ENDED)
    if not ended > 0:
        raise Unknown(f"no request of {_requests(term, met)} has ended")
    good, lost = min(good, ended), evidence.loss.most
    possible = Range(good / (ended + lost), min(1.0, (good + lost) / ended)) if lost else Range(*[good / ended] * 2)
    return _proportion(good, good, ended, possible)


def goodput(term: Term, good: GateInstrument, evidence: Evidence) -> Value:
    """Return the good requests a second, by a definition of throughput. It is 0 if no request completed.

    It is the throughput times the share of completed requests that are good. Raises Unknown if that is unknown.
    """
    if not evidence.whole:
        why = "goodput counts from the first issue"
        raise Unknown(f"no goodput of {_requests(term, good)} for a time range: {why}")
    kind, labels = _kind(good)
    counts = next((window for window in _windows(evidence.snapshot, kind) if _labels(window) == labels), None)
    value, completed = 0.0, int(counts.completed) if counts is not None else 0
    if counts is not None and completed > 0:
        definition = function_of(term.function).rate
        rate: Rate = getattr(counts.rates, definition)
        good_per_s = counts.goodput_per_s if definition == "overall" else _times(rate, counts.good, completed)
        if good_per_s is None:
            raise Unknown(f"no goodput of {_requests(term, good)}: its duration is zero or unknown")
        value = good_per_s
    unit = unit_of(words.INSTRUMENTS[words.ISSUED][1]).per_second()
    possible = Range(0.0, math.inf) if evidence.loss.most else Range(value, value)
    return Value(value=value, unit=unit, possible=possible, likely=Range(value, value), samples=completed)


def _windows(snapshot: MetricsSnapshot, kind: str) -> Iterator[RequestCounts]:
    for whole in request_counts(snapshot):
        if whole.kind == kind:
            yield from whole.windows or (whole,)


def _labels(counts: RequestCounts) -> Labels:
    window = {words.WINDOW: counts.window} if counts.window else {}
    return tuple(sorted({**counts.labels, **window}.items()))


def _times(rate: Rate, good: float | None, completed: int) -> float | None:
    per_s = rate.requests_per_s
    return None if per_s is None or good is None else per_s * (good / completed)


def _proportion(least: float, most: float, total: float, possible: Range, doubt: str = "") -> Value:
    return Value(
        value=(least + most) / 2 / total,
        unit=PLAIN,
        possible=possible,
        likely=Range(wilson(least, total, CONFIDENCE)[0], wilson(most, total, CONFIDENCE)[1]),
        samples=int(total),
        estimate=True,
        reach=Range(wilson(0, total, CONFIDENCE)[1], wilson(total, total, CONFIDENCE)[0]),
        doubt=doubt,
    )


def _counted(of: GateInstrument, evidence: Evidence, outcomes: tuple[str, ...]) -> float:
    """Return the number of requests with these outcomes, of the kind and labels of a counter of good requests."""
    kind, labels = _kind(of)
    total = 0.0
    for word in outcomes:
        name, own = words.name_of(kind, word), words.LABEL_OF.get(word, "")
        for item in evidence.instruments:
            if item.kind == "counter" and item.name == name and _without(own, item.labels) == labels:
                total += evidence.counted(item)[0]
    return total


def _kind(of: GateInstrument) -> tuple[str, Labels]:
    return of.name.rpartition(".")[0], _without(words.SLO, of.labels)


def _without(key: str, labels: Labels) -> Labels:
    return tuple(label for label in labels if label[0] != key)


def _requests(term: Term, of: GateInstrument) -> str:
    kind, labels = _kind(of)
    return printable(str(GateMetric(kind, labels)))
