"""A live run has a live feed, any other its directory's; and a job is ended by a signal."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from telemetry.errors import RunDirectoryError, TelemetryError, UsageError
from telemetry.store.final_snapshot import write_final
from telemetry.tui.feed.disk import DiskFeed
from telemetry.tui.feed.live import LiveFeed
from telemetry.tui.feed.news import NewSnapshot, ViewerNote
from telemetry.tui.feed.open import open_feed, terminate
from telemetry.wire.control import Stop

WAIT_S = 30.0


@pytest.fixture
def job() -> Any:
    """A process that does nothing."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield child
    child.kill()
    child.communicate()


def test_what_is_opened(run: Any, snapshot_of: Callable[..., Any]) -> None:
    """An address means its aggregator, also if the directory is known."""
    assert isinstance(open_feed("ipc:///nowhere", None, fallback_dirs=[]), LiveFeed)
    assert isinstance(open_feed("ipc:///nowhere", run, fallback_dirs=[]), LiveFeed)
    with pytest.raises(RunDirectoryError):
        open_feed("", run, fallback_dirs=[])
    write_final(snapshot_of(state="COMPLETE"), [run.final])
    assert isinstance(open_feed("", run, fallback_dirs=[]), DiskFeed)
    with pytest.raises(UsageError):
        open_feed("", None, fallback_dirs=[])


def test_a_job_is_ended_by_a_signal(
    job: Any, make_station: Callable[..., Any], snapshot_of: Callable[..., Any], told: Any, wait_until: Any
) -> None:
    """The aggregator hears of it from whoever wraps the job; a job that has ended already is said."""
    station = make_station(snapshot_of())
    feed = open_feed(station.endpoint, None, fallback_dirs=[], job_pid=job.pid)
    feed.start(told)
    wait_until(lambda: told.of(NewSnapshot), WAIT_S)
    feed.stop_run()
    assert job.wait(WAIT_S) == -signal.SIGTERM
    wait_until(lambda: ViewerNote(f"sent SIGTERM to process {job.pid}") in told.news, WAIT_S)
    ended = ViewerNote(f"the run was not stopped: process {job.pid} has already ended", bad=True)
    # again and again: the one before may not have ended
    wait_until(lambda: feed.stop_run() or ended in told.news, WAIT_S)
    assert not any(isinstance(request, Stop) for request in station.asked)
    feed.close()


def test_a_signal_that_may_not_be_sent_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that may not be sent is an error that says why in words."""

    def refuse(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.kill", refuse)
    with pytest.raises(TelemetryError, match="Operation not permitted"):
        terminate(1)
