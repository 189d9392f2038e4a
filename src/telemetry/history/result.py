"""A run's report from its files. For a live run, ask the aggregator instead."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from telemetry.common import formatting
from telemetry.common.formatting import number_of
from telemetry.errors import RunDirectoryError
from telemetry.history.backends import with_backends
from telemetry.history.requests import with_requests
from telemetry.store import run_directory
from telemetry.store.dead_run import remains
from telemetry.store.final_snapshot import find_final, read_final
from telemetry.store.gate_results import GATES, read_gates
from telemetry.store.merge_sources import read_sources
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.gates import GateResult
from telemetry.wire.report import EarlyRule, Report


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
