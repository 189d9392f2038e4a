"""The protocol between a producer and its aggregator: hello, batches, acknowledgements, resends, end.

    connecting --welcome--> live --end--> ended
                             ^ |
                             +-+  another epoch: send hello, definitions, the ring and the end again

A batch stays in the ring from its packing until its acknowledgement. So it can be sent again if a pipe or a dead
aggregator lost it. A full ring holds back the next batch. Events that then don't fit into the buffer are dropped
and counted.

Only the flusher's thread uses this module. Only `step` with a timeout blocks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final, Protocol

from msgspec.structs import replace

from telemetry import limits
from telemetry.client.sending.outbox import Packed, ResendRing
from telemetry.common.clock import SYSTEM_CLOCK, Clock
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
from telemetry.wire.snapshot import State

_SECOND_NS: Final = 1_000_000_000
_PING_NS: Final = _SECOND_NS
_ASK_AGAIN_NS: Final = 2 * _SECOND_NS  # retry interval of hello and end
_QUIET_NS: Final = _SECOND_NS // 2  # under load, acknowledgements arrive ten times a second
_SILENT_NS: Final = 2 * _SECOND_NS  # two pings without an answer: the aggregator is gone or stopped
_LEFT_NS: Final = 5 * _SECOND_NS  # longer than a busy aggregator is silent: another run may have the address now
_LOST_NS: Final = _SECOND_NS  # without an acknowledgement: the newest batches may have been lost
_STUCK_S: Final = 2.0  # for a batch that was sent, requested again, and is still not acknowledged
_RANGES_SAID: Final = 16  # in answer to one request; the aggregator can ask again for more
_HELLO, _PING, _END, _ASK = 1, 2, 3, 4  # message ids: one per kind is enough, as any answer of a kind serves


class Link(Protocol):
    """The two sockets of a producer, as `telemetry.transport.producer.ProducerLink`."""

    def connect_events(self, address: str) -> None: ...

    def disconnect_events(self) -> None: ...

    def send_events(self, frame: bytes | bytearray) -> bool: ...

    def send_control(self, message: Request) -> bool: ...

    def receive_control(self, timeout_s: float = 0.0) -> list[Response]: ...

    def close(self, linger_s: float) -> None: ...


class Announcements(Protocol):
    """The definitions of a producer, as `telemetry.client.sending.outbox.Announcer`."""

    @property
    def due(self) -> bool: ...

    def acknowledged(self, batches: int) -> None: ...

    def announce_again(self) -> None: ...


class Batches(Protocol):
    """The numbered batches of a producer and its account, as `telemetry.client.sending.outbox.Outbox`."""

    wall_offset_ns: int

    @property
    def producer(self) -> str: ...

    @property
    def announcer(self) -> Announcements: ...

    @property
    def next_seq(self) -> int: ...

    @property
    def emitted(self) -> int: ...

    @property
    def dropped(self) -> dict[str, int]: ...

    @property
    def empty(self) -> bool: ...

    @property
    def full(self) -> bool: ...

    def pack(self, *, definitions_only: bool = False) -> Packed | None: ...

    def abandon(self, unsent: Sequence[Packed]) -> None: ...


class ProducerSession:
    """The producer side of the protocol. Other threads may read its attributes but never write them."""

    def __init__(
        self,
        link: Link,
        outbox: Batches,
        hello: Hello,
        endpoint: str,
        *,
        ring_bytes: int = limits.RESEND_RING_BYTES,
        stuck_s: float = _STUCK_S,
        clock: Clock = SYSTEM_CLOCK,
        on_welcome: Callable[[], object] = lambda: None,
        on_other: Callable[[Response], object] = lambda response: None,
        objection: Callable[[Welcome], TelemetryError | None] | None = None,
    ) -> None:
        """Prepare the session.

        A batch that a full ring holds for `stuck_s` without acknowledgement is given up. `on_other` gets messages
        that are no part of this protocol. With `objection`, the session first asks each aggregator for its run,
        and is refused by the error that `objection` returns. It asks again after a silence. So another run at the
        same address never learns of this producer.
        """
        self.link = link
        self.outbox = outbox
        self.ring = ResendRing(ring_bytes)
        self.welcome: Welcome | None = None
        self.run: Welcome | None = None
        """Last welcome of any aggregator, which describes the run. None before the first."""
        self.ended: Ended | None = None
        self.refused: TelemetryError | None = None
        """Reason why this aggregator will never accept this producer."""
        self.run_over = False
        """True if the aggregator drains: the producer sends its backlog and then the end."""
        self.state: State | None = None
        """State of the run by the last message that tells it."""
        self.drain_s: float | None = None
        """Time in seconds that the drain still lasts, by the last message; None if there is none."""
        self.trip_ns: int | None = None
        """Shortest time between a hello and its answer."""
        self.heard_ns = clock.monotonic_ns()
        """Time of the last message from the aggregator."""
        self._hello = hello
        self._is_renamed = False
        """True if the name has changed since the last hello."""
        self._endpoint = endpoint
        self._clock = clock
        self._stuck_ns = int(stuck_s * _SECOND_NS)
        self._on_welcome = on_welcome
        self._on_other = on_other
        self._objection = objection
        self._is_asking = objection is not None
        self._has_left = False
        self._epoch = ""
        self._unsent: deque[Packed] = deque()
        """Last packed batches that the pipe has not accepted yet."""
        self._again: deque[int] = deque()
        self._moved_ns = self.heard_ns
        """Start of the time during which the oldest batch of the ring could have been acknowledged."""
        self._shown_ns = 0
        """Time at which the newest batch was sent again."""
        self._end: End | None = None
        self._hello_due_ns = self._ping_due_ns = self._end_due_ns = 0

    # --- one step --------------------------------------------------------------------------------

    def step(self, timeout_s: float = 0.0) -> None:
        """Receive messages of the aggregator and send the messages that are due.

        Waits for messages for at most `timeout_s`.
        """
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
        if self._objection is not None and self.welcome is not None and self._unheard_ns > _LEFT_NS:
            self._leave()
        if self.welcome is None:
            if now_ns >= self._hello_due_ns:
                self._hello_due_ns = now_ns + _ASK_AGAIN_NS
                self.greet()
            return
        if now_ns >= self._ping_due_ns:
            self._ping_due_ns = now_ns + _PING_NS
            self.link.send_control(Ping(id=_PING, producer=self.outbox.producer, mono_ns=now_ns))
        if self._end is not None and self.ended is None and now_ns >= self._end_due_ns:
            self._end_due_ns = now_ns + _ASK_AGAIN_NS
            self.link.send_control(self._end)

    def greet(self) -> None:
        """Send hello. A later one, which has not waited for a connection, tells the clock better."""
        now_ns = self._clock.monotonic_ns()
        self._is_renamed = False
        hello = Hello(id=_ASK) if self._is_asking else replace(self._hello, id=_HELLO)
        self.link.send_control(replace(hello, mono_ns=now_ns))

    def rename(self, name: str) -> None:
        """Name this producer, and a run without a name, by another hello.

        It is sent now. Before the welcome it is sent with the first hello, or after the answer to that.
        """
        self._hello = replace(self._hello, name=name, names_run=True)
        self._is_renamed = True
        if self.welcome is not None:
            self.greet()

    def flush(self) -> bool:
        """Send one batch. Return True if a full batch is waiting and may follow at once.

        While the aggregator is silent, batches wait in the ring. In a large packed batch an event takes a quarter
        of the memory that it takes in the buffer.
        """
        if self.welcome is None:
            return False
        room = self._send_unsent() and self._send_again()
        if self._end is not None:
            return False
        if room:
            self._look_after_ring()
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
        """True if every batch was acknowledged and no events or definitions are left to send."""
        return self.all_sent and not len(self.ring)

    def say_end(self, *, unfinished: bool = False) -> None:
        """Send the producer's account. `step` repeats it until `ended` is set. Unsent events are lost.

        `unfinished` is True if the end of the run requires it while the program may still record.
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

    # --- messages of the aggregator --------------------------------------------------------------

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
            self.state, self.drain_s = response.state, response.drain_s
        elif isinstance(response, Welcome):
            self._take_welcome(response)
        elif isinstance(response, Resend):
            self._answer_resend(response.first, response.last)
        elif isinstance(response, Ended):
            self.ended = response
        elif isinstance(response, Error) and response.id in {_HELLO, _ASK}:
            kind = NoRoomError if response.code == "no_room" else ProtocolError
            self.refused = kind(f"{self._endpoint} refused this producer: {response.message}")
        else:
            self._on_other(response)

    def _take_welcome(self, welcome: Welcome) -> None:
        try:
            check_welcome(welcome, self._endpoint)
            if welcome.id == _ASK:
                self._introduce(welcome)
                return
            self.link.connect_events(seen_from(welcome.events, self._endpoint))
        except (EndpointError, KeysError, ProtocolError) as error:
            self.refused = error
            return
        self.outbox.wall_offset_ns = self._wall_offset_ns(welcome)
        restarted = self._has_left or self._epoch not in ("", welcome.epoch)
        self._has_left = False
        self._epoch = welcome.epoch
        self.welcome = self.run = welcome
        self.state = welcome.state
        if welcome.echo_ns:
            trip_ns = self._clock.monotonic_ns() - welcome.echo_ns
            self.trip_ns = trip_ns if self.trip_ns is None else min(self.trip_ns, trip_ns)
        if restarted:
            self._start_over()
        if self._is_renamed:
            self.greet()
        self._on_welcome()

    def _introduce(self, welcome: Welcome) -> None:
        """Send hello to an aggregator that has named its run, unless there is an objection to this run."""
        if not self._is_asking or self._objection is None:
            return
        self.refused = self._objection(welcome)
        if self.refused is None:
            self._is_asking = False
            self.greet()

    def _leave(self) -> None:
        """Leave a silent aggregator. What its socket holds would go to any run that takes its address."""
        self.link.disconnect_events()
        self.welcome = None
        self._is_asking = self._has_left = True

    def _wall_offset_ns(self, welcome: Welcome) -> int:
        """Return the difference between the wall clocks, or 0 if the way of the messages may explain it."""
        if not welcome.echo_ns or not welcome.wall_ns:
            return 0
        half_way_ns = (self._clock.monotonic_ns() - welcome.echo_ns) // 2
        offset_ns = welcome.wall_ns + half_way_ns - self._clock.wall_ns()
        return offset_ns if 0 <= half_way_ns < abs(offset_ns) - limits.CLOCK_STEP_NS else 0

    def _check_epoch(self, epoch: str) -> None:
        """Send hello again if another process answers at the same address. It must know this producer first."""
        if self.welcome is not None and epoch != self._epoch:
            self.welcome = None
            self._is_asking = self._objection is not None
            self._hello_due_ns = 0

    def _start_over(self) -> None:
        """Send the whole ring to a new aggregator.

        That aggregator knows what its journal holds. The ring holds everything it may have missed. It drops
        duplicates.
        """
        self._unsent.clear()
        self._again = deque(self.ring.kept())
        if self._end is None:
            self._announce_again()
        self._end_due_ns = 0
        self._moved_ns = self._clock.monotonic_ns()

    def _announce_again(self) -> None:
        """Queue all definitions before the ring, because batches in the ring may depend on earlier definitions.

        After the end, no batch may carry definitions, and an aggregator that received the end has them.
        """
        self.outbox.announcer.announce_again()
        announced = []
        while (packed := self.outbox.pack(definitions_only=True)) is not None:
            self.ring.keep(packed.seq, packed.frame)
            announced.append(packed.seq)
        self._again.extendleft(reversed(announced))

    # --- the pipe --------------------------------------------------------------------------------

    def _send_unsent(self) -> bool:
        """Send packed batches. Return False if the pipe is full."""
        while self._unsent:
            if not self.link.send_events(self._unsent[0].frame):
                return False
            self._unsent.popleft()
        return True

    def _send_again(self) -> bool:
        """Send requested batches again. Return False if the pipe is full."""
        while self._again:
            frame = self.ring.get(self._again[0])
            if frame is not None and not self.link.send_events(frame):
                return False
            self._again.popleft()
        return True

    # --- the ring --------------------------------------------------------------------------------

    @property
    def silent(self) -> bool:
        """True if the aggregator has left pings unanswered."""
        return self._unheard_ns > _SILENT_NS

    @property
    def _unheard_ns(self) -> int:
        """Time since the last message of the aggregator in ns."""
        return self._clock.monotonic_ns() - self.heard_ns

    def _look_after_ring(self) -> None:
        """Act if the aggregator answers but does not acknowledge the oldest batch.

        If a connection has lost the newest batches, none follows, and the aggregator does not miss them. So the
        newest one is sent again after one second, two, four and so on, which shows it the gap. If that does not
        help, the oldest one of a full ring is given up: one batch must not hold back all later ones.
        """
        if not len(self.ring) or self.silent:
            return
        now_ns = self._clock.monotonic_ns()
        if self.ring.full and now_ns - self._moved_ns > self._stuck_ns:
            self.ring.give_up_oldest()
        elif now_ns - self._moved_ns > max(_LOST_NS, 2 * (self._shown_ns - self._moved_ns)):
            self._shown_ns = now_ns
            self._again.append(self.ring.kept()[-1])

    def _answer_resend(self, first: int, last: int) -> None:
        """Queue the requested batches once, even if they are requested twice.

        Report batches that are no longer in the ring.
        """
        last = min(last, self.outbox.next_seq - 1)
        kept = self.ring.kept(first, last)
        queued = set(self._again)
        self._again.extend(seq for seq in kept if seq not in queued)
        for gone in islice(_between(kept, first, last), _RANGES_SAID):
            self.link.send_control(CannotResend(producer=self.outbox.producer, first=gone[0], last=gone[1]))


def _between(kept: list[int], first: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges of `first … last` that are not in `kept`, which is ascending."""
    for seq in [*kept, last + 1]:
        if first < seq:
            yield first, seq - 1
        first = seq + 1
