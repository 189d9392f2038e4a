"""News about a run from its aggregator, or from its files once the aggregator is gone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Final

from telemetry.errors import RunDirectoryError, TelemetryError
from telemetry.history.interval_source import ControlIntervals, DiskIntervals, IntervalSource
from telemetry.store.run_directory import RunDirectory
from telemetry.transport import ControlClient
from telemetry.transport.members import ask_members
from telemetry.tui.feed.gates import GatesWatch
from telemetry.tui.feed.history_thread import HistoryThread
from telemetry.tui.feed.local_files import directory_of, members_of, remedy_of, result_of
from telemetry.tui.feed.member_requests import MemberRequests
from telemetry.tui.feed.news import Tell, ViewerNote
from telemetry.tui.feed.news_channel import NewsChannel
from telemetry.tui.feed.output import OutputTail
from telemetry.tui.feed.snapshot_thread import SnapshotThread
from telemetry.tui.feed.step_records import ControlRecords, DiskRecords, StepRecords
from telemetry.tui.feed.steps_thread import StepsThread
from telemetry.tui.model.scene import SeriesId
from telemetry.wire.control import MemberFacts, Stop
from telemetry.wire.snapshot import MetricsSnapshot

STOP_REASON: Final = "stopped from the viewer"


class LiveFeed:
    """A `telemetry.tui.feed.news.NewsFeed` with threads for snapshots, history and the command's output.

    Threads share no socket. If the run's directory is readable here, the history is read from it, which costs the
    aggregator nothing.
    """

    def __init__(
        self,
        endpoint: str,
        directory: str = "",
        stop: Callable[[], str] | None = None,
        *,
        fallback_dirs: Sequence[str] = (),
    ) -> None:
        """Prepare the feed.

        `directory` is where the run's files may be, in addition to the path from the aggregator. `stop` ends the
        run's owner and returns a sentence about it, or raises TelemetryError. None sends the request to the
        aggregator.
        """
        self._endpoint = endpoint
        self._named = directory
        self._fallback_dirs = fallback_dirs
        self._stop = stop or self._stop_by_control
        self._stopping: Thread | None = None
        self._run_id = ""
        self._directory: RunDirectory | None = None
        """Directory on this machine. The listener thread sets it and what reads it before it reports the run."""
        self._output: OutputTail | None = None
        self._gates: GatesWatch | None = None
        self._outlet = NewsChannel()
        tell = self._outlet.tell
        self._history_thread = HistoryThread(tell, self._open_past)
        self._steps = StepsThread(tell, self._open_records)
        self._members = MemberRequests(tell, self._read_members)
        self._listener = SnapshotThread(endpoint, tell, self._saw, self._result, self._remedy)

    def start(self, tell: Tell) -> None:
        self._outlet.open(tell)
        self._history_thread.start()
        self._steps.start()
        self._listener.start()

    def follow(self, series: SeriesId | None) -> None:
        self._history_thread.follow(series)

    def look_at(self, end_ns: int, seconds: float) -> None:
        self._history_thread.look_at(end_ns, seconds)

    def list_members(self, node: str) -> None:
        self._members.ask(node)

    def stop_run(self) -> None:
        """Stop the run. Does nothing while an earlier request is in progress."""
        if self._stopping is None or not self._stopping.is_alive():
            self._stopping = Thread(target=self._ask_to_stop, name="telemetry-stop", daemon=True)
            self._stopping.start()

    def close(self) -> None:
        self._outlet.close()
        self._listener.close()
        self._history_thread.close()
        self._steps.close()
        if self._output is not None:
            self._output.close()
        if self._gates is not None:
            self._gates.close()

    def _read_members(self, node: str) -> list[MemberFacts]:
        """Ask the aggregator; once it is gone, read the result of the leaf."""
        try:
            return ask_members(self._endpoint, node)
        except TelemetryError:
            members = members_of(self._result(), node, self._fallback_dirs)
            if members is None:
                raise
            return members

    def _ask_to_stop(self) -> None:
        try:
            self._outlet.tell(ViewerNote(self._stop()))
        except TelemetryError as error:
            self._outlet.tell(ViewerNote(f"the run was not stopped: {error.message}", bad=True))

    def _stop_by_control(self) -> str:
        with ControlClient(self._endpoint) as client:
            client.request(Stop(reason=STOP_REASON))
        return "stop requested"

    def _open_past(self, snapshot: MetricsSnapshot) -> IntervalSource:
        """Open the history. Called on the history thread, after the first snapshot."""
        return DiskIntervals(self._directory.history) if self._directory else ControlIntervals(self._endpoint)

    def _open_records(self, snapshot: MetricsSnapshot) -> StepRecords:
        """Open the records. Called on the thread that reads steps, after the first snapshot."""
        return DiskRecords(self._directory) if self._directory else ControlRecords(self._endpoint)

    # --- on the snapshot thread ------------------------------------------------------------------

    def _saw(self, snapshot: MetricsSnapshot) -> None:
        if not self._run_id:
            self._run_id = snapshot.run_id
            self._directory = directory_of(snapshot.run_id, self._named, snapshot.directory)
            if self._directory is not None:
                self._output = OutputTail(self._directory.path)
                self._output.start(self._outlet.tell)
                self._gates = GatesWatch(self._directory.path)
                self._gates.start(self._outlet.tell)
        self._history_thread.saw(snapshot)
        self._steps.saw(snapshot)

    def _left(self) -> RunDirectory | None:
        """Return the run's directory. Before the first snapshot, it is the one given by the caller."""
        return self._directory if self._run_id else directory_of("", self._named)

    def _result(self) -> MetricsSnapshot | None:
        run = self._left()
        with suppress(RunDirectoryError):  # a partial result does not count
            return result_of(run, self._fallback_dirs) if run else None
        return None

    def _remedy(self) -> str:
        run = self._left()
        return remedy_of(run, self._fallback_dirs) if run else ""
