"""News of a run from its aggregator; once that is gone, from what it left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Final

from telemetry.errors import RunDirectoryError, TelemetryError
from telemetry.history.interval_source import ControlIntervals, DiskIntervals, IntervalSource
from telemetry.store.run_directory import RunDirectory
from telemetry.transport import ControlClient
from telemetry.tui.feed.history_thread import HistoryThread
from telemetry.tui.feed.local_files import directory_of, remedy_of, result_of
from telemetry.tui.feed.news import Note, Tell
from telemetry.tui.feed.outlet import NewsChannel
from telemetry.tui.feed.output import OutputTail
from telemetry.tui.feed.snapshot_thread import SnapshotThread
from telemetry.tui.model.scene import SeriesId
from telemetry.wire.control import Stop
from telemetry.wire.snapshot import MetricsSnapshot

STOP_REASON: Final = "stopped from the viewer"


class LiveFeed:
    """A `telemetry.tui.feed.news.Feed`. Threads: snapshots, history, output of the command; no socket is shared.

    Where the run's directory can be read here, history comes from there and costs the aggregator nothing.
    """

    def __init__(
        self,
        endpoint: str,
        directory: str = "",
        stop: Callable[[], str] | None = None,
        *,
        fallback_dirs: Sequence[str] = (),
    ) -> None:
        """`directory`: where the run's files may be, beside where its aggregator says. `stop` ends what the run
        belongs to and returns a sentence about that, or raises TelemetryError; None: the aggregator is told."""
        self._endpoint = endpoint
        self._named = directory
        self._fallback_dirs = fallback_dirs
        self._stop = stop or self._stop_by_control
        self._stopping: Thread | None = None
        self._run_id = ""
        self._directory: RunDirectory | None = None
        """On this machine. Set, as the next, by the listener's thread, before anybody hears of the run."""
        self._output: OutputTail | None = None
        self._outlet = NewsChannel()
        tell = self._outlet.tell
        self._history_thread = HistoryThread(tell, self._open_past)
        self._listener = SnapshotThread(endpoint, tell, self._saw, self._result, self._remedy)

    def start(self, tell: Tell) -> None:
        self._outlet.open(tell)
        self._history_thread.start()
        self._listener.start()

    def follow(self, series: SeriesId | None) -> None:
        self._history_thread.follow(series)

    def look_at(self, end_ns: int, seconds: float) -> None:
        self._history_thread.look_at(end_ns, seconds)

    def stop_run(self) -> None:
        """Once at a time."""
        if self._stopping is None or not self._stopping.is_alive():
            self._stopping = Thread(target=self._ask_to_stop, name="telemetry-stop", daemon=True)
            self._stopping.start()

    def close(self) -> None:
        self._outlet.close()
        self._listener.close()
        self._history_thread.close()
        if self._output is not None:
            self._output.close()

    def _ask_to_stop(self) -> None:
        try:
            self._outlet.tell(Note(self._stop()))
        except TelemetryError as error:
            self._outlet.tell(Note(f"the run was not stopped: {error.message}", bad=True))

    def _stop_by_control(self) -> str:
        with ControlClient(self._endpoint) as client:
            client.request(Stop(reason=STOP_REASON))
        return "the run has been asked to end"

    def _open_past(self, snapshot: MetricsSnapshot) -> IntervalSource:
        """On the historian's thread, once the run has been seen."""
        return DiskIntervals(self._directory.history) if self._directory else ControlIntervals(self._endpoint)

    # --- on the listener's thread ----------------------------------------------------------------

    def _saw(self, snapshot: MetricsSnapshot) -> None:
        if not self._run_id:
            self._run_id = snapshot.run_id
            self._directory = directory_of(snapshot.run_id, self._named, snapshot.directory)
            if self._directory is not None:
                self._output = OutputTail(self._directory.path)
                self._output.start(self._outlet.tell)
        self._history_thread.saw(snapshot)

    def _left(self) -> RunDirectory | None:
        """Before anything was heard of the run, its directory is what we were told it is."""
        return self._directory if self._run_id else directory_of("", self._named)

    def _result(self) -> MetricsSnapshot | None:
        run = self._left()
        with suppress(RunDirectoryError):  # half a result is none
            return result_of(run, self._fallback_dirs) if run else None
        return None

    def _remedy(self) -> str:
        run = self._left()
        return remedy_of(run, self._fallback_dirs) if run else ""
