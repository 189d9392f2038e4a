"""The result of a run from the best available source: pub/sub, final file, journal, last live snapshot.

The journal precedes the last live snapshot. It holds all events that the aggregator had received, and gives exact
percentiles. A live snapshot may be a tick older, and its percentiles come from buckets.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
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
    look: Callable[[MetricsSnapshot], object] = lambda snapshot: None,
) -> Report:
    """Return the final result, or the best available one after `patience_s` or the end of the aggregator.

    Never raises, unless `look` does, which gets each live snapshot meanwhile. `snapshots` must have been made
    before the request that ends the run. After a restart the aggregator gets at least `patience_after_restart_s`,
    up to the number of restarts in a row. Reading the journal of a dead aggregator takes at most `recovery_s`.
    """
    if snapshots.newest is not None and snapshots.newest.state in TERMINAL:
        return Report(snapshot=snapshots.newest, source="pubsub")
    deadline = time.monotonic() + patience_s
    latest = deadline + limits.RESTARTS * patience_after_restart_s
    restarts = keeper.restarts
    why = f"the aggregator published no final snapshot within {patience_s:g} s"
    while (left_s := deadline - time.monotonic()) > 0:
        gone = keeper.deserted  # read first: messages sent before its end are still received below
        snapshot = snapshots.recv(min(left_s, _LOOK_AGAIN_S))
        if snapshot is not None and snapshot.state in TERMINAL:
            return Report(snapshot=snapshot, source="pubsub")
        if snapshot is not None:
            look(snapshot)
        if gone and snapshot is None:
            why = keeper.lost or "the aggregator exited before its final snapshot arrived"
            break
        if keeper.restarts != restarts:
            restarts = keeper.restarts
            deadline = min(latest, max(deadline, time.monotonic() + patience_after_restart_s))
    return second_best(keeper.files, snapshots.newest, why, recovery_s=recovery_s if keeper.deserted else 0.0)


def second_best(
    files: RunFiles, newest: MetricsSnapshot | None, why: str, *, recovery_s: float = 0.0, remedy: str = ""
) -> Report:
    """Return the final file, else the result from the journal, else the last live snapshot, else an empty one.

    Never raises. The journal may be read only if the aggregator is gone, for at most `recovery_s`. `remedy` tells
    how a result can be made.
    """
    snapshot, no_file = files.final()
    if snapshot is not None:
        return Report(snapshot=snapshot, source="file", source_reason=why)
    why += f"; {no_file}"
    if recovery_s > 0 and files.has_journal:
        failure = _recover(files.directory, recovery_s)
        snapshot, no_file = files.final()
        if snapshot is not None:
            return Report(snapshot=snapshot, source="journal", source_reason=why)
        why += f"; can't read the journal: {failure or no_file}"
    if newest is None:
        why += "" if remedy else "; no snapshot was ever received"
        newest = MetricsSnapshot(run_id=files.run_id, name=files.name, directory=files.directory)
    reason = "; ".join(filter(None, (why, remedy)))
    return Report(snapshot=newest, source="last_live", source_reason=reason)


def _recover(directory: str, timeout_s: float) -> str:
    """Write the final file from the journal in a separate process. Return an error message, or an empty string."""
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
        return f"can't start a process: {error.strerror}"
    if not done.returncode:
        return ""
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1].removeprefix("telemetry: ")[:_ERROR_CHARS] if lines else f"exit code {done.returncode}"
