"""The thread that takes a run's snapshots, and comes back to an aggregator that was away."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

from telemetry.errors import EndpointError, KeysError, ProtocolError, TelemetryError
from telemetry.transport import ControlClient, Subscription
from telemetry.transport.client import check_welcome
from telemetry.transport.endpoints import refuses, seen_from
from telemetry.tui.feed.news import NewSnapshot, Note, Tell, Trouble
from telemetry.wire.control import GetStatus, Hello, Status, Welcome
from telemetry.wire.snapshot import BACKEND_ENDED, TERMINAL, BackendStat, MetricsSnapshot
from telemetry.wording import is_silent, looked_at_ns

_PERIOD_S: Final = 0.2  # no screen is drawn more often; what comes meanwhile is conflated, not decoded
_SILENCE_S: Final = 2.0  # an aggregator that says nothing for this long is asked whether it is there
_PERIODS_MISSED: Final = 3  # of one that publishes less than once a second
_SLICE_S: Final = 0.25  # of a wait, so that closing is quick
_HELLO_S: Final = 1.0  # longer than any turn of an aggregator's loop
_BACKOFF_S: Final = (0.5, 1.0, 2.0, 5.0)
_AFTERWARDS_S: Final = 0.5  # between two looks at what writers leave on disk
_JOIN_S: Final = 2.0


class SnapshotThread:
    """Tells each snapshot as `NewSnapshot`, at most five a second, and why there are none as `Trouble`.

    It ends when the aggregator of a run that is over has gone, or has gone leaving a result, and all of the run's
    backends have ended: their writers go on after it, and leave their last words beside the result.
    """

    def __init__(
        self,
        endpoint: str,
        tell: Tell,
        saw: Callable[[MetricsSnapshot], None],
        result: Callable[[], MetricsSnapshot | None],
        remedy: Callable[[], str],
    ) -> None:
        """On this thread, `saw` gets each snapshot before it is told, `result` looks for a result on disk while
        nobody answers, and `remedy` says what to do about a run that will not answer again, if that is certain."""
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
        """Of the trouble that was told."""
        self._failures = 0
        """Since the last snapshot."""
        self._thread = Thread(target=self._run, name="telemetry-listener", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Waits for the thread, two seconds at most."""
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
        except Exception as error:  # noqa: BLE001 – thread root: a viewer that stands still has to say why
            self._tell(Note(f"the run is no longer listened to: {error!r}", bad=True))

    def _greet(self) -> Welcome:
        """Raises EndpointError, KeysError or ProtocolError. Tells a first snapshot where the next may take long."""
        if refuses(self._endpoint):
            raise EndpointError(f"nobody listens at {self._endpoint}")
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
        """Until it is closed. Raises EndpointError after a silence, ProtocolError if it is another run."""
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
                    raise EndpointError("the aggregator has gone silent")

    def _check(self, run_id: str, name: str) -> None:
        if self._run_id and run_id != self._run_id:
            raise ProtocolError(f"another run answers at this address now, {name}")
        self._run_id = run_id

    def _watch_backends(self) -> None:
        """Tells the result again whenever they have got any further, and while one is silent, until nothing is to
        be expected of them."""
        while any(stat.state not in BACKEND_ENDED for stat in self._backends):
            result = self._result()
            if result is None:  # of a run on another machine
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
        """Once for each reason."""
        self._failures += 1
        certain = self._failures > len(_BACKOFF_S) and self._remedy()
        reason = str(error) if isinstance(error, KeysError) else error.message
        words = f"{reason}; {certain or 'trying again'}"
        if words != self._words:
            self._words = words
            self._tell(Trouble(words))


def _silent(stat: BackendStat, result: MetricsSnapshot) -> bool:
    return is_silent(stat, looked_at_ns(stat, result))


def patience_s(welcome: Welcome) -> float:
    """The longest silence of an aggregator that is well."""
    return max(_SILENCE_S, _PERIODS_MISSED * _period_s(welcome))


def _period_s(welcome: Welcome) -> float:
    return 1.0 / welcome.refresh_hz if welcome.refresh_hz > 0 else 0.0
