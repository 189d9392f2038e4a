"""Results of a run's backends. Writers go on after the result is written, and each leaves a final report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from msgspec.structs import replace

from telemetry.common import wording
from telemetry.common.formatting import number_of, printable
from telemetry.errors import RunDirectoryError
from telemetry.store.backends import WriterFolder, writer_folders
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.report import Report
from telemetry.wire.snapshot import BACKEND_ENDED, BackendStat, MetricsSnapshot


def with_backends(snapshot: MetricsSnapshot, run: RunDirectory) -> MetricsSnapshot:
    """Return a result with the newest reports of its writers. Backends without a newer report stay as they are.

    Reads files.
    """
    stats = {stat.name: stat for stat in snapshot.backends}
    for folder in writer_folders(run.path):
        with suppress(RunDirectoryError):
            if stat := _last_word(folder):
                stats[stat.name] = stat
    if not stats:
        return snapshot
    records = max(stat.next_record + stat.queued for stat in (*snapshot.backends, *stats.values()))
    backends = [replace(stat, queued=max(0, records - stat.next_record)) for stat in stats.values()]
    return replace(snapshot, backends=backends)


def of_backends(report: Report) -> Iterator[str]:
    """Yield findings about backends: missing data, and the command that delivers it."""
    for stat in report.snapshot.backends:
        if stat.state in BACKEND_ENDED:
            finding = wording.shortfall(stat, report.directory)
        elif report.final:
            finding = _unfinished(stat)
        else:
            status = wording.backend(stat, report.snapshot.time_ns)
            finding = "" if status.health in ("good", "calm") else f"{printable(stat.name)}: {status}"
        if finding:
            yield finding


def _unfinished(stat: BackendStat) -> str:
    """Return a finding about a writer that had not ended at its last report, although the run had."""
    if stat.state in ("idle", "closing") and not stat.queued:
        return ""
    what = number_of(stat.queued, "record was", "records were") if stat.queued else "not all was"
    why = f" ({printable(stat.last_error)})" if stat.last_error and stat.state == "retrying" else ""
    return f"{printable(stat.name)}: {what} {'not ' if stat.queued else ''}delivered yet at its last report{why}"


def _last_word(folder: WriterFolder) -> BackendStat | None:
    """Return the last report of a writer. A writer that died is marked as `undelivered`."""
    stat = folder.read_status()
    if stat is None or stat.state in BACKEND_ENDED or folder.taken():
        return stat
    return replace(stat, state="undelivered")
