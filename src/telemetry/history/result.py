"""A run's report from its files, or, for a run that may still be live, once it has ended."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from telemetry.common import formatting
from telemetry.common.formatting import number_of
from telemetry.errors import EndpointError, RunDirectoryError, TelemetryError
from telemetry.history.backends import with_backends
from telemetry.history.requests import with_requests
from telemetry.store import run_directory
from telemetry.store.dead_run import remains
from telemetry.store.final_snapshot import find_final, read_final
from telemetry.store.gate_results import GATES, read_gates
from telemetry.store.imported_file import read_imported
from telemetry.store.merge_sources import read_sources
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.wire.gates import GateResult
from telemetry.wire.report import EarlyRule, Report
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

if TYPE_CHECKING:
    from telemetry.transport.subscription import HasEndpoint, Subscription


def load_report(
    spec: str | Path = "latest",
    root: str | Path = "runs",
    fallback_dirs: Sequence[str] = (),
    early_rule: EarlyRule = EarlyRule(),  # noqa: B008 – frozen
) -> Report:
    """Return the report of a run given by directory, run id, name, `latest`, or its final file.

    It has the curves of steps if the run directory is there. Reads files, blocks.

    `fallback_dirs` are those of the run's settings: a result that could not be written to its directory is there,
    or among the temporary files. The report's `source` and `source_reason` say what was read, and why no better
    source was available. `early_rule` has the confidence and tolerance of early stopping.

    Raises RunNotFoundError, or RunDirectoryError if the run left no readable result.
    """
    report, directory = find_result(spec, root, fallback_dirs, early_rule)
    if directory is None or not report.snapshot.axes:
        return report
    from telemetry.history.step_curves import curves_of  # arrays

    return replace(report, curves=curves_of(directory, report.snapshot))


def find_result(
    spec: str | Path,
    root: str | Path,
    fallback_dirs: Sequence[str],
    early_rule: EarlyRule = EarlyRule(),  # noqa: B008 – frozen
) -> tuple[Report, RunDirectory | None]:
    """Return the report and the directory of a run.

    The directory is None if `spec` is a result file outside a run directory.
    """
    alone = _alone(Path(spec))
    if alone is not None:
        return with_requests(Report(snapshot=read_final(alone), source="file", early_rule=early_rule)), None
    run = run_directory.resolve(str(spec), Path(root))
    final = find_final(run, fallback_dirs)
    if final is None:
        raise _no_result(run)
    elsewhere = f"can't write to the run directory, so the result is in {final.path}" if final.is_elsewhere else ""
    try:
        snapshot, sources, gates = with_backends(final.read(), run), read_sources(run), _gates(run)
        report = Report(
            snapshot=snapshot,
            source="file",
            source_reason=elsewhere,
            sources=sources,
            imported=read_imported(run),
            gates=gates,
            early_rule=early_rule,
        )
        return with_requests(report), run
    except RunDirectoryError as error:
        left = remains(run)
        if error.hint or run.locked() or not left.recoverable:
            raise
        raise RunDirectoryError(error.message, hint=f"`{left.remedy}` makes it again from the journal") from error


def _gates(run: RunDirectory) -> list[GateResult]:
    """Return the results of the run's gates.

    An unreadable file gives an inconclusive one: the numbers do not depend on it.
    """
    try:
        return read_gates(run.path)
    except RunDirectoryError as error:
        return [GateResult(expression=GATES, outcome="inconclusive", reason=error.message)]


def _alone(path: Path) -> Path | None:
    """Return the path if it is a result file outside a run directory: a JSON file with a name of its own."""
    with suppress(OSError, ValueError):  # for text that can't be a path
        if (
            path.suffix == ".json"
            and path.name not in (run_directory.FINAL, run_directory.MANIFEST)
            and path.is_file()
        ):
            return path
    return None


def _no_result(run: RunDirectory) -> RunDirectoryError:
    from telemetry.transport.keeper_lock import keeper_of  # sockets: a result is read without them

    if run.locked():
        where = ""
        with suppress(RunDirectoryError):
            where = f", on {run.read_manifest().host}"
        return RunDirectoryError(
            f"{run.path} has no final result: the run is still going{where}",
            hint=f"wait for its end; `telemetry report {run.run_id}` shows it so far, and `telemetry run --gate` "
            "checks gates as a run goes on",
        )
    if pid := keeper_of(run.run_id):
        return RunDirectoryError(
            f"{run.path} has no final result yet: its aggregator died, and process {pid} is restarting it",
            hint="the run continues; try again in a moment",
        )
    left = remains(run)
    message = (
        f"{run.path} has no final result: its aggregator died, last seen {formatting.timestamp(left.since_ns)}"
    )
    if not left.recoverable:
        return RunDirectoryError(message, hint=left.obstacle)
    segments = number_of(left.segments, "segment")
    return RunDirectoryError(
        f"{message}; its journal holds {formatting.size(left.journal_bytes)} in {segments}",
        hint=f"`{left.remedy}` makes a result from it, `{left.way_on}` continues the run",
    )


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
