"""The numbers of an ended run, computed again from its journal alone, without writing a file."""

from __future__ import annotations

from msgspec.structs import replace

from telemetry.common.memory import keep_small
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.recovery.recover import OnProgress, conclude
from telemetry.store.journal import JournalReader, segment_files
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.snapshot import MetricsSnapshot


def recompute(
    directory: RunDirectory, result: MetricsSnapshot, on_progress: OnProgress = lambda *_: None
) -> MetricsSnapshot:
    """Return the snapshot that the journal of an ended run gives, with exact percentiles.

    The last moment of the run and the facts about its command come from `result`: the journal may lack them. Blocks
    for as long as it takes. Raises RunDirectoryError if the journal can't be read.
    """
    keep_small()
    fold = Fold(JournalReader(directory.journal))
    total, done = max(1, sum(path.stat().st_size for path in segment_files(directory.journal))), 0
    for entry in fold.entries():
        fold.apply(entry)
        done += entry.size
        on_progress("reading the journal", min(1.0, done / total))
    fold.end_interval()
    fold.close()
    snapshot = conclude(directory, fold, [], on_progress)
    return replace(snapshot, elapsed_s=result.elapsed_s, time_ns=result.time_ns, command=result.command)
