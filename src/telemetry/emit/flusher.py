"""The one thread that owns the sockets: it sends what waits, listens, and says goodbye."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from telemetry import limits
from telemetry.emit import notice
from telemetry.emit.conversation import Conversation, Link
from telemetry.emit.outbox import Outbox
from telemetry.errors import EndpointError, TelemetryError
from telemetry.transport.endpoints import ipc_path
from telemetry.wire.control import Ended, Hello, Welcome

_LISTEN_S: Final = 0.02  # while it ends: answers are taken at once, and the pipe is tried this often
_PROBE_S: Final = 0.5
_GONE_AFTER_S: Final = 2.0  # an address that was taken down, and stays so, belongs to nobody who will come back
_SHARE_FOR_END: Final = 0.2  # of the time to finish, kept for the aggregator's answer
_LAST_BYTES_S: Final = 1.0
_LONGEST_NAP_S: Final = 0.25  # the buffer's bound, the end of the run and the sign of life wait no longer than that
_END_OF_RUN_S: Final = limits.DRAIN_TIMEOUT_S  # the aggregator waits no longer than that


@dataclass(frozen=True)
class Ending:
    """How a producer's end went. `account` is None if the aggregator did not answer; `reason` says why."""

    account: Ended | None
    reason: str = ""


@dataclass(frozen=True)
class FlusherParts:
    """What a flusher is made of. `connect` runs on its thread; `refuses` tells a dead address from a slow one."""

    endpoint: str
    hello: Hello
    outbox: Outbox
    connect: Callable[[], Link]
    refuses: Callable[[str], bool]
    period_s: float
    connect_timeout_s: float | None
    """After this long without a welcome it gives up; None never does."""
    on_given_up: Callable[[TelemetryError], object]
    """The thread ends: nobody empties the buffer any more. Whoever waits for the welcome gets the error as well."""
    on_run_over: Callable[[], object]
    """The run ends although this process has not finished: what it records from now on is late."""


class Flusher:
    """Runs until `finish` or until it gives up. Methods are for other threads and don't touch the sockets."""

    def __init__(self, parts: FlusherParts) -> None:
        self.outbox = parts.outbox
        self._parts = parts
        self._woken = threading.Event()
        self.wake = self._woken.set
        self._decided = threading.Event()
        self._finished = threading.Event()
        self._finish_by: float | None = None
        self._give_up = False
        self._errors = 0
        self._failure: TelemetryError | None = None
        self.welcomed = False
        """The aggregator has answered once."""
        self._conversation: Conversation | None = None
        self._ending = Ending(None, "the flusher has not run")
        self._thread = threading.Thread(target=self._run, name="telemetry-flusher", daemon=True)

    # --- for other threads -----------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    @property
    def over(self) -> bool:
        """Whether it takes nothing new."""
        return self._finish_by is not None or self._finished.is_set()

    @property
    def welcome(self) -> Welcome | None:
        return self._conversation.welcome if self._conversation else None

    def wait_for_welcome(self, timeout_s: float) -> Welcome:
        """Blocks until the aggregator has answered. Raises EndpointError or ProtocolError."""
        self._decided.wait(timeout_s)
        if self._failure is not None:
            raise self._failure
        welcome = self.welcome
        if welcome is None:
            raise unreachable(self._parts.endpoint, timeout_s)
        return welcome

    def stop(self) -> None:
        """Lets go of the sockets without a goodbye: nobody answered."""
        self._give_up = True
        self.wake()
        self._finished.wait(_LAST_BYTES_S)

    def finish(self, timeout_s: float) -> Ending:
        """Sends what is here, says end, waits for the account. Bounded by `timeout_s`, and by a second more."""
        if self._finish_by is None:
            self._finish_by = time.monotonic() + timeout_s
        self.wake()
        if not self._finished.wait(timeout_s + _LAST_BYTES_S):
            return Ending(None, f"the flusher did not end within {timeout_s:g} s")
        return self._ending

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._converse(self._parts.connect())
        except TelemetryError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 – thread root: the buffer must not fill for nobody
            self._fail(EndpointError(f"the flusher for {self._parts.endpoint} failed: {error!r}"))
        self._finished.set()

    def _converse(self, link: Link) -> None:
        """From hello to end. Raises the TelemetryError for which it gave up."""
        talk = Conversation(
            link, self._parts.outbox, self._parts.hello, self._parts.endpoint, on_welcome=self._welcome_came
        )
        self._conversation = talk
        linger_s = 0.0
        try:
            self._live(talk)
            if not self._give_up:
                self._ending = self._end(talk)
                linger_s = 0.0 if self._ending.account else _LAST_BYTES_S
        finally:
            link.close(linger_s)

    def _live(self, talk: Conversation) -> None:
        started = time.monotonic()
        patience_s = self._parts.connect_timeout_s
        while self._finish_by is None and not self._give_up:
            self._guarded(talk)
            if talk.refused is not None:
                raise talk.refused
            if talk.run_over:
                self._parts.on_run_over()
                self._finish_by = time.monotonic() + _END_OF_RUN_S
                return
            waited_s = time.monotonic() - started
            if patience_s is not None and not self._decided.is_set() and waited_s > patience_s:
                raise unreachable(self._parts.endpoint, patience_s)
            if not self._decided.is_set():
                talk.step(min(_LISTEN_S, self._parts.period_s))
            else:
                self._woken.wait(min(self._parts.period_s, _LONGEST_NAP_S))
            self._woken.clear()

    def _guarded(self, talk: Conversation) -> None:
        """One turn. An error in it must not end the thread: the buffer would grow and nobody would know why."""
        try:
            self._turn(talk)
        except Exception as error:  # noqa: BLE001 – the outbox has counted what it had taken; said once
            self._errors += 1
            if self._errors == 1:
                notice.warn(f"the flusher failed and goes on: {error!r}")

    def _turn(self, talk: Conversation) -> None:
        """Sends until less than a full batch is waiting. Each call into a socket lets other threads take the
        interpreter for milliseconds, so the aggregator is listened to once a period, not once a batch."""
        listen_at = 0.0
        while True:
            now = time.monotonic()
            if now >= listen_at:
                listen_at = now + self._parts.period_s
                talk.step()
            self.outbox.settle()
            if not talk.flush():
                return

    # --- the end ---------------------------------------------------------------------------------

    def _end(self, talk: Conversation) -> Ending:
        end_by = self._finish_by or time.monotonic()
        flush_by = end_by - _SHARE_FOR_END * max(0.0, end_by - time.monotonic())
        watch = _GoneWatch(self._parts.endpoint, self._parts.refuses, talk)
        while not talk.all_sent and time.monotonic() < flush_by and not watch.gone():
            self._guarded(talk)
            if not talk.all_sent:
                talk.step(_LISTEN_S)
        talk.say_end()
        while talk.ended is None and time.monotonic() < end_by and not watch.gone():
            talk.step(_LISTEN_S)
            talk.flush()
        if talk.ended is not None:
            return Ending(talk.ended)
        if watch.gone():
            return Ending(None, f"nobody listens at {self._parts.endpoint} any more")
        return Ending(None, f"{self._parts.endpoint} did not acknowledge the end in time")

    def _welcome_came(self) -> None:
        self.welcomed = True
        self._decided.set()

    def _fail(self, error: TelemetryError) -> None:
        self._failure = error
        self._ending = Ending(None, error.message)
        self._decided.set()
        self._finished.set()
        self._parts.on_given_up(error)


class _GoneWatch:
    """Tells an aggregator that is gone from one that is stopped or busy: the address of the former refuses.

    One that was killed may be started again, and leaves the file of an ipc address behind; one that ended takes it
    along, and so does whoever has given up starting it.
    """

    def __init__(self, endpoint: str, refuses: Callable[[str], bool], talk: Conversation) -> None:
        self._endpoint = endpoint
        self._refuses = refuses
        self._talk = talk
        self._heard_ns = -1
        self._probe_at = 0.0
        self._refused_since: float | None = None

    def gone(self) -> bool:
        now = time.monotonic()
        if self._talk.heard_ns != self._heard_ns:
            self._heard_ns = self._talk.heard_ns
            self._refused_since = None
            self._probe_at = now + _PROBE_S
        if now >= self._probe_at:
            self._probe_at = now + _PROBE_S
            if not self._refuses(self._endpoint):
                self._refused_since = None
            elif self._refused_since is None:
                self._refused_since = now
        return self._refused_since is not None and now - self._refused_since >= self._patience_s()

    def _patience_s(self) -> float:
        path = ipc_path(self._endpoint)
        return _GONE_AFTER_S if path is not None and not path.exists() else limits.RETURN_S


def unreachable(endpoint: str, waited_s: float) -> EndpointError:
    return EndpointError(
        f"no aggregator answers at {endpoint} within {waited_s:g} s",
        hint="start one with `telemetry serve` or unset TELEMETRY_ENDPOINT, or pass required=False",
    )
