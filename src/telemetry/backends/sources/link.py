"""The connection to a run's aggregator, which may pause, restart as another process, or end."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from telemetry import limits
from telemetry.errors import EndpointError, ProtocolError, TelemetryError
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


class Link:
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
        found: list[StreamRecord] = []
        try:
            while len(found) < _TAKEN_AT_ONCE and (record := stream.recv(0.0 if found else timeout_s)) is not None:
                found.append(record)
        except EndpointError:
            pass  # it does not answer now, but may later: it may be paused
        except TelemetryError:
            if not found:  # otherwise they would be lost; the next call raises the error again
                raise
        if stream.ended:
            self._ended(stream)
        return found

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
