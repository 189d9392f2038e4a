"""A producer, and an aggregator that dies and comes back, in any order: what counts is what was recorded."""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from telemetry import limits
from telemetry.client import records
from telemetry.client.recorders import python_recorders
from telemetry.client.sending.outbox import Outbox, ResendRing
from telemetry.client.sending.session import ProducerSession
from telemetry.testing.clock import FakeClock
from telemetry.wire import rows
from telemetry.wire.codec import decode_batch
from telemetry.wire.control import (
    Ack,
    CannotResend,
    End,
    Ended,
    Hello,
    Ping,
    Pong,
    Request,
    Resend,
    Response,
    Welcome,
)
from telemetry.wire.sequence import SequenceTracker

PIPE_FRAMES = 3
KEPT = limits.RESEND_BATCH_BYTES
WORDS = [
    "fill",
    "define",
    "flush",
    "carry",
    "read",
    "tick",
    "wait",
    "long wait",
    "die",
    "restart",
    "die",
    "restart",
]
STEPS = st.lists(st.tuples(st.sampled_from(WORDS), st.integers(1, 5)), max_size=60)


class World:
    """The sockets between the two, and an aggregator whose journal outlives it."""

    def __init__(self) -> None:
        self.pipe: deque[bytes] = deque()
        """Survives the aggregator."""
        self.wire: deque[bytes] = deque()
        """Does not."""
        self.requests: deque[Request] = deque()
        self.inbox: list[Response] = []
        self.alive = True
        self.epoch = 1
        self.greeted = False
        self.journal = SequenceTracker()
        self.values: list[float] = []
        self.end: End | None = None

    # --- the link --------------------------------------------------------------------------------

    def connect_events(self, address: str) -> None: ...

    def send_events(self, frame: bytes | bytearray) -> bool:
        if len(self.pipe) >= PIPE_FRAMES:
            return False
        self.pipe.append(bytes(frame))
        return True

    def send_control(self, message: Request) -> bool:
        self.requests.append(message)
        return True

    def receive_control(self, timeout_s: float = 0.0) -> list[Response]:
        found, self.inbox = self.inbox, []
        return found

    def close(self, linger_s: float) -> None: ...

    # --- the aggregator --------------------------------------------------------------------------

    def carry(self, frames: int) -> None:
        for _ in range(min(frames, len(self.pipe)) if self.alive else 0):
            self.wire.append(self.pipe.popleft())

    def read(self, frames: int) -> None:
        for _ in range(min(frames, len(self.wire)) if self.alive else 0):
            batch = decode_batch(self.wire.popleft())
            if self.journal.admit(batch.seq):
                self.values += rows.loose(batch.rows)[2::3]

    def tick(self) -> None:
        if not self.alive:
            return
        while self.requests:
            self.answer(self.requests.popleft())
        if self.greeted:
            self.inbox += [Resend(first=first, last=last) for first, last in self.journal.gaps]
            self.inbox.append(Ack(epoch=str(self.epoch), batches=self.journal.contiguous))
        if self.end is not None and self.journal.contiguous >= self.end.batches:
            self.inbox.append(Ended(id=3, emitted=self.end.emitted, received=len(self.values), missing=0))

    def answer(self, request: Request) -> None:
        epoch = str(self.epoch)
        if isinstance(request, Hello):
            self.greeted = True
            self.inbox.append(
                Welcome(
                    id=1,
                    run_id="r",
                    name="n",
                    epoch=epoch,
                    state="LIVE",
                    events="ipc://e",
                    snapshots="",
                    records="",
                )
            )
        elif isinstance(request, Ping):
            self.inbox.append(Pong(id=2, epoch=epoch, state="LIVE"))
        elif isinstance(request, End):
            assert self.end in (None, request), "an end that contradicts an earlier one"
            self.end = request
            self.journal.expect(request.batches)
        elif isinstance(request, CannotResend):
            self.journal.give_up(request.first, request.last)

    def die(self) -> None:
        self.alive = False
        self.wire.clear()

    def restart(self) -> None:
        if not self.alive:
            self.alive, self.greeted, self.epoch = True, False, self.epoch + 1


class CountingRing(ResendRing):
    given_up = 0

    def give_up_oldest(self) -> None:
        super().give_up_oldest()
        self.given_up += 1


class Play:
    """One producer in the world."""

    def __init__(self, ring_bytes: int, row_bound: int) -> None:
        self.world = World()
        self.clock = FakeClock()
        self.recorders = python_recorders(now=lambda: 1 << 40)
        self.recorders.install(self.recorders.buffer.extend)
        self.record = self.recorders.record(0.0)
        self.definitions: list[bytes] = []
        self.outbox = Outbox(
            "p", self.recorders.buffer, self.definitions, tallies={}, row_bound=row_bound, clock=self.clock
        )
        self.talk = ProducerSession(
            self.world, self.outbox, Hello(producer="p"), "ipc://c", ring_bytes=ring_bytes, clock=self.clock
        )
        self.ring = self.talk.ring = CountingRing(ring_bytes)
        self.recorded = 0

    def do(self, word: str, count: int) -> None:
        world = self.world
        if word == "fill":
            for _ in range(count):
                self.record(float(self.recorded))
                self.recorded += 1
        elif word == "define":
            self.definitions.append(records.mark("stands for a definition", {}, 0))
        elif word == "flush":
            self.talk.step()
            self.outbox.settle()
            while self.talk.flush():
                pass
        elif word in ("carry", "read"):
            getattr(world, word)(count)
        elif word == "tick":
            world.tick()
        elif word in ("wait", "long wait"):
            self.clock.advance(0.3 * count if word == "wait" else 2.0 * count)
        else:
            getattr(world, word)()

    def conclude(self) -> Any:
        """Everybody lives on until the end is answered."""
        self.world.restart()
        for turn in range(200):
            for word in ("flush", "carry", "read", "tick", "wait"):
                self.do(word, 5)
            if self.talk.all_sent and self.talk.welcome is not None and self.talk._end is None and turn > 5:
                self.talk.say_end()
            if self.talk.ended is not None:
                return self.talk.ended
        raise AssertionError("the producer never came to its end")


@given(STEPS, st.sampled_from([3 * KEPT, 7 * KEPT, 1 << 20]))
def test_whatever_dies_in_between_everything_counts_once(steps: list[tuple[str, int]], ring_bytes: int) -> None:
    """The journal and the ring together hold every event, in whatever state the aggregator died: none is lost but
    those that the producer dropped or gave up, and counted; none counts twice."""
    play = Play(ring_bytes, row_bound=30)
    for word, count in steps:
        play.do(word, count)
    ended = play.conclude()
    world = play.world
    assert ended.emitted == play.recorded
    assert len(set(world.values)) == len(world.values)
    missing = play.recorded - len(world.values) - sum(play.outbox.dropped.values())
    if play.ring.given_up == 0:
        assert (missing, world.journal.unrepairable) == (0, 0)
    assert world.journal.unrepairable <= play.ring.given_up
    assert play.ring.given_up == 0 or any(word == "long wait" for word, _ in steps) or ring_bytes < 1 << 20


@given(STEPS)
def test_a_ring_with_room_gives_up_nothing(steps: list[tuple[str, int]]) -> None:
    """However long the aggregator is away or silent."""
    play = Play(1 << 20, row_bound=10_000)
    for word, count in steps:
        play.do(word, count)
    play.conclude()
    assert sorted(play.world.values) == list(range(play.recorded))
    assert (play.outbox.dropped, play.ring.given_up) == ({}, 0)
