"""The protocol from the producer's side, over a link without sockets."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from telemetry import limits
from telemetry.client import records
from telemetry.client.sending.session import ProducerSession
from telemetry.errors import EndpointError, KeysError, NoRoomError, ProtocolError
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

WELCOME = Welcome(
    id=1, run_id="r", name="job", epoch="e1", state="LIVE", events="ipc:///ev", snapshots="ipc:///sn", records=""
)
THREE_KEPT = 3 * limits.RESEND_BATCH_BYTES
Make = Callable[..., ProducerSession]


def greet(request: Request) -> list[Response]:
    return [WELCOME] if isinstance(request, Hello) else []


def of(kind: type, messages: list[Any]) -> list[Any]:
    return [message for message in messages if isinstance(message, kind)]


@pytest.fixture
def make(link: Any, desk: Any) -> Make:
    def made(**options: Any) -> ProducerSession:
        return ProducerSession(
            link, desk.outbox, Hello(producer="p1", name="job"), "ipc:///ctl", clock=desk.clock, **options
        )

    return made


@pytest.fixture
def talk(make: Make, link: Any) -> ProducerSession:
    """A conversation that has been welcomed."""
    link.answer = greet
    made = make()
    made.step()
    made.step()
    assert made.welcome is not None
    return made


def send_all(talk: ProducerSession) -> None:
    while talk.flush():
        pass


def test_an_aggregator_that_does_not_know_the_key_is_given_up(make: Make, link: Any) -> None:
    """An aggregator that does not know the key will never answer. The error comes from the link."""
    talk = make()

    def refuse(_timeout_s: float = 0.0) -> list[Response]:
        raise KeysError("unknown key")

    link.receive_control = refuse
    talk.step()
    assert isinstance(talk.refused, KeysError)
    assert not talk.flush()


@pytest.mark.parametrize(
    ("times_ms", "corrected"),
    [((-500, 20), True), ((500, 20), True), ((-500, 600), False), ((5, 0), False), ((0, 20), False)],
)
def test_a_wall_clock_that_is_wrong_is_corrected(
    make: Make, desk: Any, link: Any, times_ms: tuple[int, int], corrected: bool
) -> None:
    """A wrong wall clock is corrected by the clock of the welcome.

    No correction is made if the travel time of the messages explains the difference.
    """
    ahead_ms, way_ms = times_ms

    def greet_late(request: Request) -> list[Response]:
        if not isinstance(request, Hello):
            return []
        wall_ns = desk.clock.wall_ns() - ahead_ms * 10**6 + way_ms * 10**6
        desk.clock.advance(2 * way_ms / 1_000)
        return [replace(WELCOME, wall_ns=wall_ns, echo_ns=request.mono_ns)]

    link.answer = greet_late
    talk = make()
    talk.step()
    talk.step()
    assert talk.welcome is not None
    assert talk.outbox.wall_offset_ns == (-ahead_ms * 10**6 if corrected else 0)


def test_nothing_is_sent_before_the_welcome(make: Make, desk: Any, link: Any) -> None:
    """Hello is repeated every two seconds until it is answered, then events go where the welcome says."""
    talk = make()
    desk.fill(3)
    for _ in range(5):
        talk.step()
        assert talk.flush() is False
        desk.clock.advance(1.0)
    assert len(of(Hello, link.asked)) == 3
    assert link.frames == []
    link.inbox = [WELCOME]
    talk.step()
    talk.flush()
    assert link.events_address == "ipc:///ev"
    assert len(link.frames) == 1


@pytest.mark.parametrize("moment", ["before", "between", "after"])
def test_a_name_is_told_whenever_it_is_given(make: Make, link: Any, moment: str) -> None:
    """Before the first hello, after it and before its answer, or after the answer. The aggregator hears it once."""
    talk = make()
    if moment == "before":
        talk.rename("nightly")
    talk.step()
    if moment == "between":
        talk.rename("nightly")
    link.inbox = [WELCOME]
    talk.step()
    if moment == "after":
        talk.rename("nightly")
    talk.step()
    hellos = of(Hello, link.asked)
    assert [(hello.name, hello.names_run) for hello in hellos if hello.names_run] == [("nightly", True)]
    assert hellos[-1].names_run


def test_who_waits_is_told_of_the_welcome(make: Make, link: Any) -> None:
    """`start` waits on another thread."""
    told: list[str] = []
    link.answer = greet
    talk = make(on_welcome=lambda: told.append("welcome"))
    talk.step()
    talk.step()
    assert told == ["welcome"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Error(id=1, code="no_room", message="too many"), "too many"),
        (replace(WELCOME, version=(2, 0)), "same major version"),
    ],
)
def test_a_refusal_ends_it(make: Make, link: Any, answer: Response, message: str) -> None:
    """There is no point in asking again."""
    link.answer = lambda request: [answer]
    talk = make()
    talk.step()
    talk.step()
    assert isinstance(talk.refused, NoRoomError if "many" in message else ProtocolError)
    assert message in str(talk.refused)


def test_a_ping_goes_out_every_second(talk: ProducerSession, desk: Any, link: Any) -> None:
    """A ping also goes out when there are no events, since a silent producer would count as late."""
    link.asked.clear()
    for _ in range(10):
        desk.clock.advance(0.25)
        talk.step()
    assert len(of(Ping, link.asked)) == 2
    assert of(Ping, link.asked)[0].producer == "p1"


def test_one_batch_at_a_time_while_full_ones_wait(talk: ProducerSession, desk: Any, link: Any) -> None:
    """`flush` sends one batch. It returns true if the caller should come again at once for another full one."""
    desk.fill(2 * limits.BATCH_EVENTS + 10)
    assert [talk.flush(), talk.flush()] == [True, False]
    assert [batch.rows.count for batch in link.batches] == [limits.BATCH_EVENTS] * 2
    assert talk.flush() is False
    assert link.batches[2].rows.count == 10
    assert [batch.seq for batch in link.batches] == [0, 1, 2]


def test_a_full_pipe_keeps_the_batch_at_the_head(talk: ProducerSession, desk: Any, link: Any) -> None:
    """A batch that met a full pipe is packed once, and sent first when there is room."""
    link.room = 0
    desk.fill(5)
    talk.flush()
    desk.fill(3, first=5)
    talk.flush()
    assert not talk.all_sent
    link.room = 9
    talk.flush()
    talk.flush()
    assert [(batch.seq, batch.rows.count) for batch in link.batches] == [(0, 5), (1, 3)]
    assert talk.all_sent


def test_an_acknowledged_batch_is_forgotten(talk: ProducerSession, desk: Any, link: Any) -> None:
    """An acknowledged batch is forgotten, together with the definitions it carried."""
    desk.definitions.append(records.mark("d", {}, 0))
    for _ in range(3):
        desk.fill(1)
        talk.flush()
    assert [len(batch.records) for batch in link.batches] == [1, 1, 1]
    link.inbox = [Ack(epoch="e1", batches=2)]
    talk.step()
    assert talk.ring.kept() == [2]
    desk.fill(1)
    talk.flush()
    assert len(link.batches[3].records) == 0


def test_a_resend_is_answered_from_the_ring(talk: ProducerSession, desk: Any, link: Any) -> None:
    """Byte for byte; asked twice, sent once; what is gone is gone."""
    for _ in range(4):
        desk.fill(1)
        talk.flush()
    sent = list(link.frames)
    link.inbox = [Ack(epoch="e1", batches=1), Resend(first=0, last=2), Resend(first=2, last=1 << 62)]
    talk.step()
    assert not talk.all_sent
    talk.flush()
    assert link.frames == [*sent, sent[1], sent[2], sent[3]]
    assert talk.all_sent


def test_a_resend_waits_for_room(talk: ProducerSession, desk: Any, link: Any) -> None:
    """A resend waits for room, and goes before newer batches."""
    for _ in range(3):
        desk.fill(1)
        talk.flush()
    link.inbox = [Resend(first=0, last=2)]
    talk.step()
    link.room = 1
    desk.fill(1)
    talk.flush()
    link.room = 9
    send_all(talk)
    assert [batch.seq for batch in link.batches] == [0, 1, 2, 0, 1, 2, 3]


def test_what_is_no_longer_kept_is_said_at_once(talk: ProducerSession, desk: Any, link: Any) -> None:
    """Or the aggregator would wait for it until its deadline. Asked twice, answered twice; in the ranges that it
    lacks, and never for a batch that was not made yet."""
    for _ in range(6):
        desk.fill(1)
        talk.flush()
    link.inbox = [Ack(epoch="e1", batches=2)]
    talk.step()
    talk.ring.forget(4)
    link.asked.clear()
    link.inbox = [Resend(first=1, last=1 << 62), Resend(first=0, last=1), Resend(first=0, last=0)]
    link.inbox += [Resend(first=6, last=9), Resend(first=9, last=7)]
    talk.step()
    said = [(message.first, message.last) for message in of(CannotResend, link.asked)]
    assert said == [(1, 1), (4, 4), (0, 1), (0, 0)]
    assert {message.producer for message in of(CannotResend, link.asked)} == {"p1"}
    send_all(talk)
    assert [batch.seq for batch in link.batches][6:] == [2, 3, 5]


def test_one_request_makes_a_bounded_number_of_answers(talk: ProducerSession, desk: Any, link: Any) -> None:
    """A control queue holds 128 messages; who wants to know the rest asks again."""
    for _ in range(100):
        desk.fill(1)
        talk.flush()
    for seq in range(0, 100, 2):
        talk.ring.forget(seq)
    link.inbox = [Resend(first=0, last=99)]
    talk.step()
    assert [message.first for message in of(CannotResend, link.asked)] == list(range(0, 32, 2))


# --- a full ring ---------------------------------------------------------------------------------


@pytest.fixture
def tight(make: Make, link: Any) -> ProducerSession:
    """A welcomed conversation whose ring is full with three batches of one event."""
    link.answer = greet
    made = make(ring_bytes=THREE_KEPT)
    made.step()
    made.step()
    return made


def fill_ring(talk: ProducerSession, desk: Any) -> None:
    for _ in range(5):
        desk.fill(1)
        talk.flush()


def test_a_full_ring_holds_back_what_follows(tight: ProducerSession, desk: Any, link: Any) -> None:
    """Unacknowledged batches stay, since the aggregator may lose them if it dies.

    New events wait in the outbox, which has a bound.
    """
    fill_ring(tight, desk)
    assert [batch.seq for batch in link.batches] == tight.ring.kept() == [0, 1, 2]
    assert desk.outbox.waiting == 2
    link.inbox = [Ack(epoch="e1", batches=1)]
    tight.step()
    tight.flush()
    assert [batch.seq for batch in link.batches] == [0, 1, 2, 3]
    assert desk.outbox.waiting == 0


def test_a_full_ring_does_not_hold_back_definitions_from_a_new_aggregator(
    tight: ProducerSession, desk: Any, link: Any
) -> None:
    """All that is in the ring may lean on them; events stay behind."""
    fill_ring(tight, desk)
    desk.definitions.append(records.mark("d", {}, 0))
    link.answer = lambda request: [replace(WELCOME, epoch="e2")] if isinstance(request, Hello) else []
    link.inbox = [Pong(epoch="e2", state="LIVE")]
    tight.step()
    tight.step()
    send_all(tight)
    assert [(batch.seq, len(batch.records)) for batch in link.batches[3:]] == [(3, 1), (0, 0), (1, 0), (2, 0)]
    assert desk.outbox.waiting == 2


def live(talk: ProducerSession, desk: Any, link: Any, seconds: float, *said: Response) -> None:
    """Lets time pass, in which the aggregator answers or says nothing."""
    for _ in range(int(seconds * 4)):
        desk.clock.advance(0.25)
        link.inbox += said
        talk.step()
        talk.flush()


def test_one_batch_that_is_never_acknowledged_does_not_stop_the_rest(
    tight: ProducerSession, desk: Any, link: Any
) -> None:
    """An aggregator that takes and answers, and can't get past a batch: after a while it is given up, and the
    aggregator told that it won't come."""
    fill_ring(tight, desk)
    live(tight, desk, link, 1.75, Pong(epoch="e1", state="LIVE"))
    assert tight.ring.kept() == [0, 1, 2]
    live(tight, desk, link, 0.75, Pong(epoch="e1", state="LIVE"))
    assert 0 not in tight.ring.kept()
    assert [batch.seq for batch in link.batches] == [0, 1, 2, 2, 3]
    link.asked.clear()
    link.inbox = [Resend(first=0, last=0)]
    tight.step()
    assert of(CannotResend, link.asked) == [CannotResend(producer="p1", first=0, last=0)]


def test_nothing_is_given_up_while_the_aggregator_is_silent(tight: ProducerSession, desk: Any, link: Any) -> None:
    """A silent aggregator may come back as another one that lacks just these batches.

    They stay also at the first word after a long silence.
    """
    fill_ring(tight, desk)
    live(tight, desk, link, 60.0)
    live(tight, desk, link, 1.75, Pong(epoch="e1", state="LIVE"))
    assert tight.ring.kept() == [0, 1, 2]


def test_a_full_ring_that_was_lost_shows_its_newest_batch(tight: ProducerSession, desk: Any, link: Any) -> None:
    """An aggregator that got none of the batches asks for none. The newest one shows it the gap."""
    fill_ring(tight, desk)
    live(tight, desk, link, 1.5, Pong(epoch="e1", state="LIVE"))
    assert [batch.seq for batch in link.batches] == [0, 1, 2, 2]
    link.inbox = [Resend(first=0, last=1)]
    tight.step()
    tight.flush()
    assert [batch.seq for batch in link.batches] == [0, 1, 2, 2, 0, 1]
    assert not of(CannotResend, link.asked)


def test_the_last_batch_is_sent_again_until_it_is_acknowledged(talk: ProducerSession, desk: Any, link: Any) -> None:
    """If a connection lost it, nothing else shows the aggregator that there was one. A silent one gets no more."""
    desk.fill(1)
    talk.flush()
    live(talk, desk, link, 1.0, Pong(epoch="e1", state="LIVE"))
    assert [batch.seq for batch in link.batches] == [0]
    live(talk, desk, link, 2.5, Pong(epoch="e1", state="LIVE"))
    assert [batch.seq for batch in link.batches] == [0, 0, 0]
    live(talk, desk, link, 60.0)
    again = len(link.batches)
    assert again <= 5
    link.inbox = [Ack(epoch="e1", batches=1)]
    live(talk, desk, link, 5.0, Pong(epoch="e1", state="LIVE"))
    assert len(link.batches) == again


def test_an_old_acknowledgement_is_no_sign_of_a_batch_that_is_stuck(make: Make, desk: Any, link: Any) -> None:
    """A ring that fills after a quiet hour has been waiting for a moment only."""
    link.answer = greet
    talk = make(ring_bytes=THREE_KEPT)
    talk.step()
    talk.step()
    live(talk, desk, link, 10.0, Pong(epoch="e1", state="LIVE"))
    fill_ring(talk, desk)
    assert (talk.ring.kept(), desk.outbox.waiting) == ([0, 1, 2], 2)


def test_a_silent_aggregator_is_packed_for(talk: ProducerSession, desk: Any, link: Any) -> None:
    """A batch in the ring takes a quarter of the memory of its events in the buffer: four times as long until
    anything is dropped. An aggregator that answers and is merely behind gets no longer queue."""
    link.room = 1
    for _ in range(4):
        desk.fill(1)
        talk.flush()
    desk.clock.advance(0.4)
    talk.flush()
    assert (talk.ring.kept(), desk.outbox.waiting) == ([0, 1], 2)
    desk.clock.advance(0.2)
    for _ in range(3):
        desk.fill(1)
        talk.flush()
    assert (talk.ring.kept(), desk.outbox.waiting) == ([0, 1, 2, 3, 4], 0)
    assert not talk.all_sent
    link.room = 9
    send_all(talk)
    assert [batch.seq for batch in link.batches] == [0, 1, 2, 3, 4]
    assert talk.all_sent


def test_what_is_packed_for_a_silent_aggregator_is_bounded(tight: ProducerSession, desk: Any, link: Any) -> None:
    """The ring bounds the batches that are packed for a silent aggregator.

    Endless definitions don't fill it further.
    """
    link.room = 0
    desk.clock.advance(2.5)
    for number in range(20):
        desk.definitions.append(records.mark(str(number), {}, 0))
        desk.fill(1)
        tight.flush()
    assert len(tight.ring) <= 3
    assert desk.outbox.waiting >= 17


def test_a_silent_aggregator_that_owes_a_resend_is_packed_for_once_a_period(
    talk: ProducerSession, desk: Any, link: Any
) -> None:
    """Or the flusher never rests, and makes a batch of each event. Full batches still follow each other."""
    desk.fill(1)
    talk.flush()
    link.answer = lambda request: [replace(WELCOME, epoch="e2")] if isinstance(request, Hello) else []
    link.inbox = [Pong(epoch="e2", state="LIVE")]
    link.room = 0
    talk.step()
    talk.step()
    desk.clock.advance(0.6)
    for expected in ([0, 1], [0, 1, 2]):
        desk.fill(1)
        assert talk.flush() is False
        assert talk.ring.kept() == expected
    desk.fill(2 * limits.BATCH_EVENTS)
    assert [talk.flush(), talk.flush()] == [True, False]


def test_what_is_packed_for_a_silent_aggregator_takes_the_memory_that_the_ring_counts(
    talk: ProducerSession, desk: Any, link: Any
) -> None:
    """Small batches are mostly what is around them: counted by their frames they would be six times the bound."""
    link.room = 0
    desk.clock.advance(0.6)
    desk.fill(1)
    talk.flush()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0] - talk.ring.bytes
        for _ in range(2_000):
            desk.fill(1)
            talk.flush()
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(talk.ring) == 2_001
    assert taken < 1.2 * talk.ring.bytes


# --- another epoch -------------------------------------------------------------------------------


def test_definitions_that_fill_several_batches_all_go_first(talk: ProducerSession, desk: Any, link: Any) -> None:
    """The definitions go first and in their order, since the other batches depend on them."""
    desk.definitions += [records.mark("d", {}, 0)] * (limits.BATCH_RECORDS + 7)
    send_all(talk)
    desk.fill(1)
    send_all(talk)
    made = len(link.batches)
    link.answer = lambda request: [replace(WELCOME, epoch="e2")] if isinstance(request, Hello) else []
    link.inbox = [Pong(epoch="e2", state="LIVE")]
    talk.step()
    talk.step()
    send_all(talk)
    sent = [(batch.seq, len(batch.records)) for batch in link.batches[made:]]
    assert sent[:2] == [(made, limits.BATCH_RECORDS), (made + 1, 7)]
    assert [seq for seq, _ in sent[2:]] == list(range(made))


@pytest.mark.parametrize("sign", [Pong(epoch="e2", state="LIVE"), Ack(epoch="e2", batches=1)])
def test_another_epoch_is_another_aggregator(talk: ProducerSession, desk: Any, link: Any, sign: Response) -> None:
    """Another aggregator first gets hello and all definitions.

    Then come the batches it may have missed, and then new ones.
    """
    desk.definitions.append(records.mark("d", {}, 0))
    for _ in range(3):
        desk.fill(1)
        talk.flush()
    link.inbox = [Ack(epoch="e1", batches=1)]
    talk.step()
    link.asked.clear()
    link.answer = lambda request: [replace(WELCOME, epoch="e2")] if isinstance(request, Hello) else []
    link.inbox = [sign]
    talk.step()
    assert len(of(Hello, link.asked)) == 1
    desk.fill(1)
    assert talk.flush() is False
    talk.step()
    send_all(talk)
    sent = [(batch.seq, len(batch.records), batch.rows.count) for batch in link.batches[3:]]
    assert sent == [(3, 1, 0), (1, 1, 1), (2, 1, 1), (4, 1, 1)]


def test_another_aggregators_acknowledgement_frees_nothing(talk: ProducerSession, desk: Any, link: Any) -> None:
    """An acknowledgement of an earlier aggregator says nothing about the disk of the present one."""
    desk.fill(3)
    talk.flush()
    link.inbox = [Ack(epoch="e0", batches=1)]
    talk.step()
    assert len(talk.ring) == 1


def test_batches_that_never_left_go_to_the_new_aggregator_in_their_order(
    talk: ProducerSession, desk: Any, link: Any
) -> None:
    """A batch that was packed is not packed again, and none is sent twice to the new aggregator."""
    desk.fill(1)
    talk.flush()
    link.room = 0
    desk.fill(1)
    talk.flush()
    link.answer = lambda request: [replace(WELCOME, epoch="e2")] if isinstance(request, Hello) else []
    link.inbox = [Pong(epoch="e2", state="LIVE")]
    talk.step()
    talk.step()
    link.room = 9
    send_all(talk)
    talk.flush()
    assert [batch.seq for batch in link.batches] == [0, 0, 1]


def test_an_end_that_was_not_answered_is_said_to_the_new_aggregator(
    talk: ProducerSession, desk: Any, link: Any
) -> None:
    """The end follows hello with the same account. No batch is added after it, not even for definitions."""
    desk.definitions.append(records.mark("d", {}, 0))
    for _ in range(2):
        desk.fill(1)
        talk.flush()
    talk.say_end()
    talk.step()
    [end] = of(End, link.asked)
    desk.definitions.append(records.mark("made after the end", {}, 0))
    link.asked.clear()
    link.answer = lambda request: [replace(WELCOME, epoch="e2")] if isinstance(request, Hello) else []
    link.inbox = [Pong(epoch="e2", state="DRAINING")]
    talk.step()
    talk.step()
    assert [type(message) for message in link.asked] == [Hello, End]
    assert link.asked[1] == end
    send_all(talk)
    assert [batch.seq for batch in link.batches] == [0, 1, 0, 1]
    assert end.batches == 2


def test_the_end_names_all_that_was_emitted(talk: ProducerSession, desk: Any, link: Any) -> None:
    """Repeated until it is answered."""
    desk.fill(3)
    desk.recorders.record(0.0)("text")
    desk.outbox.settle()
    talk.flush()
    talk.say_end()
    talk.step()
    expected = End(id=3, producer="p1", batches=1, emitted=4, dropped={"not_a_number": 1})
    assert of(End, link.asked) == [expected]
    desk.clock.advance(2.5)
    talk.step()
    assert len(of(End, link.asked)) == 2
    link.inbox = [Ended(id=3, emitted=4, received=3, missing=0)]
    talk.step()
    desk.clock.advance(2.5)
    talk.step()
    assert talk.ended == Ended(id=3, emitted=4, received=3, missing=0)
    assert len(of(End, link.asked)) == 2


def test_a_batch_that_never_left_is_counted_as_unsent(talk: ProducerSession, desk: Any, link: Any) -> None:
    """A batch that never left is counted as unsent.

    After the end it goes to neither this aggregator nor a later one.
    """
    link.room = 0
    desk.fill(3)
    talk.flush()
    desk.fill(2)
    talk.say_end()
    talk.step()
    link.room = 9
    talk.flush()
    [end] = of(End, link.asked)
    assert (end.batches, end.emitted, end.dropped) == (0, 5, {"unsent_at_exit": 5})
    link.answer = lambda request: [replace(WELCOME, epoch="e2")] if isinstance(request, Hello) else []
    link.inbox = [Pong(epoch="e2", state="LIVE")]
    talk.step()
    talk.step()
    send_all(talk)
    assert link.frames == []


def test_resends_are_answered_while_the_end_waits(talk: ProducerSession, desk: Any, link: Any) -> None:
    """Resends are answered while the end waits, since the aggregator waits for them."""
    desk.fill(3)
    talk.flush()
    talk.say_end()
    link.inbox = [Resend(first=0, last=0)]
    talk.step()
    talk.flush()
    assert [batch.seq for batch in link.batches] == [0, 0]


# --- an aggregator of another run ----------------------------------------------------------------


def ask_and_greet(request: Request) -> list[Response]:
    return [replace(WELCOME, id=request.id)] if isinstance(request, Hello) else []


def test_an_aggregator_of_another_run_never_learns_of_this_producer(make: Make, link: Any) -> None:
    """The session asks for the run first, without the id of the producer."""
    link.answer = ask_and_greet
    other = EndpointError("another run")
    talk = make(objection=lambda welcome: other if welcome.run_id == "r" else None)
    talk.step()
    talk.step()
    assert talk.refused is other
    assert [hello.producer for hello in of(Hello, link.asked)] == [""]
    assert talk.welcome is None


def test_each_aggregator_is_asked_for_its_run(make: Make, link: Any) -> None:
    """A restarted one too: another run may have the address now. Then hello follows."""
    link.answer = ask_and_greet
    seen: list[str] = []
    talk = make(objection=lambda welcome: seen.append(welcome.epoch))
    for _ in range(4):
        talk.step()
    assert talk.welcome is not None
    link.inbox = [Pong(epoch="e2", state="LIVE")]
    link.answer = lambda request: [replace(found, epoch="e2") for found in ask_and_greet(request)]
    for _ in range(4):
        talk.step()
    assert seen == ["e1", "e2"]
    assert [hello.producer for hello in of(Hello, link.asked)] == ["", "p1", "", "p1"]
    assert talk.welcome is not None
    assert talk.refused is None


def test_a_silent_aggregator_is_asked_again_and_gets_the_ring_again(make: Make, link: Any, desk: Any) -> None:
    """Frames that wait in the socket would go to another run at that address. So the socket is closed meanwhile."""
    link.answer = ask_and_greet
    left: list[bool] = []
    link.disconnect_events = lambda: left.append(True)
    talk = make(objection=lambda welcome: None)
    for _ in range(4):
        talk.step()
    desk.fill(1)
    send_all(talk)
    link.answer = lambda request: []
    desk.clock.advance(4.0)
    talk.step()
    assert not left
    desk.clock.advance(2.0)
    talk.step()
    assert left == [True]
    assert talk.welcome is None
    assert not talk.flush()
    link.answer = ask_and_greet
    desk.clock.advance(3.0)
    for _ in range(4):
        talk.step()
    send_all(talk)
    assert [hello.producer for hello in of(Hello, link.asked)][:2] == ["", "p1"]
    assert of(Hello, link.asked)[-1].producer == "p1"
    assert [batch.seq for batch in link.batches] == [0, 0]
