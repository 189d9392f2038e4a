"""Trends, timelines and moments, from a history that grows, lags behind, or is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry.errors import TelemetryError
from telemetry.history.interval_source import DiskIntervals, IntervalSource
from telemetry.tui.feed.history_thread import HistoryThread
from telemetry.tui.feed.news import RangeFiguresOf, TimelineOf, Trends, ViewerNote
from telemetry.wire.history import Interval
from telemetry.wire.snapshot import MetricsSnapshot

pytestmark = pytest.mark.slow

WAIT_S = 30.0
SECOND = 1_000_000_000
A, B = ("a", ()), ("b", ())
Until = Callable[..., Any]
SnapshotOf = Callable[..., MetricsSnapshot]


@pytest.fixture
def history_thread(run: Any, told: Any) -> Iterator[HistoryThread]:
    """Yield a thread that reads the history of `run`."""
    made = HistoryThread(told, lambda _: DiskIntervals(run.history))
    made.start()
    yield made
    made.close()
    made.close()
    assert not made._thread.is_alive()


def trends(told: Any, series: Any) -> list[float | None]:
    """All points of a series that were told, oldest first."""
    return [point for trend in told.of(Trends) for point in trend.points.get(series, ())]


class Refined:
    """A history whose seconds have ten slices, each with the values of the second."""

    def __init__(self, past: IntervalSource) -> None:
        self._past = past
        self.budget = past.budget
        self.keys, self.close, self.intervals = past.keys, past.close, past.intervals

    def fine(self, start_ns: int) -> Iterator[Interval]:
        for whole in self._past.intervals(start_ns):
            for at_ns in range(whole.start_ns, whole.end_ns, SECOND // 10):
                yield replace(whole, start_ns=at_ns, end_ns=at_ns + SECOND // 10)


# --- trends --------------------------------------------------------------------------------------


def test_the_last_minute_comes_first_then_each_second(
    history_thread: HistoryThread, history: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Until
) -> None:
    """The p99 of every second, oldest first, each once; None of a second without values."""
    for second in range(100):
        history.add({"a": [second + 1], "b": [7] if second % 2 else []})
    history_thread.saw(snapshot_of(history.end_ns))
    wait_until(lambda: told.of(Trends), WAIT_S)
    assert trends(told, A) == [float(second + 1) for second in range(40, 100)]
    assert trends(told, B) == [7.0, None] * 29 + [7.0]
    history.add({"a": [500], "c": [3]})
    history_thread.saw(snapshot_of(history.end_ns))
    wait_until(lambda: len(told.of(Trends)) > 1, WAIT_S)
    assert told.of(Trends)[1] == Trends({A: (500.0,), ("c", ()): (3.0,)})
    history.add({}, 2)
    history_thread.saw(snapshot_of(history.end_ns))
    wait_until(lambda: sum(trend.steps for trend in told.of(Trends)) == 63, WAIT_S)
    assert all(not trend.points for trend in told.of(Trends)[2:])


def test_a_short_run_that_has_ended_is_shown_in_tenths(
    run: Any, history: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Until
) -> None:
    """A short run that has ended sends its trends again, in as many steps as there is room for."""
    history_thread = HistoryThread(told, lambda _: Refined(DiskIntervals(run.history)))
    history_thread.start()
    begin_ns = history.end_ns
    for second in range(2):
        history.add({"a": [second + 1]})
    history_thread.saw(replace(snapshot_of(history.end_ns), started_ns=begin_ns))
    wait_until(lambda: told.of(Trends), WAIT_S)
    assert [(trend.points[A], trend.step_s) for trend in told.of(Trends)] == [((1.0, 2.0), 1.0)]
    history_thread.saw(replace(snapshot_of(history.end_ns, state="COMPLETE"), started_ns=begin_ns))
    wait_until(lambda: len(told.of(Trends)) > 1, WAIT_S)
    fine = told.of(Trends)[1]
    assert (fine.points[A], fine.step_s) == ((1.0,) * 10 + (2.0,) * 10, 0.1)
    history_thread.close()


def test_a_history_that_has_nothing_yet_is_waited_for(
    history_thread: HistoryThread, history: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Until
) -> None:
    """The first second of a run is in it once it is over."""
    history_thread.saw(snapshot_of(history.end_ns))
    history_thread.look_at(history.end_ns, 1.0)
    wait_until(lambda: told.of(ViewerNote), WAIT_S)
    history.add({"a": [5]})
    history_thread.saw(snapshot_of(history.end_ns))
    wait_until(lambda: told.of(Trends), WAIT_S)
    assert trends(told, A) == [5.0]


@pytest.mark.parametrize("later_s", [0, 60, 86_400])
def test_a_result_shows_the_last_minute_of_its_run(
    history_thread: HistoryThread,
    history: Any,
    told: Any,
    snapshot_of: SnapshotOf,
    wait_until: Until,
    *,
    later_s: int,
) -> None:
    """However much later it was made."""
    for second in range(100):
        history.add({"a": [second + 1]})
    history.close()
    history_thread.saw(snapshot_of(history.end_ns + later_s * SECOND, state="COMPLETE"))
    wait_until(lambda: told.of(Trends), WAIT_S)
    assert trends(told, A) == [float(second + 1) for second in range(40, 100)]


def test_without_a_history_trends_are_those_of_the_windows(
    run: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Until
) -> None:
    """The lack of a history is noted once, and again at each request for it."""
    history_thread = HistoryThread(told, lambda _: DiskIntervals(run.history / "nowhere"))
    history_thread.start()
    for points in (1, 2):
        history_thread.saw(snapshot_of())
        wait_until(lambda: len(trends(told, A)) == points, WAIT_S)  # noqa: B023 – called before the next turn
    assert trends(told, A) == [90.0, 90.0]
    assert ["no history to show" in note.words for note in told.of(ViewerNote)] == [True]
    history_thread.follow(A)
    wait_until(lambda: len(told.of(ViewerNote)) == 2, WAIT_S)
    history_thread.look_at(5, 1.0)
    wait_until(lambda: len(told.of(ViewerNote)) == 3, WAIT_S)
    assert all(note.bad for note in told.of(ViewerNote))
    history_thread.close()


# --- timelines -----------------------------------------------------------------------------------


def test_a_followed_series_grows(
    history_thread: HistoryThread, history: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Until
) -> None:
    """A followed series grows from the beginning of the run, also through seconds without values.

    A timeline that was passed on stays as it was.
    """
    history.add({"a": [1, 2], "b": [9]}, 90)
    history.add({"b": [9]}, 10)
    history_thread.follow(A)
    history_thread.saw(snapshot_of(history.end_ns))
    wait_until(lambda: told.of(TimelineOf), WAIT_S)
    first = told.of(TimelineOf)[-1]
    assert (first.series, len(first.timeline)) == (A, 100)
    history.add({"a": [3]})
    history_thread.saw(snapshot_of(history.end_ns))
    wait_until(lambda: len(told.of(TimelineOf)[-1].timeline) == 101, WAIT_S)
    newest = told.of(TimelineOf)[-1].timeline
    assert newest.between(0, 1 << 62).figures(["100"]).count == 181
    assert newest.between(0, 1 << 62).figures(["100"]).max == 3.0
    assert len(first.timeline) == 100


def test_a_series_that_has_no_values_yet_is_followed_once_it_has(
    history_thread: HistoryThread, history: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Until
) -> None:
    """A series without values is followed once it has some, so its viewer need not ask again."""
    history.add({"a": [1]}, 3)
    history_thread.follow(B)
    history_thread.saw(snapshot_of(history.end_ns))
    wait_until(lambda: told.of(Trends), WAIT_S)
    assert not told.of(TimelineOf)
    history.add({"b": [1]})
    history_thread.saw(snapshot_of(history.end_ns))
    wait_until(lambda: told.of(TimelineOf), WAIT_S)
    assert told.of(TimelineOf)[-1].series == B
    assert len(told.of(TimelineOf)[-1].timeline) == 4


def test_another_series_takes_the_place_of_the_first(
    history_thread: HistoryThread, history: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Until
) -> None:
    """Following another series ends the news of the first, and following None ends all such news."""
    history.add({"a": [1], "b": [2]}, 3)
    history_thread.saw(snapshot_of(history.end_ns))
    history_thread.follow(A)
    wait_until(lambda: told.of(TimelineOf), WAIT_S)
    history_thread.follow(B)
    wait_until(lambda: told.of(TimelineOf)[-1].series == B, WAIT_S)
    history_thread.follow(None)
    told.news.clear()
    history.add({"a": [1], "b": [2]})
    history_thread.saw(snapshot_of(history.end_ns))
    wait_until(lambda: told.of(Trends), WAIT_S)
    assert not told.of(TimelineOf)


class Slow:
    """A history whose end is never reached, until somebody asks for something else."""

    def __init__(self, past: IntervalSource) -> None:
        self._past = past
        self.read = 0
        self.budget = past.budget
        self.keys, self.close = past.keys, past.close

    def intervals(self, start_ns: int, *bounds: int, **level: int) -> Any:
        found = list(self._past.intervals(start_ns, *bounds, **level))
        yield from found
        while start_ns == 0 and found and not bounds:
            self.read += 1
            yield found[-1]

    fine = intervals


def test_a_long_history_is_shown_while_it_is_read_and_given_up_for_another(
    run: Any, history: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Until
) -> None:
    """A long history is shown while it is read, and given up for another.

    A viewer never waits for the whole of what is no longer wanted.
    """
    slow = Slow(DiskIntervals(run.history))
    history_thread = HistoryThread(told, lambda _: slow)
    history_thread.start()
    history.add({"a": [1], "b": [2]}, 3)
    history_thread.follow(A)
    history_thread.saw(snapshot_of(history.end_ns))
    wait_until(lambda: told.of(TimelineOf), WAIT_S)
    history_thread.follow(None)
    history_thread.look_at(history.end_ns, 1.0)
    wait_until(lambda: told.of(RangeFiguresOf), WAIT_S)
    read = slow.read
    history_thread.follow(B)
    wait_until(lambda: slow.read > read, WAIT_S)
    history_thread.close()
    assert not history_thread._thread.is_alive()


# --- moments -------------------------------------------------------------------------------------


def test_a_moment_is_all_series_in_the_seconds_before_it(
    history_thread: HistoryThread, history: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Until
) -> None:
    """A moment has the percentiles of the run, also for series that were silent then."""
    begin_ns = history.end_ns
    history.add({"a": [1], "b": [5]}, 10)
    history.add({"a": [10, 20, 30, 40]}, 10)
    history.add({"a": [1_000]}, 10)
    history_thread.saw(snapshot_of(history.end_ns))
    history_thread.look_at(begin_ns + 20 * SECOND + SECOND // 4, 5.0)
    moment = wait_until(lambda: told.of(RangeFiguresOf), WAIT_S)[0].moment
    assert (moment.start_ns, moment.end_ns) == (begin_ns + 15 * SECOND, begin_ns + 20 * SECOND)
    figures = moment.series[A]
    assert (figures.count, figures.rate, figures.min, figures.max) == (20, 4.0, 10.0, 40.0)
    assert dict(figures.percentiles) == {"50": 20.0, "99": 40.0}
    assert moment.series[B].count == 0


def test_of_an_old_moment_the_long_interval_around_it_is_told(
    history_thread: HistoryThread,
    make_history: Callable[..., Any],
    told: Any,
    snapshot_of: SnapshotOf,
    wait_until: Until,
) -> None:
    """Where seconds are no longer kept, a moment is the long interval around it and says which."""
    history = make_history({1: 60, 10: 60, 60: None})
    begin_ns = history.end_ns
    history.add({"a": [1]}, 600)
    history_thread.saw(snapshot_of(history.end_ns))
    history_thread.look_at(begin_ns + 75 * SECOND, 2.0)
    moment = wait_until(lambda: told.of(RangeFiguresOf), WAIT_S)[0].moment
    assert (moment.start_ns, moment.end_ns) == (begin_ns + 60 * SECOND, begin_ns + 120 * SECOND)
    assert moment.series[A].count == 60


def test_what_was_before_the_run_is_said_to_be_nothing(
    history_thread: HistoryThread, history: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Until
) -> None:
    """A moment before the run has no data, and that is no failure."""
    history.add({"a": [1]}, 3)
    history_thread.saw(snapshot_of(history.end_ns))
    history_thread.look_at(history.end_ns - 1_000 * SECOND, 10.0)
    wait_until(lambda: told.of(ViewerNote), WAIT_S)
    assert told.of(ViewerNote) == [ViewerNote("the history has no data for that time")]


# --- failures ------------------------------------------------------------------------------------


def test_a_history_that_could_not_be_read_is_tried_again(
    run: Any,
    history: Any,
    told: Any,
    snapshot_of: SnapshotOf,
    wait_until: Until,
    *,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The disk may only have been far behind: nobody has to attach again."""
    monkeypatch.setattr("telemetry.tui.feed.history_thread._RETRY_S", 1.5)
    failures = [TelemetryError("the disk is far behind")]

    def open_past(_: MetricsSnapshot) -> IntervalSource:
        if failures:
            raise failures.pop()
        return DiskIntervals(run.history)

    history_thread = HistoryThread(told, open_past)
    history_thread.start()
    history.add({"a": [5]})

    def trends_of_history() -> bool:
        history_thread.saw(snapshot_of(history.end_ns))
        return trends(told, A)[-1:] == [5.0]

    wait_until(trends_of_history, WAIT_S)
    assert trends(told, A)[0] == 90.0
    assert len(told.of(ViewerNote)) == 1
    history_thread.close()


def test_a_damaged_history_is_said(
    history_thread: HistoryThread, history: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Until
) -> None:
    """A damaged history is reported, and the thread lives on."""
    history.add({"a": [5]})
    keys: Path = history.directory / "keys.jsonl"
    keys.write_bytes(keys.read_bytes() + b"{\n")
    history_thread.saw(snapshot_of(history.end_ns))
    wait_until(lambda: told.of(ViewerNote), WAIT_S)
    assert "damaged" in told.of(ViewerNote)[0].words
    assert history_thread._thread.is_alive()


def test_a_failure_of_its_own_is_said(told: Any, snapshot_of: SnapshotOf, wait_until: Until) -> None:
    """An unexpected failure is reported, as it must not look like a history that stands still."""

    def fail(_: MetricsSnapshot) -> IntervalSource:
        raise ZeroDivisionError("oops")

    history_thread = HistoryThread(told, fail)
    history_thread.start()
    history_thread.saw(snapshot_of())
    wait_until(lambda: told.of(ViewerNote), WAIT_S)
    assert "oops" in told.of(ViewerNote)[0].words
    history_thread.close()
