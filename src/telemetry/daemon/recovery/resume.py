"""Resume of a run whose aggregator died: same directory, addresses and numbers, with a new epoch.

    lock → manifest → bind → fold of the journal from its last checkpoint → files completed → new segment

Producers see the new epoch, send hello again, and resend what was not acknowledged. Known batches are dropped by
their sequence numbers.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from telemetry.common.clock import SYSTEM_CLOCK, Clock, boot_id
from telemetry.common.formatting import number_of
from telemetry.config.schema import Config
from telemetry.daemon.cost import EarlierCost
from telemetry.daemon.numbers import LATEST_NS
from telemetry.daemon.recovery.backfill import RESTARTED, Backfill, file_losses, first_segment, journal_losses
from telemetry.daemon.recovery.rebuild import Fold
from telemetry.daemon.run_opening import OpenedRun, log_to, open_history, open_journal, open_refill
from telemetry.daemon.upstream.intervals import Refill
from telemetry.errors import RunDirectoryError
from telemetry.store.final_snapshot import find_final
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import JournalReader
from telemetry.store.records import RecordLog
from telemetry.store.request_log import RequestLogWriter
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.transport.endpoints import Endpoints
from telemetry.wire.codec import carriable
from telemetry.wire.journal import RunState
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_LOG = logging.getLogger("telemetry.daemon")
_SNAPSHOTS_UNTOLD: Final = 10_000  # since the last interval: 100 a second through the longest exact pass and drain
_READ_BACK: Final = 1  # segments before the newest: a keeper waits 30 s for a restart
_READ_BACK_LEAF: Final = 4  # for an outbox that was full for a while: what is older counts as missing at the root
# also counts the time that the machine slept
_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


@dataclass(frozen=True)
class Claim:
    """A locked run directory. This process owns it until `let_go`."""

    directory: RunDirectory
    let_go: Callable[[], None]
    manifest: Manifest
    result: MetricsSnapshot | None
    """Result of the run, if it has ended. Then there is nothing to resume."""
    died: int = 0
    """Pid of the process that had the run before. 0: unknown."""

    @property
    def endpoints(self) -> Endpoints:
        """The addresses at which the run's peers look for it. Raises RunDirectoryError."""
        if len(self.manifest.endpoints) != len(Endpoints.__dataclass_fields__):
            raise RunDirectoryError(
                f"{self.directory.manifest} does not contain the address of the run", hint=self.recovery
            )
        return Endpoints(*self.manifest.endpoints)

    @property
    def recovery(self) -> str:
        return f"`telemetry recover {self.directory.path}` makes its result"


def claim(path: Path, fallback_dirs: Sequence[str] = ()) -> Claim:
    """Lock a run directory. If the run has no result, write this process into its manifest.

    The manifest informs processes that can't see the lock. `fallback_dirs` may hold the result, as in `find_final`.
    Raises RunDirectoryError if another aggregator has the run, or the directory can't be read.
    """
    directory = RunDirectory.open(path)
    lock = directory.lock()
    try:
        manifest, result = directory.read_manifest(), result_of(directory, fallback_dirs)
        died = manifest.pid
        if result is None:
            manifest = replace(manifest, host=socket.gethostname(), pid=os.getpid())
            with suppress(RunDirectoryError):  # the files of the run report a full disk
                directory.write_manifest(manifest)
        return Claim(directory, lock.release, manifest, result, died)
    except BaseException:
        lock.release()
        raise


def result_of(directory: RunDirectory, fallback_dirs: Sequence[str] = ()) -> MetricsSnapshot | None:
    """Return the terminal snapshot of a run from any location, or None if no readable one exists."""
    final = find_final(directory, fallback_dirs)
    if final is None:
        return None
    try:
        snapshot = final.read()
    except RunDirectoryError:
        return None
    return snapshot if snapshot.state in TERMINAL else None


def open_again(claimed: Claim, config: Config) -> OpenedRun:
    """Open a run to resume it. Raise RunDirectoryError if its journal can't be used."""
    directory = claimed.directory
    log_to(directory.log, config)
    history, records = open_history(config, directory, resume=True), RecordLog(directory.records, resume=True)
    requests = RequestLogWriter(directory.requests, resume=True)
    history_bytes = bytes_in(directory.history)
    reader = JournalReader(directory.journal)
    refill = open_refill(config, directory)
    try:
        fold = Fold(reader, _first_segment(reader, history, records, requests, refill))
    except RunDirectoryError as error:
        raise RunDirectoryError(
            f"can't resume the run: {error.message}", hint=error.hint or f"its files are in {directory.path}"
        ) from error
    filler = Backfill(history, records, requests)
    if refill is not None:
        refill.begin(fold)
    for entry in fold.entries():
        step = fold.apply(entry)
        filler.take(step, fold)
        if refill is not None:
            refill.take(step, fold)
    filler.end(fold)
    requests.cut(fold.numbers.run.requests)
    if refill is not None:
        refill.end(fold)
    clock = going_on(SYSTEM_CLOCK, fold)
    warnings = [carriable(warning) for warning in _losses(fold, filler, refill)]
    numbers = fold.numbers
    _LOG.info("the run continues with %d events", numbers.aggregator.book.counted_events)
    numbers.run = _beyond_the_journal(numbers.run, filler)
    numbers.run = replace(
        numbers.run,
        snapshot_seq=numbers.run.snapshot_seq + _SNAPSHOTS_UNTOLD,
        # after a machine restart, pids belong to other processes
        watched=numbers.run.watched if clock is SYSTEM_CLOCK else [],
        lost_power=numbers.run.lost_power or may_lack_producers(SYSTEM_CLOCK, fold),
        warnings=list(dict.fromkeys([*numbers.run.warnings, *warnings])),
        boot_id=boot_id(),
        restarts=numbers.run.restarts + 1,
        died=min(max(0, claimed.died), LATEST_NS),  # within the range of a checkpoint, whatever a manifest holds
    )
    now_ns = max(clock.monotonic_ns(), fold.now_ns + 1)
    for producer in numbers.aggregator.book.known:  # producers could not reach a dead aggregator
        numbers.aggregator.ping(producer, now_ns)
    before = _before(fold, bytes_in(directory.journal), history_bytes)
    return OpenedRun(
        directory=directory,
        let_go=claimed.let_go,
        clock=clock,
        numbers=numbers,
        journal=open_journal(config, directory, numbers, now_ns),
        history=history,
        records=records,
        requests=requests,
        last_ns=now_ns,
        died_ns=fold.now_ns,
        before=before,
        refill=refill,
    )


def _first_segment(
    reader: JournalReader,
    history: HistoryWriter | None,
    records: RecordLog,
    requests: RequestLogWriter,
    refill: Refill | None,
) -> int | None:
    """Return the segment at whose head the fold begins, as `first_segment`."""
    back, outbox = (_READ_BACK, None) if refill is None else (_READ_BACK_LEAF, refill.writer.outbox)
    return first_segment(reader, history, records, back, outbox, requests=requests)


def _before(fold: Fold, journal_bytes: int, history_bytes: int) -> EarlierCost:
    """Return the cost of earlier aggregators, from the numbers and file sizes they left."""
    numbers = fold.numbers
    return EarlierCost(
        events=numbers.aggregator.book.counted_events,
        frames=numbers.frames,
        frame_bytes=numbers.frame_bytes,
        journal_bytes=journal_bytes - fold.reader.tail_bytes,
        history_bytes=history_bytes,
    )


def bytes_in(folder: Path) -> int:
    """Return the total size of the files in a folder of the run directory."""
    size = 0
    with suppress(OSError):
        for path in folder.iterdir():
            size += path.stat().st_size
    return size


def _beyond_the_journal(run: RunState, filler: Backfill) -> RunState:
    """Return a state whose next numbers are unused.

    The files may hold more intervals and records than the journal.
    """
    history, records = filler.history, filler.records
    return replace(
        run,
        rolls=run.rolls if history is None else max(run.rolls, history.rolls),
        records=max(run.records, records.next_seq) if records.failed else records.next_seq,
    )


def _losses(fold: Fold, filler: Backfill, refill: Refill | None) -> Iterator[str]:
    """Yield warnings about a completely read journal and about the files beside it."""
    if restarted(SYSTEM_CLOCK, fold):
        yield RESTARTED
    yield from journal_losses(fold)
    yield from file_losses(fold, filler)
    if refill is not None and refill.lost:
        yield f"{number_of(refill.lost, 'interval')} did not reach the root: the journal no longer holds them"


class _ShiftedClock:
    """A clock that continues the run's monotonic time after the machine's clock has started again."""

    def __init__(self, clock: Clock, shift_ns: int) -> None:
        self._clock = clock
        self._shift_ns = shift_ns

    def monotonic_ns(self) -> int:
        return self._clock.monotonic_ns() + self._shift_ns

    def wall_ns(self) -> int:
        return self._clock.wall_ns()


def restarted(clock: Clock, fold: Fold) -> bool:
    """Check whether this or another machine was started since the end of the journal, without ids by the clocks."""
    if clock.monotonic_ns() <= fold.now_ns:
        return True
    before, now = fold.numbers.run.boot_id, boot_id()
    if before and now:
        return before != now
    return clock.wall_ns() - time.clock_gettime_ns(_BOOT_CLOCK) > fold.numbers.wall_ns(fold.now_ns)


def may_lack_producers(clock: Clock, fold: Fold) -> bool:
    """Return whether producers may be missing: the machine restarted before the books were closed."""
    return restarted(clock, fold) and not fold.is_closed


def going_on(clock: Clock, fold: Fold) -> Clock:
    """Return a clock whose monotonic time is later than the journal, by the difference of the wall clock."""
    if not restarted(clock, fold):
        return clock
    away_ns = max(1, clock.wall_ns() - fold.numbers.wall_ns(fold.now_ns))
    return _ShiftedClock(clock, fold.now_ns + away_ns - clock.monotonic_ns())
