"""The values of steps of a live run, from its growing record log."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from telemetry import limits
from telemetry.errors import RunDirectoryError
from telemetry.history.step_curves import StepCurves
from telemetry.store.records import RecordLog
from telemetry.store.run_directory import RunDirectory
from telemetry.wire.pictures import StepCurve

_AT_ONCE: Final = 1_024
_MOST_READS: Final = 64
"""Reads in one call: 65,000 records, less than a second of work."""
_POINTS: Final = 2
"""Points of a curve: gates need its extremes and its ends only."""


class LiveSteps:
    """A reader that goes on where it stopped. Not thread-safe."""

    def __init__(self, directory: RunDirectory) -> None:
        self._directory = directory
        self._log: RecordLog | None = None
        self._next = 0
        self._curves = StepCurves(points=_POINTS, names=limits.STEP_NAMES_KNOWN)

    def curves(self) -> Sequence[StepCurve] | None:
        """Return the curves so far, or None if the record log can't be read. Blocks on the disk."""
        try:
            self._log = self._log or RecordLog(self._directory.records)
            for _ in range(_MOST_READS):
                records = self._log.read(self._next, _AT_ONCE)
                self._curves.feed(records)
                self._next += len(records)
                if len(records) < _AT_ONCE:
                    break
        except RunDirectoryError:
            return None
        return self._curves.curves()
