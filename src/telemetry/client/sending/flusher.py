"""The thread that owns the sockets: it sends the backlog, receives answers, and ends the producer."""

from __future__ import annotations

import math
import shlex
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from telemetry import limits
from telemetry.client import user_warnings
from telemetry.client.sending.outbox import Outbox
from telemetry.client.sending.session import Link, ProducerSession
from telemetry.common.formatting import number_of
from telemetry.errors import EndpointError, NoRoomError, TelemetryError
from telemetry.transport.endpoints import ipc_path
from telemetry.wire.control import Ended, Hello, Welcome
from telemetry.wire.drop_reasons import Reason

_LISTEN_S: Final = 0.02  # while it ends: waits this long for an answer before the pipe is tried again
_PROBE_S: Final = 0.5
_AGAIN_S: Final = 0.1  # between two attempts to get descriptors
_GONE_AFTER_S: Final = 2.0  # an address file that was removed and stays away means that no aggregator will return
_SHARE_FOR_END: Final = 0.2  # of the time to finish, kept for the aggregator's answer
_LAST_BYTES_S: Final = 1.0
_LONGEST_NAP_S: Final = 0.25  # the buffer's bound, the end of the run and the ping wait no longer than that
_END_OF_RUN_S: Final = limits.RESTART_TIMEOUT_S + limits.DRAIN_TIMEOUT_S
"""Longest time that the aggregator waits, including one that is restarted and drains again."""


@dataclass(frozen=True)
class ProducerEnding:
    """Outcome of a producer's end. `account` is None if the aggregator did not answer; `reason` tells why."""

    account: Ended | None
    reason: str = ""
    sent: int = 0
    """Number of events that were not dropped, with or without a sequence number."""
    taken: int = 0
    """Number of these events that the aggregator has acknowledged. They are in the journal, if there is one."""
    unsent: int = 0
    """Number of events that were dropped because there was no time to send them."""
    left: str = ""
    """Directory of a run whose aggregator is dead and that no known process would restart."""
    is_over: bool = False
    """True if nobody will ask for these events again: the end was acknowledged, or there is no aggregator left."""

    @property
    def unacknowledged(self) -> int:
        return max(0, self.sent - self.taken)

    @property
    def remedy(self) -> str:
        """Command that makes a result of the acknowledged events. Empty if the aggregator may still make it."""
        if not self.left:
            return ""
        return f"`telemetry recover {shlex.quote(self.left)}` makes a result of the events that arrived"

    def in_words(self) -> str:
        """Return a message about lost events and a remedy. Empty if there is nothing to report."""
        if self.account is not None or not (self.unacknowledged or self.left):
            return ""
        if self.unacknowledged:
            events = number_of(self.unacknowledged, "event was", "events were")
            what = f"{events} not acknowledged and may be lost: {self.reason}"
        else:
            what = f"{self.reason}; all events were acknowledged"
        return "; ".join(filter(None, (what, self.remedy)))


@dataclass(frozen=True)
class FlusherParts:
    """Configuration of a flusher. `connect` runs on its thread. `refuses` tells a dead address from a slow one."""

    endpoint: str
    hello: Hello
    outbox: Outbox
    connect: Callable[[], Link]
    refuses: Callable[[str], bool]
    period_s: float
    kept: Callable[[str], bool]
    """Predicate: a process exists that would restart the aggregator for this run id."""
    connect_timeout_s: float | None
    """Time without a welcome after which the flusher gives up. None: never."""
    on_given_up: Callable[[TelemetryError], object]
    """Callback for a thread that ends early and stops emptying the buffer.

    A caller that awaits the welcome gets the error too.
    """
    on_run_over: Callable[[], object]
    """Callback for the end of a run that ends before this process has finished. Later events are late."""
    ends_with_run: bool = False
    """True for a process that outlives its work. Its account is complete even if the run ends first."""
    records_on: Callable[[], bool] = lambda: False
    """Predicate for such a process: it records on after the end of the run. Blocks for a moment."""
    on_turn: Callable[[], object] = lambda: None
    """Regular work of other components.

    It must not wait for room in the buffer, because this thread makes the room.
    """


class _Packing:
    """A wait for the moment when all events of the queue are in batches."""

    def __init__(self) -> None:
        self.targets: tuple[int, int] | None = None
        """Numbers of taken rows and records that end the wait; None until the flusher has read them.

        Rows and records have queues of their own, so newer rows may be taken before older records.
        """
        self.batches = 0
        self.done = threading.Event()


class Flusher:
    """The sending thread.

    Runs until `finish` or until it gives up. Methods are for other threads and use no socket.
    """

    def __init__(self, parts: FlusherParts) -> None:
        self.outbox = parts.outbox
        self._parts = parts
        self._woken = threading.Event()
        self.wake = self._woken.set
        self._decided = threading.Event()
        self._finished = threading.Event()
        self._finish_by: float | None = None
        self._give_up = False
        self._is_ended_by_run = False
        """True if the run ended before `finish` was called."""
        self._name = ""
        """Name that the program has chosen since the hello. The session takes it at its next turn."""
        self._packings: list[_Packing] = []
        """Waits of other threads, the oldest first. Unlike a deque, a list can be copied while a thread appends."""
        self._errors = 0
        self._nap_s = min(parts.period_s, _LONGEST_NAP_S)
        self._failure: TelemetryError | None = None
        self.welcomed = False
        """True once the aggregator has answered."""
        self._conversation: ProducerSession | None = None
        self._is_abandoned = False
        """True once the message about the missing aggregator was printed."""
        self._ending: ProducerEnding | None = None
        self._thread = threading.Thread(target=self._run, name="telemetry-flusher", daemon=True)

    # --- for other threads -----------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    @property
    def over(self) -> bool:
        """True if the flusher accepts no more events."""
        return self._finish_by is not None or self._finished.is_set()

    def rename(self, name: str) -> None:
        """Introduce this producer by a name that the program has chosen."""
        self._name = name
        self.wake()

    @property
    def hello(self) -> Hello:
        """Message with which this producer introduces itself."""
        return self._parts.hello

    @property
    def welcome(self) -> Welcome | None:
        return self._conversation.welcome if self._conversation else None

    @property
    def run(self) -> Welcome | None:
        """Last welcome of any aggregator, which describes the run. None before the first."""
        return self._conversation.run if self._conversation else None

    def wait_for_welcome(self, timeout_s: float) -> Welcome:
        """Block until the aggregator has answered. Raise EndpointError or ProtocolError."""
        self._decided.wait(timeout_s)
        if self._failure is not None:
            raise self._failure
        welcome = self.welcome
        if welcome is None:
            raise unreachable(self._parts.endpoint, timeout_s)
        return welcome

    @property
    def silent(self) -> bool:
        """True if the aggregator has never answered, or has left pings unanswered."""
        session = self._conversation
        return session is None or session.welcome is None or session.silent

    def await_packed(self, timeout_s: float) -> int | None:
        """Return a number of batches that hold all events recorded before this call, or None after the timeout.

        Blocks until the flusher has made the batches. The aggregator may not have them yet.
        """
        packing = _Packing()
        self._packings.append(packing)
        self.wake()
        return packing.batches if packing.done.wait(timeout_s) else None

    def await_end(self, timeout_s: float) -> ProducerEnding | None:
        """Wait until this producer has ended. Return None after the timeout. Blocks; does not end the producer."""
        self._finished.wait(timeout_s)
        return self._ending

    def stop(self) -> None:
        """Close the sockets without an end message, because the aggregator never answered."""
        self._give_up = True
        self.wake()
        self._finished.wait(_LAST_BYTES_S)

    def finish(self, timeout_s: float) -> ProducerEnding:
        """Send the backlog, send the end, and wait for the account.

        Blocks for at most `timeout_s` plus one second.
        """
        finish_by = time.monotonic() + timeout_s
        self._finish_by = finish_by if self._finish_by is None else min(self._finish_by, finish_by)
        self.wake()
        self._finished.wait(timeout_s + _LAST_BYTES_S)
        return self._ending or self._unanswered(f"the flusher did not finish within {timeout_s:g} s")

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._converse(self._connected())
        except TelemetryError as error:
            self._fail(error)
        except Exception as error:  # noqa: BLE001 – thread root: nothing empties the buffer after this
            self._fail(EndpointError(f"the flusher for {self._parts.endpoint} failed: {error!r}"))
        self._finished.set()

    def _connected(self) -> Link:
        """Return the sockets. Wait for descriptors if there are none.

        Meanwhile, events stay in the buffer, up to its bound. Raises NoRoomError if descriptors are still missing
        two seconds after the process has begun to finish.
        """
        give_up_at = math.inf
        while True:
            try:
                return self._parts.connect()
            except NoRoomError:
                if self._finish_by is not None:
                    give_up_at = min(give_up_at, time.monotonic() + _GONE_AFTER_S, self._finish_by)
                if self._give_up or time.monotonic() >= give_up_at:
                    raise
                self.outbox.settle()
                self._woken.wait(_AGAIN_S)
                self._woken.clear()

    def _converse(self, link: Link) -> None:
        """Run the protocol from hello to end. Raise the TelemetryError that made it give up."""
        session = ProducerSession(
            link, self._parts.outbox, self._parts.hello, self._parts.endpoint, on_welcome=self._welcome_came
        )
        self._conversation = session
        linger_s = 0.0
        try:
            watch = _GoneWatch(self._parts, session)
            self._live(session, watch)
            if not self._give_up:
                self._ending = self._end(session, watch)
                linger_s = 0.0 if self._ending.account or watch.refused else _LAST_BYTES_S
        finally:
            link.close(linger_s)

    def _live(self, session: ProducerSession, watch: _GoneWatch) -> None:
        started = time.monotonic()
        patience_s = self._parts.connect_timeout_s
        while self._finish_by is None and not self._give_up:
            self._guarded(lambda: self._turn(session))
            if session.refused is not None:
                raise session.refused
            if session.run_over:
                self._is_ended_by_run = self._finish_by is None
                self._parts.on_run_over()
                self._finish_by = time.monotonic() + _END_OF_RUN_S
                return
            waited_s = time.monotonic() - started
            if patience_s is not None and not self._decided.is_set() and waited_s > patience_s:
                raise unreachable(self._parts.endpoint, patience_s)
            if not self._decided.is_set():
                session.step(min(_LISTEN_S, self._parts.period_s))
            else:
                self._woken.wait(self._nap_s)
                self._look_after(session, watch)
            self._woken.clear()

    def _look_after(self, session: ProducerSession, watch: _GoneWatch) -> None:
        """Print one message if no process takes the events any more and none would restart the aggregator."""
        if self._is_abandoned or not session.silent:
            return
        if session.run is not None and watch.gone():
            self._is_abandoned = True
            if left := watch.left_behind():
                user_warnings.warn(
                    f"the aggregator at {self._parts.endpoint} is gone. Events are buffered in "
                    f"this process until `telemetry serve --resume {shlex.quote(left)}`; once the "
                    "buffer is full, events are dropped"
                )

    def _guarded(self, work: Callable[[], object]) -> None:
        """Run `work` and report an exception once.

        An error must not end the thread, or the buffer would fill silently.
        """
        try:
            work()
        except Exception as error:  # noqa: BLE001 – the outbox has counted its events; reported once
            self._errors += 1
            if self._errors == 1:
                user_warnings.warn(f"the flusher failed and was restarted: {error!r}")

    def _turn(self, session: ProducerSession) -> None:
        """Send until less than a full batch is left, or the run is over.

        Each socket call lets other threads take the interpreter for milliseconds, so the flusher receives once per
        period, not once per batch. It calls `on_turn` as often, because a high event rate may last as long as the
        program.
        """
        listen_at = 0.0
        while True:
            now = time.monotonic()
            if now >= listen_at:
                listen_at = now + self._nap_s
                if self._name:
                    name, self._name = self._name, ""
                    session.rename(name)
                session.step()
                self._guarded(self._parts.on_turn)
            self.outbox.settle()
            self._read_targets()
            goes_on = session.flush()
            self._end_packings()
            if not goes_on or (self._finish_by is None and self._unwanted(session)):
                return

    def _read_targets(self) -> None:
        """Note for each new wait which events must leave the queue. Only this thread takes events out of it."""
        outbox = self.outbox
        for packing in list(self._packings):
            if packing.targets is None:
                packing.targets = outbox.rows_taken + outbox.waiting, outbox.records_taken + len(outbox.records)

    def _end_packings(self) -> None:
        packings, outbox = self._packings, self.outbox
        while packings and packings[0].targets is not None:
            rows, records = packings[0].targets
            if outbox.rows_taken < rows or outbox.records_taken < records:
                return
            packing = packings.pop(0)
            packing.batches = outbox.next_seq
            packing.done.set()

    def _unwanted(self, session: ProducerSession) -> bool:
        """Check whether events from now on have no receiver."""
        return session.run_over or session.refused is not None or self._give_up

    # --- the end ---------------------------------------------------------------------------------

    def _end(self, session: ProducerSession, watch: _GoneWatch) -> ProducerEnding:
        began = time.monotonic()
        while not session.all_sent and self._left_s(began) > 0 and not watch.gone():
            if session.refused is not None:
                raise session.refused
            self._guarded(lambda: self._turn(session))
            if not session.all_sent:
                session.step(_LISTEN_S)
        sent = _sent(self.outbox)
        records_on = self._is_ended_by_run and (not self._parts.ends_with_run or self._parts.records_on())
        session.say_end(unfinished=records_on)
        session.step()  # at least once, even if no time is left
        while session.ended is None and self._left_s() > 0 and not watch.gone(saying_end=True):
            if session.refused is not None:
                raise session.refused
            session.step(_LISTEN_S)
            session.flush()
        if session.ended is not None:
            unsent = self.outbox.dropped.get(Reason.UNSENT_AT_EXIT.value, 0)
            return ProducerEnding(session.ended, unsent=unsent, is_over=True)
        if watch.gone(saying_end=True) or watch.refused:
            reason = f"the aggregator at {self._parts.endpoint} is gone"
            left = watch.left_behind()
            return ProducerEnding(None, reason, sent, session.ring.taken, left=left, is_over=not left)
        return ProducerEnding(
            None, f"{self._parts.endpoint} did not acknowledge the end in time", sent, session.ring.taken
        )

    def _left_s(self, began: float | None = None) -> float:
        """Return the rest of the time to finish, which `finish` may shorten.

        With `began`, subtract the share for the end.
        """
        end_by = self._finish_by or 0.0
        share_s = 0.0 if began is None else _SHARE_FOR_END * max(0.0, end_by - began)
        return end_by - share_s - time.monotonic()

    def _unanswered(self, reason: str) -> ProducerEnding:
        session = self._conversation
        taken = session.ring.taken if session is not None else 0
        return ProducerEnding(None, reason, _sent(self.outbox), taken, is_over=not self.welcomed)

    def _welcome_came(self) -> None:
        self.welcomed = True
        self._decided.set()

    def _fail(self, error: TelemetryError) -> None:
        self._failure = error
        self._ending = self._unanswered(error.message)
        self._decided.set()
        self._finished.set()
        self._parts.on_given_up(error)


class _GoneWatch:
    """A detector of aggregators that are gone, as opposed to stopped, busy or about to be restarted.

    The address of a gone aggregator refuses connections. A killed aggregator leaves the file of its ipc address
    behind. An aggregator that ended removes the file, and so does a keeper that has given up restarting it. While a
    keeper exists, the detector never reports the aggregator as gone.
    """

    def __init__(self, parts: FlusherParts, session: ProducerSession) -> None:
        self._parts = parts
        self._talk = session
        self._path = ipc_path(parts.endpoint)
        self._heard_ns = -1
        self._probe_at = 0.0
        self._refused_since = self._missing_since = math.inf
        self._run_is_over = False
        """True if the address refuses connections and the run has its result."""

    def gone(self, *, saying_end: bool = False) -> bool:
        """Check whether the aggregator is gone. Blocks for one probe, at most twice a second.

        If everything is acknowledged and only the end is left to send, another aggregator has no use for this
        producer. It then waits for a restart for at most `_GONE_AFTER_S`.
        """
        now = time.monotonic()
        if self._talk.heard_ns != self._heard_ns:
            self._heard_ns = self._talk.heard_ns
            self._refused_since = self._missing_since = math.inf
            self._run_is_over = False
            self._probe_at = now + _PROBE_S
        if now >= self._probe_at:
            self._probe_at = now + _PROBE_S
            self._look(now)
        if self._run_is_over:
            return True
        patience_s = _GONE_AFTER_S if saying_end and self._talk.all_acknowledged else limits.RETURN_S
        return now - self._refused_since >= patience_s or now - self._missing_since >= _GONE_AFTER_S

    @property
    def refused(self) -> bool:
        """True if the address refuses connections now, and no known process would restart the aggregator."""
        return self._refused_since < math.inf

    def left_behind(self) -> str:
        """Return the directory of an abandoned run that can be resumed.

        Return an empty string if a process looks after the run or has given it up, or if there is no journal.
        """
        from telemetry.supervise.run_files import journal_of

        run = self._talk.run
        if run is None or not self.refused or self._missing_since < math.inf or self._run_is_over:
            return ""
        return run.directory if journal_of(run.directory) else ""

    def _look(self, now: float) -> None:
        """Probe the address.

        The file of an ipc address is briefly missing while another aggregator takes it over.
        """
        refused = self._parts.refuses(self._parts.endpoint)
        missing = refused and self._path is not None and not self._path.exists()
        run = self._talk.run
        self._run_is_over = refused and run is not None and _has_result(run)
        kept = refused and not missing and run is not None and self._parts.kept(run.run_id)
        self._refused_since = min(self._refused_since, now) if refused and not kept else math.inf
        self._missing_since = min(self._missing_since, now) if missing else math.inf


def _has_result(run: Welcome) -> bool:
    """Check whether the run has ended and left its result. Blocks on the disk."""
    from telemetry.supervise.run_files import RunFiles

    return RunFiles(run.directory, run.run_id, run.name).has_result()


def _sent(outbox: Outbox) -> int:
    """Return the number of events so far that were not dropped, with or without a sequence number."""
    return outbox.emitted + outbox.waiting + len(outbox.records) - sum(outbox.dropped.values())


def unreachable(endpoint: str, waited_s: float) -> EndpointError:
    return EndpointError(
        f"no aggregator answered at {endpoint} within {waited_s:g} s",
        hint="start one with `telemetry serve`, unset TELEMETRY_ENDPOINT, or pass required=False",
    )
