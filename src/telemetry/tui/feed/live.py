"""News about a run from its aggregator, or from its files once the aggregator is gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Thread
from typing import Final

from telemetry.common.wording import is_silent, looked_at_ns
from telemetry.errors import EndpointError, KeysError, ProtocolError, RunDirectoryError, TelemetryError
from telemetry.history.interval_source import ControlIntervals, DiskIntervals, IntervalSource
from telemetry.store.run_directory import RunDirectory
from telemetry.transport import ControlClient, Subscription
from telemetry.transport.client import ask_members, check_welcome
from telemetry.transport.endpoints import refuses, seen_from
from telemetry.tui.feed.history_thread import HistoryThread
from telemetry.tui.feed.local_files import GatesWatch, OutputTail, directory_of, members_of, remedy_of, result_of
from telemetry.tui.feed.member_requests import MemberRequests
from telemetry.tui.feed.news import NewsChannel, NewSnapshot, Tell, Trouble, ViewerNote
from telemetry.tui.feed.steps_thread import ControlRecords, DiskRecords, StepRecords, StepsThread
from telemetry.tui.model.scene import SeriesId
from telemetry.wire.control import GetStatus, Hello, MemberFacts, Status, Stop, Welcome
from telemetry.wire.snapshot import BACKEND_ENDED, TERMINAL, BackendStat, MetricsSnapshot

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


_PERIOD_S: Final = 0.2  # the screen is not drawn more often; snapshots in between are conflated, not decoded
_SILENCE_S: Final = 2.0  # an aggregator that is silent for this long is asked whether it is alive
_PERIODS_MISSED: Final = 3  # of an aggregator that publishes less than once a second
_SLICE_S: Final = 0.25  # of a wait, so that closing is quick
_HELLO_S: Final = 1.0  # longer than any turn of an aggregator's loop
_BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0)
_AFTERWARDS_S: Final = 0.5  # between two checks of the writers' files
_JOIN_S: Final = 2.0


class SnapshotThread:
    """A thread that reports each snapshot as `NewSnapshot`, at most five per second, and problems as `Trouble`.

    It ends once the aggregator is gone, the run is over or left a result, and all backends of the run have ended.
    Writers outlive the aggregator and leave their final state beside the result.
    """

    def __init__(
        self,
        endpoint: str,
        tell: Tell,
        saw: Callable[[MetricsSnapshot], None],
        result: Callable[[], MetricsSnapshot | None],
        remedy: Callable[[], str],
    ) -> None:
        """Prepare the thread, which calls these functions.

        `saw` gets each snapshot before it is reported. `result` looks for a result on disk while the aggregator is
        silent. `remedy` returns advice for a run that certainly will not answer again.
        """
        self._endpoint = endpoint
        self._tell = tell
        self._saw = saw
        self._result = result
        self._remedy = remedy
        self._closing = Event()
        self._run_id = ""
        self._over = False
        self._backends: list[BackendStat] = []
        self._words = ""
        """Text of the reported problem."""
        self._failures = 0
        """Failures since the last snapshot."""
        self._thread = Thread(target=self._run, name="telemetry-snapshots", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """End the thread. Waits at most two seconds for it."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                try:
                    self._listen(self._greet())
                except TelemetryError as error:
                    if self._over or self._take_result():
                        self._watch_backends()
                        return
                    self._explain(error)
                    self._closing.wait(_BACKOFF_S[min(self._failures, len(_BACKOFF_S)) - 1])
        except Exception as error:  # noqa: BLE001 – thread root: a viewer that stops must give a reason
            self._tell(ViewerNote(f"stopped listening to the run: {error!r}", bad=True))

    def _greet(self) -> Welcome:
        """Say hello to the aggregator. Reports a first snapshot if the next one may take long.

        Raises EndpointError, KeysError or ProtocolError.
        """
        if refuses(self._endpoint):
            raise EndpointError(f"no aggregator listens at {self._endpoint}")
        with ControlClient(self._endpoint) as client:
            hello = Hello(mono_ns=time.monotonic_ns())
            welcome = check_welcome(client.request(hello, _HELLO_S), self._endpoint)
            self._check(welcome.run_id, welcome.name)
            if _period_s(welcome) > _HELLO_S:
                answer = client.request(GetStatus(), _HELLO_S)
                if isinstance(answer, Status):
                    self._take(answer.snapshot)
        return welcome

    def _listen(self, welcome: Welcome) -> None:
        """Receive snapshots until closed.

        Raises EndpointError after a silence, ProtocolError if another run answers.
        """
        longest_s = patience_s(welcome)
        with Subscription(seen_from(welcome.snapshots, self._endpoint)) as snapshots:
            heard_s = time.monotonic()
            while not self._closing.is_set():
                snapshot = snapshots.recv(_SLICE_S)
                if snapshot is not None:
                    self._check(snapshot.run_id, snapshot.name)
                    self._take(snapshot)
                    heard_s = time.monotonic()
                    self._closing.wait(_PERIOD_S)
                elif time.monotonic() - heard_s > longest_s:
                    raise EndpointError("the aggregator stopped answering")

    def _check(self, run_id: str, name: str) -> None:
        if self._run_id and run_id != self._run_id:
            raise ProtocolError(f"another run, {name}, now answers at this address")
        self._run_id = run_id

    def _watch_backends(self) -> None:
        """Report the result again when backends progress, and while one is silent, until all of them have ended."""
        while any(stat.state not in BACKEND_ENDED for stat in self._backends):
            result = self._result()
            if result is None:  # the run is on another machine
                return
            if result.backends != self._backends or any(_silent(stat, result) for stat in result.backends):
                self._take(result, live=False)
            if self._closing.wait(_AFTERWARDS_S):
                return

    def _take(self, snapshot: MetricsSnapshot, *, live: bool = True) -> None:
        self._over = snapshot.state in TERMINAL
        self._backends = snapshot.backends
        self._failures = 0
        self._saw(snapshot)
        self._tell(NewSnapshot(snapshot, time.monotonic_ns(), live))
        if self._words:
            self._words = ""
            self._tell(Trouble(""))

    def _take_result(self) -> bool:
        result = self._result()
        if result is not None:
            self._take(result, live=False)
        return result is not None

    def _explain(self, error: TelemetryError) -> None:
        """Report a problem, once for each reason."""
        self._failures += 1
        certain = self._failures > len(_BACKOFF_S) and self._remedy()
        reason = str(error) if isinstance(error, KeysError) else error.message
        message = f"{reason}; {certain or 'trying again'}"
        if message != self._words:
            self._words = message
            self._tell(Trouble(message))


def _silent(stat: BackendStat, result: MetricsSnapshot) -> bool:
    return is_silent(stat, looked_at_ns(stat, result))


def patience_s(welcome: Welcome) -> float:
    """Return the longest normal silence of an aggregator."""
    return max(_SILENCE_S, _PERIODS_MISSED * _period_s(welcome))


def _period_s(welcome: Welcome) -> float:
    return 1.0 / welcome.refresh_hz if welcome.refresh_hz > 0 else 0.0
