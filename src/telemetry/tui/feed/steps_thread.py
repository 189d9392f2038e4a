"""The thread that reads the closed steps of a run, and reports their curves and the slow ranks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final, Protocol

from telemetry.errors import TelemetryError
from telemetry.history.step_curves import StepCurves
from telemetry.history.stragglers import StragglerWatch
from telemetry.store.records import DamagedRecord, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.transport.record_stream import RecordStream
from telemetry.tui.feed.news import CurvesOf, StragglersOf, Tell, ViewerNote
from telemetry.tui.feed.reader_thread import ReaderThread
from telemetry.wire.events import Axis, ClosedStep, StreamRecord
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_PERIOD_S: Final = 1.0
_RETRY_S: Final = 10.0
_PROGRESS_S: Final = 0.5
"""Partial curves of a long run are shown this often."""
_SHARE: Final = 20
"""Making curves takes at most one part in this many of the time."""
_AT_ONCE: Final = 512  # records
_MOST: Final = 200_000
"""Newest records in which to look for slow ranks: those that were slow days ago are of no use."""


class StepsThread(ReaderThread):
    """A reader thread. Once a second, it reports the curves and the slow ranks of the steps that were closed.

    It reads nothing of a run without steps. All methods return at once and may be called from any thread.
    """

    def __init__(self, tell: Tell, open_records: Callable[[MetricsSnapshot], StepRecords]) -> None:
        """Prepare the thread. `open_records` may raise TelemetryError; it is tried again then."""
        super().__init__("steps")
        self._tell = tell
        self._open_records = open_records
        self._watch = StragglerWatch()
        self._curves: StepCurves | None = None
        self._records: StepRecords | None = None
        self._told_s = 0.0
        """Time of the last report of curves."""
        self._took_s = 0.0
        """Seconds that it took to make them."""
        self._fed = False
        """True if a step came since the last report."""

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (snapshot := self._next_snapshot()) is not None:
                if snapshot.axes:
                    is_read = self._look(snapshot)
                    if snapshot.state in TERMINAL and is_read:
                        return
                    self._pause(_PERIOD_S if is_read else _RETRY_S)
        except Exception as error:  # noqa: BLE001 – thread root: stale curves would look like the truth
            self._tell(ViewerNote(f"reading the steps stopped: {error!r}", bad=True))
        finally:
            if self._records is not None:
                self._records.close()

    def _next_snapshot(self) -> MetricsSnapshot | None:
        """Wait for a snapshot; return None after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._unseen)
            self._unseen = False
            return None if self._closing else self._newest

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing, seconds)

    def _look(self, snapshot: MetricsSnapshot) -> bool:
        """Read new steps and report them. Return False if the records can't be read now."""
        if self._curves is None:
            self._curves = StepCurves(snapshot.started_ns)
        changed, is_read = False, True
        try:
            if self._records is None:
                self._records = self._open_records(snapshot)
            records = self._records.read()
            while (page := list(islice(records, _AT_ONCE))) and not self._closing:
                self._fed |= self._curves.feed(page)
                changed |= self._watched(page, snapshot)
                if time.monotonic() - self._told_s >= max(_PROGRESS_S, _SHARE * self._took_s):
                    self._tell_curves()
        except TelemetryError:
            is_read = False
            if not self._told_s:
                self._tell(CurvesOf(()))
        if self._closing:
            return False
        if changed:
            self._tell(StragglersOf(tuple(self._watch.found(snapshot))))
        waits = time.monotonic() - self._told_s < _SHARE * self._took_s and snapshot.state not in TERMINAL
        if is_read and not waits:
            self._tell_curves()
        return is_read

    def _watched(self, page: list[StreamRecord], snapshot: MetricsSnapshot) -> bool:
        """Add steps to the search for slow ranks. Return True if that may have changed the verdict."""
        assert self._records is not None
        begin, changed = self._records.known - _MOST, False
        for record in page:
            if isinstance(record.record, Axis):
                self._watch.declare(record.record, record.producer)
            elif isinstance(record.record, ClosedStep) and record.seq >= begin:
                changed |= self._watch.add(record.record, snapshot.params)
        return changed

    def _tell_curves(self) -> None:
        """Report the curves if they have changed."""
        if self._curves is None or not (self._fed or not self._told_s):
            return
        began_s = time.monotonic()
        self._tell(CurvesOf(tuple(self._curves.curves())))
        self._told_s = time.monotonic()
        self._took_s, self._fed = self._told_s - began_s, False


_RECORDS_AT_ONCE: Final = 1_024  # records


class StepRecords(Protocol):
    """New records of a run. The first call of `read` begins with the first record of the run."""

    @property
    def known(self) -> int:
        """Number above the newest known record."""

    def read(self) -> Iterator[StreamRecord]:
        """Yield the records since the last call. Raises TelemetryError."""

    def close(self) -> None: ...


class DiskRecords:
    """Records from the log of a run on this machine."""

    def __init__(self, directory: RunDirectory) -> None:
        """Open the log. Raises RunDirectoryError if it can't be read."""
        self._log = RecordLog(directory.records)
        self._next = 0

    @property
    def known(self) -> int:
        return self._log.next_seq

    def read(self) -> Iterator[StreamRecord]:
        while True:
            begin = self._next
            try:
                page = self._log.read(begin, _RECORDS_AT_ONCE)
                self._next += len(page)
            except DamagedRecord:
                self._next = min(begin + _RECORDS_AT_ONCE, self._log.next_seq)
                page = list(self._singly(begin, self._next))
            if self._next == begin:
                return
            yield from page

    def close(self) -> None:
        self._log.close()

    def _singly(self, begin: int, end: int) -> Iterator[StreamRecord]:
        for seq in range(begin, end):
            with suppress(DamagedRecord):
                yield from self._log.read(seq, 1)


class ControlRecords:
    """Records from the aggregator of a run on another machine."""

    def __init__(self, endpoint: str) -> None:
        """Connect. Raises EndpointError, KeysError or ProtocolError."""
        self._stream = RecordStream(endpoint)

    @property
    def known(self) -> int:
        return self._stream.known

    def read(self) -> Iterator[StreamRecord]:
        while (record := self._stream.recv(0.0)) is not None:
            yield record

    def close(self) -> None:
        self._stream.close()
