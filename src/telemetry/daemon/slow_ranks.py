"""Causes of slow steps, judged beside the run, so that its report need not read all steps again."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import Final

from telemetry.aggregator import StreamedRecord
from telemetry.daemon.worker_thread import Worker
from telemetry.errors import RunDirectoryError
from telemetry.history.stragglers import StragglerWatch
from telemetry.store.records import FILE_NAME
from telemetry.store.run_directory import RunDirectory
from telemetry.store.stragglers_file import StragglersFile, write_stragglers
from telemetry.wire.events import Axis, ClosedStep
from telemetry.wire.snapshot import MetricsSnapshot

_LOG = logging.getLogger("telemetry.daemon")
_SECONDS: Final = 60
"""Time from one writing of the file to the next."""
_SHARE: Final = 0.05
"""Share of a core that judging may take. With more steps than that, a report reads the record log."""
_AT_FIRST_S: Final = 2.0
"""Time that judging may take in any case."""


class SlowRanks:
    """A watch of the closed steps of a run. Its work is done by the worker."""

    def __init__(self, directory: RunDirectory, worker: Worker, first_record: int) -> None:
        self._directory = directory
        self._worker = worker
        self._first_record = first_record
        self._watch = StragglerWatch()
        self._began_s = time.monotonic()
        self._used_s = 0.0
        self._is_busy = False
        """True once steps came faster than they can be judged."""
        self._has_steps = False
        self._seconds = 0

    def take(self, streamed: Sequence[StreamedRecord], params: Mapping[str, object]) -> None:
        """Judge the steps among records that were just written."""
        kept = [item for item in streamed if isinstance(item.record, ClosedStep | Axis)]
        if kept and not self._is_busy and not self._worker.submit(lambda: self._judge(kept, params)):
            self._is_busy = True

    def each_second(self, snapshot: MetricsSnapshot | None) -> None:
        """Write the file once a minute."""
        self._seconds += 1
        if self._seconds % _SECONDS == 0 and snapshot is not None:
            self.write(snapshot)

    def write(self, snapshot: MetricsSnapshot) -> None:
        """Write the verdicts on all steps so far. The snapshot has the names of ranks."""
        path = self._directory.records / FILE_NAME
        try:
            log_bytes = path.stat().st_size
        except OSError:  # no record was written
            return
        self._worker.submit(lambda: self._write(snapshot, log_bytes))

    def _judge(self, streamed: Sequence[StreamedRecord], params: Mapping[str, object]) -> None:
        if self._is_busy:
            return
        began_s = time.thread_time()
        for item in streamed:
            if isinstance(item.record, Axis):
                self._watch.declare(item.record, item.producer)
            elif isinstance(item.record, ClosedStep):
                self._has_steps |= bool(item.record.ranks)
                self._watch.add(item.record, params)
        self._used_s += time.thread_time() - began_s
        if self._used_s > _AT_FIRST_S + _SHARE * (time.monotonic() - self._began_s):
            _LOG.info("steps come too fast to be judged beside the run")
            self._is_busy = True

    def _write(self, snapshot: MetricsSnapshot, log_bytes: int) -> None:
        if self._is_busy or not self._has_steps:
            return
        verdicts = self._watch.found(snapshot)
        content = StragglersFile(first_record=self._first_record, log_bytes=log_bytes, stragglers=verdicts)
        try:
            write_stragglers(self._directory, content)
        except RunDirectoryError as error:
            _LOG.warning("%s", error.message)
