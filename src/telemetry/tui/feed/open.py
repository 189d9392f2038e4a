"""Choice of the feed for a run."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from telemetry.errors import TelemetryError, UsageError
from telemetry.store.run_directory import RunDirectory
from telemetry.tui.feed.disk import DiskFeed
from telemetry.tui.feed.live import LiveFeed
from telemetry.tui.feed.news import NewsFeed


def open_feed(
    endpoint: str, directory: RunDirectory | None, *, fallback_dirs: Sequence[str], job_pid: int = 0
) -> NewsFeed:
    """Return a feed of the aggregator at `endpoint`, or of the directory if that is empty.

    Connects later, without blocking. A result on disk is read at once. `stop_run` sends SIGTERM to process
    `job_pid`; without one it asks the aggregator to end the run. Raises RunDirectoryError if the directory has no
    result.
    """
    if endpoint:
        where = os.fspath(directory.path) if directory else ""
        stop = (lambda: terminate(job_pid)) if job_pid else None
        return LiveFeed(endpoint, where, stop, fallback_dirs=fallback_dirs)
    if directory is None:
        raise UsageError("a run has an address or a directory")
    return DiskFeed(directory, fallback_dirs)


def terminate(pid: int) -> str:
    """Send SIGTERM to a job. Raises TelemetryError on failure."""
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        raise TelemetryError(f"process {pid} has already ended") from None
    except OSError as error:
        raise TelemetryError(f"can't send SIGTERM to process {pid}: {error.strerror}") from error
    return f"sent SIGTERM to process {pid}"
