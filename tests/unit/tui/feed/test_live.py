"""A live run: its aggregator while there is one, and its directory where that can be read here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from telemetry.store.final_snapshot import write_final
from telemetry.tui.feed.live import STOP_REASON, LiveFeed
from telemetry.tui.feed.news import (
    CommandOutput,
    NewSnapshot,
    RangeFiguresOf,
    TimelineOf,
    Trends,
    Trouble,
    ViewerNote,
)
from telemetry.wire.control import GetHistory, Stop
from telemetry.wire.snapshot import MetricsSnapshot

pytestmark = pytest.mark.slow

WAIT_S = 30.0
A = ("a", ())
Until = Callable[..., Any]
MakeStation = Callable[..., Any]
SnapshotOf = Callable[..., MetricsSnapshot]


@pytest.fixture
def open_live(told: Any) -> Iterator[Callable[..., LiveFeed]]:
    """`open_live(endpoint, …)`: a feed that has been started."""
    made: list[LiveFeed] = []

    def start(*given: Any, **facts: Any) -> LiveFeed:
        made.append(LiveFeed(*given, **facts))
        made[-1].start(told)
        return made[-1]

    yield start
    for feed in made:
        feed.close()
        feed.close()


def test_a_run_whose_directory_is_here_is_read_from_there(
    run: Any,
    history: Any,
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    open_live: Callable[..., LiveFeed],
    *,
    told: Any,
    wait_until: Until,
) -> None:
    """History and output; the aggregator is asked for neither."""
    history.add({"a": [1]}, 10)
    (run.path / "output.log").write_text("hello\n")
    station = make_station(snapshot_of(history.end_ns, directory=os.fspath(run.path)), run.history)
    feed = open_live(station.endpoint)
    feed.follow(A)
    feed.look_at(history.end_ns, 5.0)
    for kind in (NewSnapshot, Trends, TimelineOf, RangeFiguresOf, CommandOutput):
        wait_until(lambda: told.of(kind), WAIT_S, kind.__name__)  # noqa: B023 – called before the next turn
    assert told.of(Trends)[0].points == {A: (1.0,) * 10}
    assert not any(isinstance(request, GetHistory) for request in station.asked)


def test_a_run_of_another_machine_is_asked(
    run: Any,
    history: Any,
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    open_live: Callable[..., LiveFeed],
    *,
    told: Any,
    wait_until: Until,
) -> None:
    """A run of another machine is asked, even if another run has a directory of the same path here."""
    history.add({"a": [1]}, 10)
    snapshot = snapshot_of(history.end_ns, run_id="r2", directory=os.fspath(run.path))
    station = make_station(snapshot, run.history)
    feed = open_live(station.endpoint, os.fspath(run.path))
    feed.follow(A)
    wait_until(lambda: told.of(Trends) and told.of(TimelineOf), WAIT_S)
    assert told.of(Trends)[0].points == {A: (1.0,) * 10}
    assert len(told.of(TimelineOf)[0].timeline) == 10
    assert not told.of(CommandOutput)
    assert any(isinstance(request, GetHistory) for request in station.asked)


def test_a_result_left_elsewhere_is_found(
    run: Any,
    short_dir: Path,
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    open_live: Callable[..., LiveFeed],
    *,
    told: Any,
    wait_until: Until,
) -> None:
    """A result left elsewhere is read once the aggregator is gone without sending it.

    A broken file is no result.
    """
    station = make_station(snapshot_of(directory=os.fspath(run.path)))
    open_live(station.endpoint, fallback_dirs=[os.fspath(short_dir)])
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    run.final.write_text("{")
    station.stop()
    wait_until(lambda: told.of(Trouble), WAIT_S)
    run.final.unlink()
    write_final(snapshot_of(state="COMPLETE"), [short_dir / f"telemetry-r1-{run.final.name}"])
    wait_until(lambda: not told.of(NewSnapshot)[-1].live, WAIT_S)
    assert told.of(NewSnapshot)[-1].snapshot.state == "COMPLETE"


def test_a_run_that_is_over_before_it_was_heard_is_read_from_its_directory(
    run: Any,
    history: Any,
    snapshot_of: SnapshotOf,
    open_live: Callable[..., LiveFeed],
    *,
    told: Any,
    wait_until: Until,
) -> None:
    """A run that ended between being found and being opened is read from its directory and history."""
    history.add({"a": [1]}, 10)
    history.close()
    write_final(snapshot_of(history.end_ns, state="COMPLETE"), [run.final])
    open_live("ipc:///nowhere", os.fspath(run.path))
    wait_until(lambda: told.of(Trends), WAIT_S)
    assert [fresh.live for fresh in told.of(NewSnapshot)] == [False]


def test_stopping_asks_the_aggregator(
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    open_live: Callable[..., LiveFeed],
    told: Any,
    wait_until: Until,
) -> None:
    """Stopping asks the aggregator to drain, with a reason for the result. A missing answer is reported."""
    station = make_station(snapshot_of())
    feed = open_live(station.endpoint)
    feed.stop_run()
    wait_until(lambda: ViewerNote("stop requested") in told.news, WAIT_S)
    [stop] = [request for request in station.asked if isinstance(request, Stop)]
    assert (stop.reason, stop.interrupted) == (STOP_REASON, False)
    station.stop()
    refusal = "the run was not stopped: no aggregator answered"
    wait_until(lambda: feed.stop_run() or any(refusal in note.words for note in told.of(ViewerNote)), WAIT_S)


def test_nothing_is_told_after_it_is_closed(
    make_station: MakeStation,
    snapshot_of: SnapshotOf,
    open_live: Callable[..., LiveFeed],
    told: Any,
    wait_until: Until,
) -> None:
    """A closed feed passes nothing on, whatever it is asked."""
    station = make_station(snapshot_of())
    feed = open_live(station.endpoint)
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    feed.close()
    count = len(told.news)
    feed.follow(A)
    feed.look_at(1, 1.0)
    feed.stop_run()
    wait_until(lambda: any(isinstance(request, Stop) for request in station.asked), WAIT_S)
    assert len(told.news) == count
