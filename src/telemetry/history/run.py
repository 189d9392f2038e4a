"""A finished run from its files: the result as written, and its history for any time range."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from msgspec.structs import replace

from telemetry import limits
from telemetry.common import formatting
from telemetry.common.memory import uncollected
from telemetry.errors import RunDirectoryError, UsageError
from telemetry.history import distributions
from telemetry.history.bounds import is_percentile, series_bounds
from telemetry.history.concurrency import InFlightHistory, with_peaks, with_slots
from telemetry.history.distributions import CountedDistribution
from telemetry.history.findings import Covered, alone, findings
from telemetry.history.instrument_ids import SeriesId, series_id
from telemetry.history.interval_sums import Added, RangeTotals
from telemetry.history.intervals.histograms import Digest
from telemetry.history.over_time import STEPS, OverTime, busiest, check_points, check_step, shown
from telemetry.history.pictures.collector import PictureCollector, result_pictures
from telemetry.history.range_report import RangeReport, snapshot_of
from telemetry.history.rates import Paces
from telemetry.history.reader import FAR_NS, RunHistory
from telemetry.history.requests import bounded_series, with_requests
from telemetry.history.result import find_result
from telemetry.history.span_model import span_times
from telemetry.history.steady_range import settled
from telemetry.history.step_curves import curve_findings, curves_of
from telemetry.history.stragglers import has_work_and_wait, stragglers
from telemetry.history.time_range import TimeRangeChoice
from telemetry.statistics.hdr.percentiles import parse_percentile
from telemetry.store.records import FILE_NAME, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.events import Span
from telemetry.wire.pictures import Pictures, StepCurve
from telemetry.wire.report import EarlyRule, Report, SpanSpread, Stragglers

_NS_PER_MS: Final = 1e6
_US: Final = 1_000  # a moment in seconds since the run's start is not exact to the nanosecond


def open_run(
    spec: str | Path = "latest",
    root: str | Path = "runs",
    fallback_dirs: Sequence[str] = (),
    early_rule: EarlyRule = EarlyRule(),  # noqa: B008 – frozen
) -> RecordedRun:
    """Return the run that `load_report` finds, with its history. Raises what that raises.

    Does not read the history yet.
    """
    return RecordedRun(*find_result(spec, root, fallback_dirs, early_rule))


def with_history(report: Report, *, over_time: bool = False, pictures: bool = False) -> Report:
    """Return a result with everything that its run directory adds: bounds, findings, requests, curves of steps.

    With `over_time` it also has series over time, with `pictures` all figures for pictures. The report of a live
    run gets the curves only. Returns the report itself if there is no directory. Reads the history, blocks.
    """
    if not report.directory:
        return report
    try:
        run = RecordedRun(report, RunDirectory.open(Path(report.directory)))
    except RunDirectoryError:
        return report
    if not report.final:
        return replace(report, curves=run.curves)
    full = run.report(pictures=pictures)
    return full if over_time else replace(full, over_time=[], step_s=report.step_s)


class RecordedRun:
    """A finished run. Not thread-safe. Every method except the constructor may read files and block.

    Without a history (it was switched off, or is gone) `report` has what the result alone contains, and all other
    methods raise RunDirectoryError. A damaged history raises it too, except in `report`, which lists the damage
    among its findings.
    """

    def __init__(self, result: Report, directory: RunDirectory | None) -> None:
        self.result = result
        """The result as written: the whole run, without bounds and figures over time."""
        self.directory = directory
        """The run directory; None for a result file outside of one."""

    @property
    def has_history(self) -> bool:
        """True if time ranges of the run are available."""
        return self.directory is not None and self.directory.history.is_dir()

    @property
    def end_s(self) -> float:
        """End of the history in seconds since the run's start. Raises RunDirectoryError without a history."""
        return self._past.end_s

    def report(self, step_s: float | None = None, *, pictures: bool = False) -> Report:
        """Return the whole run with bounds, findings, spans, curves, and figures over time in steps of `step_s`.

        With `pictures` it also has figures for pictures. Without a history these are distributions only, in the
        coarse cells of the result.

        Without `step_s` there are about sixty steps, and at most `limits.READ_HISTORY_BYTES` of history are
        read; a finding reports a larger one. Raises UsageError for a step that is not positive, or so short that a
        report can't hold the points. With a step it also raises RunDirectoryError if there is no history.
        """
        report = self._report(step_s, pictures)
        if pictures and report.pictures is None:
            report = replace(report, pictures=result_pictures(busiest(report.snapshot.series, STEPS)))
        if self.directory is None:
            return report
        report = with_slots(with_peaks(report, self.directory), self.directory)
        if span_times(report.snapshot):
            report = replace(report, spans=span_spreads(self.directory))
        counted = [distribution.bounds() for distribution in self.distributions]
        report = replace(report, distributions=counted)
        notes = curve_findings(self.curves, self.directory, report.snapshot)
        report = replace(report, findings=[*report.findings, *notes])
        return replace(report, stragglers=self.stragglers, curves=self.curves)

    @cached_property
    def curves(self) -> list[StepCurve]:
        """Values of steps of the whole run. Empty if it has no steps, or if its record log is too large."""
        if self.directory is None or not self.result.snapshot.axes:
            return []
        return curves_of(self.directory, self.result.snapshot)

    @cached_property
    def distributions(self) -> list[CountedDistribution]:
        """Histograms of the whole run that another program has counted, such as those of OpenTelemetry."""
        return [] if self.directory is None else distributions.read(self.directory, self.result.snapshot)

    @cached_property
    def stragglers(self) -> list[Stragglers]:
        """Slow ranks of the run, by axis. Empty if its steps have no work and wait, or if it has no record log."""
        if self.directory is None or not has_work_and_wait(self.result.snapshot):
            return []
        return stragglers(self.directory, self.result.snapshot)

    def _report(self, step_s: float | None, pictures: bool) -> Report:
        if step_s is not None:
            return self._whole(self.result, step_s, pictures)
        if not self.has_history:
            return alone(self.result)
        try:
            step_s = self._past.step_for(self._past.end_s)
            size = self._past.stored_bytes(step_s)
            if size > limits.READ_HISTORY_BYTES:
                return alone(
                    self.result,
                    f"the history is {formatting.size(size)}, and `--every {step_s:.0f}s` reads all of it",
                )
            return self._whole(self.result, None, pictures)
        except RunDirectoryError as error:
            return alone(self.result, f"can't read the history: {error.message}")

    def time_range(self, choice: TimeRangeChoice, step_s: float | None = None, *, pictures: bool = False) -> Report:
        """Return the report of a time range. Series, counters, gauges, marks and pictures come from the history.

        It begins and ends at the nearest edges of intervals, which are in `Report.time_range`. The rest describes
        the whole run. A choice that excludes nothing has the figures of `report`, and so has one that finds no such
        time range in the whole run. Raises RunDirectoryError without a history, UsageError if the time range lies
        outside of it, and whatever `report` raises.
        """
        if choice.whole:
            return self.report(step_s, pictures=pictures)
        time_range = settled(choice, self._past, self.result.snapshot.series)
        if time_range.start_s <= 0.0 and time_range.end_s >= self._past.end_s:
            whole = self._whole(replace(self.result, time_range=time_range), step_s, pictures)
            return replace(whole, curves=self.curves)
        start_ns, end_ns = self._past.edges(self._past.ns(time_range.start_s), self._past.ns(time_range.end_s))
        gathered = self._gathered(start_ns, end_ns, time_range.end_s - time_range.start_s, step_s, pictures)
        part = gathered.part
        if not part.windows and gathered.damage:
            raise RunDirectoryError(f"can't read the history: {gathered.damage[0]}")
        if not part.windows:
            raise UsageError(
                f"the history has no data between {formatting.duration_s(time_range.start_s)} and "
                f"{formatting.duration_s(time_range.end_s)} of the run",
                hint=f"it ends at {formatting.duration_s(self._past.end_s)}",
            )
        added = part.added()
        snapshot = snapshot_of(self.result.snapshot, part, added)
        own = replace(time_range, start_s=part.start_s, end_s=part.end_s)
        report = replace(self.result, snapshot=snapshot, time_range=own, curves=self.curves)
        return _finished(report, gathered, added, whole=False)

    def step_for(self, seconds: float) -> float:
        """Return a round step for about sixty steps in this time. Raises RunDirectoryError without a history."""
        return self._past.step_for(seconds)

    def windows(
        self,
        step_s: float,
        start_s: float = 0.0,
        end_s: float | None = None,
        percentiles: Sequence[str] | None = None,
        series: Collection[SeriesId] | None = None,
    ) -> Iterator[RangeTotals]:
        """Yield the run in windows of `step_s`, in order of time.

        Windows begin at multiples of `step_s` since the run's start. Intervals that overlap `[start_s, end_s)`
        belong to the window of their middle, so that every value is in exactly one window. If only coarser
        intervals are left, windows are as long as these. Gaps in the history have no window. Windows of less than a
        second are made of the slices of the first minute.

        `percentiles` defaults to those of the result. `series` limits the sums to these series. Raises
        RunDirectoryError without a history, UsageError for a step that is not positive or a percentile outside (0,
        100].
        """
        keys = self._percentiles if percentiles is None else list(percentiles)
        for key in keys:
            parse_percentile(key)
        check_step(step_s)
        past = self._past
        end_ns = FAR_NS if end_s is None else past.ns(end_s)
        return past.windows(step_s, past.ns(start_s), end_ns, keys, past.rows_of(series))

    def drawn_windows(
        self, step_s: float, percentiles: Sequence[str], series: Collection[SeriesId]
    ) -> Iterator[RangeTotals]:
        """Yield `windows` as charts draw them: the first one begins with the first event of the program."""
        began_s = self._began_s(FAR_NS)
        for window in self.windows(step_s, percentiles=percentiles, series=series):
            if not _is_blank(window, began_s):
                yield _begun(window, began_s)

    def digest(self, series: SeriesId, start_s: float = 0.0, end_s: float | None = None) -> Digest:
        """Return all values of a series between two moments, with edges as in the history.

        Raises KeyError for a series that the run does not have, RunDirectoryError without a history.
        """
        past = self._past
        return past.digest(series, past.ns(start_s), FAR_NS if end_s is None else past.ns(end_s))

    # --- implementation --------------------------------------------------------------------------

    @cached_property
    def _past(self) -> RunHistory:
        if self.directory is None or not self.has_history:
            where = (
                f"{self.directory.path} has"
                if self.directory is not None
                else "a result without its run directory has"
            )
            raise RunDirectoryError(
                f"{where} no history, so time ranges of the run are not available",
                hint="runs write one unless history.enabled is false",
            )
        snapshot = self.result.snapshot
        return RunHistory(self.directory.history, snapshot.started_ns, snapshot.time_ns)

    @property
    def _percentiles(self) -> list[str]:
        keys = dict.fromkeys(key for stat in self.result.snapshot.series for key in stat.percentiles)
        return [key for key in keys if is_percentile(key)]

    def _gathered(
        self, start_ns: int, end_ns: int, seconds: float, step_s: float | None, pictures: bool = False
    ) -> _Gathered:
        """Gather figures in one pass over the windows of a time range of about this many seconds."""
        past, stats = self._past, self.result.snapshot.series
        if step_s is None:
            step_s = past.step_for(seconds)
            stats = busiest(stats, seconds / step_s)
        else:
            check_step(step_s)
            check_points(seconds / step_s, len(stats), step_s)
        keys = shown(self._percentiles)
        part, over_time, in_flight = (
            RangeReport(past.rows),
            OverTime(stats, self.result.snapshot),
            InFlightHistory(self.result.snapshot),
        )
        drawn = PictureCollector(self.result.snapshot, stats) if pictures else None
        began_s = self._began_s(end_ns)
        with uncollected():
            for whole in past.windows(step_s, start_ns, end_ns, keys, past.rows):
                part.add(whole)
                if _is_blank(whole, began_s):
                    continue
                window = _begun(whole, began_s)
                over_time.add(window)
                in_flight.add(window)
                if drawn is not None:
                    drawn.add(window)
            damage = past.damage()
            pictured = None if drawn is None else self._pictures(drawn, part)
            return _Gathered(part, over_time, step_s, damage, pictured, in_flight)

    def _began_s(self, end_ns: int) -> float:
        """Return the time of the program's first event; 0 if unknown, or if a time range ends before it."""
        began = Paces(self.result.snapshot).whole
        return 0.0 if began is None or began[0] >= end_ns else self._past.seconds(began[0])

    def _pictures(self, drawn: PictureCollector, part: RangeReport) -> Pictures:
        past = self._past
        before = past.increases(past.ns(part.start_s) - _US) if drawn.has_requests and part.start_s > 0.0 else {}
        return drawn.pictures(past.rows, part.values_of, before)

    def _whole(self, report: Report, step_s: float | None, pictures: bool) -> Report:
        gathered = self._gathered(0, FAR_NS, self._past.end_s, step_s, pictures)
        early = {series_id(stat) for stat in bounded_series(report.snapshot)}
        return _finished(
            report, gathered, gathered.part.added(self._percentiles, early, report.early_rule), whole=True
        )


def _is_blank(window: RangeTotals, began_s: float) -> bool:
    """Return whether a window ends before the first event and has no gauge either, such as the machine's load."""
    return window.end_s <= began_s and not window.gauges


def _begun(window: RangeTotals, began_s: float) -> RangeTotals:
    """Return a window as it is drawn: without the time in which the program only started."""
    if not window.start_s < began_s < window.end_s:
        return window
    return dataclasses.replace(
        window, start_s=began_s, seconds=max(0.0, window.seconds - (began_s - window.start_s))
    )


class _Gathered(NamedTuple):
    part: RangeReport
    over_time: OverTime
    step_s: float
    damage: list[str]
    """Unreadable parts of the history."""
    pictures: Pictures | None
    in_flight: InFlightHistory


def _finished(report: Report, gathered: _Gathered, added: Added, *, whole: bool) -> Report:
    """Return the report with all that the windows and their sum add to it."""
    part = gathered.part
    report = replace(
        report,
        bounds=series_bounds(report.snapshot.series, added, part.rows),
        step_s=gathered.step_s,
        over_time=gathered.over_time.series(),
        pictures=gathered.pictures,
    )
    report = with_requests(report, added, part.rows, part=not whole)
    if whole:
        report = replace(report, requests=gathered.in_flight.filled_in(report.requests))
    covered = Covered(part.start_s, part.end_s, part.seconds, int(added.count.sum()), whole)
    return replace(report, findings=[*gathered.damage, *findings(report, covered)])


def span_spreads(directory: RunDirectory) -> list[SpanSpread]:
    """Return the spread of spans that several producers recorded. Return nothing for a large or unreadable log."""
    totals: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    try:
        if (directory.records / FILE_NAME).stat().st_size > limits.READ_SPANS_BYTES:
            return []
        for record in RecordLog(directory.records).readable():
            if isinstance(record.record, Span):
                duration_ns = record.record.end_ns - record.record.start_ns
                totals[record.record.name][record.producer] += max(duration_ns, 0)
    except (OSError, RunDirectoryError):
        return []
    return [_spread(name, by_producer) for name, by_producer in totals.items() if len(by_producer) > 1]


def _spread(name: str, by_producer: dict[str, int]) -> SpanSpread:
    least, most = min(by_producer, key=by_producer.__getitem__), max(by_producer, key=by_producer.__getitem__)
    return SpanSpread(
        name=name,
        producers=len(by_producer),
        mean_ms=sum(by_producer.values()) / len(by_producer) / _NS_PER_MS,
        least_ms=by_producer[least] / _NS_PER_MS,
        most_ms=by_producer[most] / _NS_PER_MS,
        least=least,
        most=most,
    )
