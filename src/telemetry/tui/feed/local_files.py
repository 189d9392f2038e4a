"""Files of a run on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from telemetry.errors import RunDirectoryError
from telemetry.history.backends import with_backends
from telemetry.store.dead_run import is_dead, remains
from telemetry.store.final_snapshot import find_final
from telemetry.store.members import members_on_disk
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.control import MemberFacts
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot


def directory_of(run_id: str, *paths: str) -> RunDirectory | None:
    """Return the first of these directories that belongs to the run.

    On this machine, the path of a run of another machine may belong to a different run. Without a run id, any run
    matches.
    """
    for path in filter(None, paths):
        with suppress(RunDirectoryError):
            directory = RunDirectory.open(Path(path))
            if directory.run_id == run_id or not run_id:
                return directory
    return None


def result_of(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> MetricsSnapshot | None:
    """Return the result of an ended run with the latest state of its backends; None if there is none.

    Raises RunDirectoryError if it can't be read.
    """
    final = find_final(run, fallback_dirs)
    snapshot = final.read() if final is not None else None
    return with_backends(snapshot, run) if snapshot is not None and snapshot.state in TERMINAL else None


def members_of(
    snapshot: MetricsSnapshot | None, leaf: str, fallback_dirs: Sequence[str] = ()
) -> list[MemberFacts] | None:
    """Return the producers of a node from the result of its leaf; None if that is not on this machine."""
    nodes = snapshot.nodes if snapshot is not None else []
    node = next((stat for stat in nodes if leaf and stat.leaf == leaf), None)
    return members_on_disk(node, fallback_dirs) if node is not None else None


def remedy_of(run: RunDirectory, fallback_dirs: Sequence[str] = ()) -> str:
    """Return the advice to recover a dead run; empty if it is not dead or can't be recovered."""
    if not is_dead(run, fallback_dirs):
        return ""
    left = remains(run)
    return f"`{left.remedy}` makes a result of what it left" if left.recoverable else ""
