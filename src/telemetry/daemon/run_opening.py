"""Initial state of a run: directory, files and numbers. This module makes that of a new run."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING

from telemetry.aggregator import Aggregator, AggregatorConfig
from telemetry.common.clock import SYSTEM_CLOCK, Clock, boot_id
from telemetry.common.file_lock import FileLock
from telemetry.common.files import opener
from telemetry.config.describe import without_secrets
from telemetry.config.schema import Config
from telemetry.daemon.cost import EarlierCost
from telemetry.daemon.numbers import Numbers
from telemetry.daemon.options import DaemonOptions
from telemetry.errors import RunDirectoryError
from telemetry.redaction import Redactor
from telemetry.store.history import HistoryWriter
from telemetry.store.journal import JournalWriter
from telemetry.store.outbox import DiskOutbox
from telemetry.store.records import RecordLog
from telemetry.store.request_log import RequestLogWriter
from telemetry.store.run_directory import RunDirectory, manifest_for
from telemetry.transport.hub import Hub
from telemetry.wire.journal import RunState

if TYPE_CHECKING:
    from telemetry.daemon.upstream.intervals import Refill


@dataclass(frozen=True)
class OpenedRun:
    """Open resources of a run. All files are open, and the directory is locked until `let_go`."""

    directory: RunDirectory
    let_go: Callable[[], None]
    clock: Clock
    numbers: Numbers
    journal: JournalWriter | None
    history: HistoryWriter | None
    records: RecordLog
    requests: RequestLogWriter
    last_ns: int = 0
    """Newest stamp in the journal."""
    died_ns: int | None = None
    """Time of death of the earlier aggregator of a resumed run, on the run's monotonic clock.

    Read from the journal.
    """
    before: EarlierCost = EarlierCost()  # noqa: RUF009 – frozen
    refill: Refill | None = None
    """Outbox of a leaf, complete up to the end of the journal. None if the run has no root."""


def open_new(options: DaemonOptions, hub: Hub) -> OpenedRun:
    """Open a new run and make its directory. Raise RunDirectoryError, or UsageError for a bad run id."""
    config, clock = options.config, SYSTEM_CLOCK
    now_ns, wall_ns = clock.monotonic_ns(), clock.wall_ns()
    directory, lock = new_directory(options, hub, wall_ns)
    run = RunState(
        run_id=options.run_id,
        name=options.name,
        takes_name=options.takes_name,
        host=socket.gethostname(),
        boot_id=boot_id(),
        started_ns=wall_ns,
        started_mono_ns=now_ns,
        rolled_wall_ns=wall_ns,
        rolled_mono_ns=now_ns,
    )
    numbers = Numbers(Aggregator(aggregator_config(config)), run)
    numbers.aggregator.set_params(options.params)
    with ExitStack() as undo:
        undo.callback(lock.release)
        opening = OpenedRun(
            directory=directory,
            let_go=lock.release,
            clock=clock,
            numbers=numbers,
            journal=open_journal(config, directory, numbers, now_ns) if config.journal.enabled else None,
            history=open_history(config, directory),
            records=RecordLog(directory.records),
            requests=RequestLogWriter(directory.requests),
            last_ns=now_ns,
            refill=open_refill(config, directory),
        )
        undo.pop_all()
    return opening


def new_directory(
    options: DaemonOptions, hub: Hub, started_wall_ns: int, *, latest: bool = True
) -> tuple[RunDirectory, FileLock]:
    """Create and lock a run directory, write its manifest, and start its log. Raises as `open_new`."""
    directory = RunDirectory.create(options.root, options.name, options.run_id, started_wall_ns, latest=latest)
    lock = directory.lock()
    try:
        directory.write_manifest(
            manifest_for(
                directory,
                options.name,
                options.run_id,
                options.command_line,
                hub.address,
                endpoints=list(vars(hub.endpoints).values()),
                config=without_secrets(options.config),
            )
        )
        log_to(directory.log, options.config)
    except BaseException:
        lock.release()
        raise
    return directory, lock


def open_journal(config: Config, directory: RunDirectory, numbers: Numbers, now_ns: int) -> JournalWriter:
    """Open the journal and begin a segment with these numbers."""
    journal = config.journal
    return JournalWriter(directory.journal, numbers.checkpoint(), now_ns, journal.segment_bytes, journal.cap_bytes)


def open_history(config: Config, directory: RunDirectory, *, resume: bool = False) -> HistoryWriter | None:
    """Open the history, or return None if it is off.

    Raises RunDirectoryError for an existing one, except to resume.
    """
    history = config.history
    if not history.enabled:
        return None
    retention_s = {1: history.retention_1s_s, 10: history.retention_10s_s, 60: None}
    return HistoryWriter(directory.history, retention_s, cap_bytes=history.cap_bytes, resume=resume)


def open_refill(config: Config, directory: RunDirectory) -> Refill | None:
    """Open the outbox of a leaf, or return None if the run has no root. Raise RunDirectoryError."""
    upstream = config.upstream
    if not upstream.address:
        return None
    from telemetry.daemon.upstream.intervals import Refill

    outbox = DiskOutbox(directory.upstream, upstream.cap_bytes)
    return Refill(outbox, directory.run_id, spans=upstream.spans)


class _MaskingFormatter(logging.Formatter):
    """A formatter whose lines have no secrets: an error may quote what a program sent."""

    def __init__(self, config: Config) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        redact = config.redact
        self._redactor = Redactor(secrets=redact.secrets, personal=redact.personal, patterns=redact.patterns)

    def format(self, record: logging.LogRecord) -> str:
        return self._redactor.text(super().format(record))


class _LogFile(logging.FileHandler):
    """A log in a run directory."""

    def _open(self) -> TextIOWrapper:
        return TextIOWrapper(
            open(self.baseFilename, "ab", opener=opener(depth=1)), self.encoding, write_through=True
        )


def log_to(path: Path, config: Config) -> None:
    """Write the log of the package to this file from now on. Raise RunDirectoryError."""
    try:
        handler = _LogFile(path, encoding="utf-8")
    except OSError as error:
        raise RunDirectoryError(f"can't write {path}: {error.strerror}") from error
    handler.setFormatter(_MaskingFormatter(config))
    root = logging.getLogger("telemetry")
    root.addHandler(handler)
    root.setLevel(logging.INFO)


def aggregator_config(config: Config) -> AggregatorConfig:
    """Return the settings of a new aggregator."""
    run = config.run
    return AggregatorConfig(
        percentiles=tuple(sorted(run.percentiles, key=float)),
        window_s=run.window_s,
        series_cap=config.limits.series,
        step_grace_s=run.step_grace_s,
        record_cap_bytes=config.records.cap_bytes,
        request_log_cap_bytes=config.run.request_log_cap,
        leaf=bool(config.upstream.address),
    )
