"""What this machine's disk has of a run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from telemetry.errors import RunDirectoryError
from telemetry.history.backends import with_backends
from telemetry.store.dead_run import is_dead, remains
from telemetry.store.final_snapshot import find_final
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot


def directory_of(run_id: str, *paths: str) -> RunDirectory | None:
    """The first of these directories that is this run's: on another machine the same path may be another run's.

    Without a run id it is anybody's.
    """
    for path in filter(None, paths):
        with suppress(RunDirectoryError):
            directory = RunDirectory.open(Path(path))
            if directory.run_id == run_id or not run_id:
                return directory
    return None


def result_of(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> MetricsSnapshot | None:
    """The result of a run that is over, with what its backends have said since; None if there is none. Raises
    RunDirectoryError if it can't be read."""
    final = find_final(run, fallback_dirs)
    snapshot = final.read() if final is not None else None
    return with_backends(snapshot, run) if snapshot is not None and snapshot.state in TERMINAL else None


def remedy_of(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> str:
    """What makes a result of a dead run, in words; empty if it is not dead or has left nothing to make one of."""
    if not is_dead(run, fallback_dirs):
        return ""
    left = remains(run)
    return f"`{left.remedy}` makes a result of what it left" if left.recoverable else ""
