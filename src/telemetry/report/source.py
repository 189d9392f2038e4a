"""A run's report from what lies on disk. A run that is still going is asked over control, not here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from telemetry import humane
from telemetry.errors import RunDirectoryError
from telemetry.store import rundir
from telemetry.store.final import find_final, read_final
from telemetry.store.remains import remains
from telemetry.store.rundir import RunDirectory
from telemetry.transport.keeping import keeper_of
from telemetry.wire.report import Report


def load_report(
    spec: str | Path = "latest", root: str | Path = "runs", fallback_dirs: Sequence[str] = ()
) -> Report:
    """The report of a run given by directory, run id, name, `latest`, or its final file. Reads files, blocks.

    `fallback_dirs`: as in the settings of the run; a result that could not be written to its directory is there, or
    among the temporary files. The report's `source` and `source_reason` say what was read, and why nothing better.
    Raises RunNotFoundError, or RunDirectoryError if the run left nothing that can be read.
    """
    run = rundir.resolve(str(spec), Path(root))
    path = find_final(run, fallback_dirs)
    if path is None:
        raise _no_result(run)
    elsewhere = "" if path == run.final else f"the run directory could not be written, so it is {path}"
    try:
        return Report(snapshot=read_final(path), source="file", source_reason=elsewhere)
    except RunDirectoryError as error:
        left = remains(run)
        if error.hint or run.locked() or not left.recoverable:
            raise
        raise RunDirectoryError(error.message, hint=f"`{left.remedy}` makes it anew from the journal") from error


def _no_result(run: RunDirectory) -> RunDirectoryError:
    if run.locked():
        where = ""
        with suppress(RunDirectoryError):
            where = f", on {run.read_manifest().host}"
        return RunDirectoryError(f"{run.path} has no final result: the run is still going{where}")
    if pid := keeper_of(run.run_id):
        return RunDirectoryError(
            f"{run.path} has no final result yet: its aggregator died, and process {pid} is starting another",
            hint="the run goes on; ask again in a moment",
        )
    left = remains(run)
    message = f"{run.path} has no final result: its aggregator died, last seen {humane.timestamp(left.since_ns)}"
    if not left.recoverable:
        return RunDirectoryError(message, hint=left.obstacle)
    segments = "1 segment" if left.segments == 1 else f"{left.segments:,} segments"
    return RunDirectoryError(
        f"{message}; its journal holds {humane.size(left.journal_bytes)} in {segments}",
        hint=f"`{left.remedy}` makes one of it, `{left.way_on}` goes on with the run",
    )
