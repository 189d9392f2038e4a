"""The result of a run, from the best source that works: pub/sub, the file, the journal, the last live snapshot.

The journal comes before the last live snapshot: it holds all that the aggregator had taken, and gives exact
percentiles; a live snapshot is up to a tick older, and its percentiles come from buckets.
"""

from __future__ import annotations

import subprocess
import time
from typing import Final

from telemetry import limits
from telemetry.supervise.aggregator import AggregatorKeeper
from telemetry.supervise.run_files import RunFiles
from telemetry.supervise.spawn import environment, telemetry_command
from telemetry.transport.subscription import Subscription
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_LOOK_AGAIN_S: Final = 0.2
_ERROR_CHARS: Final = 500


def await_report(
    snapshots: Subscription,
    keeper: AggregatorKeeper,
    patience_s: float,
    *,
    recovery_s: float,
    patience_after_restart_s: float = 0.0,
) -> Report:
    """The final result, or the best there is after `patience_s` or when the aggregator is gone. Never raises.

    `snapshots` has to be older than the request that ends the run. An aggregator that is started again meanwhile is
    given `patience_after_restart_s` at least, as often as a keeper restarts in a row. Reading the journal of one
    that is gone takes `recovery_s` at most.
    """
    if snapshots.newest is not None and snapshots.newest.state in TERMINAL:
        return Report(snapshot=snapshots.newest, source="pubsub")
    deadline = time.monotonic() + patience_s
    latest = deadline + limits.RESTARTS * patience_after_restart_s
    restarts = keeper.restarts
    why = f"the aggregator published no final snapshot within {patience_s:g} s"
    while (left_s := deadline - time.monotonic()) > 0:
        gone = keeper.deserted  # read first: what it sent before its end is still found below
        snapshot = snapshots.recv(min(left_s, _LOOK_AGAIN_S))
        if snapshot is not None and snapshot.state in TERMINAL:
            return Report(snapshot=snapshot, source="pubsub")
        if gone and snapshot is None:
            why = keeper.lost or "the aggregator ended before its final snapshot came"
            break
        if keeper.restarts != restarts:
            restarts = keeper.restarts
            deadline = min(latest, max(deadline, time.monotonic() + patience_after_restart_s))
    return second_best(keeper.files, snapshots.newest, why, recovery_s=recovery_s if keeper.deserted else 0.0)


def second_best(
    files: RunFiles, newest: MetricsSnapshot | None, why: str, *, recovery_s: float = 0.0, remedy: str = ""
) -> Report:
    """The final file if it can be read, else what the journal says, else the last live snapshot, else an empty one.
    Never raises. The journal may be read, for at most `recovery_s`, only when the aggregator is gone. `remedy` says
    what would make a result."""
    snapshot, no_file = files.final()
    if snapshot is not None:
        return Report(snapshot=snapshot, source="file", source_reason=why)
    why += f"; {no_file}"
    if recovery_s > 0 and files.has_journal:
        failure = _recover(files.directory, recovery_s)
        snapshot, no_file = files.final()
        if snapshot is not None:
            return Report(snapshot=snapshot, source="journal", source_reason=why)
        why += f"; the journal could not be read: {failure or no_file}"
    if newest is None:
        why += "" if remedy else "; no snapshot was ever seen"
        newest = MetricsSnapshot(run_id=files.run_id, name=files.name, directory=files.directory)
    reason = "; ".join(filter(None, (why, remedy)))
    return Report(snapshot=newest, source="last_live", source_reason=reason)


def _recover(directory: str, timeout_s: float) -> str:
    """Has the final file written from the journal, by a process of its own. Returns what went wrong."""
    try:
        done = subprocess.run(
            [*telemetry_command(), "recover", directory],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment({}),
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {timeout_s:g} s"
    except OSError as error:
        return f"no process could be started: {error.strerror}"
    if not done.returncode:
        return ""
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return said[-1].removeprefix("telemetry: ")[:_ERROR_CHARS] if said else f"exit code {done.returncode}"
