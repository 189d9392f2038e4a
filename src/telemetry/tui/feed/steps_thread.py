"""The thread that reads the closed steps of a run, and reports their curves and the slow ranks."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice
from typing import Final

from telemetry.errors import TelemetryError
from telemetry.history.step_curves import StepCurves
from telemetry.history.stragglers import StragglerWatch
from telemetry.tui.feed.news import CurvesOf, StragglersOf, Tell, ViewerNote
from telemetry.tui.feed.reader_thread import ReaderThread
from telemetry.tui.feed.step_records import StepRecords
from telemetry.wire.events import ClosedStep, StreamRecord
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
            if isinstance(record.record, ClosedStep) and record.seq >= begin:
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
