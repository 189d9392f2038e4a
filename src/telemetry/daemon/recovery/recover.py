"""Recovery of the result of a run whose aggregator died: complete history and record log, exact percentiles.

fold of the journal → history, record log completed → exact pass → final_snapshot.json → cleanup of the announcement
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from telemetry.common.clock import SYSTEM_CLOCK
from telemetry.common.formatting import number_of
from telemetry.common.memory import keep_small
from telemetry.config.schema import Config
from telemetry.daemon.cost import rss_bytes
from telemetry.daemon.exact_percentiles import CUT, Refinement, Refiner, another_may_succeed, damage
from telemetry.daemon.recovery.backfill import RESTARTED, Backfill, file_losses, first_segment, journal_losses
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.recovery.resume import Claim, bytes_in, claim, may_lack_producers, restarted, result_of
from telemetry.daemon.run_opening import open_history
from telemetry.daemon.run_status import RunStatus
from telemetry.errors import RunDirectoryError, TelemetryError
from telemetry.store.dead_run import remains
from telemetry.store.final_snapshot import write_final
from telemetry.store.intervals.levels import damaged_bytes
from telemetry.store.journal import JournalReader, append_notes
from telemetry.store.live_runs import forget
from telemetry.store.records import RecordLog
from telemetry.store.request_log import RequestLogWriter
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.transport.endpoints import runtime_directory
from telemetry.wire.codec import carriable, encode_note
from telemetry.wire.snapshot import MetricsSnapshot, SelfCost

_LOOK_EVERY_S: Final = 0.1

OnProgress = Callable[[str, float], None]
"""Callback with the current activity and its completed share. NaN: the share is unknown."""


@dataclass(frozen=True)
class Recovered:
    snapshot: MetricsSnapshot
    written: bool
    """False if a result existed already, which is `snapshot`."""
    refinable: bool = False
    """True if `exact` may find its missing exact percentiles."""


def recover(
    directory: RunDirectory, config: Config, *, exact: bool = False, on_progress: OnProgress = lambda *_: None
) -> Recovered:
    """Write the final file of a dead run. With `exact`, also rewrite one whose percentiles are not exact.

    Blocks for as long as it takes. Raises RunDirectoryError if the run is alive, or its journal can't be read, or
    its directory can't be written. It may be called again then.
    """
    claimed, doubts = _claim(directory, config.run.fallback_dirs)
    with ExitStack() as last:
        last.callback(claimed.let_go)
        result = claimed.result
        if result is not None and (result.exact or not exact):
            return Recovered(result, written=False, refinable=_refinable(result, directory))
        keep_small()
        fold, warnings = _fold(directory, claimed.manifest, config, on_progress)
        snapshot = conclude(directory, fold, [*doubts, *warnings], on_progress)
        if result is not None:
            snapshot = _refined(result, snapshot)
        write_final(snapshot, [directory.final])
        with suppress(TelemetryError):
            forget(runtime_directory(), snapshot.run_id)
    return Recovered(snapshot, written=True)


def _claim(directory: RunDirectory, fallback_dirs: Sequence[str]) -> tuple[Claim, list[str]]:
    """Claim a run directory and return warnings. A missing manifest is replaced by facts from the journal."""
    try:
        directory.read_manifest()
    except RunDirectoryError as error:
        lack = f"{error.message}: run id and name are taken from the journal"
    else:
        return claim(directory.path, fallback_dirs), []
    lock = directory.lock()
    stand_in = Manifest(
        run_id=directory.run_id,
        name=directory.slug,
        config={"history": {"enabled": directory.history.is_dir()}},
    )
    return Claim(directory, lock.release, stand_in, result_of(directory, fallback_dirs)), [lack]


def _refinable(result: MetricsSnapshot, directory: RunDirectory) -> bool:
    return not result.exact and another_may_succeed(result.exact_reason) and remains(directory).recoverable


def _had_history(manifest: Manifest) -> bool:
    section = manifest.config.get("history")
    return not isinstance(section, dict) or bool(section.get("enabled", True))


def _fold(
    directory: RunDirectory, manifest: Manifest, config: Config, on_progress: OnProgress
) -> tuple[Fold, list[str]]:
    """Return the numbers at the end of the journal, with closed books, and warnings about losses.

    Completes the history, the record log and the request log.
    """
    history = open_history(config, directory, resume=True) if _had_history(manifest) else None
    records = RecordLog(directory.records, resume=True)
    requests = RequestLogWriter(directory.requests, resume=True)
    reader = JournalReader(directory.journal)
    try:
        fold = Fold(reader, first_segment(reader, history, records, requests=requests))
    except RunDirectoryError as error:
        raise RunDirectoryError(
            f"can't recover the run: {error.message}", hint=error.hint or "only its history may be left"
        ) from error
    filler = Backfill(history, records, requests)
    total, done = max(1, _journal_bytes(directory)), 0
    for entry in fold.entries():
        filler.take(fold.apply(entry), fold)
        done += entry.size
        on_progress("reading the journal", min(1.0, done / total))
    if may_lack_producers(SYSTEM_CLOCK, fold):
        fold.numbers.run = replace(fold.numbers.run, lost_power=True)
    _note_end(directory, fold)
    filler.take(fold.end_interval(), fold)
    filler.take(fold.close(), fold)
    filler.end(fold)
    if history is not None:
        history.close()
    records.close()
    requests.close()
    return fold, [*_power(fold), *journal_losses(fold), *file_losses(fold, filler), *_damage(directory)]


def _note_end(directory: RunDirectory, fold: Fold) -> None:
    """Append the last notes to the journal, as history and record log are about to contain them.

    Otherwise an aggregator that resumes the run, if recovery fails, would repeat these steps. A damaged or failed
    journal stays unchanged.
    """
    notes = fold.last_notes()
    if notes and not (fold.reader.tail_bytes or fold.reader.failed):
        with suppress(OSError):
            append_notes(directory.journal, [encode_note(note) for note in notes], fold.now_ns)


def _power(fold: Fold) -> Iterator[str]:
    if restarted(SYSTEM_CLOCK, fold):
        yield RESTARTED


def _damage(directory: RunDirectory) -> Iterator[str]:
    """Yield warnings about unreadable parts of a history."""
    with suppress(OSError, RunDirectoryError):
        for path, damaged in damaged_bytes(directory.history).items():
            yield f"can't read {number_of(damaged, 'byte')} of {path}"


def conclude(directory: RunDirectory, fold: Fold, warnings: list[str], on_progress: OnProgress) -> MetricsSnapshot:
    """Return the result of a run by its fold, with exact percentiles."""
    numbers = fold.numbers
    run_status = RunStatus.of(numbers.run, epoch="", directory=carriable(str(directory.path)))
    run_status.follow(fold.how_it_ended())
    run_status.heed_feeds(numbers.aggregator.counters.stats())
    run_status.warn(warnings)
    run_status.lifecycle.to("DRAINING")
    run_status.lifecycle.to("INTERRUPTED" if run_status.interrupted else "COMPLETE")
    refinement = _refine(directory, fold, on_progress)
    numbers.aggregator.series.apply_exact(refinement.values)
    run_status.exact, run_status.exact_reason = refinement.exact, refinement.reason
    run_status.warn(refinement.warnings)
    cost = SelfCost(
        rss_bytes=rss_bytes(),
        frames=numbers.frames,
        frame_bytes=numbers.frame_bytes,
        journal_bytes=_journal_bytes(directory),
        history_bytes=bytes_in(directory.history),
        series=len(numbers.aggregator.series),
        pages=numbers.aggregator.series.pages,
    )
    return numbers.aggregator.snapshot(
        run_status.facts(fold.now_ns, cost), fold.now_ns, numbers.wall_ns(fold.now_ns)
    )


def _refine(directory: RunDirectory, fold: Fold, on_progress: OnProgress) -> Refinement:
    """Run the exact pass without a time limit. Skip it if the last numbers are missing."""
    if fold.reader.tail_damaged:
        return Refinement(exact=False, reason=damage(fold.reader.tail_bytes))
    if fold.numbers.run.unaccounted:
        return Refinement(exact=False, reason=CUT)
    over = threading.Event()
    torn_bytes = fold.reader.tail_bytes
    valueless = fold.numbers.run.valueless_segments
    refiner = Refiner(
        fold.numbers.aggregator, directory.journal, math.inf, over.set, torn_bytes, valueless=valueless
    )
    while not over.wait(_LOOK_EVERY_S):
        on_progress("computing exact percentiles", math.nan)
    assert refiner.outcome is not None
    return refiner.outcome


def _refined(result: MetricsSnapshot, refinement: MetricsSnapshot) -> MetricsSnapshot:
    """Return the result with the exact percentiles found.

    Raises RunDirectoryError if the journal has other values.
    """
    if [(stat.name, stat.labels, stat.count) for stat in result.series] != [
        (stat.name, stat.labels, stat.count) for stat in refinement.series
    ]:
        raise RunDirectoryError("the journal is missing some data of the result: the result is unchanged")
    return replace(result, series=refinement.series, exact=refinement.exact, exact_reason=refinement.exact_reason)


def _journal_bytes(directory: RunDirectory) -> int:
    return sum(path.stat().st_size for path in directory.journal.glob("*.seg"))
