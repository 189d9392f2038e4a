"""The history is the same from an aggregator and from disk, and each moment of it comes once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import Raw

from telemetry import limits
from telemetry.errors import ProtocolError, RunDirectoryError
from telemetry.history.interval_source import ControlIntervals, DiskIntervals, IntervalSource
from telemetry.tui.feed.history_thread import everything, size
from telemetry.wire import control as msg
from telemetry.wire.codec import encode_interval
from telemetry.wire.history import Interval

SECOND = 1_000_000_000


@pytest.fixture
def both(
    run: Any, make_station: Callable[..., Any], snapshot_of: Callable[..., Any]
) -> Iterator[list[IntervalSource]]:
    """The history of `run` over control and from disk."""
    station = make_station(snapshot_of(), run.history)
    made: list[IntervalSource] = [ControlIntervals(station.endpoint), DiskIntervals(run.history)]
    yield made
    for past in made:
        past.close()


def counts(intervals: Iterator[Interval]) -> list[int]:
    """Values of all series in each interval."""
    return [int(np.frombuffer(interval.series.count, "<u8").sum()) for interval in intervals]


def names(past: IntervalSource) -> list[str]:
    keys = past.keys()
    return [key.name for key in keys]


def test_pages_join_to_the_same_intervals(both: list[IntervalSource], history: Any) -> None:
    """However many replies they take."""
    values = [int(1.001**number) for number in range(24_000)]
    history.add(dict.fromkeys("abcd", values), 40)
    by_control, by_disk = (list(past.intervals(0)) for past in both)
    assert sum(map(size, by_disk)) > 3 * limits.HISTORY_REPLY_BYTES
    assert by_control == by_disk
    assert len(by_disk) == 40


def test_a_time_range_is_what_overlaps_it(both: list[IntervalSource], history: Any) -> None:
    """A time range has the intervals that overlap it, so none that ended when it begins."""
    history.add({"a": [1]}, 10)
    start_ns = history.end_ns - 10 * SECOND
    for past in both:
        assert len(list(past.intervals(start_ns + 3 * SECOND, start_ns + 5 * SECOND))) == 2
        assert len(list(past.intervals(start_ns + 3 * SECOND))) == 7
        assert list(past.intervals(history.end_ns)) == []
        assert list(past.intervals(start_ns, start_ns)) == []


def test_keys_are_those_of_now(both: list[IntervalSource], history: Any) -> None:
    """Keys are those of now, also of series that came later."""
    history.add({"a": [1]})
    assert [names(past) for past in both] == [["a"], ["a"]]
    history.add({"a": [1], "b": [2]})
    assert [names(past) for past in both] == [["a", "b"], ["a", "b"]]


def test_no_history_is_an_error(
    short_dir: Path, make_station: Callable[..., Any], snapshot_of: Callable[..., Any]
) -> None:
    """A missing history is an error, by the aggregator and by disk."""
    station = make_station(snapshot_of())
    by_control, by_disk = ControlIntervals(station.endpoint), DiskIntervals(short_dir / "nowhere")
    with pytest.raises(ProtocolError, match="there is no history"):
        list(by_control.intervals(0))
    with pytest.raises(RunDirectoryError):
        list(by_disk.intervals(0))
    by_control.close()


@pytest.mark.parametrize(
    ("answers", "intervals"),
    [
        ([msg.Pong(epoch="e", state="LIVE")], None),
        ([msg.History(intervals=[Raw(b"\x01")])], None),
        # a clock that was set back: the page that follows would begin before this one
        ([msg.History(intervals=[Raw(encode_interval(Interval(5, 6)))], next_ns=1)], 1),
    ],
)
def test_odd_answers_end_the_question(
    make_station: Callable[..., Any],
    snapshot_of: Callable[..., Any],
    answers: list[msg.Response],
    intervals: int | None,
) -> None:
    """An odd answer ends the request with an error, or where it can't go on. No answer makes it go in a circle."""
    station = make_station(snapshot_of())
    station._answer = lambda request: answers[0]
    past = ControlIntervals(station.endpoint)
    if intervals is None:
        with pytest.raises(ProtocolError):
            list(past.intervals(0))
    else:
        assert len(list(past.intervals(3))) == intervals
    past.close()


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [5, 75, 700, 2_000])
@pytest.mark.parametrize("budget_s", [10, 130, 1_200, 100_000])
@pytest.mark.parametrize("kept_s", [{1: 60, 10: 120, 60: None}, {1: 7_200, 10: 86_400, 60: None}])
def test_everything_comes_once_and_the_newest_finest(
    make_history: Callable[..., Any], seconds: int, budget_s: int, kept_s: dict[int, float | None]
) -> None:
    """Every second comes once, and the newest in the finest steps.

    The budget and what is still kept of the finer levels may be anything.
    """
    history = make_history(kept_s)
    history.add({"a": [1]}, seconds)
    past = DiskIntervals(history.directory)
    past.budget = 1_000
    found = list(everything(past, history.end_ns, past.budget / budget_s))
    assert sum(counts(iter(found))) == seconds
    assert [one.start_ns for one in found[1:]] == [one.end_ns for one in found[:-1]]
    lengths = [(one.end_ns - one.start_ns) // SECOND for one in found]
    assert lengths == sorted(lengths, reverse=True)
    assert set(lengths[-min(seconds, 50) :]) == {1}
    if kept_s[1] == 7_200:
        assert len(found) <= max(60, budget_s / 2) * 2 + seconds / 60 + 20
