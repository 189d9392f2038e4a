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
from telemetry.backends.sources.readings import HistoryReadings
from telemetry.backends.sources.records import Records
from telemetry.backends.sources.sequence import Sequence, SequenceSource
from telemetry.backends.sources.snapshots import window_reading
from telemetry.backends.sources.source import Position, Read
from telemetry.common.headline_choice import shown_params
from telemetry.errors import EndpointError, ProtocolError, RunDirectoryError, TelemetryError
from telemetry.history.interval_source import ControlIntervals
from telemetry.store.run_directory import RunDirectory
from telemetry.transport import ControlClient, Subscription
from telemetry.transport.client import check_welcome
from telemetry.transport.endpoints import refuses, seen_from
from telemetry.transport.record_stream import RecordStream
from telemetry.wire.control import GetHistory, GetStatus, Hello, Status, Welcome
from telemetry.wire.events import StreamRecord
from telemetry.wire.snapshot import TERMINAL, MetricsSnapshot

_ASK_S: Final = 2.0  # longer than any turn of an aggregator's loop
_AGAIN_S: Final = 0.3
_SNAPSHOTS_S: Final = 0.2  # newer snapshots replace older ones undecoded
_TAKEN_AT_ONCE: Final = 1_000
_FAR_NS: Final = (1 << 63) - 1
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
        self._link = LiveLink(endpoint, position.next_record)
        try:
            snapshot = self._link.newest
            self._directory = directory_here(snapshot)
            self.run = _facts(snapshot, self._directory)
            readings = self._readings(snapshot, position)
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
            reads = self._sequence.take(most, last=last)
            reads += self._newest() if len(reads) < most else []
            if last and not reads:
                reads = self._conclude()
            left_s = until_s - time.monotonic()
            if reads or left_s <= 0.0:
                return reads
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

    def _readings(self, snapshot: MetricsSnapshot, position: Position) -> HistoryReadings | None:
        """Return the readings, or None without a history. Raises EndpointError or KeysError."""
        if self._directory is not None:
            return disk_readings(self._directory, position, self.run.started_ns, self._every_s, snapshot)
        past = ControlIntervals(self._link.endpoint)
        try:
            past.keys()
        except ProtocolError:
            past.close()
            return None
        percentiles = percentiles_of(None, snapshot)
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
            reads = conclude(self._sequence, self._directory, self._fallback_dirs, result, live=self._live)
        elif result is not None:
            reads = self._sequence.conclude(result, live=self._live)
        else:
            reads = []
            self._sequence.say("the aggregator is gone and its directory is not accessible here: no result")
        self._over = True
        return reads


def directory_here(snapshot: MetricsSnapshot) -> RunDirectory | None:
    """Return the directory that a snapshot names, if it holds the same run on this machine."""
    if not snapshot.directory:
        return None
    with suppress(RunDirectoryError):
        directory = RunDirectory.open(Path(snapshot.directory))
        if directory.run_id == snapshot.run_id:
            return directory
    return None


def _facts(snapshot: MetricsSnapshot, directory: RunDirectory | None) -> RunFacts:
    if directory is not None:
        return facts_of(directory, snapshot)
    return RunFacts(
        run_id=snapshot.run_id,
        name=snapshot.name,
        started_ns=snapshot.started_ns,
        directory=None,
        params=shown_params(snapshot.params),
    )


class LiveLink:
    """A connection to an aggregator. For one thread only."""

    def __init__(self, endpoint: str, next_seq: int = 0) -> None:
        """Connect. Blocks for the handshake. Raises EndpointError, KeysError or ProtocolError."""
        self.endpoint = endpoint
        self.over = False
        """True if the run is over and all records from its aggregator were returned."""
        self.away_s: float | None = None
        """Seconds without a listener at the address; None while the aggregator seems to be up."""
        self._follows = False
        self._stream: RecordStream | None = None
        self._subscription: Subscription | None = None
        self._away_since = 0.0
        self._again_at = 0.0
        self._look_at = 0.0
        if refuses(endpoint):
            raise EndpointError(f"no aggregator listens at {endpoint}", hint="`telemetry ls` shows the live runs")
        with ControlClient(endpoint) as client:
            self._welcome, self.newest = _greet(client, endpoint)
        self.run_id = self.newest.run_id
        try:
            self._connect(next_seq)
        except TelemetryError:
            self.close()
            raise

    def follow(self) -> None:
        """Keep `newest` up to date, a few times a second. Raises EndpointError."""
        self._follows = True
        self._subscribe()

    @property
    def result(self) -> MetricsSnapshot | None:
        """The result, if the aggregator has sent it."""
        return self.newest if self.newest.state in TERMINAL else None

    @property
    def known(self) -> int:
        """Number after the newest record that was announced."""
        return self._stream.known if self._stream is not None else 0

    def listen(self, next_seq: int, timeout_s: float) -> list[StreamRecord]:
        """Return new records from `next_seq` on, or [] after the timeout, which may be one request longer.

        It also detects the end of the run, and whether the aggregator is down or back. Raises KeysError and
        ProtocolError.
        """
        self._take_newest()
        if self._stream is None:
            time.sleep(timeout_s)
            self._return(next_seq)
            return []
        stream = self._stream
        stream.skip_to(next_seq)
        records: list[StreamRecord] = []
        try:
            while (
                len(records) < _TAKEN_AT_ONCE and (record := stream.recv(0.0 if records else timeout_s)) is not None
            ):
                records.append(record)
        except EndpointError:
            pass  # it does not answer now, but may later: it may be paused
        except TelemetryError:
            if not records:  # otherwise they would be lost; the next call raises the error again
                raise
        if stream.ended:
            self._ended(stream)
        return records

    def hurry(self) -> None:
        """Make the next `listen` ask whether the run is over."""
        if self._stream is not None:
            self._stream.hurry()
        self._again_at = 0.0

    def settle(self) -> None:
        """Wait until the aggregator has written all that it sent so far to its files, or until it is gone."""
        with suppress(TelemetryError), ControlClient(self.endpoint) as client:
            client.request(GetHistory(start_ns=_FAR_NS))  # the answer follows all earlier writes

    def close(self) -> None:
        """Close the connection. May be called twice."""
        if self._stream is not None:
            self._stream.close()
        if self._subscription is not None:
            self._subscription.close()
        self._stream = self._subscription = None

    # --- connect ---------------------------------------------------------------------------------

    def _connect(self, next_seq: int) -> None:
        if self._follows:
            self._subscribe()
        self._stream = RecordStream(self.endpoint, next_seq, _ASK_S)
        self.away_s = None

    def _subscribe(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
        self._subscription = Subscription(seen_from(self._welcome.snapshots, self.endpoint))

    def _return(self, next_seq: int) -> None:
        """Reconnect to a restarted aggregator, if it is up."""
        now_s = time.monotonic()
        self.away_s = now_s - self._away_since
        if now_s < self._again_at:
            return
        self._again_at = now_s + _AGAIN_S
        if refuses(self.endpoint):
            return
        with suppress(EndpointError), ControlClient(self.endpoint) as client:
            welcome, newest = _greet(client, self.endpoint)
            if newest.run_id == self.run_id:  # otherwise the address belongs to another run now
                self._welcome, self.newest = welcome, newest
                self._connect(next_seq)

    def _take_newest(self) -> None:
        """Take the newest snapshot, a few times a second."""
        now_s = time.monotonic()
        if self._subscription is None or now_s < self._look_at:
            return
        self._look_at = now_s + _SNAPSHOTS_S
        snapshot = self._subscription.recv(0.0)
        if snapshot is not None and snapshot.run_id == self.run_id:
            self.newest = snapshot
            if snapshot.state in TERMINAL:
                self.hurry()

    def _ended(self, stream: RecordStream) -> None:
        if stream.gone and self.result is None:
            self._look_at = 0.0
            self._take_newest()  # the last snapshot may have arrived
        if stream.gone and self.result is None:
            self.close()
            self._away_since, self.away_s = time.monotonic(), 0.0
            return
        self.over = True
        if self.result is None:
            with suppress(TelemetryError), ControlClient(self.endpoint) as client:
                self.newest = _status(client)


def _greet(client: ControlClient, endpoint: str) -> tuple[Welcome, MetricsSnapshot]:
    """Shake hands. Raises EndpointError, KeysError or ProtocolError."""
    welcome = check_welcome(client.request(Hello(mono_ns=time.monotonic_ns()), limits.CONTROL_TIMEOUT_S), endpoint)
    return welcome, _status(client)


def _status(client: ControlClient) -> MetricsSnapshot:
    answer = client.request(GetStatus(), limits.CONTROL_TIMEOUT_S)
    if not isinstance(answer, Status):
        raise ProtocolError(f"{client.endpoint} answered status with {type(answer).__name__}")
    return answer.snapshot
