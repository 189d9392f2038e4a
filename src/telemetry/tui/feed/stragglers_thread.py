"""The thread that reads the closed steps of a run and reports its slow ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from threading import Condition, Thread
from typing import Final, Protocol

from telemetry.errors import TelemetryError
from telemetry.history.stragglers import StragglerWatch, has_work_and_wait
from telemetry.store.records import DamagedRecord, RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.transport.record_stream import RecordStream
from telemetry.tui.feed.news import Note, StragglersOf, Tell
from telemetry.wire.events import ClosedStep, StreamRecord
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_PERIOD_S: Final = 1.0
_RETRY_S: Final = 10.0
_AT_ONCE: Final = 1_024  # records
_MOST: Final = 200_000
"""Number of records that are read of an older part of the run, so that a viewer is not busy for minutes."""
_JOIN_S: Final = 1.0


class Records(Protocol):
    """New records of a run."""

    def read(self) -> Iterator[StreamRecord]:
        """Yield the records since the last call. Raises TelemetryError."""

    def close(self) -> None: ...


class DiskRecords:
    """Records from the log of a run on this machine."""

    def __init__(self, directory: RunDirectory) -> None:
        """Open the log. Raises RunDirectoryError if it can't be read."""
        self._log = RecordLog(directory.records)
        self._next = max(0, self._log.next_seq - _MOST)

    def read(self) -> Iterator[StreamRecord]:
        while True:
            begin = self._next
            try:
                page = self._log.read(begin, _AT_ONCE)
                self._next += len(page)
            except DamagedRecord:
                self._next = min(begin + _AT_ONCE, self._log.next_seq)
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
        self._stream.skip_to(max(0, self._stream.known - _MOST))

    def read(self) -> Iterator[StreamRecord]:
        while (record := self._stream.recv(0.0)) is not None:
            yield record

    def close(self) -> None:
        self._stream.close()


class StragglersThread:
    """A reader thread. Once a second, it reports the slow ranks if a window of steps has ended.

    It reads nothing of a run without work and wait. All methods return at once and may be called from any thread.
    """

    def __init__(self, tell: Tell, open_records: Callable[[MetricsSnapshot], Records]) -> None:
        """Prepare the thread. `open_records` may raise TelemetryError; it is tried again then."""
        self._tell = tell
        self._open_records = open_records
        self._changed = Condition()
        self._closing = False
        self._newest: MetricsSnapshot | None = None
        self._watch = StragglerWatch()
        self._records: Records | None = None
        self._thread = Thread(target=self._run, name="telemetry-stragglers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def saw(self, snapshot: MetricsSnapshot) -> None:
        """Take a new snapshot of the run."""
        with self._changed:
            self._newest = snapshot
            self._changed.notify()

    def close(self) -> None:
        """End the thread. Waits at most a second for it."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (snapshot := self._next_snapshot()) is not None:
                if has_work_and_wait(snapshot):
                    wait_s = self._look(snapshot)
                    if snapshot.state in TERMINAL and wait_s < _RETRY_S:
                        return
                    self._pause(wait_s)
        except Exception as error:  # noqa: BLE001 – thread root: a stale verdict would look like the truth
            self._tell(Note(f"looking for slow ranks stopped: {error!r}", bad=True))
        finally:
            if self._records is not None:
                self._records.close()

    def _next_snapshot(self) -> MetricsSnapshot | None:
        """Wait for a snapshot; return None after `close`."""
        with self._changed:
            self._changed.wait_for(lambda: self._closing or self._newest is not None)
            found, self._newest = self._newest, None
            return None if self._closing else found

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._closing, seconds)

    def _look(self, snapshot: MetricsSnapshot) -> float:
        """Read new steps and report the verdict if it may have changed. Return the seconds until the next look."""
        changed = False
        try:
            if self._records is None:
                self._records = self._open_records(snapshot)
            for record in self._records.read():
                if self._closing:
                    return _PERIOD_S
                if isinstance(record.record, ClosedStep):
                    changed |= self._watch.add(record.record, snapshot.params)
        except TelemetryError:
            return _RETRY_S
        finally:
            if changed:
                self._tell(StragglersOf(tuple(self._watch.found(snapshot))))
        return _PERIOD_S
