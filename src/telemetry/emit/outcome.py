"""The result of a run, from the best source that works: pub/sub, the file, the last live snapshot."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from telemetry.emit.spawn import Aggregator
from telemetry.transport.subscription import Subscription
from telemetry.wire.codec import Malformed, snapshot_from_json
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

FINAL_FILE: Final = "final_snapshot.json"
_LOOK_AGAIN_S: Final = 0.2


def await_report(snapshots: Subscription, aggregator: Aggregator, patience_s: float) -> Report:
    """The final result, or the best there is after `patience_s` or when the aggregator is gone. Never raises.

    `snapshots` has to be older than the request that ends the run.
    """
    deadline = time.monotonic() + patience_s
    why = f"the aggregator published no final snapshot within {patience_s:g} s"
    while (left_s := deadline - time.monotonic()) > 0:
        gone = aggregator.gone  # read first: what it sent before its end is still found below
        snapshot = snapshots.recv(min(left_s, _LOOK_AGAIN_S))
        if snapshot is not None and snapshot.state in TERMINAL:
            return Report(snapshot=snapshot, source="pubsub")
        if gone and snapshot is None:
            code = aggregator.process.returncode
            why = f"the aggregator (pid {aggregator.pid}) ended with code {code} before its final snapshot came"
            break
    return second_best(aggregator.directory, snapshots.newest, why, aggregator.run_id, aggregator.name)


def second_best(directory: str, newest: MetricsSnapshot | None, why: str, run_id: str, name: str) -> Report:
    """The final file if it can be read, else the last live snapshot, else an empty one. Never raises."""
    try:
        snapshot = snapshot_from_json((Path(directory or os.devnull) / FINAL_FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        why += f"; there is no {FINAL_FILE}" + (f" in {directory}" if directory else "")
    except (OSError, Malformed) as error:
        why += f"; {FINAL_FILE} can't be read: {error}"
    else:
        return Report(snapshot=snapshot, source="file", source_reason=why)
    if newest is None:
        why += "; no snapshot was ever seen"
        newest = MetricsSnapshot(run_id=run_id, name=name, directory=directory)
    return Report(snapshot=newest, source="last_live", source_reason=why)


def with_own_account(report: Report, producer: str, emitted: int) -> Report:
    """A last live snapshot is older than the producer that asks: what it emitted since is missing."""
    if report.source != "last_live":
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
