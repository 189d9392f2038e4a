"""A source that reads a run from its directory, finished, dead or live, without its aggregator."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final

from telemetry.backends.backend import RunFacts
from telemetry.backends.sources.readings import HistoryReadings
from telemetry.backends.sources.records import Records
from telemetry.backends.sources.sequence import Sequence, SequenceSource
from telemetry.backends.sources.source import Position, Read
from telemetry.common.headline_choice import shown_params
from telemetry.config.schema import PERCENTILES
from telemetry.errors import RunDirectoryError
from telemetry.history.bounds import is_percentile
from telemetry.history.interval_source import DiskIntervals
from telemetry.store.dead_run import remains
from telemetry.store.final_snapshot import find_final
from telemetry.store.run_directory import Manifest, RunDirectory
from telemetry.transport.keeper_lock import keeper_of
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

NO_HISTORY: Final = "the run has no history: only its result is available, without values over time"
_POLL_S: Final = 0.1
_STATE_S: Final = 0.5
_MOST_PERCENTILES: Final = 32


class DiskSource(SequenceSource):
    """A `Source` of a run directory. It finds new records of a live run within 0.1 s, new readings within 1 s."""

    def __init__(
        self,
        directory: RunDirectory,
        position: Position,
        *,
        every_s: float,
        live: bool = False,
        fallback_dirs: Iterable[str] = (),
    ) -> None:
        """Open the directory. `live`: deliver the result also as a snapshot.

        Raises RunDirectoryError if the run can't be identified or its records can't be read.
        """
        self._directory = directory
        self._live = live
        self._fallback_dirs = tuple(fallback_dirs)
        result = result_of(directory, self._fallback_dirs)
        self.run = facts_of(directory, result)
        readings = disk_readings(directory, position, self.run.started_ns, every_s, result)
        self._sequence = Sequence(Records(directory, position.next_record), readings, position)
        if readings is None:
            self._sequence.say(NO_HISTORY)
        self._over = False
        self._ended = False
        self._look_at = 0.0

    def read(self, most: int, timeout_s: float) -> list[Read]:
        until_s = time.monotonic() + timeout_s
        while not self._over:
            last = self._has_ended()  # checked before reading, so that no item is added in between
            reads = self._sequence.take(most, last=last) or (self._conclude() if last else [])
            left_s = until_s - time.monotonic()
            if reads or left_s <= 0.0:
                return reads
            if not last:
                time.sleep(min(left_s, _POLL_S))
        return []

    def _has_ended(self) -> bool:
        if not self._ended and time.monotonic() >= self._look_at:
            self._ended = is_over(self._directory, self._fallback_dirs)
            self._look_at = time.monotonic() + _STATE_S
        return self._ended

    def _conclude(self) -> list[Read]:
        reads = conclude(self._sequence, self._directory, self._fallback_dirs, live=self._live)
        self._over = True
        return reads


def is_over(directory: RunDirectory, fallback_dirs: Iterable[str]) -> bool:
    """Check whether a run gets no more data.

    It is over if no process has locked its directory, and it has a result or no keeper that would start another
    aggregator.
    """
    if directory.locked():
        return False
    return result_of(directory, fallback_dirs) is not None or not keeper_of(directory.run_id)


def conclude(
    sequence: Sequence,
    directory: RunDirectory,
    fallback_dirs: Iterable[str],
    result: MetricsSnapshot | None = None,
    *,
    live: bool,
) -> list[Read]:
    """Return the result of a finished run, from its directory or else from `result`. `live`: also as a snapshot.

    Without a result, it notes the command that recovers one. Raises RunDirectoryError if the result can't be read.
    """
    result = result_of(directory, fallback_dirs) or result
    if result is None:
        left = remains(directory)
        way = f"; `{left.remedy}` makes one" if left.recoverable else ""
        sequence.say(f"the run died without a result{way}")
        return []
    return sequence.conclude(result, live=live)


def result_of(directory: RunDirectory, fallback_dirs: Iterable[str]) -> MetricsSnapshot | None:
    """Return the result, or None without one. Raises RunDirectoryError if it can't be read."""
    final = find_final(directory, tuple(fallback_dirs))
    result = final.read() if final is not None else None
    return result if result is not None and result.state in TERMINAL else None


def facts_of(directory: RunDirectory, snapshot: MetricsSnapshot | None) -> RunFacts:
    """Return the facts of a run. `snapshot`: a snapshot of the run, if any.

    Raises RunDirectoryError if neither a snapshot nor a manifest exists.
    """
    manifest = _manifest(directory) if snapshot is not None else directory.read_manifest()
    host, name = (manifest.host, manifest.started_as or manifest.name) if manifest is not None else ("", "")
    if snapshot is not None:
        return RunFacts(
            run_id=snapshot.run_id,
            name=name or snapshot.name,
            started_ns=snapshot.started_ns,
            directory=directory.path,
            host=host,
            params=shown_params(snapshot.params),
        )
    assert manifest is not None
    return RunFacts(
        run_id=manifest.run_id,
        name=name,
        started_ns=manifest.started_ns,
        directory=directory.path,
        host=host,
    )


def disk_readings(
    directory: RunDirectory, position: Position, started_ns: int, every_s: float, snapshot: MetricsSnapshot | None
) -> HistoryReadings | None:
    """Return the readings, or None without a history."""
    if not directory.history.is_dir():
        return None
    return HistoryReadings(
        DiskIntervals(directory.history),
        started_ns,
        every_s,
        percentiles_of(directory, snapshot),
        until_ns=position.reading_until_ns,
    )


def percentiles_of(directory: RunDirectory | None, snapshot: MetricsSnapshot | None) -> list[str]:
    """Return the percentiles in the run's settings, which never change during a run.

    Fallbacks are the percentiles of its series, then the defaults.
    """
    manifest = _manifest(directory) if directory is not None else None
    config: Any = manifest.config.get("run", {}) if manifest is not None else {}
    keys = config.get("percentiles", ()) if isinstance(config, dict) else ()
    if not isinstance(keys, list | tuple):
        keys = ()
    if not keys and snapshot is not None:
        keys = tuple(dict.fromkeys(key for stat in snapshot.series for key in stat.percentiles))
    percentiles = [key for key in keys if isinstance(key, str) and is_percentile(key)]
    return percentiles[:_MOST_PERCENTILES] or list(PERCENTILES)


def _manifest(directory: RunDirectory) -> Manifest | None:
    with suppress(RunDirectoryError):
        return directory.read_manifest()
    return None
