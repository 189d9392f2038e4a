"""The connection of a leaf to its root, with a thread of its own.

The thread sends the batches of the outbox to the root. Once the root has acknowledged all batches, the thread
sends the end message. Then it stays connected for a while, because the root may still ask the leaf for values.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from telemetry import limits
from telemetry.client.sending.outbox import Packed
from telemetry.client.sending.session import ProducerSession
from telemetry.common.clock import Clock
from telemetry.errors import EndpointError, KeysError, TelemetryError
from telemetry.store.outbox import DiskOutbox
from telemetry.transport.handshake import explain_silence
from telemetry.transport.producer import ProducerLink
from telemetry.wire.control import Hello, Ping, Request, Response, Welcome
from telemetry.wire.snapshot import TERMINAL

_LOG = logging.getLogger("telemetry.daemon")
_SECOND_NS: Final = 1_000_000_000
_NAP_S: Final = 0.05  # longest wait for a message, after which new batches and requests are sent
_ANSWER_NS: Final = 2 * _SECOND_NS  # for the root's answer to an end that leaves batches out
_PING_NS: Final = _SECOND_NS // 4  # after the end: a root that is done tells it for one second
_FIRST_ANSWER_NS: Final = 5 * _SECOND_NS  # for a root that starts together with its leaves
_GONE_NS: Final = int(limits.RETURN_S * _SECOND_NS)  # without a message: nobody restarts that root
_AGAIN_NS: Final = 10 * _SECOND_NS  # between two looks at a root that does not answer, or does not know a key
_LEFT_NS: Final = _SECOND_NS  # without a message of a root that has its result: it has exited
_PROMPT_NS: Final = 5_000_000  # for a hello and its answer; slower ones tell the clock less well
_GREETINGS: Final = 5
_GREET_NS: Final = 200_000_000
_CLOSE_S: Final = 2.0


class Uplink:
    """The connection to the root, with a thread of its own.

    Other threads read its attributes and call its methods.
    """

    def __init__(
        self,
        address: str,
        hello: Hello,
        outbox: DiskOutbox,
        *,
        clock: Clock,
        linger_s: float = limits.UPSTREAM_LINGER_S,
        on_other: Callable[[Response], object] = lambda response: None,
    ) -> None:
        """Prepare the connection. Its thread calls `on_other` with messages that are not for a producer."""
        self.address = address
        self.is_below: Callable[[str], bool] = lambda run_id: False
        """Function that returns whether a run is a leaf of this one. Any thread may call it."""
        self.refused = ""
        """Reason why this leaf has no root; empty while it has one. An unknown key may be trusted later."""
        self.silence = ""
        """Text that follows "the root": how long it has not answered, why, and what to do. Empty if it answers."""
        self.undelivered = ""
        """Reason why the root did not take everything; empty if it did, or may still do so."""
        self.delivered = False
        """True if the root has confirmed the end."""
        self.drain_until_ns: int | None = None
        """Time on the clock until which the producers of this leaf may drain. None unless the root drains."""
        self._hello = hello
        self._outbox = outbox
        self._batches = StoredBatches(outbox, hello.producer)
        self._clock = clock
        self._linger_ns = int(linger_s * _SECOND_NS)
        self._on_other = on_other
        self._session: ProducerSession | None = None
        self._requests: deque[Request] = deque(maxlen=limits.UPSTREAM_REQUESTS)
        self._finish_by_ns: int | None = None
        self._said_end = False
        self._answer_by_ns = self._leave_at_ns = 0
        self._greetings = 0
        self._due_ns = 0
        self._look_ns = clock.monotonic_ns() + _FIRST_ANSWER_NS
        self._stopped = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="telemetry-uplink", daemon=True)

    # --- for other threads -----------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    @property
    def welcomed(self) -> bool:
        """True once the root has answered."""
        return self._session is not None and self._session.run is not None

    @property
    def present(self) -> bool:
        """True if the root answers and its run goes on."""
        session = self._session
        if session is None or session.welcome is None or session.silent or self._over.is_set():
            return False
        return session.state not in TERMINAL

    @property
    def root_ends(self) -> bool:
        """True if the root has told that its run ends."""
        return self._session is not None and self._session.run_over

    @property
    def over(self) -> bool:
        """True if the thread has ended."""
        return self._over.is_set()

    @property
    def settled(self) -> bool:
        """True if the root has confirmed the end, or never will."""
        return self.delivered or self.over

    @property
    def clock_error_ns(self) -> int:
        """Upper bound of the error with which the root knows this leaf's clock; 0 if unknown."""
        session = self._session
        return session.trip_ns or 0 if session is not None else 0

    def send(self, request: Request) -> None:
        """Send a request to the root. Its answer comes to `on_other`."""
        self._requests.append(request)

    def finish(self, timeout_s: float) -> None:
        """Send the end message once all batches are acknowledged. Give up after `timeout_s`. Does not block."""
        self._finish_by_ns = self._clock.monotonic_ns() + int(timeout_s * _SECOND_NS)

    def stop(self) -> None:
        """End the thread and close the sockets. Blocks for at most two seconds."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(_CLOSE_S)

    # --- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._connect():
                pass
        except TelemetryError as error:
            _LOG.warning("the root is not used any more: %s", error)
            self.refused = str(error)
        except Exception as error:  # noqa: BLE001 – thread root: the leaf goes on by itself, and its result says so
            _LOG.exception("the connection to the root failed")
            self.refused = f"the connection failed: {error!r}"
        self._over.set()

    def _connect(self) -> bool:
        """Connect to the root, and send until the end. Return False to try again after a refused key.

        Raises TelemetryError.
        """
        try:
            link = ProducerLink(self.address, self._hello.producer)
            try:
                self._converse(link)
            finally:
                link.close(_CLOSE_S / 2)
        except KeysError as error:
            if str(error) != self.refused:
                _LOG.warning("the root is not used until the keys fit: %s", error)
            self.refused = str(error)
            self._batches = StoredBatches(self._outbox, self._hello.producer)
            until_ns = self._clock.monotonic_ns() + _AGAIN_NS
            while self._finish_by_ns is None and self._clock.monotonic_ns() < until_ns:
                if self._stopped.wait(_NAP_S):
                    break
            return self._finish_by_ns is not None or self._stopped.is_set()
        return True

    def _converse(self, link: ProducerLink) -> None:
        """Send until the end is confirmed and the root needs this leaf no more. Raises what the root refused."""
        session = ProducerSession(
            link,
            self._batches,
            self._hello,
            self.address,
            ring_bytes=limits.UPSTREAM_RING_BYTES,
            stuck_s=limits.UPSTREAM_STUCK_S,
            clock=self._clock,
            on_other=self._on_other,
            objection=self._objection,
        )
        self._session = session
        while not self._stopped.is_set():
            session.step(_NAP_S)
            if session.refused is not None:
                raise session.refused
            self._check(session)
            self._look(session)
            self._tend(session, link)
            while session.flush():
                session.step()
            if self._finish_by_ns is not None and (self.refused or not self._goes_on(session)):
                return

    def _objection(self, root: Welcome) -> EndpointError | None:
        """Return why a run can't be the root of this leaf."""
        run_id, own_root = root.run_id, self._outbox.root
        if run_id == self._hello.producer:
            return EndpointError(f"{self.address} is the address of this leaf", hint="give the address of the root")
        if self.is_below(run_id):
            return EndpointError(
                f"{self.address} is the address of a node of this run", hint="give the address of the root"
            )
        if own_root and own_root != run_id:
            return EndpointError(
                f"{self.address} is now the address of run {run_id}; this leaf belongs to {own_root}"
            )
        return None

    def _check(self, session: ProducerSession) -> None:
        """Check that the run can be the root of this leaf, and has acknowledged only batches of this outbox.

        Raises EndpointError.
        """
        if session.run is None:
            return
        if self._batches.contradicted:
            raise EndpointError("the root has batches of this leaf that its outbox does not have any more")
        objection = self._objection(session.run)  # a leaf may have become its root's root since
        if objection is not None:
            raise objection
        if not self._outbox.root:
            self._outbox.root = session.run.run_id
        self.refused = ""

    def _look(self, session: ProducerSession) -> None:
        """Find out why the root does not answer, if it does not."""
        now_ns = self._clock.monotonic_ns()
        if session.welcome is not None and now_ns - session.heard_ns <= _GONE_NS:
            self.silence = ""
            self._look_ns = session.heard_ns + _GONE_NS
        elif now_ns >= self._look_ns:
            silence = "no longer answers" if self.welcomed else "has not answered yet"
            self.silence = f"{silence}: {explain_silence(self.address)}"
            self._look_ns = self._clock.monotonic_ns() + _AGAIN_NS

    def _tend(self, session: ProducerSession, link: ProducerLink) -> None:
        """Send requests of other threads, and hello again while the clock is known badly."""
        now_ns = self._clock.monotonic_ns()
        if session.run_over and session.drain_s is not None and self.drain_until_ns is None:
            self.drain_until_ns = now_ns + int(limits.UPSTREAM_SHARE * session.drain_s * _SECOND_NS)
        if session.welcome is None:
            return
        while self._requests and link.send_control(self._requests[0]):
            self._requests.popleft()
        if now_ns < self._due_ns:
            return
        if self.delivered:
            self._due_ns = now_ns + _PING_NS
            link.send_control(Ping(producer=self._hello.producer, mono_ns=now_ns))
        elif self._greetings < _GREETINGS and (session.trip_ns or 0) > _PROMPT_NS:
            self._due_ns = now_ns + _GREET_NS
            self._greetings += 1
            session.greet()

    # --- the end ---------------------------------------------------------------------------------

    def _goes_on(self, session: ProducerSession) -> bool:
        """Send the end message once all batches are acknowledged, or at the deadline.

        Return False if nothing is left to do.
        """
        now_ns = self._clock.monotonic_ns()
        assert self._finish_by_ns is not None
        if session.ended is not None:
            return self._stays(session, now_ns)
        if self._said_end:
            if now_ns < max(self._finish_by_ns, self._answer_by_ns):
                return True
            self.undelivered = self.undelivered or "it did not confirm the end"
            return False
        if session.all_acknowledged:
            return self._say_end(session, now_ns)
        over = session.state in TERMINAL
        if now_ns < self._finish_by_ns and not over:
            return True
        answers = session.welcome is not None and not session.silent
        if over:
            self.undelivered = "its run is over"
        elif answers:
            self.undelivered = "it is too slow"
        else:
            never = "it does not answer" if self.welcomed else "it never answered"
            self.undelivered = f"{never}: {explain_silence(self.address)}"
        return answers and self._say_end(session, now_ns)

    def _stays(self, session: ProducerSession, now_ns: int) -> bool:
        """Return whether to stay connected after the root has confirmed the end. The root may still ask for values.

        Return False if the root lacks batches: a root whose numbers are final confirms the end even then.
        """
        if self.undelivered:
            return False
        if not self.delivered:
            self.delivered = True
            self._leave_at_ns = now_ns + self._linger_ns
        return now_ns < self._leave_at_ns and not self._is_done(session, now_ns)

    def _say_end(self, session: ProducerSession, now_ns: int) -> bool:
        session.say_end()
        self._said_end = True
        self._answer_by_ns = now_ns + _ANSWER_NS
        return True

    def _is_done(self, session: ProducerSession, now_ns: int) -> bool:
        """Return whether the root seems to have exited: its last message is too old.

        A root that has its result may still ask for values, because its own root asks for them.
        """
        return now_ns - session.heard_ns > (_LEFT_NS if session.state in TERMINAL else _GONE_NS)


class StoredBatches:
    """The batches of an outbox from the oldest on. For the thread of the session."""

    def __init__(self, outbox: DiskOutbox, producer: str) -> None:
        self.producer = producer
        self.wall_offset_ns = 0
        """Difference to the root's wall clock. Unused: the root converts times by the leaf's monotonic clock."""
        self.contradicted = False
        """True if the root has acknowledged batches that were never in this outbox."""
        self._outbox = outbox
        self._next = 0
        """Number from which on batches were not handed out."""

    @property
    def announcer(self) -> StoredBatches:
        return self

    @property
    def next_seq(self) -> int:
        return self._outbox.next_seq

    @property
    def emitted(self) -> int:
        return self._outbox.emitted

    @property
    def dropped(self) -> dict[str, int]:
        return self._outbox.dropped

    @property
    def empty(self) -> bool:
        return self._next >= self._outbox.next_seq

    @property
    def full(self) -> bool:
        """True if a batch may follow at once."""
        return self._next < self._outbox.released

    def pack(self, *, definitions_only: bool = False) -> Packed | None:
        """Return the next batch that may be sent. Definitions are in the batches before their first use."""
        if definitions_only:
            return None
        released = self._outbox.released
        stored = self._outbox.read(self._next)
        if stored is None:
            self._next = max(self._next, released)  # batches that can't be read are passed over
            return None
        self._next = stored.seq + 1
        return Packed(stored.seq, stored.events, stored.frame)

    def abandon(self, unsent: Sequence[Packed]) -> None:
        """Do nothing. Batches on disk stay in the counts of events, whether they were sent or not."""

    # --- as announcements ------------------------------------------------------------------------

    @property
    def due(self) -> bool:
        return False

    def acknowledged(self, batches: int) -> None:
        """Forget acknowledged batches on disk. After a restart, they are not sent again."""
        self.contradicted = self.contradicted or batches > self._outbox.next_seq
        self._next = max(self._next, min(batches, self._outbox.next_seq))
        self._outbox.acknowledge(batches)

    def announce_again(self) -> None:
        """Do nothing: no batch with definitions is forgotten before the root has it in its journal."""
