"""The requests that a report in the form of another tool covers: one kind, its tracking windows, a time range."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from telemetry.common import formatting, slo, wording
from telemetry.common.formatting import number_of, printable
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.history.goodput import NO_LOG_HINT
from telemetry.history.request_log import RequestLog, facts
from telemetry.history.request_model import RequestCounts, request_counts
from telemetry.report.other_tools.answers import AnswerCollector, Answers, Lacks
from telemetry.store.run_directory import RunDirectory
from telemetry.wire import requests as words
from telemetry.wire.report import Report


@dataclass(frozen=True, slots=True)
class Selection:
    """The requests that a report covers."""

    answers: Answers
    name: str
    """Kind of the requests, with labels and tracking windows."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """Limits for a request, by key of `telemetry.common.slo`, in nanoseconds."""
    lacks: Lacks = field(default_factory=Lacks)
    coverage: str = ""
    """Which share of the requests is covered, as a sentence; empty if all are."""
    in_flight: int = 0
    """Number of requests without an outcome at the end of the run."""
    run: str = ""
    """Name of the run."""
    run_id: str = ""
    started_ns: int = 0
    """Start of the run on the wall clock."""


@dataclass(frozen=True, slots=True)
class _Choice:
    whole: RequestCounts
    windows: Sequence[RequestCounts]
    """Tracking windows that are covered; empty for all requests."""

    @property
    def counts(self) -> Sequence[RequestCounts]:
        return self.windows or [self.whole]

    @property
    def name(self) -> str:
        name = wording.instrument(self.whole.kind, self.whole.labels)
        if not self.windows:
            return name
        shown = formatting.listed([printable(window.window or "none") for window in self.windows], 4)
        return f"{name}, {'window' if len(self.windows) == 1 else 'windows'} {shown}"


def select(
    report: Report,
    directory: RunDirectory,
    name: str = "",
    goodput: Mapping[str, Mapping[str, int]] | None = None,
    *,
    needs_output: bool = True,
) -> Selection:
    """Read the requests of one kind from the request log. Blocks on the disk.

    `name` is that of a kind, or kind{label=value,…}, where a label may be the tracking window. The default is the
    only kind. Requests outside of tracking windows are left out if there are windows. A report of a time range
    covers the requests that were issued in it. `goodput` has limits by kind, in place of those of the run.
    `needs_output` is True for a tool that measures the output of requests.

    Raises UsageError if the run has no request log or no such requests, RunDirectoryError if the log can't be read.
    """
    log_facts = facts(directory)
    if log_facts is None:
        raise UsageError("the run has no request log", hint=NO_LOG_HINT)
    choice = _chosen(report, name)
    log, limits = RequestLog(directory), _limits(choice.whole, goodput)
    collector = _collected(log, choice, limits, _times(report))
    answers = collector.answers()
    if not len(answers):
        raise UsageError(f"the request log has no requests of {choice.name}" + _in_range(report))
    if needs_output and not answers.chunks.any():
        raise UsageError(
            f"no request of {choice.name} has any output, so there is nothing that the tool could measure",
            hint="report output with request.first(), request.chunk() or complete(output_tokens=…)",
        )
    return Selection(
        answers=answers,
        name=choice.name + _in_range(report),
        limits=limits,
        lacks=collector.lacks,
        coverage=" · ".join(filter(None, (*_coverage(report, choice, len(answers), log_facts.reason), log.damage))),
        in_flight=0 if _is_part(report) else int(max(0, sum(counts.in_flight for counts in choice.counts))),
        run=report.snapshot.name,
        run_id=report.snapshot.run_id,
        started_ns=report.snapshot.started_ns,
    )


def _chosen(report: Report, name: str) -> _Choice:
    kinds = request_counts(report.snapshot)
    fitting = [choice for counts in kinds for choice in _choices(counts, name)]
    if len(fitting) == 1:
        return fitting[0]
    names = formatting.listed([wording.instrument(counts.kind, counts.labels) for counts in kinds], 8)
    if not fitting:
        what = f"requests called {printable(name)!r}" if name else "requests"
        raise UsageError(f"the run has no {what}", hint=f"it has {names}" if names else "")
    raise UsageError(
        f"the run has {len(kinds)} kinds of requests, and the tool knows one: {names}",
        hint="choose one with --requests NAME",
    )


def _choices(counts: RequestCounts, name: str) -> Iterator[_Choice]:
    """Yield what a name means for a kind: all its windows, or one of them."""
    if name in ("", counts.kind, wording.instrument(counts.kind, counts.labels)):
        yield _Choice(counts, [window for window in counts.windows if window.window])
        return
    for window in counts.windows:
        if name == wording.instrument(counts.kind, {**counts.labels, words.WINDOW: window.window or ""}):
            yield _Choice(counts, [window])


def _collected(
    log: RequestLog, choice: _Choice, limits: Mapping[str, int], times: tuple[int, int] | None
) -> AnswerCollector:
    collector = AnswerCollector(limits)
    kind, own, windows = choice.whole.kind, dict(choice.whole.labels), {part.window for part in choice.windows}
    labels: dict[str, str] | None = None
    is_chosen = False
    try:
        for request in log:
            if request.labels is not labels:
                labels = request.labels
                window = labels.get(words.WINDOW, "")
                others = {key: value for key, value in labels.items() if key != words.WINDOW}
                is_chosen = request.kind == kind and others == own and (not windows or window in windows)
            if is_chosen and (times is None or times[0] <= request.entry.issued_ns + request.shift_ns < times[1]):
                collector.add(request.entry, request.offset_ns)
    except OverflowError as error:
        raise RunDirectoryError("the request log has times that no clock can show") from error
    return collector


def _is_part(report: Report) -> bool:
    return report.time_range is not None and report.time_range.found


def _times(report: Report) -> tuple[int, int] | None:
    """Return the wall-clock times of the report's time range; None for the whole run."""
    part = report.time_range
    if part is None or not part.found:
        return None
    begin_ns, end_ns = (report.snapshot.started_ns + round(at_s * 1e9) for at_s in (part.start_s, part.end_s))
    return begin_ns, end_ns


def _in_range(report: Report) -> str:
    part = report.time_range
    if part is None or not part.found:
        return ""
    begin, end = (formatting.duration_s(at_s) for at_s in (part.start_s, part.end_s))
    return f", issued from {begin} to {end} of the run"


def _coverage(report: Report, choice: _Choice, logged: int, reason: str) -> Iterator[str]:
    """Yield which share of the requests is covered, if not all are."""
    if _is_part(report):
        yield reason
        return
    ended = sum(counts.ended for counts in choice.counts)
    if ended > logged:
        share = formatting.percent(logged / ended)
        yield (
            f"only {formatting.count(logged)} of {number_of(ended, 'request')} that ended ({share}) are covered: "
            f"{reason or 'the request log lacks the others'}"
        )


def _limits(counts: RequestCounts, goodput: Mapping[str, Mapping[str, int]] | None) -> dict[str, int]:
    """Return the limits of a kind: the given ones, else those of the run."""
    if given := slo.for_kind(goodput or {}, counts.kind):
        return given
    try:
        return slo.parse(counts.slo) if counts.slo else {}
    except UsageError:
        return {}  # the program of another version, or another language, sent a text that is not a limit
