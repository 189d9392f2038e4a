"""What a producer and its aggregator say to each other: hello, batches, acknowledgements, resends, end.

    connecting --welcome--> live --end--> ended
                             ^ |
                             +-+  another epoch: hello again, definitions again, the ring again

Used by the flusher's thread alone; nothing here blocks but `step` with a timeout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from msgspec.structs import replace

from telemetry import limits
from telemetry.clock import SYSTEM_CLOCK, Clock
from telemetry.emit.outbox import Outbox, Packed
from telemetry.emit.ring import ResendRing
from telemetry.errors import EndpointError, ProtocolError, TelemetryError
from telemetry.transport.client import check_welcome
from telemetry.transport.endpoints import seen_from
from telemetry.wire.control import Ack, End, Ended, Error, Hello, Ping, Pong, Request, Resend, Response, Welcome

_SECOND_NS: Final = 1_000_000_000
_PING_NS: Final = _SECOND_NS
_ASK_AGAIN_NS: Final = 2 * _SECOND_NS  # hello and end, until they are answered
_HELLO, _PING, _END = 1, 2, 3  # ids: each kind has one, as one answer is as good as another


class Link(Protocol):
    """The two sockets; `telemetry.transport.producer.ProducerLink`."""

    def connect_events(self, address: str) -> None: ...

    def send_events(self, frame: bytes | bytearray) -> bool: ...

    def send_control(self, message: Request) -> bool: ...

    def receive_control(self, timeout_s: float = 0.0) -> list[Response]: ...

    def close(self, linger_s: float) -> None: ...


class Conversation:
    """One producer's side of the protocol. Facts are read by other threads, never written."""

    def __init__(
        self,
        link: Link,
        outbox: Outbox,
        hello: Hello,
        endpoint: str,
        *,
        ring_bytes: int = limits.RESEND_RING_BYTES,
        clock: Clock = SYSTEM_CLOCK,
        on_welcome: Callable[[], object] = lambda: None,
    ) -> None:
        self.link = link
        self.outbox = outbox
        self.ring = ResendRing(ring_bytes)
        self.welcome: Welcome | None = None
        self.ended: Ended | None = None
        self.refused: TelemetryError | None = None
        """Why this aggregator will never take this producer."""
        self.run_over = False
        """The aggregator drains: what is here is sent, and then the end is said."""
        self.heard_ns = clock.monotonic_ns()
        """When the aggregator last said something."""
        self._hello = hello
        self._endpoint = endpoint
        self._clock = clock
        self._on_welcome = on_welcome
        self._epoch = ""
        self._head: Packed | None = None
        self._again: deque[int] = deque()
        self._end: End | None = None
        self._hello_due_ns = self._ping_due_ns = self._end_due_ns = 0

    # --- one step --------------------------------------------------------------------------------

    def step(self, timeout_s: float = 0.0) -> None:
        """Takes what the aggregator said, waiting for it at most `timeout_s`, and says what is due."""
        for response in self.link.receive_control(timeout_s):
            self.heard_ns = self._clock.monotonic_ns()
            self._take(response)
        now_ns = self._clock.monotonic_ns()
        if self.welcome is None:
            if now_ns >= self._hello_due_ns:
                self._hello_due_ns = now_ns + _ASK_AGAIN_NS
                self.link.send_control(replace(self._hello, id=_HELLO, mono_ns=now_ns))
            return
        if now_ns >= self._ping_due_ns:
            self._ping_due_ns = now_ns + _PING_NS
            self.link.send_control(Ping(id=_PING, producer=self.outbox.producer, mono_ns=now_ns))
        if self._end is not None and self.ended is None and now_ns >= self._end_due_ns:
            self._end_due_ns = now_ns + _ASK_AGAIN_NS
            self.link.send_control(self._end)

    def flush(self) -> bool:
        """Sends one batch. True if a full batch is waiting and may follow at once."""
        if self.welcome is None or not self._send_again():
            return False
        head = self._head or self.outbox.pack()
        if head is None:
            return False
        if not self.link.send_events(head.frame):
            self._head = head
            return False
        self._head = None
        self.ring.keep(head.seq, head.frame)
        return bool(self._again) or self.outbox.announcer.due or self.outbox.waiting >= limits.BATCH_EVENTS

    # --- the end ---------------------------------------------------------------------------------

    @property
    def all_sent(self) -> bool:
        return self._head is None and not self._again and self.outbox.empty

    def say_end(self) -> None:
        """The producer's account, repeated by `step` until it is answered: `ended`. What was not sent is lost."""
        outbox = self.outbox
        outbox.abandon(self._head)
        self._head = None
        self._end = End(
            id=_END,
            producer=outbox.producer,
            batches=outbox.next_seq,
            emitted=outbox.emitted,
            dropped=outbox.dropped,
        )

    # --- what the aggregator says ----------------------------------------------------------------

    def _take(self, response: Response) -> None:
        if isinstance(response, Ack):
            self._check_epoch(response.epoch)
            if response.epoch == self._epoch:
                self.ring.acknowledged(response.batches)
                self.outbox.announcer.acknowledged(response.batches)
        elif isinstance(response, Pong):
            self._check_epoch(response.epoch)
            self.run_over = response.state not in ("INITIALIZE", "LIVE")
        elif isinstance(response, Welcome):
            self._take_welcome(response)
        elif isinstance(response, Resend):
            self._queue_again(response.first, response.last)
        elif isinstance(response, Ended):
            self.ended = response
        elif isinstance(response, Error) and response.id == _HELLO:
            self.refused = ProtocolError(f"{self._endpoint} refused this producer: {response.message}")

    def _take_welcome(self, welcome: Welcome) -> None:
        try:
            check_welcome(welcome, self._endpoint)
            self.link.connect_events(seen_from(welcome.events, self._endpoint))
        except (EndpointError, ProtocolError) as error:
            self.refused = error
            return
        restarted = self._epoch not in ("", welcome.epoch)
        self._epoch = welcome.epoch
        self.welcome = welcome
        if restarted:
            self._start_over()
        self._on_welcome()

    def _check_epoch(self, epoch: str) -> None:
        """Another process answers at the same address: it has to learn who we are before anything else."""
        if self.welcome is not None and epoch != self._epoch:
            self.welcome = None
            self._hello_due_ns = 0

    def _start_over(self) -> None:
        """The new aggregator knows what its journal told it. The ring holds all that it may have missed;
        it drops what it has. Definitions go first, as batches in the ring may lean on earlier ones."""
        self.outbox.announcer.announce_again()
        self._again = deque(self.ring.kept())
        self._end_due_ns = 0

    # --- sending again ---------------------------------------------------------------------------

    def _queue_again(self, first: int, last: int) -> None:
        """Asked twice, sent once; what fell out of the ring can't be sent at all."""
        queued = set(self._again)
        self._again.extend(seq for seq in self.ring.kept(first, last) if seq not in queued)

    def _send_again(self) -> bool:
        """False if the pipe is full. Waits while there are definitions to announce: they go first."""
        while self._again and not self.outbox.announcer.due and self._head is None:
            frame = self.ring.get(self._again[0])
            if frame is not None and not self.link.send_events(frame):
                return False
            self._again.popleft()
        return True
