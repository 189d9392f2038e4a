"""What a producer and its aggregator say to each other: hello, batches, acknowledgements, resends, end.

    connecting --welcome--> live --end--> ended
                             ^ |
                             +-+  another epoch: hello again, definitions again, the ring again, the end again

A batch is in the ring from when it is packed until it is acknowledged. So whatever became of it on the way, in a
pipe or in an aggregator that died, it can be sent again. A full ring holds back the next batch: what has no room in
the buffer then is dropped, and counted.

Used by the flusher's thread alone; nothing here blocks but `step` with a timeout.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, Protocol

from msgspec.structs import replace

from telemetry import limits
from telemetry.client.sending.outbox import Outbox, Packed
from telemetry.client.sending.resend_ring import ResendRing
from telemetry.clock import SYSTEM_CLOCK, Clock
from telemetry.errors import EndpointError, KeysError, NoRoomError, ProtocolError, TelemetryError
from telemetry.transport.client import check_welcome
from telemetry.transport.endpoints import seen_from
from telemetry.wire.control import (
    Ack,
    CannotResend,
    End,
    Ended,
    Error,
    Hello,
    Ping,
    Pong,
    Request,
    Resend,
    Response,
    Welcome,
)

_SECOND_NS: Final = 1_000_000_000
_PING_NS: Final = _SECOND_NS
_ASK_AGAIN_NS: Final = 2 * _SECOND_NS  # hello and end, until they are answered
_QUIET_NS: Final = _SECOND_NS // 2  # while anything moves, something is acknowledged ten times a second
_SILENT_NS: Final = 2 * _SECOND_NS  # two pings without an answer: it is gone or stopped
_STUCK_NS: Final = 2 * _SECOND_NS  # for a batch that was taken, and asked for again and again, and not acknowledged
_RANGES_SAID: Final = 16  # in answer to one request; who wants to know more asks again
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
        self.run: Welcome | None = None
        """What the aggregators so far said of the run they have; None before the first."""
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
        self._unsent: deque[Packed] = deque()
        """The last batches packed, which the pipe has not taken yet."""
        self._again: deque[int] = deque()
        self._moved_ns = self.heard_ns
        """Since when the oldest batch of the ring could have been acknowledged."""
        self._end: End | None = None
        self._hello_due_ns = self._ping_due_ns = self._end_due_ns = 0

    # --- one step --------------------------------------------------------------------------------

    def step(self, timeout_s: float = 0.0) -> None:
        """Takes what the aggregator said, waiting for it at most `timeout_s`, and says what is due."""
        try:
            heard = self.link.receive_control(timeout_s)
        except KeysError as error:
            self.refused = error
            return
        for response in heard:
            if self.silent:
                self._moved_ns = self._clock.monotonic_ns()
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
        """Sends one batch. True if a full batch is waiting and may follow at once.

        While nothing is heard of the aggregator, batches wait in the ring, which holds an event of a large one in a
        quarter of the memory that it takes before it is packed.
        """
        if self.welcome is None:
            return False
        room = self._send_unsent() and self._send_again()
        if self._end is not None:
            return False
        if room:
            self._unstick()
        elif self._unheard_ns <= _QUIET_NS:
            return False
        packed = None if self.ring.full else self.outbox.pack()
        if packed is None:
            return False
        if not len(self.ring):
            self._moved_ns = self._clock.monotonic_ns()
        self.ring.keep(packed.seq, packed.frame, packed.events)
        self._unsent.append(packed)
        if room and not self._send_unsent():
            return False
        return self.outbox.announcer.due or self.outbox.full

    # --- the end ---------------------------------------------------------------------------------

    @property
    def all_sent(self) -> bool:
        return not self._unsent and not self._again and self.outbox.empty

    @property
    def all_acknowledged(self) -> bool:
        """Every batch was acknowledged, and nothing is left that would make another."""
        return self.all_sent and not len(self.ring)

    def say_end(self, *, unfinished: bool = False) -> None:
        """The producer's account, repeated by `step` until it is answered: `ended`. What was not sent is lost.

        `unfinished`: the end of the run asks for it, and the program may go on recording.
        """
        outbox = self.outbox
        for packed in self._unsent:
            self.ring.forget(packed.seq)
        outbox.abandon(self._unsent)
        self._unsent.clear()
        self._end = End(
            id=_END,
            producer=outbox.producer,
            batches=outbox.next_seq,
            emitted=outbox.emitted,
            dropped=outbox.dropped,
            unfinished=unfinished,
        )

    # --- what the aggregator says ----------------------------------------------------------------

    def _take(self, response: Response) -> None:
        if isinstance(response, Ack):
            self._check_epoch(response.epoch)
            if response.epoch == self._epoch:
                if self.ring.acknowledged(response.batches):
                    self._moved_ns = self.heard_ns
                self.outbox.announcer.acknowledged(response.batches)
        elif isinstance(response, Pong):
            self._check_epoch(response.epoch)
            self.run_over = response.state not in ("INITIALIZE", "LIVE")
        elif isinstance(response, Welcome):
            self._take_welcome(response)
        elif isinstance(response, Resend):
            self._answer_resend(response.first, response.last)
        elif isinstance(response, Ended):
            self.ended = response
        elif isinstance(response, Error) and response.id == _HELLO:
            kind = NoRoomError if response.code == "no_room" else ProtocolError
            self.refused = kind(f"{self._endpoint} refused this producer: {response.message}")

    def _take_welcome(self, welcome: Welcome) -> None:
        try:
            check_welcome(welcome, self._endpoint)
            self.link.connect_events(seen_from(welcome.events, self._endpoint))
        except (EndpointError, KeysError, ProtocolError) as error:
            self.refused = error
            return
        restarted = self._epoch not in ("", welcome.epoch)
        self._epoch = welcome.epoch
        self.welcome = self.run = welcome
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
        it drops what it has."""
        self._unsent.clear()
        self._again = deque(self.ring.kept())
        if self._end is None:
            self._announce_again()
        self._end_due_ns = 0
        self._moved_ns = self._clock.monotonic_ns()

    def _announce_again(self) -> None:
        """Definitions go first, as batches in the ring may lean on earlier ones. After the end there is no batch to
        carry them, and whoever was told of the end knows them."""
        self.outbox.announcer.announce_again()
        announced = []
        while (packed := self.outbox.pack(definitions_only=True)) is not None:
            self.ring.keep(packed.seq, packed.frame)
            announced.append(packed.seq)
        self._again.extendleft(reversed(announced))

    # --- the pipe --------------------------------------------------------------------------------

    def _send_unsent(self) -> bool:
        """False if the pipe is full."""
        while self._unsent:
            if not self.link.send_events(self._unsent[0].frame):
                return False
            self._unsent.popleft()
        return True

    def _send_again(self) -> bool:
        """False if the pipe is full."""
        while self._again:
            frame = self.ring.get(self._again[0])
            if frame is not None and not self.link.send_events(frame):
                return False
            self._again.popleft()
        return True

    # --- the ring --------------------------------------------------------------------------------

    @property
    def silent(self) -> bool:
        """The aggregator has left pings unanswered."""
        return self._unheard_ns > _SILENT_NS

    @property
    def _unheard_ns(self) -> int:
        """How long the aggregator has said nothing."""
        return self._clock.monotonic_ns() - self.heard_ns

    def _unstick(self) -> None:
        """Gives up the oldest batch of a full ring if the aggregator listens and takes, but can't get past it: one
        batch must not hold back all that follow."""
        stuck_ns = self._clock.monotonic_ns() - self._moved_ns
        if self.ring.full and not self.silent and stuck_ns > _STUCK_NS:
            self.ring.give_up_oldest()

    def _answer_resend(self, first: int, last: int) -> None:
        """Asked twice, sent once. What is no longer kept will never come, and nobody need wait for it."""
        last = min(last, self.outbox.next_seq - 1)
        kept = self.ring.kept(first, last)
        queued = set(self._again)
        self._again.extend(seq for seq in kept if seq not in queued)
        for gone in islice(_between(kept, first, last), _RANGES_SAID):
            self.link.send_control(CannotResend(producer=self.outbox.producer, first=gone[0], last=gone[1]))


def _between(kept: list[int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """The ranges of `first … last` that `kept`, ascending numbers in it, leaves out."""
    for seq in [*kept, last + 1]:
        if first < seq:
            yield first, seq - 1
        first = seq + 1
