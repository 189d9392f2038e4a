"""The final report of a run that may still be live."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

from telemetry.errors import EndpointError, TelemetryError
from telemetry.history.requests import with_requests
from telemetry.history.result import load_report
from telemetry.store import run_directory
from telemetry.store.run_directory import Manifest
from telemetry.wire.report import Report
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

if TYPE_CHECKING:
    from telemetry.transport.subscription import HasEndpoint, Subscription

_LOOK_S: Final = 0.2
_FIRST_S: Final = 2.0  # for the first snapshot and the handshake before it, also with a shorter timeout


def final_report(
    source: str | Path | HasEndpoint = "latest",
    timeout_s: float = 30.0,
    *,
    root: str | Path = "runs",
    fallback_dirs: Sequence[str] = (),
) -> Report:
    """Return the result of a run. Wait for its end if it is live, for at most `timeout_s` (`math.inf`: for ever).

    Example:
        report = telemetry.final_report("latest", timeout_s=600)

    `source` is a run, its control address, or what `load_report` takes. The report comes from the final snapshot
    that the aggregator publishes, else from the result on disk, else from the newest live snapshot. `report.source`
    says which. `report.final` is False for a live one, and `report.source_reason` says why.

    Raises what `load_report` raises, EndpointError if no aggregator listens at an address, KeysError if it does not
    know this user's key.
    """
    spec = source if isinstance(source, str | Path) else source.endpoint
    if "://" in str(spec):
        endpoint, path, run_id = str(spec), "", ""
    else:
        manifest, path = _found(spec, Path(root))
        endpoint, run_id = (manifest.endpoint, manifest.run_id) if manifest is not None else ("", "")
    newest = None
    try:
        newest = _newest_snapshot(endpoint, run_id, timeout_s) if endpoint else None
    except EndpointError:
        if not path:
            raise
    if newest is not None and newest.state in TERMINAL:
        return with_requests(Report(snapshot=newest, source="pubsub"))
    why = f"the run has not ended within {timeout_s:g} s"
    try:
        if newest is None or path or newest.directory:
            report = load_report(path or newest.directory, root, fallback_dirs)  # type: ignore[union-attr]
            if newest is None or report.snapshot.run_id == newest.run_id:
                return report
    except TelemetryError as error:
        if newest is None:
            raise
        why = error.message
    return with_requests(Report(snapshot=newest, source="last_live", source_reason=why))


def _found(spec: str | Path, root: Path) -> tuple[Manifest | None, str]:
    """Return the manifest and the path of a run; for a result without a run directory, no manifest."""
    try:
        directory = run_directory.resolve(spec, root)
        return directory.read_manifest(), str(directory.path)
    except TelemetryError:
        return None, str(spec)


def _newest_snapshot(endpoint: str, run_id: str, timeout_s: float) -> MetricsSnapshot:
    """Return the terminal snapshot of a run, or the newest one at the timeout or at the end of its aggregator.

    An aggregator that died may be restarted by another process, so it is waited for as long as that process lives.
    Raises EndpointError if no aggregator answers.
    """
    from telemetry.transport import subscribe
    from telemetry.transport.endpoints import refuses
    from telemetry.transport.keeper_lock import keeper_of

    deadline = time.monotonic() + timeout_s
    newest: MetricsSnapshot | None = None
    with ExitStack() as stack:
        snapshots: Subscription | None = None
        while True:
            left_s = max(0.0, deadline - time.monotonic())
            if snapshots is None and not refuses(endpoint):
                snapshots = stack.enter_context(subscribe(endpoint, timeout_s=max(left_s, _FIRST_S)))
            wait_s = min(_LOOK_S, left_s)
            if snapshots is None:
                time.sleep(wait_s)
                snapshot = None
            else:
                snapshot = snapshots.recv(wait_s if newest is not None else _FIRST_S)
            newest = snapshot or newest
            if newest is not None and newest.state in TERMINAL:
                return newest
            run_id = newest.run_id if newest is not None else run_id
            is_gone = snapshot is None and refuses(endpoint) and not (run_id and keeper_of(run_id))
            if is_gone or time.monotonic() >= deadline:
                break
    if newest is None:
        raise EndpointError(f"no aggregator answers at {endpoint}", hint="`telemetry ls` shows the live runs")
    return newest
