"""Requests judged by limits after the run, from its request log: goodput and attainment."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from telemetry.common import formatting, slo
from telemetry.common.formatting import number_of, printable
from telemetry.errors import UsageError
from telemetry.history.request_log import RequestLog, facts
from telemetry.history.request_model import RequestCounts, request_counts
from telemetry.statistics.confidence import wilson
from telemetry.store.run_directory import RunDirectory
from telemetry.wire import requests as words
from telemetry.wire.pictures import RequestsOverTime
from telemetry.wire.report import Report, RequestFigures
from telemetry.wire.request_log import RequestEntry
from telemetry.wire.snapshot import CounterStat, MetricsSnapshot

NO_LOG_HINT: Final = (
    "the log has requests that a program reports with run.requests(…), unless emit.request_log is off; "
    "runs of earlier versions have none"
)
_LATEST_NS: Final = (1 << 63) - 1
Labels = tuple[tuple[str, str], ...]
Limits = Mapping[str, int]
LimitsByKind = Mapping[str, Mapping[str, int]]


def verdicts(entry: RequestEntry, limits: Limits) -> dict[str, bool]:
    """Judge a request by each limit. Its own limits replace those of its kind.

    A failed or expired request meets none. Of an answer of more pieces than a request holds, only the last gaps
    are judged.
    """
    wanted = slo.combined(limits, entry.slo) if entry.slo else limits
    if entry.outcome != "completed":
        return dict.fromkeys(wanted, False)
    return slo.met(
        wanted,
        issued_ns=entry.issued_ns,
        ended_ns=entry.ended_ns,
        planned_ns=entry.planned_ns,
        first_ns=entry.first_ns,
        first_tokens=entry.first_tokens,
        output_tokens=entry.output_tokens,
        largest_gap_ns=max(entry.gaps_ns, default=None),
    )


def with_goodput(report: Report, directory: RunDirectory, limits: LimitsByKind) -> Report:
    """Return the report of a whole run as if its requests had had these limits. Blocks on the disk.

    Kinds without new limits stay as they are. Raises UsageError if the run has not ended, has no requests with such
    limits, or its request log lacks requests; RunDirectoryError if the log can't be read.
    """
    if report.time_range is not None and report.time_range.found:
        raise UsageError(
            "--goodput is for the whole run", hint="leave out the time range; windows have their own goodput"
        )
    if not report.final:
        raise UsageError("the run is still going, and its requests can be judged again once it has ended")
    kinds = {
        (requests.kind, _pairs(requests.labels)): _Kind(requests, own_limits)
        for requests in request_counts(report.snapshot)
        if (own_limits := slo.for_kind(limits, requests.kind))
    }
    if not kinds:
        raise UsageError(f"the run has no requests that --goodput {slo.by_kind_to_text(limits)} is for")
    log = _whole_log(directory)
    for request in log:
        others = {key: value for key, value in request.labels.items() if key != words.WINDOW}
        kind = kinds.get((request.kind, _pairs(others)))
        if kind is not None:
            kind.add(request.entry, request.labels.get(words.WINDOW, ""), request.entry.ended_ns + request.shift_ns)
    for kind in kinds.values():
        _check(kind, log.damage)
    chosen = list(kinds.values())
    snapshot = _rejudged(report.snapshot, chosen)
    counts = {(requests.kind, _pairs(requests.labels)): requests for requests in request_counts(snapshot)}
    figures = [_figures(requests, counts[requests.kind, _pairs(requests.labels)]) for requests in report.requests]
    findings = [*map(_finding, chosen), *report.findings]
    return _over_time(replace(report, snapshot=snapshot, requests=figures, findings=findings), kinds)


@dataclass(slots=True)
class _WindowGoodput:
    ended: int = 0
    good: int = 0
    met: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Kind:
    """Requests of one kind, judged one by one."""

    counts: RequestCounts
    limits: dict[str, int]
    windows: dict[str, _WindowGoodput] = field(init=False)
    good_ns: array[int] = field(default_factory=lambda: array("q"))
    """End of each good request, on the wall clock."""

    def __post_init__(self) -> None:
        self.windows = {counts.window or "": _WindowGoodput() for counts in self.counts.windows or [self.counts]}

    def add(self, entry: RequestEntry, window: str, ended_ns: int) -> None:
        judgements = verdicts(entry, self.limits)
        of = self.windows.setdefault(window, _WindowGoodput())
        of.ended += 1
        if entry.outcome == "completed":
            if all(judgements.values()):
                of.good += 1
                self.good_ns.append(min(max(ended_ns, 0), _LATEST_NS))
            for key, is_met in judgements.items():
                of.met[key] = of.met.get(key, 0) + is_met

    @property
    def ended(self) -> int:
        return sum(window.ended for window in self.windows.values())


def _whole_log(directory: RunDirectory) -> RequestLog:
    log_facts = facts(directory)
    if log_facts is None:
        raise UsageError("the run has no request log, so its requests can't be judged again", hint=NO_LOG_HINT)
    return RequestLog(directory)


def _check(kind: _Kind, damage: str) -> None:
    """Raise UsageError unless all requests that ended were in the log."""
    ended = kind.counts.ended
    if kind.ended != ended or damage:
        detail = f": {damage}" if damage else ""
        raise UsageError(
            f"the request log has {formatting.count(kind.ended)} of {number_of(ended, 'request')} of "
            f"{printable(kind.counts.kind)}, so the goodput of the whole run is not known{detail}",
            hint="`telemetry export RUN --requests FILE` writes the requests that it has",
        )


def _rejudged(snapshot: MetricsSnapshot, kinds: Sequence[_Kind]) -> MetricsSnapshot:
    """Return the snapshot with other counters of good requests, and other limits among its parameters."""
    counters, params = list(snapshot.counters), dict(snapshot.params)
    for kind in kinds:
        name, own = kind.counts.kind, dict(kind.counts.labels)
        old = {words.name_of(name, word) for word in (words.GOOD, words.MET)}
        counters = [counter for counter in counters if counter.name not in old or _own(counter.labels) != own]
        params[words.limits_param(name, own)] = slo.to_text(kind.limits)
        for window, of in kind.windows.items():
            labels = {**own, words.WINDOW: window} if window else own
            counters.append(_counter(words.name_of(name, words.GOOD), labels, of.good))
            counters += (
                _counter(words.name_of(name, words.MET), {**labels, words.SLO: key}, of.met.get(key, 0))
                for key in kind.limits
            )
    return replace(snapshot, counters=counters, params=params)


def _finding(kind: _Kind) -> str:
    own = kind.counts.slo
    before = f"the run had {printable(own)}" if own else "the run had no limits"
    return f"{printable(kind.counts.kind)} was judged afterwards by {slo.to_text(kind.limits)}: {before}"


def _counter(name: str, labels: dict[str, str], value: int) -> CounterStat:
    return CounterStat(name=name, labels=labels, unit="requests", value=value, events=value)


def _own(labels: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of the kind."""
    return {key: value for key, value in labels.items() if key not in (words.WINDOW, words.SLO)}


def _pairs(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def _figures(figures: RequestFigures, counts: RequestCounts) -> RequestFigures:
    by_window = {window.window: window for window in counts.windows}
    low, high = (
        wilson(int(counts.good), int(counts.ended)) if counts.good is not None and counts.ended else (None, None)
    )
    return replace(
        figures,
        slo=counts.slo,
        good=counts.good,
        met=dict(counts.met),
        goodput_per_s=counts.goodput_per_s,
        attainment=counts.attainment,
        attainment_low=low,
        attainment_high=high,
        windows=[_figures(window, by_window[window.window]) for window in figures.windows],
    )


def _over_time(report: Report, kinds: Mapping[tuple[str, Labels], _Kind]) -> Report:
    """Return the report with good requests per second of each time step, if it has pictures."""
    pictures = report.pictures
    if pictures is None:
        return report
    import numpy as np

    edges = np.asarray(pictures.edges_s)

    def judged(requests: RequestsOverTime) -> RequestsOverTime:
        kind = kinds.get((requests.kind, _pairs(requests.labels)))
        if kind is None or len(edges) < 2:
            return requests
        at_s = (np.asarray(kind.good_ns, np.int64) - report.snapshot.started_ns) / 1e9
        counts, _ = np.histogram(at_s, edges)
        lengths = np.diff(edges)
        rates = [
            float(number / length) if length > 0 else None for number, length in zip(counts, lengths, strict=True)
        ]
        unknown = [done is None for done in requests.completed_per_s]
        return replace(
            requests,
            good_per_s=[None if is_unknown else rate for rate, is_unknown in zip(rates, unknown, strict=True)],
        )

    return replace(
        report, pictures=replace(pictures, requests=[judged(requests) for requests in pictures.requests])
    )
