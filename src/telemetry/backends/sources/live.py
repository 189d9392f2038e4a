"""A source that reads a live run from its aggregator, and from its directory if this machine can read it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from telemetry import limits
from telemetry.backends.backend import RunFacts
from telemetry.backends.sources.disk import conclude, disk_readings, facts_of, is_over, percentiles_of
from telemetry.backends.sources.link import Link
from telemetry.backends.sources.readings import HistoryReadings
from telemetry.backends.sources.records import Records
from telemetry.backends.sources.sequence import Sequence, SequenceSource
from telemetry.backends.sources.snapshots import window_reading
from telemetry.backends.sources.source import Position, Read
from telemetry.errors import ProtocolError, RunDirectoryError, TelemetryError
from telemetry.headline_choice import shown_params
from telemetry.history.interval_source import ControlIntervals
from telemetry.store.run_directory import RunDirectory
from telemetry.transport.endpoints import refuses
from telemetry.wire.snapshot import MetricsSnapshot

WINDOWS: Final = "the run has no history: readings are those of the window, and are not repeated"
_LIVE_S: Final = 1.0
_SLICE_S: Final = 0.1
_SIGNS_S: Final = 0.2


class LiveSource(SequenceSource):
    """A `Source` of a live run. It waits for an aggregator that is down and continues with its successor.

    With the run directory, it delivers everything, even if the aggregator is killed.
    """

    def __init__(
        self,
        endpoint: str,
        position: Position,
        *,
        every_s: float,
        live: bool = False,
        fallback_dirs: Iterable[str] = (),
    ) -> None:
        """Connect to the run. `live`: deliver snapshots, at most one a second. Blocks for the handshake.

        Raises EndpointError, KeysError, ProtocolError, RunDirectoryError.
        """
        self._live = live
        self._every_s = every_s
        self._fallback_dirs = tuple(fallback_dirs)
        self._link = Link(endpoint, position.next_record)
        try:
            told = self._link.newest
            self._directory = directory_here(told)
            self.run = _facts(told, self._directory)
            readings = self._readings(told, position)
            records = Records(self._directory, position.next_record)
            self._sequence = Sequence(records, readings, position, self._has_history)
            self._windows = readings is None
            if live or self._windows or self._directory is None:
                self._link.follow()
        except TelemetryError:
            self._link.close()
            raise
        if self._windows:
            self._sequence.say(WINDOWS)
        self._shown: MetricsSnapshot | None = None
        self._live_at = self._signs_at = 0.0
        self._settled = self._over = False

    @property
    def known(self) -> int:
        return max(super().known, self._link.known)

    def read(self, most: int, timeout_s: float) -> list[Read]:
        until_s = time.monotonic() + timeout_s
        while not self._over:
            last = self._has_ended()
            found = self._sequence.take(most, last=last)
            found += self._newest() if len(found) < most else []
            if last and not found:
                found = self._conclude()
            left_s = until_s - time.monotonic()
            if found or left_s <= 0.0:
                return found
            if not last:
                self._listen(min(left_s, _SLICE_S))
        return []

    def close(self) -> None:
        super().close()
        self._link.close()

    # --- input -----------------------------------------------------------------------------------

    def _listen(self, timeout_s: float) -> None:
        self._look_for_signs()
        for record in self._link.listen(self._sequence.records.next_seq, timeout_s):
            self._sequence.records.offer(record)
        if self._windows:
            self._add_window()

    def _newest(self) -> list[Read]:
        """Return a newer snapshot if one is due."""
        newest, now_s = self._link.newest, time.monotonic()
        if not self._live or newest is self._shown or now_s < self._live_at:
            return []
        self._shown, self._live_at = newest, now_s + _LIVE_S
        return [self._sequence.live(newest)]

    def _add_window(self) -> None:
        newest = self._link.newest
        steps = int(newest.elapsed_s // self._every_s)
        if steps > 0:
            self._sequence.add_reading(window_reading(newest, steps * self._every_s))

    def _readings(self, told: MetricsSnapshot, position: Position) -> HistoryReadings | None:
        """Return the readings, or None without a history. Raises EndpointError or KeysError."""
        if self._directory is not None:
            return disk_readings(self._directory, position, self.run.started_ns, self._every_s, told)
        past = ControlIntervals(self._link.endpoint)
        try:
            past.keys()
        except ProtocolError:
            past.close()
            return None
        percentiles = percentiles_of(None, told)
        until_ns = position.reading_until_ns
        return HistoryReadings(past, self.run.started_ns, self._every_s, percentiles, until_ns)

    def _has_history(self) -> bool:
        return self._directory is not None or not refuses(self._link.endpoint)

    # --- end -------------------------------------------------------------------------------------

    def _look_for_signs(self) -> None:
        """Look for a result on disk, which exists before the aggregator announces it."""
        now_s = time.monotonic()
        if self._directory is not None and now_s >= self._signs_at:
            self._signs_at = now_s + _SIGNS_S
            if self._directory.final.exists():
                self._link.hurry()

    def _has_ended(self) -> bool:
        """Check whether the data of the run is complete."""
        if self._settled:
            return True
        if self._link.over:
            self._link.settle()
        elif self._link.away_s is None or not self._is_gone(self._link.away_s):
            return False
        if self._directory is None:
            self._sequence.prepare()  # while the aggregator still answers
        self._settled = True
        return True

    def _is_gone(self, away_s: float) -> bool:
        """Check whether an aggregator that has been down for so long will not be replaced."""
        if self._directory is None:
            return away_s > limits.RETURN_S
        if not is_over(self._directory, self._fallback_dirs):
            return False
        return self._directory.final.exists() or away_s > limits.RETURN_S

    def _conclude(self) -> list[Read]:
        result = self._link.result
        if self._directory is not None:
            found = conclude(self._sequence, self._directory, self._fallback_dirs, result, live=self._live)
        elif result is not None:
            found = self._sequence.conclude(result, live=self._live)
        else:
            found = []
            self._sequence.say("the aggregator is gone and its directory is not accessible here: no result")
        self._over = True
        return found


def directory_here(told: MetricsSnapshot) -> RunDirectory | None:
    """Return the directory that a snapshot names, if it holds the same run on this machine."""
    if not told.directory:
        return None
    with suppress(RunDirectoryError):
        directory = RunDirectory.open(Path(told.directory))
        if directory.run_id == told.run_id:
            return directory
    return None


def _facts(told: MetricsSnapshot, directory: RunDirectory | None) -> RunFacts:
    if directory is not None:
        return facts_of(directory, told)
    return RunFacts(
        run_id=told.run_id,
        name=told.name,
        started_ns=told.started_ns,
        directory=None,
        params=shown_params(told.params),
    )
