"""The thread that reads the history of a run, answers requests, and reports new intervals."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from math import isfinite
from typing import Final

import numpy as np

from telemetry import limits
from telemetry.errors import EndpointError, KeysError, TelemetryError
from telemetry.history.interval_source import IntervalSource
from telemetry.history.intervals.range_sums import RangeSums
from telemetry.history.intervals.timeline import PARTS, Timeline
from telemetry.history.over_time import step_for
from telemetry.history.reader import SLICE_S
from telemetry.tui.feed.news import RangeFiguresOf, Tell, TimelineOf, Trends, ValuesOf, ViewerNote
from telemetry.tui.feed.reader_thread import ReaderThread
from telemetry.tui.model.scene import TREND_POINTS, RangeFigures, SeriesId, ValuesOverTime, series_id
from telemetry.wire.collectors import is_of_machine
from telemetry.wire.control import SeriesKey
from telemetry.wire.history import Interval, ValueColumns
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_U32: Final = np.dtype("<u4")
_F64: Final = np.dtype("<f8")
_SECOND_NS: Final = 1_000_000_000
_PERIOD_S: Final = 1.0  # a history gets one interval per second
_SHARE: Final = 10  # reading new intervals takes at most one part in this many of the time
_RETRY_S: Final = 10.0  # an unreadable history is tried again: the disk may have been far behind
_PROGRESS_S: Final = 0.5  # partial results of a long read are shown this often
_TREND_KEY: Final = "99"
_TREND_NS: Final = TREND_POINTS * _SECOND_NS
_CLOSING_NS: Final = _TREND_NS + int((limits.EXACT_BUDGET_S + limits.DRAIN_TIMEOUT_S) * _SECOND_NS)
"""Time before a result in which to look for the last interval: the history ended with the drain."""
_Look = tuple[int, float]


class HistoryThread(ReaderThread):
    """A reader thread. It reports the trends of the last minute, then each second the new points.

    It also reports the growing timeline of the followed series, and answers `look_at`. Without a history, the
    trends are those of the snapshots' windows. All methods return at once and may be called from any thread; `tell`
    is called from the reader thread.
    """

    def __init__(self, tell: Tell, open_past: Callable[[MetricsSnapshot], IntervalSource]) -> None:
        """Prepare the thread. `open_past` is called with the newest snapshot and may raise TelemetryError."""
        super().__init__("history")
        self._tell = tell
        self._open_past = open_past
        self._asked: SeriesId | None = None
        self._asked_anew = False
        self._look: _Look | None = None
        self._next_s = self._retry_s = 0.0
        """Monotonic times: of the next read, and of the next attempt to open a history."""
        self._past: IntervalSource | None = None
        self._keys: dict[int, SeriesKey] = {}
        self._ids: dict[int, SeriesId] = {}
        """Series by index."""
        self._others: list[SeriesKey] = []
        """Counters and gauges."""
        self._gauges: dict[int, SeriesId | None] = {}
        """Gauges by index; None for those that have no trend."""
        self._held: dict[SeriesId, float] = {}
        """Newest values of the gauges that have a trend."""
        self._cursor_ns = 0
        """End of the last interval in the trends; 0 before the first."""
        self._is_refined = False
        """True once the trends of a run that has ended were reported in finer steps, if it was short."""
        self._second_bytes = 0.0
        self._noted = False
        self._followed: SeriesId | None = None
        self._timeline: Timeline | ValueHistory | None = None
        """History of the followed series, counter or gauge."""

    def follow(self, series: SeriesId | None) -> None:
        with self._changed:
            self._asked, self._asked_anew = series, True
            self._changed.notify()

    def look_at(self, end_ns: int, seconds: float) -> None:
        """Ask for the figures of a time range. Only the last of several requests is answered."""
        with self._changed:
            self._look = end_ns, seconds
            self._changed.notify()

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (work := self._next_work()) is not None:
                work()
        except Exception as error:  # noqa: BLE001 – thread root: stale figures would look like the truth
            self._tell(ViewerNote(f"reading the history stopped: {error!r}", bad=True))
        finally:
            if self._past is not None:
                self._past.close()

    def _next_work(self) -> Callable[[], None] | None:
        """Wait for the next task; return None after `close`."""
        with self._changed:
            while not self._closing:
                if self._newest is not None:
                    if self._look is not None:
                        return self._answer_look
                    if self._asked_anew:
                        return self._answer_follow
                    if self._unseen and time.monotonic() >= self._next_s:
                        return self._catch_up
                due_s = max(0.0, self._next_s - time.monotonic()) if self._unseen and self._newest else None
                self._changed.wait(due_s)
        return None

    def _opened(self) -> IntervalSource:
        if self._past is None:
            assert self._newest is not None
            self._past = self._open_past(self._newest)
        return self._past

    # --- new intervals ---------------------------------------------------------------------------

    def _catch_up(self) -> None:
        began_s = time.monotonic()
        with self._changed:
            self._unseen, snapshot = False, self._newest
        assert snapshot is not None
        first = not self._cursor_ns
        try:
            if began_s < self._retry_s:
                self._tell(_window_trends(snapshot))
            elif first:
                self._begin(self._opened(), snapshot)
            else:
                self._tell_new(self._opened().intervals(self._cursor_ns))
            if self._cursor_ns and snapshot.state in TERMINAL and not self._is_refined:
                self._is_refined = True
                self._refine(self._opened(), snapshot)
        except TelemetryError as error:
            self._retry_s = began_s + _RETRY_S
            self._do_without(error, snapshot)
        took_s = 0.0 if first else time.monotonic() - began_s
        self._next_s = began_s + max(_PERIOD_S, min(_SHARE * took_s, _RETRY_S))

    def _begin(self, past: IntervalSource, snapshot: MetricsSnapshot) -> None:
        """Report the trends of the last minute of the history."""
        over = snapshot.state in TERMINAL
        last = _last(past.intervals(snapshot.time_ns - (_CLOSING_NS if over else _TREND_NS)))
        if over and not last:  # the result was made much later
            minutes = deque(past.intervals(0, level_s=60), maxlen=1)
            last = _last(past.intervals(minutes[-1].end_ns - _TREND_NS)) if minutes else last
        if last:
            self._second_bytes = sum(map(size, last)) / len(last)
        self._tell_new(last)

    def _refine(self, past: IntervalSource, snapshot: MetricsSnapshot) -> None:
        """Report the trends of a run of less than a minute again, in as many steps as there are points."""
        origin_ns = snapshot.started_ns
        step_s = step_for((self._cursor_ns - origin_ns) / 1e9, SLICE_S)
        if not origin_ns or step_s >= 1.0:
            return
        self._held = {}
        trends = _TrendSteps(step_s)
        for _, intervals in groupby(
            past.fine(0), lambda interval: (interval.start_ns + interval.end_ns - 2 * origin_ns) / 2e9 // step_s
        ):
            trends.add(self._trend_values(list(intervals)))
        self._tell(trends.news())

    def _tell_new(self, intervals: Iterable[Interval]) -> None:
        trends = _TrendSteps()
        cursor_ns, grown = self._cursor_ns, False
        for interval in intervals:
            if self._closing:
                return
            trends.add(self._trend_values([interval]))
            self._cursor_ns = max(self._cursor_ns, interval.end_ns)
        timeline = self._timeline
        if timeline is not None and self._cursor_ns > cursor_ns:
            for interval in self._opened().fine(timeline.end_ns):
                if interval.start_ns >= timeline.end_ns:
                    timeline.add(interval)
                    grown = True
        if trends.steps:
            self._tell(trends.news())
        if grown and self._timeline is not None and self._followed is not None:
            self._tell_followed(self._followed, self._timeline)
        elif self._followed is not None and self._timeline is None:
            self._load(self._followed)

    def _trend_values(self, intervals: Sequence[Interval]) -> dict[SeriesId, float]:
        """Return the trend values of neighbouring intervals. A gauge keeps its value until it is set again."""
        values = {
            self._ids[index]: figures.percentiles[_TREND_KEY]
            for index, figures in self._time_range(intervals, (_TREND_KEY,)).figures().items()
            if figures.count
        }
        gauges = {index: value for interval in intervals for index, value in columns(interval.gauges).items()}
        if not gauges.keys() <= self._gauges.keys():
            self._learn()
        for index, value in gauges.items():
            gauge = self._gauges.setdefault(index, None)
            if gauge is not None and isfinite(value):
                self._held[gauge] = value
        return values | self._held

    def _time_range(self, intervals: Sequence[Interval], percentiles: Sequence[str]) -> RangeSums:
        """Return the sum of intervals. Reads the keys again if the intervals contain unknown series."""
        time_range = RangeSums(self._keys.values(), percentiles)
        if not all(time_range.add(interval) for interval in intervals):
            self._learn()
            time_range = RangeSums(self._keys.values(), percentiles)
            for interval in intervals:
                time_range.add(interval)
        return time_range

    def _learn(self) -> None:
        keys = self._opened().keys()
        self._keys = {key.index: key for key in keys if key.kind == "series"}
        self._ids = {index: series_id(key.name, key.labels) for index, key in self._keys.items()}
        self._others = [key for key in keys if key.kind != "series"]
        for key in self._others:
            if key.kind == "gauge":
                gauge = series_id(key.name, key.labels) if is_of_machine(key.name) else None
                self._gauges[key.index] = gauge

    def _do_without(self, error: TelemetryError, snapshot: MetricsSnapshot) -> None:
        """Use the trends of windows instead of a history. Reports other errors once.

        A silent aggregator sends no snapshots either, and the snapshot thread reports that.
        """
        if not self._noted and not isinstance(error, EndpointError | KeysError):
            self._noted = True
            self._tell(ViewerNote(f"no history to show: {error.message}", bad=True))
        self._tell(_window_trends(snapshot))

    # --- requests --------------------------------------------------------------------------------

    def _answer_look(self) -> None:
        with self._changed:
            look, self._look = self._look, None
        assert look is not None
        assert self._newest is not None
        end_ns, seconds = look
        start_ns = end_ns - int(seconds * 1e9)
        try:
            intervals = _within(list(self._opened().intervals(start_ns, end_ns)), start_ns, end_ns)
            if not intervals:
                self._tell(ViewerNote("the history has no data for that time"))
                return
            figures = self._time_range(intervals, _percentiles(self._newest)).figures()
        except TelemetryError as error:
            self._tell(ViewerNote(f"can't show that time: {error.message}", bad=True))
            return
        series = {self._ids[index]: series_figures for index, series_figures in figures.items()}
        self._tell(
            RangeFiguresOf(RangeFigures(start_ns=intervals[0].start_ns, end_ns=intervals[-1].end_ns, series=series))
        )

    def _answer_follow(self) -> None:
        with self._changed:
            self._followed, self._asked_anew = self._asked, False
        self._timeline = None
        if self._followed is None:
            return
        try:
            self._load(self._followed)
        except TelemetryError as error:
            self._timeline = None
            self._tell(ViewerNote(f"can't read the history of this series: {error.message}", bad=True))

    def _load(self, series: SeriesId) -> None:
        """Report the whole history of a series, counter or gauge so far; nothing until it is known."""
        history = self._history_of(series)
        if history is None:
            return
        assert self._newest is not None
        told_s = time.monotonic()
        until_ns = max(self._cursor_ns, self._newest.time_ns)
        for interval in everything(self._opened(), until_ns, self._second_bytes):
            if self._closing or self._asked_anew:
                return
            history.add(interval)
            if time.monotonic() - told_s >= _PROGRESS_S:
                self._tell_followed(series, history)
                told_s = time.monotonic()
        self._timeline = history
        self._tell_followed(series, history)

    def _history_of(self, series: SeriesId) -> Timeline | ValueHistory | None:
        """Return an empty history. None if neither a series nor a counter or gauge has this name."""
        for is_read in (False, True):
            if is_read:
                self._learn()
            if series in self._ids.values():
                return Timeline(
                    next(self._keys[index] for index, candidate in self._ids.items() if candidate == series)
                )
            if others := keys_of(self._others, series):
                return ValueHistory(others)
        return None

    def _tell_followed(self, series: SeriesId, history: Timeline | ValueHistory) -> None:
        if isinstance(history, Timeline):
            self._tell(TimelineOf(series, history.copy()))
        else:
            self._tell(ValuesOf(series, history.values()))


class _TrendSteps:
    """A collector of the points of trends, step by step, oldest first. A series begins with its first value."""

    def __init__(self, step_s: float = 1.0) -> None:
        self.steps = 0
        self._step_s = step_s
        self._points: dict[SeriesId, list[float | None]] = {}

    def add(self, values: Mapping[SeriesId, float]) -> None:
        """Add a step with these values. All other series have a gap."""
        self.steps += 1
        for series in self._points.keys() | values.keys():
            self._points.setdefault(series, []).append(values.get(series))

    def news(self) -> Trends:
        points = {series: tuple(values[-TREND_POINTS:]) for series, values in self._points.items()}
        return Trends(points, self._step_s, self.steps)


def _last(intervals: Iterable[Interval]) -> deque[Interval]:
    return deque(intervals, maxlen=TREND_POINTS)


def _within(intervals: Sequence[Interval], start_ns: int, end_ns: int) -> Sequence[Interval]:
    """Return the intervals whose middle lies in the time range; if there are none, all given ones."""
    return [
        interval for interval in intervals if start_ns <= (interval.start_ns + interval.end_ns) // 2 < end_ns
    ] or intervals


def _percentiles(snapshot: MetricsSnapshot) -> tuple[str, ...]:
    return next((tuple(stat.percentiles) for stat in snapshot.series if stat.percentiles), ())


def _window_trends(snapshot: MetricsSnapshot) -> Trends:
    """Return one point for each series with values in the window, and for each gauge of a machine."""
    points = {
        series_id(stat.name, stat.labels): (float(stat.window.percentiles[_TREND_KEY]),)
        for stat in snapshot.series
        if stat.window.count and _TREND_KEY in stat.window.percentiles
    }
    for gauge in snapshot.gauges:
        if is_of_machine(gauge.name) and gauge.value is not None and isfinite(gauge.value):
            points[series_id(gauge.name, gauge.labels)] = (float(gauge.value),)
    return Trends(points)


def everything(past: IntervalSource, until_ns: int, second_bytes: float) -> Iterator[Interval]:
    """Yield the whole history, each moment once.

    The newest part comes at full resolution. Older parts come in steps of ten seconds and of a minute if full
    resolution would exceed the budget, given that a second takes `second_bytes`. At least the last minute is at
    full resolution.
    """
    seconds = max(60.0, past.budget / 2 / max(second_bytes, 1.0))
    start_ns = 0
    for interval in past.intervals(0, until_ns - int(11 * seconds * 1e9), 60):  # half for tens, half for seconds
        yield interval
        start_ns = interval.end_ns
    tens = past.intervals(start_ns, until_ns - int(seconds * 1e9), 10)
    first = next(tens, None)
    if first is not None:
        yield from past.intervals(start_ns, first.start_ns, 60)  # minutes reach further back than tens of seconds
        for interval in chain([first], tens):
            yield interval
            start_ns = interval.end_ns
    yield from past.fine(start_ns)


def size(interval: Interval) -> int:
    """Return the approximate size in bytes on the wire and on disk."""
    series = interval.series
    return 2 * len(series.slots) + 10 * len(series.index)  # as many counts as slots; 4 narrow columns, 3 wide ones


class ValueHistory:
    """The values of one gauge, or the sums of some counters, added in order of time. Keeps the newest PARTS."""

    def __init__(self, keys: Sequence[SeriesKey]) -> None:
        """Create an empty history. `keys` are at least one, and of one kind."""
        self._kind = keys[0].kind
        self._unit = keys[0].unit
        self._indices = {key.index for key in keys}
        self._points: list[tuple[int, int, float | None]] = []

    @property
    def end_ns(self) -> int:
        """End of the last interval; 0 without intervals."""
        return self._points[-1][1] if self._points else 0

    def add(self, interval: Interval) -> None:
        """Add the next interval. A counter that is not in it did not grow."""
        is_counter = self._kind == "counter"
        value_by_index = columns(interval.counters if is_counter else interval.gauges)
        values = [value for index, value in value_by_index.items() if index in self._indices]
        value = sum(values) if values else 0.0 if is_counter else None
        self._points.append((interval.start_ns, interval.end_ns, value))
        if len(self._points) > PARTS:
            del self._points[: PARTS // 4]

    def values(self) -> ValuesOverTime:
        """Return a copy for another thread."""
        return ValuesOverTime("counter" if self._kind == "counter" else "gauge", self._unit, tuple(self._points))


def keys_of(keys: Sequence[SeriesKey], wanted: SeriesId) -> list[SeriesKey]:
    """Return the key of a counter or gauge; without an exact match, those of all counters with more labels."""
    name, labels = wanted
    alike = [key for key in keys if key.kind != "series" and key.name == name]
    exact = [key for key in alike if tuple(sorted(key.labels.items())) == labels]
    return exact or [key for key in alike if key.kind == "counter" and set(labels) <= set(key.labels.items())]


def columns(value_columns: ValueColumns) -> Mapping[int, float]:
    """Return values by index."""
    indices, values = np.frombuffer(value_columns.index, _U32), np.frombuffer(value_columns.value, _F64)
    return dict(zip(indices.tolist(), values.tolist(), strict=True))
