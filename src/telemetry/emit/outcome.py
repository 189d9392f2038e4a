"""The result of a run, from the best source that works: pub/sub, the file, the journal, the last live snapshot.

The journal comes before the last live snapshot: it holds all that the aggregator had taken, and gives exact
percentiles; a live snapshot is up to a tick older, and its percentiles come from buckets.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from telemetry import limits
from telemetry.emit.flusher import Ending
from telemetry.emit.keeper import AggregatorKeeper
from telemetry.emit.run_files import RunFiles
from telemetry.emit.spawn import environment, telemetry_command
from telemetry.humane import number_of
from telemetry.ledger import Reason
from telemetry.transport.subscription import Subscription
from telemetry.wire.control import Hello
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL, Accounting, MetricsSnapshot, ProducerStat

_LOOK_AGAIN_S: Final = 0.2
_ERROR_CHARS: Final = 500
_UNSENT: Final = Reason.UNSENT_AT_EXIT.value


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


def with_own_account(report: Report, producer: str, emitted: int) -> Report:
    """The journal and a last live snapshot end before the producer that asks: what it emitted since is missing."""
    if report.source not in ("last_live", "journal"):
        return report
    snapshot = report.snapshot
    known = next((stat.emitted for stat in snapshot.producers if stat.producer == producer), 0)
    unheard = max(0, emitted - known)
    account = snapshot.accounting
    account = replace(account, emitted=account.emitted + unheard, missing=account.missing + unheard)
    producers = [
        replace(stat, emitted=emitted, missing=stat.missing + unheard) if stat.producer == producer else stat
        for stat in snapshot.producers
    ]
    return replace(report, snapshot=replace(snapshot, accounting=account, producers=producers))


def with_acknowledged(report: Report, hello: Hello, dropped: Mapping[str, int], ending: Ending) -> Report:
    """Of an aggregator that said nothing any more a producer knows what was acknowledged of its own events: that
    much is in the numbers of the run. What became of the rest is a warning, for nobody knows.

    A report that has other people's numbers is left as it is.
    """
    if report.source != "last_live" or report.snapshot.producers:
        return report
    taken, lost = ending.taken, {reason: count for reason, count in dropped.items() if reason != _UNSENT}
    emitted = taken + sum(lost.values())
    own = ProducerStat(
        producer=hello.producer,
        name=hello.name,
        host=hello.host,
        pid=hello.pid,
        rank=hello.rank,
        emitted=emitted,
        received=taken,
        applied=taken,
        dropped_by_producer=lost,
    )
    account = Accounting(emitted=emitted, received=taken, applied=taken, dropped_by_producer=lost)
    warnings = []
    if ending.unacknowledged:
        events = number_of(ending.unacknowledged, "event of this program was", "events of this program were")
        warnings = [f"{events} not acknowledged and may be lost"]
    snapshot = replace(report.snapshot, accounting=account, producers=[own], warnings=warnings)
    return replace(report, snapshot=snapshot)
