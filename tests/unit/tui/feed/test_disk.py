"""A run that is over, from its directory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from telemetry.errors import RunDirectoryError
from telemetry.store.final_snapshot import write_final
from telemetry.store.journal import JournalWriter
from telemetry.tui.feed.disk import DiskFeed
from telemetry.tui.feed.news import CommandOutput, NewSnapshot, RangeFiguresOf, TimelineOf, Trends, ViewerNote
from telemetry.wire.snapshot import MetricsSnapshot

WAIT_S = 30.0
SECOND = 1_000_000_000
A = ("a", ())
SnapshotOf = Callable[..., MetricsSnapshot]


def test_all_there_is_to_see_of_a_run_that_is_over(
    run: Any, history: Any, told: Any, snapshot_of: SnapshotOf, wait_until: Callable[..., Any]
) -> None:
    """A run that is over shows its result, output and last minute, then a series and a moment.

    A closed feed passes nothing on.
    """
    history.add({"a": [1, 2]}, 90)
    history.close()
    write_final(snapshot_of(history.end_ns, state="COMPLETE"), [run.final])
    (run.path / "output.log").write_text("hello\nworld\n")
    feed = DiskFeed(run)
    feed.start(told)
    wait_until(lambda: told.of(Trends), WAIT_S)
    fresh = told.of(NewSnapshot)
    assert [(one.snapshot.state, one.live) for one in fresh] == [("COMPLETE", False)]
    assert told.of(CommandOutput) == [CommandOutput(("hello", "world"))]
    assert told.of(Trends)[0].points == {A: (2.0,) * 60}
    feed.follow(A)
    wait_until(lambda: told.of(TimelineOf), WAIT_S)
    assert len(told.of(TimelineOf)[0].timeline) == 90
    feed.look_at(history.end_ns, 10.0)
    wait_until(lambda: told.of(RangeFiguresOf), WAIT_S)
    assert told.of(RangeFiguresOf)[0].moment.series[A].count == 20
    feed.stop_run()
    assert told.of(ViewerNote) == [ViewerNote("the run has already ended")]
    feed.close()
    feed.close()
    feed.stop_run()
    assert len(told.of(ViewerNote)) == 1


def test_without_a_result_there_is_nothing_to_open(run: Any) -> None:
    """The error says why, and what makes one where that is possible."""
    with pytest.raises(RunDirectoryError, match="it left no journal either"):
        DiskFeed(run)
    JournalWriter(run.journal, b"state", 1).close()
    with pytest.raises(RunDirectoryError, match=f"telemetry recover {run.path}"):
        DiskFeed(run)
    run.final.write_text("{")
    with pytest.raises(RunDirectoryError, match=r"damaged.*telemetry recover"):
        DiskFeed(run)
    lock = run.lock()
    run.final.unlink()
    with pytest.raises(RunDirectoryError, match="its aggregator is alive"):
        DiskFeed(run)
    lock.release()
