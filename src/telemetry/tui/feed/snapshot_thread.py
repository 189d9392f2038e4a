"""The thread that receives a run's snapshots, and reconnects to an aggregator that was away."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

from telemetry.common.wording import is_silent, looked_at_ns
from telemetry.errors import EndpointError, KeysError, ProtocolError, TelemetryError
from telemetry.transport import ControlClient, Subscription
from telemetry.transport.client import check_welcome
from telemetry.transport.endpoints import refuses, seen_from
from telemetry.tui.feed.news import NewSnapshot, Tell, Trouble, ViewerNote
from telemetry.wire.control import GetStatus, Hello, Status, Welcome
from telemetry.wire.snapshot import BACKEND_ENDED, TERMINAL, BackendStat, MetricsSnapshot

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
