"""Evidence from a recorded run (whole, time range or window), and from the newest snapshot of a live run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from telemetry import limits
from telemetry.errors import RunDirectoryError
from telemetry.history import RangeTotals, RecordedRun, SeriesId, TimeRangeChoice, series_id, step_curves
from telemetry.history.distributions import CountedDistribution
from telemetry.history.intervals.histograms import Histograms
from telemetry.history.rates import Paces, Stat
from telemetry.judge.gates.evidence import (
    AXIS,
    Evidence,
    GateInstrument,
    GaugeLevel,
    Loss,
    Quantile,
    SeriesTotals,
    Share,
    heard_s,
    loss_of,
)
from telemetry.judge.gates.rank_bounds import BinsOrder, CellOrder, Order, SlotOrder, StatOrder, quantile, share
from telemetry.judge.gates.value import Unknown
from telemetry.wire.pictures import StepCurve
from telemetry.wire.report import Report, Stragglers
from telemetry.wire.snapshot import CounterStat, GaugeStat, MetricsSnapshot, SeriesStat

_EDGE_S: Final = 0.5
"""Tolerance for interval edges: intervals last a second, but start and end slightly early or late."""
_INSET_S: Final = 0.001
"""Margin for rounded edges, shorter than any interval."""
_ALONE: Final = 8
"""Largest number of series to read one by one; each costs a fraction of reading them all."""
_FEW: Final = 2
"""Points of a curve of steps: gates need its extremes and its ends only."""
_ALL_S: Final = 6e9
"""A window length in seconds that exceeds every run."""


def evidence_of(run: RecordedRun, choice: TimeRangeChoice | None = None) -> Evidence:
    """Return the evidence of a finished run, or of a time range of it.

    Blocks on files for a time range. Raises like `RecordedRun.time_range`.
    """
    if choice is None or choice.whole:
        return RunEvidence(run)
    return RangeEvidence(run, run.time_range(choice), choice)


def live_evidence(
    snapshot: MetricsSnapshot,
    run: RecordedRun | None = None,
    begin_s: float = 0.0,
    curves: Sequence[StepCurve] | None = None,
) -> Evidence:
    """Return the evidence of a live run.

    `run`: a run with the directory of the history, for the windows from `begin_s` on that have ended. `curves`: the
    values of its steps so far, if known.
    """
    run = run or RecordedRun(Report(snapshot=snapshot, source="status"), None)
    return RunEvidence(run, live=True, begin_s=begin_s, curves=curves)


class RunEvidence:
    """The evidence of a whole run.

    Figures are from its result. Other percentiles and confidence bounds are from its history.
    """

    whole = True
    obstacle = ""

    def __init__(
        self,
        run: RecordedRun,
        *,
        live: bool = False,
        begin_s: float = 0.0,
        curves: Sequence[StepCurve] | None = None,
    ) -> None:
        self._run = run
        self._curves = curves
        self.start_s = begin_s
        self._live = live
        snapshot = run.result.snapshot
        self.snapshot = snapshot
        self.recorded = _Recorded(snapshot)
        self.end_s = self.seconds = snapshot.elapsed_s
        self.loss = loss_of(snapshot, live=live)
        self._distributions = (
            {} if live else {_key(distribution): distribution for distribution in run.distributions}
        )
        self.instruments = instruments_of(snapshot)
        self.instruments += [
            GateInstrument("series", *_key(distribution), distribution.unit)
            for distribution in self._distributions.values()
        ]
        self._series = {series_id(stat): stat for stat in snapshot.series}
        self._counters = {series_id(stat): stat for stat in snapshot.counters}
        self._gauges = {series_id(stat): stat for stat in snapshot.gauges}
        self._histograms: dict[SeriesId, Histograms | None] = {}

    def quantile(self, series: GateInstrument, percentile: str) -> Quantile | None:
        loss = self.loss
        if loss.most and _id(series) in self._distributions:
            loss = Loss(most=math.inf)  # a lost record may have had any number of values
        return quantile(self._order(series), percentile, loss)

    def share(self, series: GateInstrument, relation: str, limit: float) -> Share | None:
        return share(self._order(series), relation, limit)

    def sums(self, series: GateInstrument) -> SeriesTotals:
        counted = self._distributions.get(_id(series))
        if counted is not None:
            return SeriesTotals(count=counted.count, total=math.nan if counted.total is None else counted.total)
        stat = self._series.get(_id(series))
        return SeriesTotals(count=0) if stat is None else _sums(stat)

    def counted(self, counter: GateInstrument) -> tuple[float, int | None]:
        stat = self._counters.get(_id(counter))
        return (0, 0) if stat is None else (stat.value, stat.events)

    def rate_seconds(self, instrument: GateInstrument) -> float | None:
        return self.recorded.seconds(instrument)

    def level(self, gauge: GateInstrument) -> GaugeLevel | None:
        stat = self._gauges[_id(gauge)]
        return None if stat.value is None else GaugeLevel(value=stat.value, min=stat.min, max=stat.max)

    def curves(self) -> Sequence[StepCurve]:
        if self._curves is None:
            self._curves = _curves(self._run, live=self._live)
        return self._curves

    def stragglers(self) -> Sequence[Stragglers] | None:
        return None if self._live else self._run.stragglers

    def windows(self, step_s: float, terms: Sequence[GateInstrument]) -> Iterator[Evidence]:
        if any(_id(item) in self._distributions for item in terms):
            raise Unknown("histograms of other programs are known for the whole run only, not for each window")
        windows = _windows(self, self._run, step_s, terms, (self.start_s, None))
        return _without_last(windows) if self._live else windows

    @property
    def settled(self) -> bool:
        """True if the history has all values of the result, or if the run has no history."""
        if not self._run.has_history:
            return True
        history = self._history
        counts = {key: figures.count for key, figures in history.series.items()} if history else {}
        return all(counts.get(key, 0) >= stat.count for key, stat in self._series.items())

    def _order(self, series: GateInstrument) -> Order:
        counted = self._distributions.get(_id(series))
        if counted is not None:
            return BinsOrder(counted)
        stat = self._series[_id(series)]
        return StatOrder(stat, self._base(stat))

    def _base(self, stat: SeriesStat) -> Order:
        """Return the order from the history if it has all values, else from the cells of the display histogram."""
        cells = CellOrder(stat)
        if self._live or not stat.count:
            return cells
        key = series_id(stat)
        if key not in self._histograms:
            self._histograms[key] = self._histogram(key)
        histogram = self._histograms[key]
        slots = None if histogram is None else SlotOrder(histogram, stat.unit)
        return slots if slots is not None and slots.count == stat.count else cells

    def _histogram(self, series: SeriesId) -> Histograms | None:
        """Return the histogram of all values of a series.

        The first few series are read one by one. After that, all are read at once.
        """
        if "_history" not in self.__dict__ and len(self._histograms) < _ALONE and self._run.has_history:
            try:
                return self._run.digest(series).histogram
            except (KeyError, RunDirectoryError):
                return None
        return None if self._history is None else _histogram(self._history, series)

    @cached_property
    def _history(self) -> RangeTotals | None:
        """The whole history as one window, or None if it can't be read."""
        if not self._run.has_history:
            return None
        try:
            return next(iter(self._run.windows(_ALL_S, percentiles=())), None)
        except RunDirectoryError:
            return None


class RangeEvidence:
    """The evidence of a time range, from the history."""

    whole = False

    def __init__(self, run: RecordedRun, report: Report, choice: TimeRangeChoice) -> None:
        """Read the time range. `report`: the report on that range."""
        assert report.time_range is not None
        self._run = run
        self.snapshot = run.result.snapshot
        self.recorded = _Recorded(self.snapshot)
        self.instruments = instruments_of(self.snapshot)
        self.loss = loss_of(self.snapshot)
        self.start_s, self.end_s = report.time_range.start_s, report.time_range.end_s
        self.obstacle = "" if report.time_range.found else report.time_range.reason
        inside = self.start_s + _INSET_S, self.end_s - _INSET_S
        window = next(iter(run.windows(_ALL_S, *inside, percentiles=())), None)
        self._part = WindowEvidence(
            self, window or RangeTotals(start_s=self.start_s, end_s=self.end_s, seconds=0.0), {}
        )
        self.seconds = self._part.seconds
        self._part.loss = self.loss = _cut_off(run, choice, self.end_s) or self._part.loss
        self.quantile = self._part.quantile
        self.share = self._part.share
        self.sums = self._part.sums
        self.counted = self._part.counted
        self.rate_seconds = self._part.rate_seconds
        self.level = self._part.level

    def curves(self) -> Sequence[StepCurve]:
        raise Unknown("steps are known for the whole run only, not for a time range")

    def stragglers(self) -> Sequence[Stragglers] | None:
        return self._run.stragglers

    def windows(self, step_s: float, terms: Sequence[GateInstrument]) -> Iterator[Evidence]:
        return _windows(self, self._run, step_s, terms, (self.start_s + _INSET_S, self.end_s - _INSET_S))


class _Recorded:
    """When the series and counters of a run were recorded."""

    def __init__(self, snapshot: MetricsSnapshot) -> None:
        self._snapshot = snapshot
        self._paces = Paces(snapshot)
        self._stats: dict[tuple[str, SeriesId], Stat] = {
            **{("series", series_id(stat)): stat for stat in snapshot.series},
            **{("counter", series_id(stat)): stat for stat in snapshot.counters},
        }

    def seconds(self, instrument: GateInstrument) -> float | None:
        """Return the time that a rate over the whole run is counted over; None if there is none."""
        stat = self._stats.get((instrument.kind, _id(instrument)))
        return self._snapshot.elapsed_s if stat is None else self._paces.of(stat).seconds

    def seconds_between(self, instrument: GateInstrument, start_s: float, end_s: float) -> float:
        """Return how long it was recorded in a time range; all of the time range if it was not."""
        stat = self._stats.get((instrument.kind, _id(instrument)))
        time_range = None if stat is None else self._paces.time_range([stat])
        if time_range is None:
            return end_s - start_s
        begins_s, ends_s = ((at_ns - self._snapshot.started_ns) / 1e9 for at_ns in time_range)
        recorded_s = min(ends_s, end_s) - max(begins_s, start_s)
        return recorded_s if recorded_s > 0.0 else end_s - start_s


class WindowEvidence:
    """The evidence of one window, from the history."""

    whole = False

    def __init__(
        self,
        run: RunEvidence | RangeEvidence,
        window: RangeTotals,
        before: dict[SeriesId, float],
        reason: str = "",
    ) -> None:
        """Take over a window. `before`: values of gauges at its start."""
        self._window = window
        self._gauges = {**before, **window.gauges}
        self.snapshot, self.instruments, self.recorded = run.snapshot, run.instruments, run.recorded
        self.start_s, self.end_s, self.seconds = window.start_s, window.end_s, window.seconds
        self.obstacle = reason
        gap_s = window.end_s - window.start_s - window.seconds
        self.loss = run.loss
        if gap_s > _EDGE_S:
            self.loss = Loss(
                certain=run.loss.certain, most=math.inf, reason=f"the history lacks {gap_s:.0f} s of it"
            )

    def quantile(self, series: GateInstrument, percentile: str) -> Quantile | None:
        histogram = _histogram(self._window, _id(series))
        if histogram is None:
            return None
        return quantile(SlotOrder(histogram, series.unit), percentile, self.loss)

    def share(self, series: GateInstrument, relation: str, limit: float) -> Share | None:
        histogram = _histogram(self._window, _id(series))
        return None if histogram is None else share(SlotOrder(histogram, series.unit), relation, limit)

    def sums(self, series: GateInstrument) -> SeriesTotals:
        figures = self._window.series.get(_id(series))
        if figures is None:
            return SeriesTotals(count=0)
        return SeriesTotals(count=figures.count, total=figures.total, min=figures.min, max=figures.max)

    def counted(self, counter: GateInstrument) -> tuple[float, int | None]:
        return self._window.counters.get(_id(counter), 0.0), None

    def rate_seconds(self, instrument: GateInstrument) -> float | None:
        return min(self.recorded.seconds_between(instrument, self.start_s, self.end_s), self.seconds)

    def level(self, gauge: GateInstrument) -> GaugeLevel | None:
        value = self._gauges.get(_id(gauge))
        return None if value is None else GaugeLevel(value=value)

    def curves(self) -> Sequence[StepCurve]:
        raise Unknown("steps are known for the whole run only, not for each window")

    def stragglers(self) -> Sequence[Stragglers] | None:
        raise NotImplementedError("a window has no facts of the run")

    def windows(self, step_s: float, terms: Sequence[GateInstrument]) -> Iterator[Evidence]:
        raise NotImplementedError("a window can't be split into windows")


def _cut_off(run: RecordedRun, choice: TimeRangeChoice, end_s: float) -> Loss | None:
    """Return a loss if the history ends before the chosen range does, else None.

    `end_s`: end of the covered range.
    """
    from_end = choice.to_s is None or math.copysign(1.0, choice.to_s) < 0
    wanted_s = min(heard_s(run.result.snapshot), math.inf if from_end else choice.to_s or 0.0)
    short_s = wanted_s - run.end_s
    if short_s < _EDGE_S or end_s < run.end_s - _INSET_S:
        return None
    return Loss(most=math.inf, reason=f"the history ends {short_s:.0f} s before the run")


def instruments_of(snapshot: MetricsSnapshot) -> list[GateInstrument]:
    """Return all instruments of a run, in the order of its result, then its axes and their values."""
    stats: list[tuple[str, SeriesStat | CounterStat | GaugeStat]] = [
        *(("series", stat) for stat in snapshot.series),
        *(("counter", stat) for stat in snapshot.counters),
        *(("gauge", stat) for stat in snapshot.gauges),
    ]
    instruments = [GateInstrument(kind, *series_id(stat), stat.unit) for kind, stat in stats]  # type: ignore[arg-type]
    instruments += [GateInstrument("axis", axis.name) for axis in snapshot.axes]
    return instruments + [
        GateInstrument("step", name, ((AXIS, axis.name),)) for axis in snapshot.axes for name in axis.values
    ]


def _curves(run: RecordedRun, *, live: bool) -> Sequence[StepCurve]:
    """Return the curves of a finished run. Raises Unknown if its record log can't be read."""
    if 0 < len(run.result.curves) < step_curves.NAMES:
        return run.result.curves
    if live or run.directory is None:
        raise Unknown("the values of earlier steps are known once the run has ended")
    try:
        started_ns = run.result.snapshot.started_ns
        return step_curves.read(run.directory, _FEW, limits.STEP_NAMES_KNOWN, started_ns)
    except RunDirectoryError as error:
        raise Unknown(f"the values of earlier steps can't be read: {error.message}") from None


def _windows(
    part: RunEvidence | RangeEvidence,
    run: RecordedRun,
    step_s: float,
    terms: Sequence[GateInstrument],
    ends: tuple[float, float | None],
) -> Iterator[Evidence]:
    over_s = run.end_s
    wanted = [_id(item) for item in terms if item.kind == "series"]
    gauges: dict[SeriesId, float] = {}
    for window in run.windows(step_s, *ends, percentiles=(), series=wanted):
        number = (window.start_s + window.end_s) / 2 // step_s
        begins, ends_s = number * step_s, (number + 1) * step_s
        late_s = _EDGE_S if window.end_s < over_s else _INSET_S  # the last one may be incomplete
        if window.start_s < begins + _EDGE_S and window.end_s > ends_s - late_s:
            long = window.end_s - window.start_s > step_s + 2 * _EDGE_S
            reason = f"the history only has steps of {window.end_s - window.start_s:.0f} s there" if long else ""
            yield WindowEvidence(part, window, gauges, reason)
        gauges = {**gauges, **window.gauges}


def _without_last(windows: Iterator[Evidence]) -> Iterator[Evidence]:
    """Yield each window once a next one exists: the last one may still be incomplete."""
    for window, _ in pairwise(windows):
        yield window


def _histogram(window: RangeTotals, series: SeriesId) -> Histograms | None:
    """Return the histogram of a series, or None without values."""
    added, rows = window.added, window.rows
    if added is None or rows is None or series not in rows.place or series not in window.series:
        return None
    return added.only(int(np.searchsorted(added.rows, rows.place[series])), rows)


def _sums(stat: SeriesStat) -> SeriesTotals:
    total = float(stat.total)
    return SeriesTotals(count=stat.count, total=total, min=stat.min, max=stat.max, stddev=stat.stddev)


def _key(distribution: CountedDistribution) -> SeriesId:
    return distribution.name, tuple(sorted(distribution.labels.items()))


def _id(item: GateInstrument) -> SeriesId:
    return item.name, item.labels
